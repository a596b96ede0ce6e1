//! Listing archives and entries: text, JSON lines, and Borg's `{key}` formats.

use crate::exit::{Failure, Result};
use crate::messages::{base64, printable};
use packtrain_core::objects::{Archive, ArchiveState, Entry, EntryKind, Time};
use serde_json::{Map, Value, json};
use std::io::Write;

/// What a listing line looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// One JSON object a line.
    Json,
    /// Only the name or path.
    Short,
    /// A parsed `--format`.
    Format(Vec<Part>),
}

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// A key, with the width to pad to: positive right-aligned (`>`), negative left-aligned (`<` or none).
    Key(String, i32),
}

/// The default line of an entry.
pub const ENTRY_FORMAT: &str = "{mode} {user:6} {group:6} {size:>9} {mtime} {path}{extra}{NL}";
/// The line of an entry that also says how its content is laid out.
pub const LONG_FORMAT: &str = "{mode} {user:6} {group:6} {size:>9} {mtime} {storage:20} {path}{extra}{NL}";
/// The default line of an archive.
pub const ARCHIVE_FORMAT: &str = "{id8}  {time}  {name:24} {comment}{NL}";

/// Keys of an entry's line.
pub const ENTRY_KEYS: [&str; 24] = [
    "path",
    "bpath",
    "type",
    "mode",
    "user",
    "group",
    "uid",
    "gid",
    "size",
    "num_chunks",
    "mtime",
    "isomtime",
    "atime",
    "isoatime",
    "ctime",
    "isoctime",
    "linktarget",
    "target",
    "source",
    "extra",
    "hlid",
    "flags",
    "inode",
    "storage",
];
/// Keys of an archive's line.
pub const ARCHIVE_KEYS: [&str; 14] = [
    "id",
    "id8",
    "name",
    "archive",
    "time",
    "start",
    "end",
    "comment",
    "hostname",
    "username",
    "command_line",
    "tags",
    "nfiles",
    "size",
];

/// Keys that stand for single characters.
const CHARACTERS: [(&str, &str); 6] =
    [("NL", "\n"), ("LF", "\n"), ("NUL", "\0"), ("TAB", "\t"), ("CR", "\r"), ("SPACE", " ")];

/// Parses a format such as `{path}{NL}` with these keys.
///
/// # Errors
/// Usage, for a brace without its partner and for an unknown key.
pub fn parse_format(text: &str, keys: &[&str]) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        if open > 0 {
            parts.push(Part::Text(rest[..open].into()));
        }
        let inner = &rest[open + 1..];
        let close = inner
            .find('}')
            .ok_or_else(|| Failure::usage(format!("--format: a closing brace is missing in '{text}'")))?;
        let (key, width) = inner[..close].split_once(':').unwrap_or((&inner[..close], ""));
        if !keys.contains(&key) && !CHARACTERS.iter().any(|(known, _)| *known == key) {
            let known = keys.join(" ");
            return Err(Failure::usage(format!(
                "--format: unknown key '{key}'; known are NL NUL TAB CR SPACE {known}"
            )));
        }
        let right = width.starts_with('>');
        let number = width.trim_start_matches(['>', '<']).parse::<i32>().unwrap_or(0).clamp(0, 1000);
        parts.push(Part::Key(key.into(), if right { number } else { -number }));
        rest = &inner[close + 1..];
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.into()));
    }
    Ok(parts)
}

/// Writes one entry.
///
/// # Errors
/// What writing gives.
pub fn entry(out: &mut dyn Write, style: &Style, entry: &Entry) -> std::io::Result<()> {
    match style {
        Style::Json => writeln!(out, "{}", Value::Object(entry_json(entry))),
        Style::Short => writeln!(out, "{}", printable(&entry.path)),
        Style::Format(parts) => line(out, parts, |key| entry_key(entry, key)),
    }
}

/// Writes one archive.
///
/// # Errors
/// What writing gives.
pub fn archive(out: &mut dyn Write, style: &Style, archive: &Archive) -> std::io::Result<()> {
    match style {
        Style::Json => writeln!(out, "{}", archive_json(archive)),
        Style::Short => writeln!(
            out,
            "{}",
            archive.state.as_ref().map_or_else(|_| archive.id.to_hex(), |state| printable(&state.name))
        ),
        Style::Format(parts) => line(out, parts, |key| archive_key(archive, key)),
    }
}

fn line(out: &mut dyn Write, parts: &[Part], value: impl Fn(&str) -> Option<String>) -> std::io::Result<()> {
    for part in parts {
        match part {
            Part::Text(text) => out.write_all(text.as_bytes())?,
            Part::Key(key, width) => {
                let text = match CHARACTERS.iter().find(|(known, _)| known == key) {
                    Some((_, character)) => (*character).into(),
                    None => value(key).unwrap_or_default(),
                };
                let wide = width.unsigned_abs() as usize;
                if *width > 0 { write!(out, "{text:>wide$}")? } else { write!(out, "{text:<wide$}")? }
            }
        }
    }
    Ok(())
}

fn type_name(kind: &EntryKind) -> &'static str {
    match kind {
        EntryKind::File(_) => "-",
        EntryKind::Directory => "d",
        EntryKind::Symlink(_) => "l",
        EntryKind::Fifo => "p",
        EntryKind::CharDevice(_) => "c",
        EntryKind::BlockDevice(_) => "b",
        EntryKind::Socket => "s",
    }
}

fn entry_key(entry: &Entry, key: &str) -> Option<String> {
    let owner = |name: &Option<Vec<u8>>, id: Option<i64>| {
        name.as_deref().map_or_else(|| id.map_or_else(|| "-".into(), |id| id.to_string()), printable)
    };
    Some(match key {
        "path" | "bpath" => printable(&entry.path),
        "type" => type_name(&entry.kind).into(),
        "mode" => mode_text(entry),
        "user" => owner(&entry.user, entry.uid),
        "group" => owner(&entry.group, entry.gid),
        "uid" => entry.uid?.to_string(),
        "gid" => entry.gid?.to_string(),
        "size" => entry.content_len().to_string(),
        "num_chunks" => entry.chunks().len().to_string(),
        "mtime" | "isomtime" => entry.mtime.map(time_text)?,
        "atime" | "isoatime" => entry.atime.map(time_text)?,
        "ctime" | "isoctime" => entry.ctime.map(time_text)?,
        "linktarget" | "target" | "source" => match &entry.kind {
            EntryKind::Symlink(target) => printable(target),
            _ => String::new(),
        },
        "extra" => match &entry.kind {
            EntryKind::Symlink(target) => format!(" -> {}", printable(target)),
            _ => String::new(),
        },
        "hlid" => entry.link_group?.to_hex(),
        "flags" => entry.flags.to_string(),
        "inode" => entry.inode?.to_string(),
        "storage" => entry.storage.to_string(),
        _ => return None,
    })
}

/// `ls -l` style type and permissions.
fn mode_text(entry: &Entry) -> String {
    let bit = |shift: u32, letter: char| if entry.mode >> shift & 1 == 1 { letter } else { '-' };
    let special = |x: u32, s: u32, set: char| match (entry.mode >> s & 1 == 1, entry.mode >> x & 1 == 1) {
        (true, true) => set,
        (true, false) => set.to_ascii_uppercase(),
        (false, true) => 'x',
        (false, false) => '-',
    };
    [
        entry.kind.letter(),
        bit(8, 'r'),
        bit(7, 'w'),
        special(6, 11, 's'),
        bit(5, 'r'),
        bit(4, 'w'),
        special(3, 10, 's'),
        bit(2, 'r'),
        bit(1, 'w'),
        special(0, 9, 't'),
    ]
    .iter()
    .collect()
}

/// RFC 3339 in UTC, with as many digits of the fraction as there are.
fn time_text(time: Time) -> String {
    jiff::Timestamp::new(time.seconds, time.nanos.cast_signed())
        .map_or_else(|_| format!("{}.{:09}s", time.seconds, time.nanos), |stamp| stamp.to_string())
}

fn text_json(map: &mut Map<String, Value>, key: &str, bytes: &[u8]) {
    map.insert(key.into(), String::from_utf8_lossy(bytes).into());
    if core::str::from_utf8(bytes).is_err() {
        map.insert(format!("{key}_b64"), base64(bytes).into());
    }
}

/// All that is known of an entry; numbers as numbers, times in RFC 3339 and in nanoseconds.
pub fn entry_json(entry: &Entry) -> Map<String, Value> {
    let mut map = Map::new();
    text_json(&mut map, "path", &entry.path);
    map.insert("type".into(), type_name(&entry.kind).into());
    map.insert("mode".into(), mode_text(entry).into());
    map.insert("permissions".into(), format!("{:04o}", entry.mode).into());
    map.insert("uid".into(), entry.uid.into());
    map.insert("gid".into(), entry.gid.into());
    for (key, name) in [("user", &entry.user), ("group", &entry.group)] {
        match name {
            Some(name) => text_json(&mut map, key, name),
            None => {
                map.insert(key.into(), Value::Null);
            }
        }
    }
    for (key, time) in
        [("mtime", entry.mtime), ("atime", entry.atime), ("ctime", entry.ctime), ("birthtime", entry.birthtime)]
    {
        if let Some(time) = time {
            map.insert(key.into(), time_text(time).into());
            let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
            map.insert(
                format!("{key}_ns"),
                i64::try_from(nanos).map_or_else(|_| nanos.to_string().into(), Value::from),
            );
        }
    }
    match &entry.kind {
        EntryKind::File(chunks) => {
            map.insert("size".into(), entry.content_len().into());
            map.insert("num_chunks".into(), chunks.as_ref().map(Vec::len).into());
        }
        EntryKind::Symlink(target) => text_json(&mut map, "linktarget", target),
        EntryKind::CharDevice(device) | EntryKind::BlockDevice(device) => {
            map.insert("rdev".into(), json!([rustix::fs::major(*device), rustix::fs::minor(*device)]));
        }
        _ => {}
    }
    if let Some(group) = entry.link_group {
        map.insert("hlid".into(), group.to_hex().into());
    }
    if let Some(inode) = entry.inode {
        map.insert("inode".into(), inode.into());
    }
    if entry.storage.chosen != 0 {
        map.insert("storage".into(), entry.storage.to_string().into());
    }
    map.insert("flags".into(), entry.flags.into());
    if !entry.xattrs.is_empty() {
        let pairs =
            entry.xattrs.iter().map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), base64(value).into()));
        map.insert("xattrs".into(), Value::Object(pairs.collect()));
    }
    for (key, acl) in [("acl_access", &entry.acl.access), ("acl_default", &entry.acl.default)] {
        if !acl.is_empty() {
            text_json(&mut map, key, acl);
        }
    }
    for (name, digest) in &entry.digests {
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        map.insert(format!("digest_{name}"), hex.into());
    }
    map
}

/// All that is known of an archive.
pub fn archive_json(archive: &Archive) -> Value {
    let mut map = Map::new();
    map.insert("id".into(), archive.id.to_hex().into());
    map.insert("deleted".into(), archive.deleted.into());
    match &archive.state {
        Err(error) => {
            map.insert("error".into(), error.to_string().into());
        }
        Ok(ArchiveState {
            name,
            time,
            start,
            end,
            command_line,
            cwd,
            hostname,
            username,
            comment,
            tags,
            size,
            files,
            ..
        }) => {
            for (key, text) in [
                ("name", name),
                ("hostname", hostname),
                ("username", username),
                ("comment", comment),
                ("command_line", command_line),
            ] {
                text_json(&mut map, key, text);
            }
            if let Some(cwd) = cwd {
                text_json(&mut map, "cwd", cwd);
            }
            map.insert("time".into(), time.as_str().into());
            map.insert("start".into(), start.clone().into());
            map.insert("end".into(), end.clone().into());
            let tags: Vec<_> = tags.iter().map(|tag| String::from_utf8_lossy(tag).into_owned()).collect();
            map.insert("tags".into(), tags.into());
            map.insert("size".into(), (*size).into());
            map.insert("nfiles".into(), (*files).into());
        }
    }
    Value::Object(map)
}

fn archive_key(archive: &Archive, key: &str) -> Option<String> {
    match (key, &archive.state) {
        ("id", _) => return Some(archive.id.to_hex()),
        ("id8", _) => return archive.id.to_hex().get(..8).map(Into::into),
        ("name" | "archive", Err(_)) => return Some("(unreadable)".into()),
        ("comment", Err(error)) => return Some(error.to_string()),
        _ => {}
    }
    let state = archive.state.as_ref().ok()?;
    Some(match key {
        "name" | "archive" => printable(&state.name),
        "time" => state.time.get(..19).unwrap_or(&state.time).into(),
        "start" => state.start.clone()?,
        "end" => state.end.clone()?,
        "comment" => printable(&state.comment),
        "hostname" => printable(&state.hostname),
        "username" => printable(&state.username),
        "command_line" => printable(&state.command_line),
        "tags" => state.tags.iter().map(|tag| printable(tag)).collect::<Vec<_>>().join(","),
        "nfiles" => state.files?.to_string(),
        "size" => state.size?.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let parts = parse_format("{a:>3}|{b:3}|{NL}x", &["a", "b"]).unwrap();
        let mut out = Vec::new();
        line(&mut out, &parts, |key| Some(key.into())).unwrap();
        assert_eq!(out, b"  a|b  |\nx");
        assert!(parse_format("{a", &["a"]).is_err() && parse_format("{c}", &["a"]).is_err());
        for (default, keys) in [(ENTRY_FORMAT, &ENTRY_KEYS[..]), (ARCHIVE_FORMAT, &ARCHIVE_KEYS)] {
            assert!(parse_format(default, keys).is_ok());
        }
    }
}
