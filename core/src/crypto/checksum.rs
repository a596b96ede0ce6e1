//! Checksums against accidents: CRC-32, CRC-32C and XXH64. Anyone can make bytes that have a given one.

use core::hash::Hasher;
use twox_hash::XxHash64;

/// CRC-32 as zlib and Ethernet have it (reflected polynomial 0xEDB88320), piece by piece.
#[derive(Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `data`.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The checksum of everything appended so far; more may follow.
    pub fn finish(&self) -> u32 {
        self.0.clone().finalize()
    }
}

impl core::fmt::Debug for Crc32 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Crc32({:08x})", self.finish())
    }
}

/// CRC-32 of `data`.
pub fn crc32(data: &[u8]) -> u32 {
    crc32fast::hash(data)
}

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of `data`, inverted at its start and its end.
pub fn crc32c(data: &[u8]) -> u32 {
    const CASTAGNOLI: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
    CASTAGNOLI.checksum(data)
}

/// XXH64 with seed 0, piece by piece.
#[derive(Clone, Debug)]
pub struct Xxh64(XxHash64);

impl Default for Xxh64 {
    fn default() -> Self {
        Self::new()
    }
}

impl Xxh64 {
    /// One that has seen nothing.
    pub const fn new() -> Self {
        Self(XxHash64::with_seed(0))
    }

    /// Appends `data`.
    pub fn update(&mut self, data: &[u8]) {
        self.0.write(data);
    }

    /// The checksum of everything appended so far; more may follow.
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        // The check values of the CRC catalogue and of the xxHash test suite.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        let mut crc = Crc32::new();
        b"123456789".chunks(4).for_each(|piece| crc.update(piece));
        assert_eq!(crc.finish(), 0xcbf4_3926);
        let mut hash = Xxh64::new();
        assert_eq!(hash.finish(), 0xef46_db37_51d8_e999);
        b"abc".iter().for_each(|byte| hash.update(&[*byte]));
        assert_eq!(hash.finish(), 0x44bc_2cf5_ad77_0999);
    }
}
