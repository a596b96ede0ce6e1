//! zlib streams (RFC 1950 around RFC 1951), without preset dictionary; the Adler-32 is checked.
//!
//! `miniz_oxide` decodes straight into the target, which serves as its window: the state is 10 KiB
//! of Huffman tables and nothing else.

use crate::objects::Method;
use crate::platform::{Codec, CodecError, Decoder};
use alloc::boxed::Box;
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags},
};

/// The zlib codec.
#[derive(Clone, Copy, Debug)]
pub struct Zlib;

impl Codec for Zlib {
    fn method(&self) -> Method {
        Method::Zlib
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Inflater::new(inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_COMPUTE_ADLER32))
    }
}

/// The decoder of both wrappings of DEFLATE.
pub(super) struct Inflater {
    state: Box<DecompressorOxide>,
    flags: u32,
}

impl Inflater {
    /// A decoder for streams that `wrapping`, flags of `miniz_oxide`, describes; none for raw ones.
    pub(super) fn new(wrapping: u32) -> Self {
        Self { state: Box::default(), flags: wrapping | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF }
    }

    fn run(&mut self, source: &[u8], target: &mut [u8]) -> (TINFLStatus, usize, usize) {
        self.state.init();
        decompress(&mut self.state, source, target, 0, self.flags)
    }
}

impl Decoder for Inflater {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        match self.run(source, target) {
            (TINFLStatus::Done, read, written) if read == source.len() => Ok(written),
            (TINFLStatus::HasMoreOutput, ..) => Err(CodecError::TooSmall),
            _ => Err(CodecError::Invalid),
        }
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        // The status tells how the stream goes on, which is no matter here.
        let (_, _, written) = self.run(source, target);
        if written == target.len() { Ok(()) } else { Err(CodecError::Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored block: "abc".
    const STORED: [u8; 14] = [0x78, 0x01, 0x01, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27];

    fn decode(source: &[u8], room: usize) -> Result<usize, CodecError> {
        Zlib.decoder().decode(source, &mut alloc::vec![0; room])
    }

    #[test]
    fn decodes_a_stream() {
        let mut target = [0; 3];
        let mut decoder = Zlib.decoder();
        // Twice: nothing may be left over from the first.
        for _ in 0..2 {
            assert_eq!(decoder.decode(&STORED, &mut target), Ok(3));
            assert_eq!(&target, b"abc");
        }
        assert_eq!(decode(&[0x78, 0x9c, 0x03, 0, 0, 0, 0, 1], 0), Ok(0));
    }

    #[test]
    fn errors_are_told_apart() {
        assert_eq!(decode(&STORED, 2), Err(CodecError::TooSmall));
        assert_eq!(decode(&STORED, 4), Ok(3));
        for cut in 0..STORED.len() {
            assert_eq!(decode(&STORED[..cut], 3), Err(CodecError::Invalid), "cut at {cut}");
        }
        assert_eq!(decode(&[&STORED[..], &[0]].concat(), 3), Err(CodecError::Invalid));
        let mut wrong_sum = STORED;
        wrong_sum[13] ^= 1;
        assert_eq!(decode(&wrong_sum, 3), Err(CodecError::Invalid));
        // FDICT: a preset dictionary is asked for (RFC 1950, 2.2).
        assert_eq!(decode(&[0x78, 0x20, 0, 0, 0, 0, 0x03, 0, 0, 0, 0, 1], 3), Err(CodecError::Invalid));
    }

    #[test]
    fn a_prefix_ends_anywhere() {
        let mut decoder = Zlib.decoder();
        for len in 0..=3 {
            let mut target = [0; 3];
            // Cut behind what is needed, and with a wrong checksum and more behind.
            for stored in [&STORED[..7 + len], &[&STORED[..10], &[0; 9]].concat()] {
                assert_eq!(decoder.decode_prefix(stored, &mut target[..len]), Ok(()), "{len} bytes");
                assert_eq!(target[..len], b"abc"[..len]);
            }
        }
        assert_eq!(decoder.decode_prefix(&STORED, &mut [0; 4]), Err(CodecError::Invalid));
        assert_eq!(decoder.decode_prefix(&STORED[..9], &mut [0; 3]), Err(CodecError::Invalid));
    }
}
