//! Directory blocks: names and the inodes they stand for (erofs.md 6).

use crate::base::{Check, Result, bytes::Cursor};
use alloc::vec::Vec;

/// Bytes of an entry.
const ENTRY: usize = 12;
/// Longest name, bytes.
const NAME_MAX: usize = 255;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirent {
    /// The inode.
    pub nid: u64,
    /// The name, raw bytes.
    pub name: Vec<u8>,
}

/// Parses one block. `last` is the name before it, which its names must follow.
///
/// All names of a block are refused together where the block breaks a rule: a name that occurs
/// twice could otherwise be a link first and a directory then.
///
/// # Errors
/// `Directory` damage.
pub fn parse(block: &[u8], last: &[u8]) -> Result<Vec<Dirent>> {
    let wrong = |what| Err(Check::Directory(what).into());
    let mut cursor = Cursor::new(block);
    let mut heads = Vec::new();
    let mut count = 1;
    while heads.len() < count {
        let fields = (cursor.u64_le(), cursor.u16_le(), cursor.u16_le());
        let (Some(nid), Some(start), Some(_kind)) = fields else { return wrong("its entries do not fit") };
        let start = usize::from(start);
        if heads.is_empty() {
            if start < ENTRY || !start.is_multiple_of(ENTRY) || start > block.len() {
                return wrong("the first name is out of place");
            }
            count = start / ENTRY;
        }
        heads.push((nid, start));
    }
    let mut entries: Vec<Dirent> = Vec::with_capacity(count);
    for (at, (nid, start)) in heads.iter().enumerate() {
        let name = match heads.get(at + 1) {
            Some((_, end)) => block.get(*start..*end),
            // The last name ends with the block, or with the first of the zeros that fill it up.
            None => block.get(*start..).and_then(|rest| rest.split(|byte| *byte == 0).next()),
        };
        let Some(name) = name else { return wrong("a name is out of place") };
        if name.is_empty() || name.len() > NAME_MAX {
            return wrong("a name is empty or too long");
        }
        if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return wrong("a name has a slash or a zero byte");
        }
        if entries.last().map_or(last, |entry| &entry.name) >= name {
            return wrong("names are out of order");
        }
        entries.push(Dirent { nid: *nid, name: name.to_vec() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    /// A block of these names, whose first name starts at `first`.
    fn block(names: &[&[u8]], first: Option<usize>) -> Vec<u8> {
        let mut block = Vec::new();
        let mut start = names.len() * ENTRY;
        for (at, name) in names.iter().enumerate() {
            block.extend((at as u64 + 36).to_le_bytes());
            block.extend((first.filter(|_| at == 0).unwrap_or(start) as u16).to_le_bytes());
            block.extend([1, 0]);
            start += name.len();
        }
        names.iter().for_each(|name| block.extend(*name));
        block
    }

    fn refused(block: &[u8], last: &[u8]) {
        let error = parse(block, last).unwrap_err();
        assert!(matches!(error.kind(), Kind::Corrupt(Check::Directory(_))), "{error}");
    }

    #[test]
    fn names_end_where_the_next_begins() {
        let mut bytes = block(&[b".", b"..", b"f", b"tiny"], None);
        let names = |bytes: &[u8]| parse(bytes, b"").unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(names(&bytes), [b".".as_slice(), b"..", b"f", b"tiny"]);
        bytes.resize(4096, 0);
        assert_eq!(names(&bytes)[3], b"tiny");
        assert_eq!(parse(&bytes, b"").unwrap()[2].nid, 38);
    }

    #[test]
    fn faulty_blocks_are_refused() {
        for names in [
            &[b"b".as_slice(), b"a"] as &[&[u8]],
            &[b"a", b"a"],
            &[b"a", b"", b"b"],
            &[b"a/b"],
            &[b"a\0", b"b"],
            &[b""],
            &[&[b'x'; 256]],
        ] {
            refused(&block(names, None), b"");
        }
        for first in [0, 11, 13, 24, 36, 65535] {
            refused(&block(&[b"a"], Some(first)), b"");
        }
        refused(&block(&[b"a"], None), b"a");
        refused(&[], b"");
        refused(&[0; 4096], b"");
        // A name that starts before the one it follows.
        let mut bytes = block(&[b"ab", b"cd"], None);
        bytes[ENTRY + 8] = 23;
        refused(&bytes, b"");
        for len in 0..bytes.len() - 1 {
            let _ = parse(&bytes[..len], b"");
        }
    }
}
