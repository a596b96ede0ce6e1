//! AES-256-OCB (RFC 7253) with 96-bit nonces and 128-bit tags, many blocks at a time.
//!
//! OCB lets every block be worked on at once; the cipher underneath is fastest with dozens of
//! blocks in one call. So offsets for a batch are laid out first, then one call deciphers the
//! batch, then one pass takes the offsets off again and sums up the plaintext.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes256, Block};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Blocks per call of the cipher. A power of two, so that within each batch the offsets differ
/// from the first one by the same values, which are worked out once per key.
const BATCH: usize = 64;
/// Doublings of L that are kept: enough for texts of 2^32 blocks, far beyond any object.
const DOUBLINGS: usize = 32;

/// A key schedule with the values that depend on the key alone (RFC 7253, section 4.2).
///
/// Blocks are held as integers in memory order: only exclusive or is done with them.
pub struct Ocb {
    aes: Aes256,
    l_star: u128,
    l_dollar: u128,
    l: [u128; DOUBLINGS],
    /// `steps[i]`: the exclusive or of `L[ntz(1)]` to `L[ntz(i)]`.
    steps: [u128; BATCH],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    Seal,
}

impl Ocb {
    /// The cipher under `key`.
    pub fn new(key: &[u8; 32]) -> Self {
        let aes = Aes256::new(key.into());
        let l_star = encipher(&aes, 0);
        let l_dollar = double(l_star);
        let mut last = l_dollar;
        let l = core::array::from_fn(|_| {
            last = double(last);
            last
        });
        let mut sum = 0;
        let steps = core::array::from_fn(|i| {
            if i > 0 {
                sum ^= l_of(&l, i as u64);
            }
            sum
        });
        Self { aes, l_star, l_dollar, l, steps }
    }

    /// Decrypts `text` in place. True if `tag` is right; otherwise the text is garbage that must
    /// not be used.
    #[must_use]
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], tag: &[u8; 16], text: &mut [u8]) -> bool {
        self.crypt(Way::Open, nonce, aad, text).ct_eq(tag).into()
    }

    /// Encrypts `text` in place and returns the tag.
    pub fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        self.crypt(Way::Seal, nonce, aad, text)
    }

    /// OCB-ENCRYPT or OCB-DECRYPT (RFC 7253, sections 4.2 and 4.3) up to the tag.
    fn crypt(&self, way: Way, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        let mut offset = self.first_offset(nonce);
        let mut checksum = 0;
        let (blocks, tail) = text.as_chunks_mut::<16>();
        let mut done = 0;
        for batch in blocks.chunks_mut(BATCH) {
            offset = self.batch(way, batch, offset, done, &mut checksum);
            done += batch.len() as u64;
        }
        if !tail.is_empty() {
            offset ^= self.l_star;
            let pad = encipher(&self.aes, offset).to_ne_bytes();
            let mut padded = [0; 16];
            for ((byte, mask), plain) in tail.iter_mut().zip(pad).zip(&mut padded) {
                let crypted = *byte ^ mask;
                *plain = if way == Way::Open { crypted } else { *byte };
                *byte = crypted;
            }
            if let Some(end) = padded.get_mut(tail.len()) {
                *end = 0x80;
            }
            checksum ^= u128::from_ne_bytes(padded);
        }
        (encipher(&self.aes, checksum ^ offset ^ self.l_dollar) ^ self.hash(aad)).to_ne_bytes()
    }

    /// Up to [`BATCH`] blocks after `done` others; returns the offset of the last one.
    fn batch(&self, way: Way, blocks: &mut [[u8; 16]], base: u128, done: u64, checksum: &mut u128) -> u128 {
        let mut offsets = [0; BATCH];
        for (offset, step) in offsets.iter_mut().zip(self.steps.iter().skip(1)) {
            *offset = base ^ step;
        }
        let [.., before, last] = &mut offsets;
        *last = *before ^ l_of(&self.l, done + BATCH as u64);
        let mut work = [Block::default(); BATCH];
        for ((work, block), offset) in work.iter_mut().zip(blocks.iter()).zip(&offsets) {
            let block = u128::from_ne_bytes(*block);
            if way == Way::Seal {
                *checksum ^= block;
            }
            *work = (block ^ offset).to_ne_bytes().into();
        }
        let used = work.get_mut(..blocks.len()).unwrap_or_default();
        match way {
            Way::Open => self.aes.decrypt_blocks(used),
            Way::Seal => self.aes.encrypt_blocks(used),
        }
        for ((work, block), offset) in used.iter().zip(blocks.iter_mut()).zip(&offsets) {
            let crypted = u128::from_ne_bytes((*work).into()) ^ offset;
            if way == Way::Open {
                *checksum ^= crypted;
            }
            *block = crypted.to_ne_bytes();
        }
        offsets.get(blocks.len() - 1).copied().unwrap_or(base)
    }

    /// The offset before the first block, from the nonce.
    fn first_offset(&self, nonce: &[u8; 12]) -> u128 {
        let mut block = [0; 16];
        if let Some((front, back)) = block.split_last_chunk_mut::<12>() {
            *back = *nonce;
            if let Some(one) = front.last_mut() {
                *one = 1;
            }
        }
        let value = u128::from_be_bytes(block);
        let bottom = (value & 0x3f) as u32;
        let top = u128::from_ne_bytes((value & !0x3f).to_be_bytes());
        let top = u128::from_be_bytes(encipher(&self.aes, top).to_ne_bytes());
        // 192 bits: the block, then its first half mixed with itself one byte further.
        let more = (top >> 64) as u64 ^ (top >> 56) as u64;
        let stretched = if bottom == 0 { top } else { top << bottom | u128::from(more) >> (64 - bottom) };
        u128::from_ne_bytes(stretched.to_be_bytes())
    }

    /// HASH of the associated data (RFC 7253, section 4.1).
    fn hash(&self, aad: &[u8]) -> u128 {
        let (blocks, tail) = aad.as_chunks::<16>();
        let mut offset = 0;
        let mut sum = 0;
        for (n, block) in (1u64..).zip(blocks) {
            offset ^= l_of(&self.l, n);
            sum ^= encipher(&self.aes, u128::from_ne_bytes(*block) ^ offset);
        }
        if !tail.is_empty() {
            let mut padded = [0; 16];
            for (to, from) in padded.iter_mut().zip(tail.iter().chain(&[0x80])) {
                *to = *from;
            }
            sum ^= encipher(&self.aes, u128::from_ne_bytes(padded) ^ offset ^ self.l_star);
        }
        sum
    }
}

impl Drop for Ocb {
    fn drop(&mut self) {
        self.l_star.zeroize();
        self.l_dollar.zeroize();
        self.l.zeroize();
        self.steps.zeroize();
    }
}

fn encipher(aes: &Aes256, block: u128) -> u128 {
    let mut block: Block = block.to_ne_bytes().into();
    aes.encrypt_block(&mut block);
    u128::from_ne_bytes(block.into())
}

/// Doubling in the field of RFC 7253, section 2: a shift of the big-endian number, folded by 135.
fn double(block: u128) -> u128 {
    let value = u128::from_be_bytes(block.to_ne_bytes());
    // Without a branch: the value is secret.
    let folded = (value << 1) ^ ((value >> 127) * 0x87);
    u128::from_ne_bytes(folded.to_be_bytes())
}

/// `L[ntz(n)]`.
fn l_of(l: &[u128; DOUBLINGS], n: u64) -> u128 {
    l.get(n.trailing_zeros() as usize).copied().unwrap_or_default()
}
