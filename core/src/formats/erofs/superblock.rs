//! The superblock: what the image is, and where everything else hangs off it (erofs.md 2).

use super::tables::Algorithms;
use crate::base::{Check, Error, Result, Unsupported, bytes::Cursor};
use crate::crypto::checksum::crc32c;
use alloc::{format, string::String, vec::Vec};

/// Where the superblock starts, bytes from the start of the image.
pub const OFFSET: u64 = 1024;
/// Its first part, which every image has, bytes.
pub const BASE_LEN: usize = 128;
/// Its first four bytes, as a number.
pub const MAGIC: u32 = 0xe0f5_e1e2;

/// Optional features, by bit (erofs.md 2.3).
const COMPAT: [(u32, &str); 6] = [
    (0x01, "sb_chksum"),
    (0x02, "mtime"),
    (0x04, "xattr_filter"),
    (0x08, "shared_ea_in_metabox"),
    (0x10, "plain_xattr_pfx"),
    (0x20, "ishare_xattrs"),
];
/// Features that a reader must know. Some bits have two names, as the format has given them twice.
const INCOMPAT: [(u32, &str); 9] = [
    (0x001, "lz4_0padding"),
    (0x002, "compr_cfgs/big_pcluster"),
    (0x004, "chunked_file"),
    (0x008, "device_table/compr_head2"),
    (0x010, "ztailpacking"),
    (0x020, "fragments/dedupe"),
    (0x040, "xattr_prefixes"),
    (0x080, "48bit"),
    (0x100, "metabox"),
];
/// Bit of a nid that lies in the metabox.
pub const IN_METABOX: u64 = 1 << 63;

/// What the superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Base 2 logarithm of the block size, 9 to 16.
    pub block_bits: u8,
    compat: u32,
    incompat: u32,
    /// Length of the superblock in bytes: 128 and 16 for each further slot.
    pub len: u32,
    /// Number of inodes, as the writer noted it.
    pub inodes: u64,
    /// Base of the times of compact inodes, seconds since 1970.
    pub epoch: i64,
    /// Nanoseconds of the times of compact inodes.
    pub fixed_nanos: u32,
    /// Blocks of the image itself.
    pub blocks: u64,
    /// Block at which inode 0 is based.
    pub meta_block: u32,
    /// Block from which shared attributes are counted.
    pub xattr_block: u32,
    /// The image's identifier.
    pub uuid: [u8; 16],
    /// The volume's name, without the zeros at its end.
    pub label: Vec<u8>,
    /// The root directory's nid.
    pub root: u64,
    /// The inode that holds the fragments of other files.
    pub packed: Option<u64>,
    /// The inode that holds other inodes.
    pub metabox: Option<u64>,
    /// When the image was made, seconds since 1970.
    pub created: i64,
    /// The field at offset 84: available algorithms, or LZ4's distance in old images.
    pub algorithms: u16,
    /// Number of further devices.
    pub devices: u16,
    /// Where the table of devices starts, bytes.
    pub devices_at: u64,
    /// Number of long attribute prefixes.
    pub prefixes: u8,
    /// Where the table of prefixes starts, bytes in its space.
    pub prefixes_at: u64,
    /// The long prefix that holds digests of files.
    pub digest_prefix: Option<u8>,
}

impl Superblock {
    /// Parses the superblock from `bytes`, which start at [`OFFSET`] and are at least [`BASE_LEN`] long
    /// where the image is.
    ///
    /// # Errors
    /// `Unsupported` naming the features that are unknown; `Superblock` damage.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut block = Self::fields(bytes).ok_or(Check::Truncated)??;
        let slots = block.len;
        if block.has(Self::METABOX) {
            let nid = bytes.get(128..136).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes);
            let Some(nid) = nid.filter(|_| slots >= 136) else {
                return Err(Check::Superblock("it is too short for a metabox").into());
            };
            block.metabox = Some(nid).filter(|nid| *nid != 0);
        }
        if block.packed.into_iter().chain(block.metabox).any(|nid| nid & IN_METABOX != 0) {
            return Err(Check::Superblock("the packed inode or the metabox would lie in the metabox").into());
        }
        if block.packed.is_some() && block.packed == block.metabox {
            return Err(Check::Superblock("the packed inode is the metabox").into());
        }
        Ok(block)
    }

    fn fields(bytes: &[u8]) -> Option<Result<Self>> {
        let mut cursor = Cursor::new(bytes);
        let magic = cursor.u32_le()?;
        if magic != MAGIC {
            return Some(Err(Check::Magic.into()));
        }
        let _checksum = cursor.u32_le()?;
        let compat = cursor.u32_le()?;
        let block_bits = cursor.u8()?;
        let slots = cursor.u8()?;
        let short_root = cursor.u16_le()?;
        let inodes = cursor.u64_le()?;
        let epoch = cursor.u64_le()? as i64;
        let fixed_nanos = cursor.u32_le()?;
        let blocks_low = cursor.u32_le()?;
        let meta_block = cursor.u32_le()?;
        let xattr_block = cursor.u32_le()?;
        let uuid = cursor.array()?;
        let label = cursor.take(16)?;
        let incompat = cursor.u32_le()?;
        let algorithms = cursor.u16_le()?;
        let devices = cursor.u16_le()?;
        let devices_at = u64::from(cursor.u16_le()?) * 128;
        let directory_bits = cursor.u8()?;
        let prefixes = cursor.u8()?;
        let prefixes_at = u64::from(cursor.u32_le()?) * 4;
        let packed = Some(cursor.u64_le()?).filter(|nid| *nid != 0);
        let _reserved = cursor.u8()?;
        let digest_prefix = cursor.u8()?;
        let _reserved = cursor.u16_le()?;
        let build_time = cursor.u32_le()?;
        let long_root = cursor.u64_le()?;
        let _reserved = cursor.u64_le()?;

        let known = INCOMPAT.iter().fold(0, |bits, (bit, _)| bits | bit);
        if incompat & !known != 0 {
            let what = format!("the features with bits {:#x}", incompat & !known);
            return Some(Err(Unsupported::ImageFeature(what).into()));
        }
        if !(9..=16).contains(&block_bits) {
            return Some(Err(Check::Superblock("the block size is not one from 512 bytes to 64 KiB").into()));
        }
        if directory_bits != 0 {
            let what = format!("directory blocks of another size ({directory_bits})");
            return Some(Err(Unsupported::ImageFeature(what).into()));
        }
        if fixed_nanos >= 1_000_000_000 {
            return Some(Err(Check::Superblock("nanoseconds are out of range").into()));
        }
        if meta_block >= 1 << 31 {
            return Some(Err(Check::Superblock("the metadata's start is out of range").into()));
        }
        let long = incompat & Self::BITS48 != 0 && long_root != 0;
        let name = label.split(|byte| *byte == 0).next().unwrap_or(label);
        Some(Ok(Self {
            block_bits,
            compat,
            incompat,
            len: BASE_LEN as u32 + 16 * u32::from(slots),
            inodes,
            epoch,
            fixed_nanos,
            blocks: u64::from(blocks_low) | if long { u64::from(short_root) << 32 } else { 0 },
            meta_block,
            xattr_block,
            uuid,
            label: name.to_vec(),
            root: if long { long_root } else { short_root.into() },
            packed,
            metabox: None,
            created: epoch.saturating_add(build_time.into()),
            algorithms,
            devices: if incompat & Self::DEVICES != 0 { devices } else { 0 },
            devices_at,
            prefixes: if incompat & Self::PREFIXES != 0 { prefixes } else { 0 },
            prefixes_at,
            digest_prefix: Some(digest_prefix).filter(|_| compat & Self::DIGESTS != 0),
        }))
    }

    const CHECKSUM: u32 = 0x01;
    const PLAIN_PREFIXES: u32 = 0x10;
    const SHARED_IN_METABOX: u32 = 0x08;
    const DIGESTS: u32 = 0x20;
    const ZERO_PADDING: u32 = 0x001;
    const RECORDS: u32 = 0x002;
    const DEVICES: u32 = 0x008;
    const PREFIXES: u32 = 0x040;
    const BITS48: u32 = 0x080;
    const METABOX: u32 = 0x100;

    const fn has(&self, incompat: u32) -> bool {
        self.incompat & incompat != 0
    }

    /// Block size in bytes.
    pub const fn block_size(&self) -> u64 {
        1 << self.block_bits
    }

    /// True if compressed data ends at the end of its pcluster, with zeros before it.
    pub const fn is_zero_padded(&self) -> bool {
        self.has(Self::ZERO_PADDING)
    }

    /// True if a record for each algorithm follows the superblock.
    pub const fn has_algorithm_records(&self) -> bool {
        self.has(Self::RECORDS)
    }

    /// True if block addresses can have 48 bits.
    pub const fn is_48bit(&self) -> bool {
        self.has(Self::BITS48)
    }

    /// True if the table of long attribute prefixes lies in the image itself, whatever else there is.
    pub const fn has_plain_prefixes(&self) -> bool {
        self.compat & Self::PLAIN_PREFIXES != 0
    }

    /// True if shared attributes lie in the metabox.
    pub const fn shares_in_metabox(&self) -> bool {
        self.compat & Self::SHARED_IN_METABOX != 0
    }

    /// How many bytes from [`OFFSET`] on the checksum covers; none where there is no checksum.
    pub const fn checksummed(&self) -> Option<u64> {
        if self.compat & Self::CHECKSUM == 0 {
            return None;
        }
        let size = self.block_size();
        Some(if size > OFFSET { size - OFFSET } else { size })
    }

    /// The features' names, separated by spaces; unknown optional ones by their bits.
    pub fn features(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for (bits, table) in [(self.compat, COMPAT.as_slice()), (self.incompat, INCOMPAT.as_slice())] {
            names.extend(table.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| String::from(*name)));
        }
        let unknown = self.compat & !COMPAT.iter().fold(0, |bits, (bit, _)| bits | bit);
        if unknown != 0 {
            names.push(format!("{unknown:#x}"));
        }
        names.join(" ")
    }

    /// Algorithms that an image without records can have.
    pub const fn implied_algorithms(&self) -> Algorithms {
        Algorithms::implied(self.is_zero_padded() || self.algorithms != 0)
    }
}

/// Checks the superblock's checksum over `bytes`, which start at [`OFFSET`] and have the length that
/// [`Superblock::checksummed`] says (erofs.md 2.2).
///
/// # Errors
/// [`Check::SuperblockChecksum`].
pub fn verify(bytes: &[u8]) -> Result<()> {
    let mut bytes = bytes.to_vec();
    let field = bytes.get_mut(4..8).ok_or(Check::Truncated)?;
    let stated = Cursor::new(field).u32_le();
    field.fill(0);
    // This format leaves out the final inversion that CRC-32C usually has.
    if stated == Some(!crc32c(&bytes)) {
        return Ok(());
    }
    Err(Error::from(Check::SuperblockChecksum).at(OFFSET))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    /// The superblock of erofs.md 16.1; what the note leaves out is zero.
    fn example() -> Vec<u8> {
        let mut bytes = alloc::vec![0; BASE_LEN];
        for (at, text) in [
            (0x00, "e2e1f5e019578e54030000000c002400"),
            (0x10, "030000000000000000f1536500000000"),
            (0x20, "000000000c0000000000000000000000"),
            (0x50, "01000000ffff00000000000000000000"),
        ] {
            for (n, pair) in text.as_bytes().chunks(2).enumerate() {
                bytes[at + n] = u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
            }
        }
        bytes
    }

    #[test]
    fn the_worked_example() {
        let block = Superblock::parse(&example()).unwrap();
        assert_eq!((block.block_size(), block.root, block.inodes, block.blocks), (4096, 0x24, 3, 12));
        assert_eq!((block.epoch, block.created), (1_700_000_000, 1_700_000_000));
        assert_eq!(block.features(), "sb_chksum mtime lz4_0padding");
        assert_eq!(block.checksummed(), Some(3072));
    }

    #[test]
    fn what_is_unknown_is_named() {
        let mut bytes = example();
        bytes[81] = 0x82;
        let error = Superblock::parse(&bytes).unwrap_err();
        assert_eq!(alloc::format!("{error}"), "the image needs the features with bits 0x8200, which is unknown here");
    }

    #[test]
    fn odd_geometry_is_refused() {
        for bits in [0, 8, 17, 31, 255] {
            let mut bytes = example();
            bytes[12] = bits;
            let error = Superblock::parse(&bytes).unwrap_err();
            assert!(matches!(error.kind(), Kind::Corrupt(Check::Superblock(_))), "{bits}");
        }
        let mut bytes = example();
        bytes[90] = 1;
        assert!(matches!(Superblock::parse(&bytes).unwrap_err().kind(), Kind::Unsupported(_)));
        for len in 0..BASE_LEN {
            assert!(Superblock::parse(&example()[..len]).is_err());
        }
    }

    #[test]
    fn a_metabox_needs_its_field() {
        let mut bytes = example();
        bytes[81] = 1;
        bytes.resize(136, 0);
        bytes[128] = 5;
        assert!(Superblock::parse(&bytes).is_err());
        bytes[13] = 1;
        assert_eq!(Superblock::parse(&bytes).unwrap().metabox, Some(5));
        bytes[135] = 0x80;
        assert!(Superblock::parse(&bytes).is_err());
    }
}
