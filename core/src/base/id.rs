//! Identifiers: 32-byte values printed as lowercase hex.

use alloc::string::String;
use core::{cmp::Ordering, fmt};

/// A 32-byte identifier of a chunk, an archive, a pack or a repository.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(pub [u8; 32]);

impl Id {
    /// Parses exactly 64 hex digits, either case.
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        let text: &[u8; 64] = text.try_into().ok()?;
        let mut id = [0u8; 32];
        for (byte, pair) in id.iter_mut().zip(text.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| (digit as char).to_digit(16));
            *byte = u8::try_from(high? << 4 | low?).ok()?;
        }
        Some(Self(id))
    }

    /// At most 32 bytes, followed by zeros.
    pub fn padded(bytes: &[u8]) -> Self {
        let mut id = [0; 32];
        id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self(id)
    }

    /// The identifier as 64 lowercase hex digits.
    pub fn to_hex(self) -> String {
        alloc::format!("{self}")
    }

    /// True if the hex form starts with `prefix` (either case).
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.to_hex().starts_with(&prefix.to_ascii_lowercase())
    }
}

impl Id {
    /// The first eight bytes as a number that orders like the id. Ids are hashes, so it is
    /// spread evenly over all numbers.
    pub const fn prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// The order of the bytes. Two ids mostly differ in the first eight, which are compared at once:
/// sorting and searching an index is little else.
impl Ord for Id {
    fn cmp(&self, other: &Self) -> Ordering {
        self.prefix().cmp(&other.prefix()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<[u8; 32]> for Id {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_bytes() {
        let id = |at: usize, byte: u8| {
            let mut id = [7; 32];
            id[at] = byte;
            Id(id)
        };
        for at in 0..32 {
            assert!(id(at, 6) < id(at, 7) && id(at, 200) > id(at, 7));
            assert_eq!(id(at, 6).cmp(&id(at, 8)), id(at, 6).0.cmp(&id(at, 8).0));
        }
    }

    #[test]
    fn hex_round_trip() {
        let id = Id(core::array::from_fn(|i| (i * 7) as u8));
        assert_eq!(Id::from_hex(id.to_hex().as_bytes()), Some(id));
        assert_eq!(Id::from_hex(id.to_hex().to_uppercase().as_bytes()), Some(id));
        assert_eq!(Id::from_hex(b"00"), None);
        assert_eq!(Id::from_hex(&[b'g'; 64]), None);
        assert_eq!(Id::from_hex(&[b'+'; 64]), None);
    }
}
