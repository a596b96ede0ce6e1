//! A lenient MessagePack reader over borrowed bytes.
//!
//! Lenient in one respect only: strings are byte strings. Borg stores undecodable file names
//! verbatim in the `str` family, and Borg 1.x stores ids in the old raw family, so `str` and
//! `bin` are both read by [`Reader::bytes`]. Everything else is strict: lengths are checked
//! against the bytes at hand, nesting against [`DEPTH_MAX`](crate::base::limits::DEPTH_MAX).

use crate::base::{Cursor, limits};

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The input ends inside the value; more bytes may complete it.
    Short,
    /// The value is of another type, too deeply nested, or not MessagePack at all.
    Malformed,
}

/// Result of reading one value.
pub type Read<T> = Result<T, Flaw>;

/// A time as written in extension type -1: seconds and nanoseconds (0 to 999,999,999).
pub type Timestamp = (i64, u32);

/// Reads values from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(Cursor<'a>);

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(Cursor::new(bytes))
    }

    /// Bytes consumed so far.
    pub const fn position(&self) -> usize {
        self.0.position()
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> Read<u8> {
        self.0.u8().ok_or(Flaw::Short)
    }

    fn take(&mut self, n: usize) -> Read<&'a [u8]> {
        self.0.take(n).ok_or(Flaw::Short)
    }

    /// A big-endian unsigned integer of `width` bytes (1, 2, 4 or 8).
    fn big(&mut self, width: usize) -> Read<u64> {
        Ok(self.take(width)?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// A length field of `width` bytes.
    fn len(&mut self, width: usize) -> Read<usize> {
        usize::try_from(self.big(width)?).map_err(|_| Flaw::Malformed)
    }

    /// The number of pairs of a map; the pairs follow.
    pub fn map(&mut self) -> Read<usize> {
        match self.byte()? {
            marker @ 0x80..=0x8f => Ok(usize::from(marker & 0x0f)),
            0xde => self.len(2),
            0xdf => self.len(4),
            _ => Err(Flaw::Malformed),
        }
    }

    /// The number of elements of an array; the elements follow.
    pub fn array(&mut self) -> Read<usize> {
        match self.byte()? {
            marker @ 0x90..=0x9f => Ok(usize::from(marker & 0x0f)),
            0xdc => self.len(2),
            0xdd => self.len(4),
            _ => Err(Flaw::Malformed),
        }
    }

    /// The bytes of a `str` or `bin`.
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let len = match self.byte()? {
            marker @ 0xa0..=0xbf => usize::from(marker & 0x1f),
            0xc4 | 0xd9 => self.len(1)?,
            0xc5 | 0xda => self.len(2)?,
            0xc6 | 0xdb => self.len(4)?,
            _ => return Err(Flaw::Malformed),
        };
        self.take(len)
    }

    /// A `str` or `bin` of exactly 32 bytes.
    pub fn id(&mut self) -> Read<crate::base::Id> {
        let bytes: [u8; 32] = self.bytes()?.try_into().map_err(|_| Flaw::Malformed)?;
        Ok(bytes.into())
    }

    /// An array of 32-byte ids.
    pub fn ids(&mut self) -> Read<alloc::vec::Vec<crate::base::Id>> {
        let count = self.array()?;
        let mut ids = alloc::vec::Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            ids.push(self.id()?);
        }
        Ok(ids)
    }

    /// An integer of any width, as a 128-bit value so that no width is lost.
    fn wide(&mut self) -> Read<i128> {
        let marker = self.byte()?;
        Ok(match marker {
            0x00..=0x7f => i128::from(marker),
            0xe0..=0xff => i128::from(marker as i8),
            0xcc => self.big(1)?.into(),
            0xcd => self.big(2)?.into(),
            0xce => self.big(4)?.into(),
            0xcf => self.big(8)?.into(),
            0xd0 => i128::from(self.big(1)? as i8),
            0xd1 => i128::from(self.big(2)? as i16),
            0xd2 => i128::from(self.big(4)? as i32),
            0xd3 => i128::from(self.big(8)? as i64),
            _ => return Err(Flaw::Malformed),
        })
    }

    /// An integer within the range of `T`.
    pub fn int<T: TryFrom<i128>>(&mut self) -> Read<T> {
        T::try_from(self.wide()?).map_err(|_| Flaw::Malformed)
    }

    /// An integer of any size: one within 64 bits, or a byte string that holds it in little-endian two's
    /// complement (borg1.md 12.2). What 128 bits cannot hold becomes their smallest or largest value.
    pub fn big_int(&mut self) -> Read<i128> {
        let marker = self.0.peek().ok_or(Flaw::Short)?;
        if !matches!(marker, 0xa0..=0xbf | 0xc4..=0xc6 | 0xd9..=0xdb) {
            return self.wide();
        }
        let bytes = self.bytes()?;
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
        let mut low = [fill; 16];
        low.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let value = i128::from_le_bytes(low);
        let beyond = bytes.get(16..).unwrap_or(&[]).iter().any(|byte| *byte != fill) || (value < 0) != (fill != 0);
        Ok(match (beyond, fill) {
            (false, _) => value,
            (true, 0) => i128::MAX,
            (true, _) => i128::MIN,
        })
    }

    /// A boolean.
    pub fn bool(&mut self) -> Read<bool> {
        match self.byte()? {
            0xc2 => Ok(false),
            0xc3 => Ok(true),
            _ => Err(Flaw::Malformed),
        }
    }

    /// Consumes a nil if one is next.
    pub fn nil(&mut self) -> bool {
        let next = self.0.peek() == Some(0xc0);
        if next {
            self.0.u8();
        }
        next
    }

    /// A timestamp in extension type -1, any of its three forms.
    pub fn timestamp(&mut self) -> Read<Timestamp> {
        let (seconds, nanos) = match (self.byte()?, self.0.peek()) {
            (0xd6, Some(0xff)) => {
                self.byte()?;
                (self.big(4)? as i64, 0)
            }
            (0xd7, Some(0xff)) => {
                self.byte()?;
                let packed = self.big(8)?;
                ((packed & 0x3_ffff_ffff) as i64, packed >> 34)
            }
            (0xc7, Some(12)) => {
                self.byte()?;
                if self.byte()? != 0xff {
                    return Err(Flaw::Malformed);
                }
                let nanos = self.big(4)?;
                (self.big(8)? as i64, nanos)
            }
            (0xd6 | 0xd7 | 0xc7, None) => return Err(Flaw::Short),
            _ => return Err(Flaw::Malformed),
        };
        match u32::try_from(nanos) {
            Ok(nanos) if nanos <= 999_999_999 => Ok((seconds, nanos)),
            _ => Err(Flaw::Malformed),
        }
    }

    /// Steps over one value of any type.
    pub fn skip(&mut self) -> Read<()> {
        self.skip_at(limits::DEPTH_MAX)
    }

    fn skip_at(&mut self, depth: u32) -> Read<()> {
        let depth = depth.checked_sub(1).ok_or(Flaw::Malformed)?;
        let (children, bytes) = match self.byte()? {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (0, 0),
            marker @ 0x80..=0x8f => (2 * usize::from(marker & 0x0f), 0),
            marker @ 0x90..=0x9f => (usize::from(marker & 0x0f), 0),
            marker @ 0xa0..=0xbf => (0, usize::from(marker & 0x1f)),
            0xc4 | 0xd9 => (0, self.len(1)?),
            0xc5 | 0xda => (0, self.len(2)?),
            0xc6 | 0xdb => (0, self.len(4)?),
            0xc7 => (0, self.len(1)?.saturating_add(1)),
            0xc8 => (0, self.len(2)?.saturating_add(1)),
            0xc9 => (0, self.len(4)?.saturating_add(1)),
            0xcc | 0xd0 => (0, 1),
            0xcd | 0xd1 => (0, 2),
            0xca | 0xce | 0xd2 => (0, 4),
            0xcb | 0xcf | 0xd3 => (0, 8),
            0xd4 => (0, 2),
            0xd5 => (0, 3),
            0xd6 => (0, 5),
            0xd7 => (0, 9),
            0xd8 => (0, 17),
            0xdc => (self.len(2)?, 0),
            0xdd => (self.len(4)?, 0),
            0xde => (self.len(2)?.saturating_mul(2), 0),
            0xdf => (self.len(4)?.saturating_mul(2), 0),
            0xc1 => return Err(Flaw::Malformed),
        };
        self.take(bytes)?;
        (0..children).try_for_each(|_| self.skip_at(depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn timestamps_of_the_format_note() {
        // borg2.md 19.5
        for (hex, expected) in [
            ("d6ff00000000", (0, 0)),
            ("d6ffffffffff", (4_294_967_295, 0)),
            ("d7ff0000000100000000", (4_294_967_296, 0)),
            ("d7ff0000000400000000", (0, 1)),
            ("d7ffee6b27fc6553f100", (1_700_000_000, 999_999_999)),
            ("d7ff0000000225beda04", (9_223_199_236, 0)),
            ("c70cff00000001ffffffffffffffff", (-1, 1)),
        ] {
            assert_eq!(Reader::new(&unhex(hex)).timestamp(), Ok(expected), "{hex}");
        }
        assert_eq!(Reader::new(&unhex("d7ffee6b28006553f100")).timestamp(), Err(Flaw::Malformed));
        assert_eq!(Reader::new(&unhex("d7ffee")).timestamp(), Err(Flaw::Short));
    }

    #[test]
    fn old_raw_ids_and_non_utf8_names() {
        let mut raw16 = alloc::vec![0xda, 0, 32];
        raw16.extend([9; 32]);
        assert_eq!(Reader::new(&raw16).id(), Ok([9; 32].into()));
        assert_eq!(Reader::new(&[0xa2, 0xff, 0xfe]).bytes(), Ok(&[0xff, 0xfe][..]));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut deep = alloc::vec![0x91; 1_000_000];
        deep.push(0);
        assert_eq!(Reader::new(&deep).skip(), Err(Flaw::Malformed));
        // A huge count ends at the end of the input, without a loop over nothing.
        assert_eq!(Reader::new(&[0xdd, 0xff, 0xff, 0xff, 0xff]).skip(), Err(Flaw::Short));
    }

    proptest! {
        #[test]
        fn integers_agree_with_rmp(value in any::<i64>()) {
            let mut encoded = Vec::new();
            rmp::encode::write_sint(&mut encoded, value).unwrap();
            let mut reader = Reader::new(&encoded);
            prop_assert_eq!(reader.int::<i64>(), Ok(value));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(Reader::new(&encoded).skip(), Ok(()));
            prop_assert_eq!(reader.int::<u8>(), Err(Flaw::Short));
        }

        #[test]
        fn strings_agree_with_rmp(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            let mut encoded = Vec::new();
            rmp::encode::write_bin(&mut encoded, &bytes).unwrap();
            prop_assert_eq!(Reader::new(&encoded).bytes(), Ok(&bytes[..]));
            for cut in 0..encoded.len() {
                prop_assert_eq!(Reader::new(&encoded[..cut]).bytes(), Err(Flaw::Short));
            }
        }

        #[test]
        fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() && reader.skip().is_ok() {}
            let _ = Reader::new(&bytes).timestamp();
        }
    }
}
