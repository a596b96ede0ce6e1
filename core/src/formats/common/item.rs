//! Borg's item maps: one archive entry each (borg2.md section 12, shared with Borg 1.x).

use super::msgpack::{Flaw, Read, Reader};
use crate::base::limits;
use crate::objects::{Acl, ChunkRef, Entry, EntryKind, Time};
use alloc::{boxed::Box, string::String, vec::Vec};

/// Largest sum of one item's extended attributes, bytes (borg2.md 15.2).
const XATTRS_MAX: usize = 16 << 20;

/// What one item map turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An entry to list and restore.
    Entry(Box<Entry>),
    /// A well-formed item that must not be restored: an unsafe path or an unknown type.
    Refused {
        /// The raw path as stored.
        path: Vec<u8>,
        /// Why, in a few words.
        why: &'static str,
    },
    /// Part of a checkpoint file of old versions: hidden.
    Part,
}

/// Fields as they come, in any order.
#[derive(Default)]
struct Fields {
    path: Option<Vec<u8>>,
    mode: Option<u32>,
    chunks: Option<Vec<ChunkRef>>,
    target: Option<Vec<u8>>,
    source: Option<Vec<u8>>,
    rdev: u64,
    part: bool,
}

/// Reads one item from the front of `bytes`; the number of bytes it takes comes back with it.
///
/// # Errors
/// [`Flaw::Short`] if the map continues beyond `bytes`, [`Flaw::Malformed`] if it is no item.
pub fn parse(bytes: &[u8]) -> Read<(Item, usize)> {
    let mut reader = Reader::new(bytes);
    let pairs = reader.map()?;
    let mut entry = blank();
    let mut fields = Fields::default();
    for _ in 0..pairs {
        let key = reader.bytes()?;
        field(key, &mut reader, &mut fields, &mut entry)?;
    }
    finish(fields, entry).map(|item| (item, reader.position()))
}

fn blank() -> Box<Entry> {
    Box::new(Entry {
        path: Vec::new(),
        kind: EntryKind::Directory,
        mode: 0,
        uid: None,
        gid: None,
        user: None,
        group: None,
        mtime: None,
        atime: None,
        ctime: None,
        birthtime: None,
        size: None,
        link_group: None,
        inode: None,
        xattrs: Vec::new(),
        acl: Acl::default(),
        flags: 0,
        digests: Vec::new(),
    })
}

fn field(key: &[u8], reader: &mut Reader<'_>, fields: &mut Fields, entry: &mut Entry) -> Read<()> {
    match key {
        b"path" => fields.path = Some(text(reader)?),
        b"mode" => fields.mode = Some(reader.int()?),
        b"uid" => entry.uid = optional(reader, Reader::int)?,
        b"gid" => entry.gid = optional(reader, Reader::int)?,
        b"user" => entry.user = optional(reader, text)?,
        b"group" => entry.group = optional(reader, text)?,
        b"mtime" => entry.mtime = optional(reader, time)?,
        b"atime" => entry.atime = optional(reader, time)?,
        b"ctime" => entry.ctime = optional(reader, time)?,
        b"birthtime" => entry.birthtime = optional(reader, time)?,
        b"size" => entry.size = optional(reader, Reader::int)?,
        b"chunks" => fields.chunks = optional(reader, chunks)?,
        b"target" => fields.target = optional(reader, text)?,
        b"source" => fields.source = optional(reader, text)?,
        b"hlid" => entry.link_group = optional(reader, Reader::id)?,
        b"rdev" => fields.rdev = optional(reader, Reader::int)?.unwrap_or(0),
        b"inode" => entry.inode = optional(reader, Reader::int)?,
        b"xattrs" => entry.xattrs = optional(reader, xattrs)?.unwrap_or_default(),
        b"acl_access" => entry.acl.access = optional(reader, blob)?.unwrap_or_default(),
        b"acl_default" => entry.acl.default = optional(reader, blob)?.unwrap_or_default(),
        b"acl_nfs4" => entry.acl.nfs4 = optional(reader, blob)?.unwrap_or_default(),
        b"acl_extended" => entry.acl.extended = optional(reader, blob)?.unwrap_or_default(),
        // Bits above the low 32 have no meaning anywhere; they must not cost the entry.
        b"bsdflags" => entry.flags = optional(reader, Reader::int::<i64>)?.unwrap_or(0) as u32,
        b"digests" => entry.digests = optional(reader, digests)?.unwrap_or_default(),
        b"part" => {
            fields.part = true;
            reader.skip()?;
        }
        _ => reader.skip()?,
    }
    Ok(())
}

/// Old archives write nil for what they do not know.
fn optional<'a, T>(reader: &mut Reader<'a>, read: impl FnOnce(&mut Reader<'a>) -> Read<T>) -> Read<Option<T>> {
    if reader.nil() { Ok(None) } else { read(reader).map(Some) }
}

fn capped(reader: &mut Reader<'_>, cap: usize) -> Read<Vec<u8>> {
    let bytes = reader.bytes()?;
    if bytes.len() <= cap { Ok(bytes.to_vec()) } else { Err(Flaw::Malformed) }
}

fn text(reader: &mut Reader<'_>) -> Read<Vec<u8>> {
    capped(reader, limits::TEXT_MAX)
}

fn blob(reader: &mut Reader<'_>) -> Read<Vec<u8>> {
    capped(reader, limits::XATTR_MAX)
}

fn time(reader: &mut Reader<'_>) -> Read<Time> {
    reader.timestamp().map(|(seconds, nanos)| Time { seconds, nanos })
}

fn chunks(reader: &mut Reader<'_>) -> Read<Vec<ChunkRef>> {
    let count = reader.array()?;
    // Grown as entries are really there: the count alone must not allocate.
    let mut chunks = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        let parts = reader.array()?;
        if !(2..=3).contains(&parts) {
            return Err(Flaw::Malformed);
        }
        let id = reader.id()?;
        let size: u32 = reader.int()?;
        if parts == 3 {
            reader.skip()?;
        }
        if size == 0 || size > limits::OBJECT_MAX {
            return Err(Flaw::Malformed);
        }
        chunks.push(ChunkRef { id, size });
    }
    Ok(chunks)
}

fn xattrs(reader: &mut Reader<'_>) -> Read<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut total = 0usize;
    pairs(reader, |reader| {
        let name = text(reader)?;
        let value = optional(reader, blob)?.unwrap_or_default();
        total = total.saturating_add(value.len());
        if total > XATTRS_MAX { Err(Flaw::Malformed) } else { Ok((name, value)) }
    })
}

fn digests(reader: &mut Reader<'_>) -> Read<Vec<(String, Vec<u8>)>> {
    pairs(reader, |reader| {
        let name = String::from_utf8_lossy(&text(reader)?).into_owned();
        Ok((name, text(reader)?))
    })
}

fn pairs<'a, T>(reader: &mut Reader<'a>, mut read: impl FnMut(&mut Reader<'a>) -> Read<T>) -> Read<Vec<T>> {
    let count = reader.map()?;
    let mut list = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        list.push(read(reader)?);
    }
    Ok(list)
}

fn finish(fields: Fields, mut entry: Box<Entry>) -> Read<Item> {
    let Fields { path, mode, chunks, target, source, rdev, part } = fields;
    let stored = path.ok_or(Flaw::Malformed)?;
    if part {
        return Ok(Item::Part);
    }
    // Without a mode only content can tell what it is.
    let mode = mode.unwrap_or(if chunks.is_some() { 0o100_600 } else { 0o040_700 });
    let kind = match mode & 0o170_000 {
        0o100_000 => EntryKind::File(chunks),
        0o040_000 => EntryKind::Directory,
        0o120_000 => match target.or(source) {
            Some(target) if !target.is_empty() && !target.contains(&0) => EntryKind::Symlink(target),
            _ => return Ok(Item::Refused { path: stored, why: "the link has no valid target" }),
        },
        0o010_000 => EntryKind::Fifo,
        0o020_000 => EntryKind::CharDevice(rdev),
        0o060_000 => EntryKind::BlockDevice(rdev),
        _ => return Ok(Item::Refused { path: stored, why: "unknown file type" }),
    };
    match normalise(&stored) {
        Ok(path) => {
            entry.path = path;
            entry.kind = kind;
            entry.mode = mode & 0o7777;
            Ok(Item::Entry(entry))
        }
        Err(why) => Ok(Item::Refused { path: stored, why }),
    }
}

/// The stored path in canonical form: no leading slash, no `.` and no empty components (as Borg
/// reads it, borg2.md 12.1); `.` for the root itself.
fn normalise(stored: &[u8]) -> Result<Vec<u8>, &'static str> {
    if stored.is_empty() {
        return Err("the path is empty");
    }
    if stored.contains(&0) {
        return Err("the path contains a NUL byte");
    }
    let mut path = Vec::with_capacity(stored.len());
    let mut depth = 0;
    for part in stored.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if part == b".." {
            return Err("the path climbs out of the archive");
        }
        depth += 1;
        if depth > limits::COMPONENTS_MAX {
            return Err("the path has too many components");
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    }
    if path.is_empty() {
        path.push(b'.');
    }
    Ok(path)
}

/// True if an item could start here: a map header, then a short lowercase key (borg2.md 11.3).
pub fn may_start(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    match bytes.first() {
        Some(0x80..=0x8f | 0xde) => {}
        _ => return false,
    }
    let plausible = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    matches!(reader.map(), Ok(pairs) if pairs > 0)
        && matches!(reader.bytes(), Ok(key) if !key.is_empty() && key.len() < 32 && key.iter().all(plausible))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(pairs: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        rmp::encode::write_map_len(&mut out, pairs.len() as u32).unwrap();
        for (key, value) in pairs {
            rmp::encode::write_str(&mut out, key).unwrap();
            out.extend_from_slice(value);
        }
        out
    }

    fn string(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        rmp::encode::write_str_len(&mut out, text.len() as u32).unwrap();
        out.extend_from_slice(text);
        out
    }

    fn uint(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        rmp::encode::write_uint(&mut out, value).unwrap();
        out
    }

    fn file(path: &[u8]) -> Vec<u8> {
        encode(&[("chunks", &[0x90]), ("mode", &uint(0o100_644)), ("path", &string(path))])
    }

    #[test]
    fn unsafe_paths_are_refused_by_name() {
        for (path, expected) in [
            (&b"/etc/passwd"[..], Some(&b"etc/passwd"[..])),
            (b"a//./b/", Some(b"a/b")),
            (b".", Some(b".")),
            (b"a\\b", Some(b"a\\b")),
            (b"\xff\xfe", Some(b"\xff\xfe")),
            (b"x/../../y", None),
            (b"..", None),
            (b"", None),
            (b"a\0b", None),
        ] {
            let (item, used) = parse(&file(path)).unwrap();
            assert_eq!(used, file(path).len());
            match (item, expected) {
                (Item::Entry(entry), Some(expected)) => assert_eq!(entry.path, expected),
                (Item::Refused { path: stored, .. }, None) => assert_eq!(stored, path),
                (item, _) => panic!("{}: {item:?}", path.escape_ascii()),
            }
        }
    }

    #[test]
    fn a_file_without_chunks_is_not_an_empty_file() {
        let lost = encode(&[("mode", &uint(0o100_644)), ("path", &string(b"f"))]);
        let Item::Entry(entry) = parse(&lost).unwrap().0 else { panic!() };
        assert_eq!(entry.kind, EntryKind::File(None));
        let Item::Entry(entry) = parse(&file(b"f")).unwrap().0 else { panic!() };
        assert_eq!(entry.kind, EntryKind::File(Some(Vec::new())));
    }

    #[test]
    fn odd_fields() {
        // Unknown keys (also such that are not UTF-8), nil values, and part files.
        let odd = encode(&[
            ("mode", &uint(0o120_777)),
            ("path", &string(b"l")),
            ("source", &string(b"t")),
            ("user", &[0xc0]),
            ("zz", &[0x81, 0xa1, 0xff, 0x93, 1, 2, 3]),
        ]);
        let Item::Entry(entry) = parse(&odd).unwrap().0 else { panic!() };
        assert_eq!((entry.kind, entry.user), (EntryKind::Symlink(b"t".to_vec()), None));
        let part = encode(&[("part", &[1]), ("path", &string(b"p"))]);
        assert_eq!(parse(&part).unwrap().0, Item::Part);
        let socket = encode(&[("mode", &uint(0o140_777)), ("path", &string(b"s"))]);
        assert!(matches!(parse(&socket).unwrap().0, Item::Refused { .. }));
        assert_eq!(parse(&encode(&[("mode", &uint(1))])), Err(Flaw::Malformed));
    }

    #[test]
    fn cut_anywhere_is_short() {
        let whole = file(b"some/path");
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Err(Flaw::Short), "{cut}");
        }
        assert!(may_start(&whole));
        assert!(!may_start(b"chunks") && !may_start(&[0x81, 0xa1, b'X', 0]) && !may_start(&[0x80]));
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            let _ = parse(&bytes);
            let _ = may_start(&bytes);
        }
    }
}
