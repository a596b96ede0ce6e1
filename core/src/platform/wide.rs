//! Hashing several messages at a time with the vector instructions of one machine.
//!
//! Which instructions there are only a shell can tell, and only a shell may use them. It hands in
//! functions that compress blocks; what is hashed, and under which key, stays with the core.

/// One message of BLAKE2b (RFC 7693), from some block on.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    /// Chaining value.
    pub words: [u64; 8],
    /// Bytes of the message before these blocks.
    pub count: u64,
    /// Whole blocks of 128 bytes.
    pub blocks: &'a [u8],
    /// Bytes of the message in each of the blocks: 128, or fewer in a last block, which is alone.
    pub step: u64,
    /// All ones if this is the message's last block; else 0.
    pub last: u64,
}

/// Messages of BLAKE2b that are worked on at a time.
pub const LANES: usize = 8;

/// Compresses the blocks of 1 to [`LANES`] lanes, which have the same number of them, into the lanes'
/// chaining values (RFC 7693, 3.2).
pub type Compress = fn(&mut [Lane<'_>]);

/// What a shell offers; nothing unless it says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wide {
    /// BLAKE2b.
    pub blake2b: Option<Compress>,
}
