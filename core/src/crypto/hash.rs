//! Unkeyed hashes: SHA-256 (FIPS 180-4) and BLAKE3 with 32 bytes of output.

use sha2::{Digest, Sha256};

/// SHA-256 of the concatenation of `parts`.
///
/// The parts may hold key material (keys are derived so); the state is wiped afterwards.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// BLAKE3 of `data`.
pub fn blake3(data: &[u8]) -> [u8; 32] {
    ::blake3::hash(data).into()
}

/// BLAKE3 of data that comes piece by piece, such as a pack that is not held in memory.
#[derive(Clone, Default)]
pub struct Blake3(::blake3::Hasher);

impl Blake3 {
    /// A hasher that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `data`. Pieces of at least 16 KiB let the widest vector code work.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The hash of everything appended so far; more may follow.
    pub fn finish(&self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl core::fmt::Debug for Blake3 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Blake3({} bytes)", self.0.count())
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;
    use alloc::vec;

    #[test]
    fn sha256_vectors() {
        // FIPS 180-4 examples: the empty message and "abc".
        assert_eq!(sha256(&[]).as_slice(), hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
        let abc = hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sha256(&[b"abc"]).as_slice(), abc);
        assert_eq!(sha256(&[b"a", b"", b"bc"]).as_slice(), abc);
    }

    #[test]
    fn blake3_vectors() {
        assert_eq!(blake3(b"").as_slice(), hex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"));
        assert_eq!(blake3(b"abc").as_slice(), hex("6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"));
    }

    #[test]
    fn a_stream_hashes_like_the_whole() {
        let data = vec![0x42; 100_000];
        for piece in [1, 1023, 1024, 65_536, 100_000] {
            let mut hasher = Blake3::new();
            data.chunks(piece).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.finish(), blake3(&data), "pieces of {piece} bytes");
        }
        assert_eq!(Blake3::new().finish(), blake3(b""));
    }
}
