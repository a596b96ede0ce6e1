//! LZ4: one raw block, without frame, length prefix or dictionary (LZ4 Block Format Description).
//!
//! `lz4_flex` with its safe decoder writes straight into the target. The block format has no end
//! mark and no checksum: a block that is cut between two sequences decodes to less. Only the
//! length, which the caller knows, tells.

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
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
