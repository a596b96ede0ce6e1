//! Entries of a segment: a checksum, a length, a tag, and what the tag demands (borg1.md 3.2).

use crate::base::{Check, Cursor, Id, Result, limits};
use crate::crypto::crc32;

/// First bytes of every segment.
pub const MAGIC: &[u8; 8] = b"BORG_SEG";
/// First bytes of a segment of Borg's predecessor.
pub const ATTIC_MAGIC: &[u8; 8] = b"ATTICSEG";
/// The one COMMIT entry there is.
pub const COMMIT: &[u8; 9] = b"\x40\xf4\x3c\x25\x09\0\0\0\x02";
/// Bytes that every entry starts with: checksum, length, tag.
pub const FRONT_LEN: usize = 9;
/// Bytes before the object in a PUT, all bytes of a DELETE.
pub const HEADER_LEN: usize = 41;

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Stores an object.
    Put,
    /// Removes an object.
    Delete,
    /// Ends a transaction.
    Commit,
}

/// The first bytes of an entry: its tag and length fit each other. The checksum is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// CRC-32 of everything after it.
    pub crc: u32,
    /// Length of the whole entry in bytes.
    pub size: u32,
    /// What it does.
    pub tag: Tag,
}

impl Front {
    /// Reads the front of an entry, or `None` if these bytes start none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let (crc, size, tag) = (cursor.u32_le()?, cursor.u32_le()?, cursor.u8()?);
        let tag = match tag {
            0 if (HEADER_LEN as u32..=limits::ENTRY_MAX).contains(&size) => Tag::Put,
            1 if size == HEADER_LEN as u32 => Tag::Delete,
            2 if bytes.starts_with(COMMIT) => Tag::Commit,
            _ => return None,
        };
        Some(Self { crc, size, tag })
    }
}

/// The key of the PUT or DELETE that starts `entry`.
pub fn key(entry: &[u8]) -> Option<Id> {
    entry.get(FRONT_LEN..HEADER_LEN)?.try_into().ok().map(Id)
}

/// True if the checksum of the entry holds; `entry` is all of it.
pub fn holds(front: &Front, entry: &[u8]) -> bool {
    entry.get(4..).is_some_and(|covered| crc32(covered) == front.crc)
}

/// The length of the PUT entry of `id` that starts `stored`. What follows it there is not looked at.
///
/// # Errors
/// `Entry` if none starts there, `Truncated`, `Crc`, or `OtherChunk`.
pub fn put(stored: &[u8], id: &Id) -> Result<usize> {
    let front = Front::parse(stored).filter(|front| front.tag == Tag::Put).ok_or(Check::Entry)?;
    let len = front.size as usize;
    let entry = stored.get(..len).ok_or(Check::Truncated)?;
    if !holds(&front, entry) {
        return Err(Check::Crc.into());
    }
    if key(entry) != Some(*id) {
        return Err(Check::OtherChunk.into());
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::super::vectors::sealed;
    use super::*;

    #[test]
    fn the_commit_entry_is_one_constant() {
        assert_eq!(sealed(2, b""), COMMIT);
        assert_eq!(Front::parse(COMMIT).unwrap().tag, Tag::Commit);
        assert_eq!(Front::parse(&sealed(2, b"x")), None);
    }

    #[test]
    fn puts_are_checked_in_full() {
        let id = Id([7; 32]);
        let mut stored = sealed(0, &[&id.0[..], b"object"].concat());
        assert_eq!(put(&stored, &id), Ok(47));
        assert_eq!(put(&stored, &Id([8; 32])), Err(Check::OtherChunk.into()));
        assert_eq!(put(&stored[..46], &id), Err(Check::Truncated.into()));
        assert_eq!(put(b"", &id), Err(Check::Entry.into()));
        for at in 0..stored.len() {
            let mut other = stored.clone();
            other[at] ^= 4;
            assert!(put(&other, &id).is_err(), "{at}");
        }
        stored.extend_from_slice(b"what follows");
        assert_eq!(put(&stored, &id), Ok(47));
        assert_eq!(put(&sealed(1, &id.0), &id), Err(Check::Entry.into()));
    }

    #[test]
    fn sizes_fit_their_tags() {
        let front = |size: u32, tag: u8| Front::parse(&[&[0; 4][..], &size.to_le_bytes(), &[tag]].concat());
        for (size, tag, fits) in [
            (41, 0, true),
            (limits::ENTRY_MAX, 0, true),
            (40, 0, false),
            (limits::ENTRY_MAX + 1, 0, false),
            (41, 1, true),
            (42, 1, false),
            (9, 2, false),
            (50, 3, false),
            (50, 16, false),
        ] {
            assert_eq!(front(size, tag).is_some(), fits, "{size} {tag}");
        }
    }
}
