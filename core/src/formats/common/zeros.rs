//! Chunks that are nothing but zeros, known by their id: holes are stored as such chunks.

use crate::base::Id;
use crate::objects::{ChunkRef, Extent};
use alloc::{collections::BTreeMap, vec::Vec};
use core::cell::RefCell;

/// Chunks of zeros are looked for among chunks of at least this many bytes...
const ZEROS_MIN: u32 = 64 << 10;
/// ...in whole blocks of this size, as holes are cut,
const ZEROS_BLOCK: u32 = 4096;
/// ...and among chunks that compressed at least this well.
const ZEROS_RATIO: u32 = 50;
/// Sizes whose zero chunk id is remembered.
const ZEROS_KNOWN: usize = 256;

/// The ids of zero chunks by size, for the sizes met last.
#[derive(Default)]
pub struct Zeros(RefCell<BTreeMap<u32, Id>>);

impl Zeros {
    /// True if `chunk`, stored at `at`, is nothing but zeros. `hash` is the repository's id of the
    /// concatenation of its arguments.
    pub fn is_zeros(&self, chunk: &ChunkRef, at: Option<Extent>, hash: impl FnOnce(&[&[u8]]) -> Id) -> bool {
        let whole_blocks = chunk.size >= ZEROS_MIN && chunk.size.is_multiple_of(ZEROS_BLOCK);
        let packed_well = at.is_none_or(|at| at.len < chunk.size / ZEROS_RATIO);
        if !whole_blocks && !packed_well {
            return false;
        }
        let mut known = self.0.borrow_mut();
        if known.len() >= ZEROS_KNOWN && !known.contains_key(&chunk.size) {
            known.clear();
        }
        *known.entry(chunk.size).or_insert_with(|| of_zeros(chunk.size, hash)) == chunk.id
    }
}

fn of_zeros(size: u32, hash: impl FnOnce(&[&[u8]]) -> Id) -> Id {
    const BLOCK: usize = 64 << 10;
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let size = size as usize;
    let mut parts: Vec<&[u8]> = alloc::vec![&ZEROS; size / BLOCK];
    parts.extend(ZEROS.get(..size % BLOCK));
    hash(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::sha256;

    #[test]
    fn zeros_are_known_by_their_id() {
        let zeros = Zeros::default();
        let hash = |parts: &[&[u8]]| Id(sha256(parts));
        for size in [1, 65_536, 70_000, 131_072] {
            let chunk = ChunkRef::new(Id(sha256(&[&alloc::vec![0; size as usize]])), size);
            assert!(zeros.is_zeros(&chunk, None, hash), "{size}");
            assert!(!zeros.is_zeros(&ChunkRef::new(Id([1; 32]), size), None, hash));
        }
        // One that takes as much room as it holds was not looked at.
        let chunk = ChunkRef::new(Id(sha256(&[&[0; 100]])), 100);
        assert!(!zeros.is_zeros(&chunk, Some(Extent { object: 0, offset: 0, len: 100 }), hash));
    }
}
