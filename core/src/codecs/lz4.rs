//! LZ4: one raw block, without frame, length prefix or dictionary (LZ4 Block Format Description).
//!
//! `lz4_flex` with its safe decoder writes straight into the target. The block format has no end
//! mark and no checksum: a block that is cut between two sequences decodes to less. Only the
//! length, which the caller knows, tells. The start of a block is decoded here, as old EROFS images
//! do not say where a block ends.

use crate::objects::Method;
use crate::platform::{Codec, CodecError, Decoder};
use alloc::boxed::Box;
use lz4_flex::block::{DecompressError, decompress_into};

/// The LZ4 block codec. Its decoder has no state.
#[derive(Clone, Copy, Debug)]
pub struct Lz4;

impl Codec for Lz4 {
    fn method(&self) -> Method {
        Method::Lz4
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Self)
    }
}

impl Decoder for Lz4 {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        decompress_into(source, target).map_err(|error| match error {
            DecompressError::OutputTooSmall { .. } => CodecError::TooSmall,
            _ => CodecError::Invalid,
        })
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        prefix(source, target).ok_or(CodecError::Invalid)
    }
}

/// Decodes sequences until `target` is full, which need not be at the end of one; `None` if that
/// does not come about. `lz4_flex` decodes whole blocks only, which it must know the end of.
fn prefix(mut source: &[u8], target: &mut [u8]) -> Option<()> {
    let mut written = 0;
    while written < target.len() {
        let token = usize::from(*source.split_off_first()?);
        let literals = length(token >> 4, &mut source)?.min(target.len() - written);
        target.get_mut(written..written + literals)?.copy_from_slice(source.split_off(..literals)?);
        written += literals;
        if written == target.len() {
            break;
        }
        let distance = usize::from(u16::from_le_bytes([*source.split_off_first()?, *source.split_off_first()?]));
        let from = written.checked_sub(distance).filter(|_| distance > 0)?;
        let len = (length(token & 15, &mut source)?.saturating_add(MATCH_MIN)).min(target.len() - written);
        // A match may reach into itself: then what is copied repeats, and doubles with every step.
        let end = written + len;
        while written < end {
            let step = (written - from).min(end - written);
            target.copy_within(from..from + step, written);
            written += step;
        }
    }
    Some(())
}

/// Shortest match of the format, bytes.
const MATCH_MIN: usize = 4;

/// A length whose first four bits are `start`: with all of them set, bytes follow that are added up,
/// to the first that is not 255.
fn length(start: usize, source: &mut &[u8]) -> Option<usize> {
    let mut len = start;
    if start == 15 {
        loop {
            let more = *source.split_off_first()?;
            len = len.saturating_add(usize::from(more));
            if more != 255 {
                break;
            }
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    /// Four literals, a match of 12 bytes at distance 4, five literals.
    const BLOCK: [u8; 13] = *b"\x48abcd\x04\0\x50efghi";
    const PLAIN: &[u8] = b"abcdabcdabcdabcdefghi";

    #[test]
    fn decodes_a_block() {
        let mut target = [0; 21];
        assert_eq!(Lz4.decode(&BLOCK, &mut target), Ok(21));
        assert_eq!(target, PLAIN);
        assert_eq!(Lz4.decode(&[0], &mut []), Ok(0));
    }

    #[test]
    fn every_smaller_buffer_is_too_small() {
        for len in 0..21 {
            assert_eq!(Lz4.decode(&BLOCK, &mut [0; 21][..len]), Err(CodecError::TooSmall), "{len} bytes");
        }
    }

    #[test]
    fn malformed_blocks_are_invalid() {
        let mut target = [0; 64];
        for block in [&b""[..], b"\x40abc", b"\x48abcd\x05\0\x50efghi", b"\x48abcd\0\0\x50efghi", b"\x48abcd\x04"] {
            assert_eq!(Lz4.decode(block, &mut target), Err(CodecError::Invalid), "{block:?}");
        }
    }

    fn prefix_of(source: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
        let mut target = vec![0; len];
        Lz4.decode_prefix(source, &mut target).map(|()| target)
    }

    #[test]
    fn a_prefix_ends_anywhere_and_needs_no_end_of_the_input() {
        for behind in [&b""[..], &[0; 40], b"\xff\xff\xff", &BLOCK] {
            let source = [&BLOCK[..], behind].concat();
            for len in 0..=21 {
                assert_eq!(prefix_of(&source, len).as_deref(), Ok(&PLAIN[..len]), "{len} bytes, {behind:?} behind");
            }
        }
        assert_eq!(prefix_of(&[], 0), Ok(vec![]));
        assert_eq!(prefix_of(&BLOCK, 22), Err(CodecError::Invalid));
        for cut in 0..BLOCK.len() {
            assert_eq!(prefix_of(&BLOCK[..cut], 21), Err(CodecError::Invalid), "cut at {cut}");
        }
    }

    #[test]
    fn a_prefix_of_a_malformed_block_is_invalid() {
        // Distances of nothing and of more than there is, and lengths without an end.
        for block in [
            &b"\x48abcd\0\0\x50efghi"[..],
            b"\x48abcd\x05\0",
            b"\x04\x01\0",
            b"\xf0\xff\xff",
            b"\x4fabcd\x04\0\xff\xff",
        ] {
            assert_eq!(prefix_of(block, 64), Err(CodecError::Invalid), "{block:?}");
        }
        // Lengths are bytes added up, and a match of distance one repeats a byte.
        let plain = [&[b'a'; 4 + 15 + 255 + 3][..], b"a"].concat();
        assert_eq!(prefix_of(b"\x1fa\x01\0\xff\x03", plain.len()), Ok(plain));
    }

    proptest::proptest! {
        #[test]
        fn prefixes_are_those_of_the_whole_block(
            pieces in proptest::collection::vec((0..4u8, 1..400usize), 0..30),
            at in proptest::prelude::any::<proptest::sample::Index>(),
            behind in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..20),
        ) {
            let plain: Vec<u8> = pieces.iter().flat_map(|&(byte, len)| (0..len).map(move |n| byte * (n % 7) as u8)).collect();
            let mut source = lz4_flex::block::compress(&plain);
            source.extend(behind);
            for len in [at.index(plain.len() + 1), plain.len()] {
                proptest::prop_assert_eq!(prefix_of(&source, len), Ok(plain[..len].to_vec()));
            }
        }

        #[test]
        fn damage_is_read_as_lz4_flex_reads_it(source in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
            let mut whole = vec![0; 5000];
            if let Ok(len) = Lz4.decode(&source, &mut whole) {
                proptest::prop_assert_eq!(prefix_of(&source, len), Ok(whole[..len].to_vec()));
            }
        }
    }
}
