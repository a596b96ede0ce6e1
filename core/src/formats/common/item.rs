//! Borg's item maps: one archive entry each (borg1.md section 12, borg2.md section 12).

use super::msgpack::{Flaw, Read, Reader};
use crate::base::limits;
use crate::objects::{Acl, ChunkRef, Entry, EntryKind, Refusal, Time};
use alloc::{boxed::Box, string::String, vec::Vec};

/// Largest sum of one item's extended attributes, bytes (borg2.md 15.2).
const XATTRS_MAX: usize = 16 << 20;

/// Whose items they are: what is written alike is read alike, the rest by its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Borg 1.x: times as integers, hard links by path.
    Borg1 {
        /// Whether parts of interrupted files are entries of their own (borg1.md 12.7).
        parts: bool,
    },
    /// Borg 2: times as timestamps, hard links by group.
    Borg2,
}

/// How an entry is linked to others by their paths. Always single in Borg 2, whose entries carry
/// their group themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// No other item refers to it.
    Single,
    /// Later items refer to it by its path.
    First,
    /// Its writer did not say whether later items refer to it.
    Unknown,
    /// It is another name of what is at this path, in canonical form.
    To(Vec<u8>),
}

/// What one item map turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An entry to list and restore, and how it is linked.
    Entry(Box<Entry>, Link),
    /// A well-formed item that must not be restored: an unsafe path or an unknown type.
    Refused {
        /// The raw path as stored.
        path: Vec<u8>,
        /// Why, in a few words.
        why: Refusal,
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
    /// The chunks before a repair put zeros in the place of lost ones (borg1.md 12.8).
    healthy: Option<Vec<ChunkRef>>,
    master: Option<bool>,
}

/// Reads one item from the front of `bytes`; the number of bytes it takes comes back with it.
///
/// # Errors
/// [`Flaw::Short`] if the map continues beyond `bytes`, [`Flaw::Malformed`] if it is no item.
pub fn parse(bytes: &[u8], dialect: Dialect) -> Read<(Item, usize)> {
    let mut reader = Reader::new(bytes);
    let pairs = reader.map()?;
    let mut entry = blank();
    let mut fields = Fields::default();
    for _ in 0..pairs {
        let key = reader.bytes()?;
        field(key, &mut reader, dialect, &mut fields, &mut entry)?;
    }
    finish(fields, dialect, entry).map(|item| (item, reader.position()))
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
        storage: Default::default(),
    })
}

fn field(key: &[u8], reader: &mut Reader<'_>, dialect: Dialect, fields: &mut Fields, entry: &mut Entry) -> Read<()> {
    let time = match dialect {
        Dialect::Borg1 { .. } => nanoseconds,
        Dialect::Borg2 => timestamp,
    };
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
        b"chunks_healthy" if dialect != Dialect::Borg2 => fields.healthy = optional(reader, chunks)?,
        b"hardlink_master" if dialect != Dialect::Borg2 => fields.master = optional(reader, Reader::bool)?,
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

fn timestamp(reader: &mut Reader<'_>) -> Read<Time> {
    reader.timestamp().map(|(seconds, nanos)| Time { seconds, nanos })
}

/// A time as a number of nanoseconds, clamped to what a [`Time`] holds (borg1.md 12.2).
fn nanoseconds(reader: &mut Reader<'_>) -> Read<Time> {
    const SECOND: i128 = 1_000_000_000;
    let nanos = reader.big_int()?;
    let seconds = nanos.div_euclid(SECOND).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    Ok(Time { seconds, nanos: nanos.rem_euclid(SECOND) as u32 })
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
        chunks.push(ChunkRef::new(id, size));
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

fn finish(fields: Fields, dialect: Dialect, mut entry: Box<Entry>) -> Read<Item> {
    let Fields { path, mode, chunks, target, mut source, rdev, part, healthy, master } = fields;
    let stored = path.ok_or(Flaw::Malformed)?;
    if part && dialect != (Dialect::Borg1 { parts: true }) {
        return Ok(Item::Part);
    }
    let chunks = restored(chunks, healthy);
    // Without a mode only content can tell what it is.
    let mode = mode.unwrap_or(if chunks.is_some() { 0o100_600 } else { 0o040_700 });
    let mut link = Link::Single;
    if let (Dialect::Borg1 { .. }, 0o100_000 | 0o010_000 | 0o020_000 | 0o060_000) = (dialect, mode & 0o170_000) {
        link = match (source.take().map(|first| normalise(&first)), master) {
            (Some(Ok(first)), _) => Link::To(first),
            (Some(Err(_)), _) => {
                return Ok(Item::Refused { path: stored, why: Refusal::Target });
            }
            (None, Some(true)) => Link::First,
            (None, Some(false)) => Link::Single,
            (None, None) => Link::Unknown,
        };
    }
    if dialect != Dialect::Borg2 {
        // Numbers below zero stand for unknown ones, and Borg restores them as zero (borg1.md 12.2).
        entry.uid = entry.uid.map(|uid| uid.max(0));
        entry.gid = entry.gid.map(|gid| gid.max(0));
    }
    let kind = match mode & 0o170_000 {
        0o100_000 => EntryKind::File(chunks),
        0o040_000 => EntryKind::Directory,
        0o120_000 => match target.or(source) {
            Some(target) if !target.is_empty() && !target.contains(&0) => EntryKind::Symlink(target),
            _ => return Ok(Item::Refused { path: stored, why: Refusal::Target }),
        },
        0o010_000 => EntryKind::Fifo,
        0o020_000 => EntryKind::CharDevice(rdev),
        0o060_000 => EntryKind::BlockDevice(rdev),
        _ => return Ok(Item::Refused { path: stored, why: Refusal::Type }),
    };
    match normalise(&stored) {
        Ok(path) => {
            entry.path = path;
            entry.kind = kind;
            entry.mode = mode & 0o7777;
            Ok(Item::Entry(entry, link))
        }
        Err(why) => Ok(Item::Refused { path: stored, why: Refusal::Path(why) }),
    }
}

/// The chunks that a file had before a repair, where those are known and fit: what is still lost
/// is then met as a missing chunk and named, what came back is used (borg1.md 12.8).
fn restored(chunks: Option<Vec<ChunkRef>>, healthy: Option<Vec<ChunkRef>>) -> Option<Vec<ChunkRef>> {
    let sizes = |list: &[ChunkRef]| list.iter().map(|chunk| chunk.size).collect::<Vec<_>>();
    match (chunks, healthy) {
        (Some(chunks), Some(healthy)) if sizes(&chunks) == sizes(&healthy) => Some(healthy),
        (chunks, _) => chunks,
    }
}

/// The stored path in canonical form: no leading slash, no `.` and no empty components (as Borg
/// reads it, borg2.md 12.1); `.` for the root itself.
///
/// # Errors
/// Why no entry can have this path.
pub fn normalise(stored: &[u8]) -> Result<Vec<u8>, &'static str> {
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
            let (item, used) = parse(&file(path), Dialect::Borg2).unwrap();
            assert_eq!(used, file(path).len());
            match (item, expected) {
                (Item::Entry(entry, _), Some(expected)) => assert_eq!(entry.path, expected),
                (Item::Refused { path: stored, .. }, None) => assert_eq!(stored, path),
                (item, _) => panic!("{}: {item:?}", path.escape_ascii()),
            }
        }
    }

    #[test]
    fn a_file_without_chunks_is_not_an_empty_file() {
        let lost = encode(&[("mode", &uint(0o100_644)), ("path", &string(b"f"))]);
        let Item::Entry(entry, _) = parse(&lost, Dialect::Borg2).unwrap().0 else { panic!() };
        assert_eq!(entry.kind, EntryKind::File(None));
        let Item::Entry(entry, _) = parse(&file(b"f"), Dialect::Borg2).unwrap().0 else { panic!() };
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
        let Item::Entry(entry, _) = parse(&odd, Dialect::Borg2).unwrap().0 else { panic!() };
        assert_eq!((entry.kind, entry.user), (EntryKind::Symlink(b"t".to_vec()), None));
        let part = encode(&[("part", &[1]), ("path", &string(b"p"))]);
        assert_eq!(parse(&part, Dialect::Borg2).unwrap().0, Item::Part);
        let socket = encode(&[("mode", &uint(0o140_777)), ("path", &string(b"s"))]);
        assert!(matches!(parse(&socket, Dialect::Borg2).unwrap().0, Item::Refused { .. }));
        assert_eq!(parse(&encode(&[("mode", &uint(1))]), Dialect::Borg2), Err(Flaw::Malformed));
    }

    const BORG1: Dialect = Dialect::Borg1 { parts: false };

    fn borg1(pairs: &[(&str, &[u8])]) -> (Entry, Link) {
        match parse(&encode(pairs), BORG1) {
            Ok((Item::Entry(entry, link), _)) => (*entry, link),
            other => panic!("{other:?}"),
        }
    }

    fn chunk(id: u8, size: u64) -> Vec<u8> {
        // An id in the old raw family, a size, a stored size.
        [&[0x93, 0xda, 0, 32][..], &[id; 32], &uint(size), &uint(9)].concat()
    }

    #[test]
    fn times_of_borg1_are_integers_of_any_size() {
        let time =
            |value: &[u8]| borg1(&[("mode", &uint(0o040_755)), ("path", &string(b"d")), ("mtime", value)]).0.mtime;
        assert_eq!(time(&uint(1_500_000_000_000_000_007)), Some(Time { seconds: 1_500_000_000, nanos: 7 }));
        assert_eq!(time(&[0xff]), Some(Time { seconds: -1, nanos: 999_999_999 }));
        // Beyond 63 bits: a byte string, little-endian, signed.
        let large = [&[0xa9][..], &(1i128 << 64).to_le_bytes()[..9]].concat();
        assert_eq!(time(&large), Some(Time { seconds: 18_446_744_073, nanos: 709_551_616 }));
        assert_eq!(time(&[0xa2, 0x18, 0xfc]), Some(Time { seconds: -1, nanos: 999_999_000 }));
        assert_eq!(time(&string(&[0xff; 40])), Some(Time { seconds: -1, nanos: 999_999_999 }));
        let huge = [&[0x7f; 40][..]].concat();
        assert_eq!(time(&string(&huge)).map(|time| time.seconds), Some(i64::MAX));
        assert_eq!(time(&[0xc0]), None);
    }

    #[test]
    fn hard_links_of_borg1_go_by_path() {
        let file = |more: &[(&str, &[u8])]| {
            let (mode, path) = (uint(0o100_644), string(b"a/b"));
            borg1(&[&[("mode", &mode[..]), ("path", &path[..])], more].concat())
        };
        assert_eq!(file(&[("source", &string(b"./a//c"))]).1, Link::To(b"a/c".to_vec()));
        assert_eq!(file(&[("chunks", &[0x90]), ("hardlink_master", &[0xc3])]).1, Link::First);
        assert_eq!(file(&[("chunks", &[0x90]), ("hardlink_master", &[0xc2])]).1, Link::Single);
        assert_eq!(file(&[("chunks", &[0x90])]).1, Link::Unknown);
        let symlink = borg1(&[("mode", &uint(0o120_777)), ("path", &string(b"l")), ("source", &string(b"../x"))]);
        assert_eq!((symlink.0.kind, symlink.1), (EntryKind::Symlink(b"../x".to_vec()), Link::Single));
        let pipe = borg1(&[("mode", &uint(0o010_644)), ("path", &string(b"p")), ("source", &string(b"q"))]);
        assert_eq!((pipe.0.kind, pipe.1), (EntryKind::Fifo, Link::To(b"q".to_vec())));
        let away = encode(&[("mode", &uint(0o100_644)), ("path", &string(b"f")), ("source", &string(b"../f"))]);
        assert!(matches!(parse(&away, BORG1).unwrap().0, Item::Refused { .. }));
    }

    #[test]
    fn old_forms_of_borg1() {
        let list = [&[0x92][..], &chunk(1, 5), &chunk(2, 6)].concat();
        let healthy = [&[0x92][..], &chunk(3, 5), &chunk(2, 6)].concat();
        let short = [&[0x91][..], &chunk(3, 5)].concat();
        let file = |healthy: &[u8]| {
            let (entry, _) = borg1(&[
                ("acl", &[0xc0]),
                ("chunks", &list),
                ("chunks_healthy", healthy),
                ("gid", &[0xff]),
                ("mode", &uint(0o100_644)),
                ("path", &string(b"\xff")),
                ("user", &string(b"\xfe")),
                ("xattrs", &[&[0x81][..], &string(b"user.x"), &[0xc0]].concat()),
            ]);
            entry
        };
        let entry = file(&healthy);
        assert_eq!(entry.chunks().iter().map(|chunk| chunk.id.0[0]).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(file(&short).chunks()[0].id.0[0], 1);
        assert_eq!((entry.uid, entry.gid, entry.user, entry.group), (None, Some(0), Some(b"\xfe".to_vec()), None));
        assert_eq!((entry.path, entry.xattrs), (b"\xff".to_vec(), alloc::vec![(b"user.x".to_vec(), Vec::new())]));
        let part = encode(&[("chunks", &[0x90]), ("part", &[1]), ("path", &string(b"p"))]);
        assert_eq!(parse(&part, BORG1).unwrap().0, Item::Part);
        assert!(matches!(parse(&part, Dialect::Borg1 { parts: true }).unwrap().0, Item::Entry(..)));
    }

    #[test]
    fn cut_anywhere_is_short() {
        let whole = file(b"some/path");
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut], Dialect::Borg2), Err(Flaw::Short), "{cut}");
        }
        assert!(may_start(&whole));
        assert!(!may_start(b"chunks") && !may_start(&[0x81, 0xa1, b'X', 0]) && !may_start(&[0x80]));
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            let _ = parse(&bytes, Dialect::Borg2);
            let _ = parse(&bytes, Dialect::Borg1 { parts: true });
            let _ = may_start(&bytes);
        }
    }
}
