//! Tables that hang off the superblock: algorithms, devices, long attribute prefixes (erofs.md 3).

use crate::base::{Check, Result, Unsupported, bytes::Cursor, limits};
use crate::objects::Method;
use alloc::{format, string::String, vec::Vec};

/// Length of a device's slot, bytes.
pub const DEVICE_LEN: u64 = 128;

/// The algorithms that pclusters of an image may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// One bit each, by the algorithm's number.
    available: u16,
    /// What the records say, one text each.
    pub texts: Vec<String>,
}

/// The method that an algorithm's number stands for (erofs.md 3.1).
pub const fn method(number: u8) -> Option<Method> {
    Some(match number {
        0 => Method::Lz4,
        1 => Method::MicroLzma,
        2 => Method::Deflate,
        3 => Method::Zstd,
        _ => return None,
    })
}

/// An algorithm's usual name.
pub const fn name(number: u8) -> &'static str {
    match number {
        0 => "lz4",
        1 => "lzma",
        2 => "deflate",
        3 => "zstd",
        _ => "unknown",
    }
}

impl Algorithms {
    /// Those of an image without records: LZ4, if it is compressed at all.
    pub const fn implied(compressed: bool) -> Self {
        Self { available: compressed as u16, texts: Vec::new() }
    }

    /// Reads the records of the algorithms in `available` from `bytes`, which start at `offset` in the
    /// image, right after the superblock.
    ///
    /// # Errors
    /// `Unsupported` naming unknown algorithms, `OverLimit` for a dictionary beyond the format's bound,
    /// `Superblock` damage.
    pub fn parse(available: u16, bytes: &[u8], offset: u64) -> Result<Self> {
        if available >> 4 != 0 {
            let what = format!("the compression algorithms with bits {:#x}", available >> 4 << 4);
            return Err(Unsupported::ImageFeature(what).into());
        }
        let mut cursor = Cursor::new(bytes);
        let mut texts = Vec::new();
        for number in (0..4).filter(|number| available >> number & 1 == 1) {
            let padding = (offset + cursor.position() as u64).wrapping_neg() % 4;
            let record = (|| {
                cursor.take(padding as usize)?;
                let len = cursor.u16_le()?;
                cursor.take(len.into())
            })();
            texts.push(describe(number, Cursor::new(record.ok_or(Check::Truncated)?))?);
        }
        Ok(Self { available, texts })
    }

    /// True if pclusters may have the algorithm of this number.
    pub const fn has(&self, number: u8) -> bool {
        number < 16 && self.available >> number & 1 == 1
    }

    /// The names of all, separated by spaces.
    pub fn names(&self) -> String {
        let names: Vec<&str> = (0..4).filter(|number| self.has(*number)).map(name).collect();
        names.join(" ")
    }
}

/// One record as a text, once its values are within the format's bounds.
fn describe(number: u8, mut record: Cursor<'_>) -> Result<String> {
    let short = Check::Superblock("the record of an algorithm is too short");
    Ok(match number {
        0 => {
            let (distance, blocks) = (record.u16_le().ok_or(short)?, record.u16_le().ok_or(short)?);
            format!("lz4 distance {distance}, up to {} blocks", blocks.max(1))
        }
        1 => {
            let (dictionary, format) = (record.u32_le().ok_or(short)?, record.u16_le().ok_or(short)?);
            limits::within("LZMA dictionary size", dictionary.into(), limits::DICTIONARY_MAX.into())?;
            if format != 0 {
                return Err(Unsupported::ImageFeature(format!("LZMA format {format}")).into());
            }
            format!("lzma dictionary {dictionary}")
        }
        // Streams of one writer use more than it states, so the number is shown and not used (erofs.md 3.1).
        2 => format!("deflate window bits {}", record.u8().ok_or(short)?),
        _ => {
            let (format, window) = (record.u8().ok_or(short)?, record.u8().ok_or(short)?);
            if format != 0 {
                return Err(Unsupported::ImageFeature(format!("zstd format {format}")).into());
            }
            limits::within("zstd window size, as its logarithm less 10,", window.into(), 10)?;
            format!("zstd window {}", 1u32 << (10 + window))
        }
    })
}

/// A further device, which holds data blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its tag, raw bytes without the zeros at its end.
    pub tag: Vec<u8>,
    /// Its length in blocks.
    pub blocks: u64,
    /// First block it has in the common address space; 0 for none.
    pub first: u64,
}

impl Device {
    /// Reads a slot of [`DEVICE_LEN`] bytes; `wide` for images with 48-bit addresses.
    pub fn parse(slot: &[u8], wide: bool) -> Option<Self> {
        let mut cursor = Cursor::new(slot);
        let tag = cursor.take(64)?;
        let (blocks, first) = (cursor.u32_le()?, cursor.u32_le()?);
        let (blocks_high, first_high) = (cursor.u16_le()?, cursor.u16_le()?);
        let high = |value: u16| if wide { u64::from(value) << 32 } else { 0 };
        Some(Self {
            tag: tag.split(|byte| *byte == 0).next().unwrap_or(tag).to_vec(),
            blocks: u64::from(blocks) | high(blocks_high),
            first: u64::from(first) | high(first_high),
        })
    }
}

/// A long prefix of attribute names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The short prefix it begins with.
    pub base: u8,
    /// What follows that.
    pub infix: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    #[test]
    fn records_come_in_order_and_aligned() {
        // LZ4 (14 bytes), zstd (6 bytes) with a record that is longer than needed.
        let mut bytes = alloc::vec![14, 0, 0xff, 0xff, 4, 0];
        bytes.resize(16, 0);
        bytes.extend([6, 0, 0, 7, 0, 0, 0, 0]);
        let algorithms = Algorithms::parse(0b1001, &bytes, 1152).unwrap();
        assert_eq!(algorithms.texts, ["lz4 distance 65535, up to 4 blocks", "zstd window 131072"]);
        assert_eq!(algorithms.names(), "lz4 zstd");
        assert!(algorithms.has(0) && !algorithms.has(1) && algorithms.has(3) && !algorithms.has(200));
        // 16 bytes of the first record end on a border; with one byte less there is padding.
        let mut odd = alloc::vec![13, 0, 0xff, 0xff, 4, 0];
        odd.resize(16, 0);
        odd.extend([6, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(Algorithms::parse(0b1001, &odd, 1152).unwrap().texts, algorithms.texts);
        for len in 0..bytes.len() {
            assert!(Algorithms::parse(0b1001, &bytes[..len], 1152).is_err(), "{len}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let dictionary = |size: u32| {
            let mut bytes = alloc::vec![14, 0];
            bytes.extend(size.to_le_bytes());
            bytes.resize(16, 0);
            Algorithms::parse(0b10, &bytes, 1152)
        };
        assert!(dictionary(8 << 20).is_ok());
        assert!(matches!(
            dictionary(1 << 30).unwrap_err().kind(),
            Kind::OverLimit { what: "LZMA dictionary size", .. }
        ));
        assert!(Algorithms::parse(0x10, &[], 1152).is_err());
        assert!(Algorithms::parse(0b1000, &[6, 0, 0, 11, 0, 0, 0, 0], 1152).is_err());
        assert!(Algorithms::parse(0b1000, &[1, 0, 0], 1152).is_err());
    }

    #[test]
    fn high_parts_count_only_in_wide_images() {
        let mut slot = alloc::vec![0; 128];
        slot[0] = b'x';
        slot[64] = 7;
        slot[68] = 9;
        slot[72] = 1;
        slot[74] = 2;
        let narrow = Device::parse(&slot, false).unwrap();
        assert_eq!((narrow.tag.as_slice(), narrow.blocks, narrow.first), (b"x".as_slice(), 7, 9));
        let wide = Device::parse(&slot, true).unwrap();
        assert_eq!((wide.blocks, wide.first), (7 | 1 << 32, 9 | 2 << 32));
        assert_eq!(Device::parse(&slot[..64], true), None);
    }
}
