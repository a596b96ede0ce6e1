//! BLAKE2b-256 (RFC 7693) of several messages at a time, by what the shell offers for that.
//!
//! A block of one message depends on the block before it, so one message cannot make use of wide
//! vectors; eight side by side can. The lanes are kept full: as soon as one message ends another takes its
//! place, the longest first.

use crate::platform::wide::{BLOCK, Compress, IV, LANES, Lane};
use alloc::vec::Vec;

/// The chaining value before the first block, with 32 bytes of output and no key (RFC 7693, 2.5).
const START: [u64; 8] = {
    let [first, b, c, d, e, f, g, h] = IV;
    [first ^ 0x0101_0020, b, c, d, e, f, g, h]
};

/// A message on its way through the lanes.
struct Job<'a> {
    number: usize,
    words: [u64; 8],
    count: u64,
    /// Whole blocks that are not the last.
    body: &'a [u8],
    /// The last block, and how many of its bytes are the message's.
    tail: [u8; BLOCK],
    tail_len: usize,
}

impl<'a> Job<'a> {
    fn new(number: usize, words: [u64; 8], count: u64, message: &'a [u8]) -> Self {
        let (body, rest) = message.split_at(message.len().saturating_sub(1) / BLOCK * BLOCK);
        let mut tail = [0; BLOCK];
        tail.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        Self { number, words, count, body, tail, tail_len: rest.len() }
    }

    /// Blocks until something else must be done with this message.
    fn ahead(&self) -> usize {
        (self.body.len() / BLOCK).max(1)
    }

    fn lane(&self, blocks: usize) -> Lane<'_> {
        let (blocks, step, last) = match self.body.get(..blocks * BLOCK) {
            Some(blocks) if !self.body.is_empty() => (blocks, BLOCK as u64, 0),
            _ => (&self.tail[..], self.tail_len as u64, u64::MAX),
        };
        Lane { words: self.words, count: self.count, blocks, step, last }
    }

    /// Goes on after so many blocks; true if that was all.
    fn advance(&mut self, words: [u64; 8], blocks: usize) -> bool {
        self.words = words;
        self.count += (blocks * BLOCK) as u64;
        let ended = self.body.is_empty();
        self.body = self.body.get(blocks * BLOCK..).unwrap_or(&[]);
        ended
    }
}

/// The hashes of `key` and each of `messages`. The key is whole blocks, and no message is empty.
pub fn hash_many(compress: Compress, key: &[u8], messages: &[&[u8]]) -> Vec<[u8; 32]> {
    let mut keyed = [Lane { words: START, count: 0, blocks: key, step: BLOCK as u64, last: 0 }];
    compress(&mut keyed);
    let [Lane { words, .. }] = keyed;
    let mut hashes = alloc::vec![[0; 32]; messages.len()];
    let mut waiting: Vec<(usize, &&[u8])> = messages.iter().enumerate().collect();
    waiting.sort_by_key(|(_, message)| message.len());
    let mut jobs: Vec<Job<'_>> = Vec::with_capacity(LANES);
    loop {
        // The longest first, so that no long one is left over to be worked on alone.
        while jobs.len() < LANES
            && let Some((number, message)) = waiting.pop()
        {
            jobs.push(Job::new(number, words, key.len() as u64, message));
        }
        let Some(blocks) = jobs.iter().map(Job::ahead).min() else { return hashes };
        let mut lanes: Vec<Lane<'_>> = jobs.iter().map(|job| job.lane(blocks)).collect();
        compress(&mut lanes);
        let after: Vec<[u64; 8]> = lanes.iter().map(|lane| lane.words).collect();
        let mut after = after.into_iter();
        jobs.retain_mut(|job| {
            let Some(words) = after.next() else { return true };
            let ended = job.advance(words, blocks);
            if ended && let Some(hash) = hashes.get_mut(job.number) {
                hash.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())).for_each(|(to, from)| *to = from);
            }
            !ended
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::wide::SIGMA;
    use alloc::vec::Vec;

    /// The rounds of RFC 7693, 3.2, as they stand there.
    fn reference(lanes: &mut [Lane<'_>]) {
        assert!((1..=LANES).contains(&lanes.len()));
        for lane in lanes.iter_mut() {
            compress_one(lane);
        }
        let blocks = lanes[0].blocks.len();
        assert!(blocks > 0 && blocks.is_multiple_of(BLOCK) && lanes.iter().all(|lane| lane.blocks.len() == blocks));
    }

    #[test]
    fn as_one_after_the_other() {
        let text: Vec<u8> = (0..9000u32).map(|n| ((n * n) >> 3) as u8).collect();
        for key in [&text[..128], &text[7..263]] {
            for count in [0, 1, 2, 3, 7, 8, 9, 20] {
                for step in [1, 3, 127, 128, 129, 400] {
                    let messages: Vec<&[u8]> = (0..count).map(|n| &text[n..=n + (n * 5 % 11) * step]).collect();
                    let hashes = hash_many(reference, key, &messages);
                    for (hash, message) in hashes.iter().zip(&messages) {
                        let whole = [key, message].concat();
                        let expected = blake2b_simd::Params::new().hash_length(32).hash(&whole);
                        assert_eq!(hash.as_slice(), expected.as_bytes(), "{} bytes", message.len());
                    }
                    assert_eq!(hashes.len(), count);
                }
            }
        }
    }

    fn compress_one(lane: &mut Lane<'_>) {
        let mut count = lane.count;
        for block in lane.blocks.chunks_exact(BLOCK) {
            count += lane.step;
            let mut m = [0u64; 16];
            for (word, bytes) in m.iter_mut().zip(block.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            let h = lane.words;
            let mut v = [
                h[0],
                h[1],
                h[2],
                h[3],
                h[4],
                h[5],
                h[6],
                h[7],
                IV[0],
                IV[1],
                IV[2],
                IV[3],
                IV[4] ^ count,
                IV[5],
                IV[6] ^ lane.last,
                IV[7],
            ];
            for s in &SIGMA {
                mix(&mut v, [0, 4, 8, 12], m[s[0]], m[s[1]]);
                mix(&mut v, [1, 5, 9, 13], m[s[2]], m[s[3]]);
                mix(&mut v, [2, 6, 10, 14], m[s[4]], m[s[5]]);
                mix(&mut v, [3, 7, 11, 15], m[s[6]], m[s[7]]);
                mix(&mut v, [0, 5, 10, 15], m[s[8]], m[s[9]]);
                mix(&mut v, [1, 6, 11, 12], m[s[10]], m[s[11]]);
                mix(&mut v, [2, 7, 8, 13], m[s[12]], m[s[13]]);
                mix(&mut v, [3, 4, 9, 14], m[s[14]], m[s[15]]);
            }
            for i in 0..8 {
                lane.words[i] ^= v[i] ^ v[i + 8];
            }
        }
    }

    fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
        v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
        v[d] = (v[d] ^ v[a]).rotate_right(32);
        v[c] = v[c].wrapping_add(v[d]);
        v[b] = (v[b] ^ v[c]).rotate_right(24);
        v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
        v[d] = (v[d] ^ v[a]).rotate_right(16);
        v[c] = v[c].wrapping_add(v[d]);
        v[b] = (v[b] ^ v[c]).rotate_right(63);
    }
}
