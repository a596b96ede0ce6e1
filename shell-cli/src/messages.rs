//! What a run says: warnings in order, groups of like ones, progress, the report, the last lines.
//!
//! stdout carries only what was asked for; everything here goes to stderr, as text or, with
//! `--log-json`, as JSON lines. Names are escaped, so that none can write to the terminal.

use crate::exit::{self, Codes};
use crate::target::{Problem, Warning};
use packtrain_core::objects::{Entry, EntryKind, Refusal};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a terminal's progress line changes, and how often one is printed without a terminal.
const LIVE: Duration = Duration::from_millis(200);
const PERIOD: Duration = Duration::from_secs(30);

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Restored (or, in a check, proven).
    Restored,
    /// Made as a further name of a file whose content was restored before.
    Linked,
    /// Restored with damaged ranges as zeros.
    Damaged,
    /// Made as a further name of a damaged file.
    DamagedLink,
    /// Left out because of damage.
    LeftOut,
    /// Not restored.
    Failed,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Restored | Self::Linked => "restored",
            Self::Damaged | Self::DamagedLink => "damaged",
            Self::LeftOut => "left out",
            Self::Failed => "failed",
        }
    }
}

/// What the user wants to be told.
#[derive(Debug, Default)]
pub struct Wishes {
    /// JSON lines instead of text.
    pub json: bool,
    /// Each entry's path as it is done.
    pub list: bool,
    /// Progress.
    pub progress: bool,
    /// The final counts even without trouble.
    pub stats: bool,
    /// JSON lines, one per entry, then a summary.
    pub report: Option<std::io::BufWriter<std::fs::File>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    entries: u64,
    files: u64,
    bytes: u64,
    damaged: u64,
    failed: u64,
    skipped: u64,
}

/// The voice of a run.
pub struct Messages {
    wishes: Wishes,
    codes: Codes,
    groups: BTreeMap<(u8, String), (u64, String)>,
    counts: Counts,
    started: Instant,
    shown: Instant,
    live: bool,
    live_width: usize,
}

impl Messages {
    /// A silent start.
    pub fn new(wishes: Wishes) -> Self {
        let live = std::io::stderr().is_terminal() && !wishes.json;
        let now = Instant::now();
        Self {
            wishes,
            codes: Codes::default(),
            groups: BTreeMap::new(),
            counts: Counts::default(),
            started: now,
            shown: now,
            live,
            live_width: 0,
        }
    }

    /// A warning with its exit code. `path` is empty if it concerns no entry.
    pub fn warn(&mut self, code: u8, path: &[u8], text: &str) {
        self.codes.add(code);
        self.line(code, path, text);
        if !path.is_empty() {
            self.record(|| json!({"type": "warning", "code": code, "text": text}), path);
        }
    }

    /// Something to know that changes no exit code.
    pub fn note(&mut self, text: &str) {
        self.line(0, b"", text);
    }

    /// Damaged content or metadata.
    pub fn damage(&mut self, path: &[u8], text: &str) {
        self.warn(exit::DAMAGED, path, text);
    }

    /// The archive states a size beside the chunks. Where they differ the chunks count, and it is said.
    pub fn misstated_size(&mut self, entry: &Entry) {
        if let (EntryKind::File(Some(_)), Some(stated)) = (&entry.kind, entry.size)
            && stated != entry.content_len()
        {
            let text = format!("the archive states {stated} bytes, its chunks hold {}", entry.content_len());
            self.damage(&entry.path, &text);
        }
    }

    /// Why an entry could not be made.
    pub fn problem(&mut self, path: &[u8], problem: &Problem) {
        self.warn(problem.class().code(), path, &problem.to_string());
    }

    /// A stored item that is refused.
    pub fn refused(&mut self, path: &[u8], why: &Refusal) {
        let code = if matches!(why, Refusal::Path(_)) { exit::CLIMBS_OUT } else { exit::DAMAGED };
        self.warn(code, path, &format!("not restored: {why}"));
        self.counts.skipped += 1;
    }

    /// An entry that is skipped after a warning.
    pub const fn skipped(&mut self) {
        self.counts.failed += 1;
    }

    /// An existing file that is left alone.
    pub fn kept(&mut self, path: &[u8]) {
        self.counts.skipped += 1;
        self.record(|| json!({"type": "entry", "status": "kept"}), path);
    }

    /// A hard link that became a copy.
    pub fn copied(&mut self, path: &[u8]) {
        self.group(0, "hard links are impossible here, so copies were made".into(), path);
    }

    /// Attributes that were refused: summed up by kind, shown at the end.
    pub fn warnings(&mut self, path: &[u8], warnings: &[Warning]) {
        for warning in warnings {
            let code = warning.class().code();
            self.codes.add(code);
            self.group(code, warning.to_string(), path);
            self.record(|| json!({"type": "warning", "code": code, "text": warning.to_string()}), path);
        }
    }

    fn group(&mut self, code: u8, text: String, path: &[u8]) {
        let group = self.groups.entry((code, text)).or_insert_with(|| (0, path.escape_ascii().to_string()));
        group.0 += 1;
    }

    /// An entry is done.
    pub fn entry(&mut self, entry: &Entry, status: Status) {
        match status {
            Status::Restored | Status::Linked | Status::Damaged | Status::DamagedLink => {
                self.counts.entries += 1;
                let is_new = matches!(status, Status::Restored | Status::Damaged);
                if matches!(entry.kind, EntryKind::File(_)) {
                    self.counts.files += 1;
                    self.counts.bytes += if is_new { entry.content_len() } else { 0 };
                }
                self.counts.damaged += u64::from(matches!(status, Status::Damaged | Status::DamagedLink));
            }
            Status::LeftOut => self.counts.damaged += 1,
            Status::Failed => self.counts.failed += 1,
        }
        if self.wishes.list {
            self.clear();
            if self.wishes.json {
                eprintln!("{}", with_path(json!({"type": "file_status", "status": status.name()}), &entry.path));
            } else {
                eprintln!("{}", printable(&entry.path));
            }
        }
        self.record(|| json!({"type": "entry", "status": status.name(), "size": entry.content_len()}), &entry.path);
    }

    /// A line of the report; nothing is made of it where there is no report.
    fn record(&mut self, value: impl FnOnce() -> Value, path: &[u8]) {
        if let Some(report) = &mut self.wishes.report {
            // A full disk under the report is told once, at the end.
            let _ = writeln!(report, "{}", with_path(value(), path));
        }
    }

    fn line(&mut self, code: u8, path: &[u8], text: &str) {
        self.clear();
        if self.wishes.json {
            let level = match code {
                exit::OK => "info",
                100..=127 => "warning",
                _ => "error",
            };
            let value = json!({"type": "log_message", "levelname": level, "code": code, "message": text});
            eprintln!("{}", if path.is_empty() { value.to_string() } else { with_path(value, path) });
        } else if path.is_empty() {
            eprintln!("packtrain: {text}");
        } else {
            eprintln!("packtrain: {}: {text}", printable(path));
        }
    }

    /// Shows progress if it is time.
    pub fn tick(&mut self) {
        let due = if self.live { LIVE } else { PERIOD };
        if !self.wishes.progress || self.shown.elapsed() < due {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.counts.bytes as f64 / seconds.max(0.001);
        if self.wishes.json {
            let value =
                json!({"type": "progress", "files": self.counts.files, "bytes": self.counts.bytes, "seconds": seconds});
            eprintln!("{value}");
            return;
        }
        let text = format!("{} files, {}, {}/s", self.counts.files, size(self.counts.bytes as f64), size(rate));
        if self.live {
            eprint!("\r{text:<width$}", width = self.live_width);
            self.live_width = text.len();
        } else {
            eprintln!("{text}");
        }
    }

    fn clear(&mut self) {
        if self.live_width > 0 {
            eprint!("\r{:width$}\r", "", width = self.live_width);
            self.live_width = 0;
        }
    }

    /// The last lines, and the exit code. `verb` says what was done to the entries.
    pub fn finish(mut self, verb: &str, failure: Option<&exit::Failure>) -> u8 {
        self.clear();
        for ((code, text), (count, example)) in std::mem::take(&mut self.groups) {
            let text = match count {
                1 => format!("{example}: {text}"),
                _ => format!("{count} entries: {text} (the first is {example})"),
            };
            self.line(code, b"", &text);
        }
        let code = failure.map_or_else(|| self.codes.exit(), |failure| failure.code);
        if let Some(failure) = failure {
            self.line(failure.code, b"", &failure.message);
        }
        let Counts { entries, files, bytes, damaged, failed, skipped } = self.counts;
        if (self.wishes.stats || code != 0) && entries + damaged + failed > 0 {
            let text = format!(
                "{entries} entries {verb}, {files} files with {}; {damaged} damaged, {failed} failed, {skipped} skipped",
                size(bytes as f64)
            );
            self.line(0, b"", &text);
        }
        if let Some(mut report) = self.wishes.report.take() {
            let summary = json!({
                "type": "summary", "exit_code": code, "entries": entries, "files": files, "bytes": bytes,
                "damaged": damaged, "failed": failed, "skipped": skipped,
            });
            if let Err(error) = writeln!(report, "{summary}").and_then(|()| report.flush()) {
                self.line(exit::IO, b"", &format!("the report could not be written: {error}"));
                return if code == 0 { exit::IO } else { code };
            }
        }
        code
    }
}

/// Adds `path`, and `path_b64` where it is not UTF-8.
pub fn with_path(mut value: Value, path: &[u8]) -> String {
    if let Some(map) = value.as_object_mut() {
        map.insert("path".into(), String::from_utf8_lossy(path).into());
        if core::str::from_utf8(path).is_err() {
            map.insert("path_b64".into(), base64(path).into());
        }
    }
    value.to_string()
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    use base64ct::Encoding;
    base64ct::Base64::encode_string(bytes)
}

/// A name that cannot move the cursor: control characters and invalid bytes are escaped.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
                true => text.extend(letter.escape_default()),
                false => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// A size for people, in decimal units.
pub fn size(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let step = (0..units.len() - 1).find(|step| bytes < 1000f64.powi(*step as i32 + 1)).unwrap_or(units.len() - 1);
    let value = bytes / 1000f64.powi(step as i32);
    if step == 0 { format!("{value:.0} B") } else { format!("{value:.2} {}", units[step]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_write_to_the_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\r\n\xff\xc3\xa9"), "a\\u{1b}[2Jb\\r\\n\\xff\u{e9}");
        assert_eq!(printable("x\u{202e}y".as_bytes()), "x\\u{202e}y");
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(size(999.0), "999 B");
        assert_eq!(size(1_500_000.0), "1.50 MB");
    }
}
