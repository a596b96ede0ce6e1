//! Proving content file by file: against digests that the source carries, and against manifests.
//!
//! Repositories name chunks by their hash, so each proves itself. An image has at best a digest of
//! each file; otherwise decoding without an error is all that can be shown, which a damaged stream
//! may well do. A manifest that was written while the image was good closes that gap. It is a list as
//! `sha256sum` writes and reads it.

use crate::exit::{self, Failure, Result};
use crate::extract::OnDamage;
use crate::line::Settings;
use crate::messages::Messages;
use crate::opened::Opened;
use crate::stream::{sink::Sink, stream};
use core::sync::atomic::AtomicBool;
use packtrain_core::objects::{ArchiveState, Entry, EntryKind};
use packtrain_core::plan::select::Selection;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

/// What content is compared with, beside the source's own digests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manifests<'a> {
    /// A manifest to compare with.
    pub known: Option<&'a Path>,
    /// Where to write one.
    pub written: Option<&'a Path>,
}

impl Manifests<'_> {
    /// True if there is any.
    pub const fn are_wanted(&self) -> bool {
        self.known.is_some() || self.written.is_some()
    }
}

/// Decodes every file of `archive` and compares it with all that is known of it.
///
/// # Errors
/// A failure that ended the run; findings go to `messages`.
pub fn prove(
    opened: &Opened,
    archive: &ArchiveState,
    manifests: Manifests<'_>,
    settings: &Settings,
    messages: &mut Messages,
    cancelled: &AtomicBool,
) -> Result<()> {
    let known = manifests.known.map(read).transpose()?;
    let written = manifests.written.map(|path| {
        let file = std::fs::File::create_new(path).map_err(|error| not_written(path, &error))?;
        Ok::<_, Failure>((path, BufWriter::new(file)))
    });
    let mut prover = Prover {
        all: manifests.are_wanted(),
        known,
        written: written.transpose()?,
        path: Vec::new(),
        hasher: None,
        stated: None,
        shared: BTreeMap::new(),
        is_shared: false,
        findings: Vec::new(),
        files: 0,
        proven: 0,
    };
    let all = Selection::new(0);
    stream(opened, archive, &all, &mut prover, OnDamage::Zero, settings, messages, cancelled)?;
    let Prover { known, findings, files, proven, .. } = prover;
    for (path, text) in findings {
        messages.warn(exit::DAMAGED, &path, &text);
    }
    for path in known.into_iter().flatten().filter(|(_, entry)| !entry.met).map(|(path, _)| path) {
        messages.warn(exit::DAMAGED, &path, "in the manifest, but not in the source");
    }
    let rest = match files - proven {
        0 => String::new(),
        rest => format!(
            "; nothing says what the other {rest} should hold: they could be decoded, which damage need not prevent"
        ),
    };
    messages.note(&format!("{files} files decoded, {proven} of them as their digest says{rest}"));
    Ok(())
}

/// What a manifest says of a path.
struct Known {
    sum: Vec<u8>,
    met: bool,
}

struct Prover<'a> {
    /// Every file is hashed, not only those with a digest.
    all: bool,
    known: Option<BTreeMap<Vec<u8>, Known>>,
    written: Option<(&'a Path, BufWriter<std::fs::File>)>,
    path: Vec<u8>,
    hasher: Option<Sha256>,
    /// The digest that the source has for the file.
    stated: Option<Vec<u8>>,
    /// Hashes of files with several names, by their first one.
    shared: BTreeMap<Vec<u8>, Vec<u8>>,
    is_shared: bool,
    findings: Vec<(Vec<u8>, String)>,
    files: u64,
    proven: u64,
}

impl Prover<'_> {
    /// Compares the hash of a file under one of its names.
    fn compare(&mut self, path: &[u8], sum: &[u8]) -> Result<()> {
        let mut is_proven = false;
        if let Some(stated) = self.stated.take() {
            is_proven = stated == sum;
            if !is_proven {
                self.findings
                    .push((path.to_vec(), "the content does not have the digest that the source has for it".into()));
            }
        }
        if let Some(known) = &mut self.known {
            match known.get_mut(path) {
                Some(entry) => {
                    entry.met = true;
                    is_proven = entry.sum == sum;
                    if !is_proven {
                        self.findings.push((path.to_vec(), "the content differs from the manifest".into()));
                    }
                }
                None => self.findings.push((path.to_vec(), "not in the manifest".into())),
            }
        }
        self.proven += u64::from(is_proven);
        if let Some((place, file)) = &mut self.written {
            let line = line(path, sum);
            file.write_all(&line).map_err(|error| not_written(place, &error))?;
        }
        Ok(())
    }
}

impl Sink for Prover<'_> {
    fn begin(&mut self, entry: &Entry) -> Result<()> {
        self.path.clone_from(&entry.path);
        self.hasher = None;
        self.stated = None;
        if matches!(entry.kind, EntryKind::File(_)) {
            self.files += 1;
            let digest = entry.digests.iter().find(|(name, sum)| name == "sha256" && sum.len() == 32);
            self.stated = digest.map(|(_, sum)| sum.clone());
            self.is_shared = entry.link_group.is_some();
            if self.all || self.stated.is_some() {
                self.hasher = Some(Sha256::new());
            }
        }
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(hasher) = self.hasher.take() else { return Ok(()) };
        let sum = hasher.finalize().to_vec();
        let path = std::mem::take(&mut self.path);
        self.compare(&path, &sum)?;
        if self.is_shared && self.all {
            self.shared.insert(path, sum);
        }
        Ok(())
    }

    fn links(&self) -> bool {
        true
    }

    fn link(&mut self, entry: &Entry, first: &[u8]) -> Result<()> {
        match self.shared.get(first).cloned() {
            Some(sum) => {
                self.files += 1;
                self.compare(&entry.path, &sum)
            }
            None => Ok(()),
        }
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn finish(&mut self) -> Result<()> {
        match &mut self.written {
            Some((place, file)) => file.flush().map_err(|error| not_written(place, &error)),
            None => Ok(()),
        }
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(exit::ERROR, format!("{}: the manifest cannot be written: {error}", path.display()))
}

/// One line of a manifest. A name with a backslash or a line feed is escaped, and its line starts
/// with a backslash, as `sha256sum` has it.
fn line(path: &[u8], sum: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    let mut name = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b'\\' => name.extend(b"\\\\"),
            b'\n' => name.extend(b"\\n"),
            b'\r' => name.extend(b"\\r"),
            other => name.push(*other),
        }
    }
    if name.len() != path.len() {
        line.push(b'\\');
    }
    for byte in sum {
        line.extend(format!("{byte:02x}").into_bytes());
    }
    line.extend(b"  ");
    line.extend(name);
    line.push(b'\n');
    line
}

/// Reads a manifest.
fn read(path: &Path) -> Result<BTreeMap<Vec<u8>, Known>> {
    let bytes = std::fs::read(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let mut known = BTreeMap::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.is_empty()) {
        let (name, sum) = parse(line).ok_or_else(|| {
            Failure::usage(format!("{}: line {number} is not as sha256sum writes it", path.display()))
        })?;
        known.insert(name, Known { sum, met: false });
    }
    Ok(known)
}

/// Name and hash of one line.
fn parse(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (is_escaped, line) = line.strip_prefix(b"\\").map_or((false, line), |rest| (true, rest));
    let (hex, rest) = line.split_at_checked(64)?;
    let name = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
    let name = name.strip_prefix(b"./").unwrap_or(name);
    let sum = packtrain_core::base::Id::from_hex(hex)?.0.to_vec();
    if !is_escaped {
        return Some((name.to_vec(), sum));
    }
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match (byte, byte == &b'\\') {
            (other, false) => *other,
            _ => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
        });
    }
    Some((plain, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_sha256sum() {
        let sum = [0xab; 32];
        for name in [b"a/b c".as_slice(), b"back\\slash", b"line\nfeed", b"\r", b"\xff\xfe"] {
            let line = line(name, &sum);
            let line = line.strip_suffix(b"\n").unwrap();
            assert!(!line.contains(&b'\n'));
            assert_eq!(parse(line), Some((name.to_vec(), sum.to_vec())), "{name:?}");
        }
        let hex = "ab".repeat(32);
        assert_eq!(parse(format!("{hex} *./x").as_bytes()), Some((b"x".to_vec(), sum.to_vec())));
        for bad in
            ["", "ab  x", &format!("{hex}x"), &format!("{hex} x"), &format!("\\{hex}  a\\x"), &format!("\\{hex}  a\\")]
        {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
