//! A cursor over untrusted bytes that cannot read past their end.

/// Reads integers and slices from the front of a byte slice.
///
/// Every method returns `None` at the end of the input and then leaves the position unchanged,
/// so a caller turns a short read into its own error with `ok_or`. No method can panic.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes consumed so far.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet consumed.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// The next byte, without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.rest().get(..n)?;
        self.at += n;
        Some(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[b]| b)
    }

    /// A little-endian 16-bit integer.
    pub fn u16_le(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A little-endian 64-bit integer.
    pub fn u64_le(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian 32-bit integer.
    pub fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A big-endian 16-bit integer.
    pub fn u16_be(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// A big-endian 32-bit integer.
    pub fn u32_be(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A big-endian 64-bit integer.
    pub fn u64_be(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// The `len` bytes from `from` on, if there are so many.
pub fn part(bytes: &[u8], from: usize, len: usize) -> Option<&[u8]> {
    bytes.get(from..)?.get(..len)
}

/// Makes `buffer` exactly `len` bytes long without touching bytes it already holds.
///
/// A buffer that is reused for one object after another is zero-filled only when it grows, so
/// the common case costs nothing. The content is unspecified: the caller overwrites it.
pub fn fit(buffer: &mut alloc::vec::Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        // Growing by reallocation would copy old bytes that nobody wants.
        if buffer.capacity() < len {
            *buffer = alloc::vec![0; len];
        } else {
            buffer.resize(len, 0);
        }
    }
    buffer.get_mut(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_reads_consume_nothing() {
        let mut c = Cursor::new(&[1, 2, 3]);
        assert_eq!(c.u32_le(), None);
        assert_eq!(c.position(), 0);
        assert_eq!(c.u16_be(), Some(0x0102));
        assert_eq!(c.take(2), None);
        assert_eq!(c.u8(), Some(3));
        assert!(c.is_empty() && c.peek().is_none());
        assert_eq!(c.take(usize::MAX), None);
    }

    #[test]
    fn parts_are_there_or_not() {
        assert_eq!(part(b"abcd", 1, 2), Some(b"bc".as_slice()));
        assert_eq!(part(b"abcd", 4, 0), Some(b"".as_slice()));
        for (from, len) in [(3, 2), (5, 0), (0, 5), (1, usize::MAX), (usize::MAX, 1)] {
            assert_eq!(part(b"abcd", from, len), None);
        }
    }

    #[test]
    fn fit_keeps_a_larger_buffer() {
        let mut b = alloc::vec![7u8; 10];
        assert_eq!(fit(&mut b, 4).len(), 4);
        assert_eq!(b.len(), 10);
        assert_eq!(fit(&mut b, 20).len(), 20);
    }
}
