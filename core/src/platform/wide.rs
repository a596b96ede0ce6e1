//! Hashing several messages at a time with the vector instructions of one machine.
//!
//! Which instructions there are only a shell can tell, and only a shell may use them. It hands in
//! functions that compress blocks; what is hashed, and under which key, stays with the core.

/// Bytes of a block of BLAKE2b.
pub const BLOCK: usize = 128;

/// Initialisation vector of BLAKE2b (RFC 7693, 2.6).
pub const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// Message schedule of BLAKE2b's twelve rounds (RFC 7693, 2.7).
pub const SIGMA: [[usize; 16]; 12] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
];

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
