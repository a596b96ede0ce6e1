//! Extended attributes: entries beside the inode, and shared ones (erofs.md 8).

use super::image::Image;
use super::inode::{Inode, Space, Spot};
use super::tables::Prefix;
use crate::base::{Check, Result, bytes::Cursor, limits};
use crate::platform::Port;
use alloc::vec::Vec;

/// Bytes of an entry before its name.
const ENTRY: u64 = 4;
/// Bit of a name's index: it is that of a long prefix.
const LONG: u8 = 0x80;
/// What a digest's value starts with.
const SHA256: &[u8] = b"sha256:";

/// The attributes of one inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Name and value, in the order in which they are stored.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// SHA-256 of the content, where the image carries it.
    pub sha256: Option<Vec<u8>>,
}

/// Reads the attributes of `inode`.
///
/// # Errors
/// `Xattr` damage, `OverLimit`, I/O errors.
pub async fn read(image: &Image, port: &Port, prefixes: &[Prefix], inode: &Inode) -> Result<Attributes> {
    let mut attributes = Attributes::default();
    if inode.xattrs_len == 0 {
        return Ok(attributes);
    }
    let body = image.read(port, inode.xattrs, inode.xattrs_len).await?;
    let mut cursor = Cursor::new(&body);
    let (Some(_filter), Some(shared), Some(_reserved)) = (cursor.u32_le(), cursor.u8(), cursor.take(7)) else {
        return Err(Check::Truncated.into());
    };
    let mut total = 0;
    let mut ids = Vec::with_capacity(shared.into());
    for _ in 0..shared {
        ids.push(cursor.u32_le().ok_or(Check::Xattr("the shared ones do not fit"))?);
    }
    while !cursor.is_empty() {
        let entry = Entry::take(&mut cursor).ok_or(Check::Xattr("an entry does not fit"))?;
        total += entry.value.len() as u64;
        attributes.add(image, prefixes, &entry);
    }
    for id in ids {
        let at = shared_at(image, id);
        let head = image.read(port, at, ENTRY).await?;
        let len = Entry::len(&head).ok_or(Check::Truncated)?;
        total += len;
        limits::within("size of the attributes", total, limits::XATTR_MAX as u64)?;
        let bytes = image.read(port, at, len).await?;
        let entry = Entry::take(&mut Cursor::new(&bytes)).ok_or(Check::Truncated)?;
        attributes.add(image, prefixes, &entry);
    }
    Ok(attributes)
}

fn shared_at(image: &Image, id: u32) -> Spot {
    let base = u64::from(image.superblock.xattr_block) << image.superblock.block_bits;
    let space = if image.superblock.shares_in_metabox() { Space::Metabox } else { Space::Image };
    Spot { space, offset: base + 4 * u64::from(id) }
}

impl Attributes {
    fn add(&mut self, image: &Image, prefixes: &[Prefix], entry: &Entry<'_>) {
        let superblock = &image.superblock;
        let number = entry.index & !LONG;
        let is_long = entry.index & LONG != 0;
        if is_long && superblock.digest_prefix == Some(number) && entry.suffix.is_empty() {
            self.sha256 = entry.value.strip_prefix(SHA256).filter(|digest| digest.len() == 32).map(<[u8]>::to_vec);
        }
        let (base, infix) = match is_long.then(|| prefixes.get(usize::from(number))) {
            None => (entry.index, [].as_slice()),
            Some(Some(prefix)) => (prefix.base, prefix.infix.as_slice()),
            // The reference tools pass over what has a prefix that there is not.
            Some(None) => return,
        };
        let Some(start) = short_prefix(base) else { return };
        self.pairs.push(([start, infix, entry.suffix].concat(), entry.value.to_vec()));
    }
}

/// The short prefix of this index; `None` for what is hidden or unknown.
const fn short_prefix(index: u8) -> Option<&'static [u8]> {
    Some(match index {
        1 => b"user.",
        2 => b"system.posix_acl_access",
        3 => b"system.posix_acl_default",
        4 => b"trusted.",
        6 => b"security.",
        _ => return None,
    })
}

/// One entry, inline or shared.
struct Entry<'a> {
    index: u8,
    suffix: &'a [u8],
    value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Length of the entry that starts with these four bytes, without padding.
    fn len(head: &[u8]) -> Option<u64> {
        let mut cursor = Cursor::new(head);
        let (name, _index, value) = (cursor.u8()?, cursor.u8()?, cursor.u16_le()?);
        Some(ENTRY + u64::from(name) + u64::from(value))
    }

    /// The next entry, with the padding after it. At the end of the bytes there need be no padding.
    fn take(cursor: &mut Cursor<'a>) -> Option<Self> {
        let start = cursor.position();
        let (name, index, value) = (cursor.u8()?, cursor.u8()?, cursor.u16_le()?);
        let entry = Self { index, suffix: cursor.take(name.into())?, value: cursor.take(value.into())? };
        let padding = (cursor.position() - start).wrapping_neg() % 4;
        cursor.take(padding.min(cursor.rest().len()));
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two entries of erofs.md 16.7, and the zero words that reserved room is filled with.
    #[test]
    fn entries_are_padded() {
        let bytes = *b"\x10\x04\x04\0overlay.redirect/r/1\x03\x01\x04\0oddodd1\0\0\0\0\0";
        let mut cursor = Cursor::new(&bytes);
        let mut seen = Vec::new();
        while !cursor.is_empty() {
            let entry = Entry::take(&mut cursor).unwrap();
            seen.push((entry.index, entry.suffix.to_vec(), entry.value.to_vec()));
        }
        assert_eq!(seen[0], (4, b"overlay.redirect".to_vec(), b"/r/1".to_vec()));
        assert_eq!(seen[1], (1, b"odd".to_vec(), b"odd1".to_vec()));
        assert_eq!(seen[2], (0, Vec::new(), Vec::new()));
        assert_eq!(Entry::len(&bytes), Some(24));
        for len in 1..24 {
            assert!(Entry::take(&mut Cursor::new(&bytes[..len])).is_none(), "{len}");
        }
    }
}
