//! Inodes: what one is, and where its metadata ends (erofs.md 4).

use super::superblock::Superblock;
use crate::base::{Check, Result, bytes::Cursor, limits};
use crate::objects::Time;

/// Most bytes that an inode takes, without its attributes.
pub const LEN_MAX: usize = 64;

/// Where metadata lies: everything beside an inode is in the inode's own space (erofs.md 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// In the image.
    Image,
    /// In the content of the metabox.
    Metabox,
}

/// A place in a space, bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The space.
    pub space: Space,
    /// The byte.
    pub offset: u64,
}

impl Spot {
    /// The place `bytes` further on.
    pub const fn plus(self, bytes: u64) -> Self {
        Self { space: self.space, offset: self.offset.saturating_add(bytes) }
    }

    /// The next place at a multiple of `step`, a power of two.
    pub const fn aligned(self, step: u64) -> Self {
        Self { space: self.space, offset: self.offset.saturating_add(step - 1) & !(step - 1) }
    }
}

/// How an inode's content is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One run of blocks.
    Plain,
    /// Compressed, with indexes of 8 bytes or extent records.
    Full,
    /// One run of blocks, and the rest beside the inode.
    Inline,
    /// Compressed, with packed indexes.
    Compact,
    /// Chunks of equal length, anywhere.
    Chunks,
}

/// The type of object, from its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Type {
    Fifo,
    CharDevice,
    Directory,
    BlockDevice,
    File,
    Symlink,
    Socket,
}

/// One inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number, which says where it is.
    pub nid: u64,
    /// What it is.
    pub kind: Type,
    /// Permission bits, 0 to 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names it has, as it says itself.
    pub links: u32,
    /// Bytes of content.
    pub size: u64,
    /// Modification time.
    pub mtime: Time,
    /// How its content is laid out.
    pub layout: Layout,
    /// The field whose meaning depends on layout and type: a block, a device number, a chunk format.
    pub word: u32,
    /// The high part of a block number.
    pub word_high: u16,
    /// Bits that a block number has: 32 or 48.
    pub address_bits: u32,
    /// True if a directory has no entry for itself.
    pub omits_dot: bool,
    /// Where its attributes start.
    pub xattrs: Spot,
    /// Bytes of them.
    pub xattrs_len: u64,
}

impl Inode {
    /// Where the metadata of the inode ends: the anchor of everything that is stored beside it.
    pub const fn end(&self) -> Spot {
        self.xattrs.plus(self.xattrs_len)
    }

    /// The number of the block where flat content starts; `None` if all of it is a hole.
    pub const fn start_block(&self) -> Option<u64> {
        let block = self.word as u64 | (self.word_high as u64) << 32;
        let mask = (1 << self.address_bits) - 1;
        if block & mask == mask { None } else { Some(block & mask) }
    }

    /// The raw device number of a device (erofs.md 7.2): eight low bits of the minor number, twelve of the
    /// major one, the rest of the minor one, which is Linux's own encoding.
    pub const fn device(&self) -> u64 {
        self.word as u64
    }

    /// Parses the inode at `at` from `bytes`, which start there and are 64 bytes long where the space is.
    ///
    /// # Errors
    /// `Inode` damage, `OverLimit` for sizes.
    pub fn parse(superblock: &Superblock, nid: u64, at: Spot, bytes: &[u8]) -> Result<Self> {
        let inode =
            if bytes.first().is_some_and(|low| low & 1 == 1) { extended(bytes) } else { compact(superblock, bytes) };
        let raw = inode.ok_or(Check::Truncated)?;
        if raw.format >> 5 != 0 {
            return Err(Check::Inode("unknown bits in its format").into());
        }
        let layout = match raw.format >> 1 & 7 {
            0 => Layout::Plain,
            1 => Layout::Full,
            2 => Layout::Inline,
            3 => Layout::Compact,
            4 => Layout::Chunks,
            _ => return Err(Check::Inode("unknown layout").into()),
        };
        let kind = match raw.mode >> 12 {
            1 => Type::Fifo,
            2 => Type::CharDevice,
            4 => Type::Directory,
            6 => Type::BlockDevice,
            8 => Type::File,
            10 => Type::Symlink,
            12 => Type::Socket,
            _ => return Err(Check::Inode("unknown type").into()),
        };
        let (size, cap) = match kind {
            Type::File => (raw.size, limits::FILE_MAX),
            Type::Directory => (raw.size, limits::DIRECTORY_MAX),
            Type::Symlink => (raw.size, limits::TARGET_MAX),
            _ => (0, 0),
        };
        limits::within("size of the inode's content", size, cap)?;
        if raw.mtime.nanos >= 1_000_000_000 {
            return Err(Check::Inode("nanoseconds are out of range").into());
        }
        let xattrs_len = match raw.xattr_count {
            0 => 0,
            1 => return Err(Check::Inode("attributes of a reserved length").into()),
            count => 12 + 4 * (u64::from(count) - 1),
        };
        let flag = raw.format >> 4 & 1 == 1;
        let is_directory = kind == Type::Directory;
        // In a compact inode the flag says that the field for links is free for a block's high part.
        let (links, word_high, address_bits) = match (raw.extended, flag && !is_directory) {
            (true, _) => (raw.links, raw.shared, 48),
            (false, true) => (1, raw.shared, 48),
            (false, false) => (raw.shared.into(), 0, 32),
        };
        Ok(Self {
            nid,
            kind,
            mode: u32::from(raw.mode) & 0o7777,
            uid: raw.uid,
            gid: raw.gid,
            links,
            size,
            mtime: raw.mtime,
            layout,
            word: raw.word,
            word_high,
            address_bits,
            omits_dot: flag && is_directory,
            xattrs: at.plus(if raw.extended { 64 } else { 32 }),
            xattrs_len,
        })
    }
}

/// The fields of both forms.
struct Raw {
    extended: bool,
    format: u16,
    xattr_count: u16,
    mode: u16,
    /// Links, or the high part of a block number.
    shared: u16,
    size: u64,
    mtime: Time,
    word: u32,
    uid: u32,
    gid: u32,
    links: u32,
}

fn compact(superblock: &Superblock, bytes: &[u8]) -> Option<Raw> {
    let mut cursor = Cursor::new(bytes.get(..32)?);
    let (format, xattr_count, mode, shared) = (cursor.u16_le()?, cursor.u16_le()?, cursor.u16_le()?, cursor.u16_le()?);
    let (size, since) = (cursor.u32_le()?, cursor.u32_le()?);
    let (word, _serial) = (cursor.u32_le()?, cursor.u32_le()?);
    let (uid, gid) = (cursor.u16_le()?, cursor.u16_le()?);
    Some(Raw {
        extended: false,
        format,
        xattr_count,
        mode,
        shared,
        size: size.into(),
        mtime: Time { seconds: superblock.epoch.saturating_add(since.into()), nanos: superblock.fixed_nanos },
        word,
        uid: uid.into(),
        gid: gid.into(),
        links: 0,
    })
}

fn extended(bytes: &[u8]) -> Option<Raw> {
    let mut cursor = Cursor::new(bytes.get(..64)?);
    let (format, xattr_count, mode, shared) = (cursor.u16_le()?, cursor.u16_le()?, cursor.u16_le()?, cursor.u16_le()?);
    let size = cursor.u64_le()?;
    let (word, _serial) = (cursor.u32_le()?, cursor.u32_le()?);
    let (uid, gid) = (cursor.u32_le()?, cursor.u32_le()?);
    let (seconds, nanos, links) = (cursor.u64_le()? as i64, cursor.u32_le()?, cursor.u32_le()?);
    let mtime = Time { seconds, nanos };
    Some(Raw { extended: true, format, xattr_count, mode, shared, size, mtime, word, uid, gid, links })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    fn superblock() -> Superblock {
        let mut bytes = alloc::vec![0; 128];
        bytes[..4].copy_from_slice(&super::super::superblock::MAGIC.to_le_bytes());
        bytes[12] = 12;
        bytes[24..32].copy_from_slice(&1_700_000_000u64.to_le_bytes());
        Superblock::parse(&bytes).unwrap()
    }

    fn parse(bytes: &[u8]) -> Result<Inode> {
        Inode::parse(&superblock(), 43, Spot { space: Space::Image, offset: 1376 }, bytes)
    }

    /// `tiny` of erofs.md 16.1.
    fn tiny() -> alloc::vec::Vec<u8> {
        let mut bytes = alloc::vec![4, 0, 0, 0, 0xa4, 0x81, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        bytes.resize(32, 0);
        bytes
    }

    #[test]
    fn the_worked_example() {
        let inode = parse(&tiny()).unwrap();
        assert_eq!((inode.kind, inode.mode, inode.size, inode.layout), (Type::File, 0o644, 6, Layout::Inline));
        assert_eq!((inode.end().offset, inode.mtime.seconds, inode.links), (1408, 1_700_000_000, 1));
        assert_eq!(inode.start_block(), None);
    }

    #[test]
    fn bad_inodes_are_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = tiny();
            bytes[at] = value;
            parse(&bytes)
        };
        for (at, value) in [(0, 0x24), (0, 10), (1, 1), (5, 0), (5, 0xf0), (2, 1)] {
            let error = with(at, value).unwrap_err();
            assert!(matches!(error.kind(), Kind::Corrupt(Check::Inode(_))), "{at} {value}");
        }
        assert!(parse(&[0; 64]).is_err(), "a slot of zeros");
        assert!(parse(&tiny()[..31]).is_err());
        // An extended one of more bytes than any file has, and a link of 2^64 - 1.
        for mode in [0x81, 0xa1, 0x41] {
            let mut bytes = alloc::vec![1, 0, 0, 0, 0xa4, mode, 0, 0];
            bytes.extend([0xff; 8]);
            bytes.resize(64, 0);
            assert!(matches!(parse(&bytes).unwrap_err().kind(), Kind::OverLimit { .. }), "{mode:x}");
        }
    }
}
