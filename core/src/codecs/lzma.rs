//! LZMA as an `.xz` file: one stream of LZMA2 blocks (The .xz File Format 1.2.1).
//!
//! Check types none, CRC-32, CRC-64 and SHA-256 are verified by `lzma-rust2`. It keeps a dictionary
//! of its own and copies out of it, which costs about one per cent of LZMA's time. A stream may ask
//! for at most what the highest preset of `xz` uses; more is refused before it is allocated.

use crate::objects::Method;
use crate::platform::{Codec, CodecError, Decoder};
use alloc::boxed::Box;
use lzma_rust2::{Action, Status, XzStream};

/// Most memory for a decoder, KiB: a 64 MiB dictionary (preset 9) and its tables.
const MEMORY_MAX_KIB: u32 = 65 << 10;

/// The `.xz` codec. Its decoder keeps nothing between streams: the dictionary's size is the
/// stream's own.
#[derive(Clone, Copy, Debug)]
pub struct Lzma;

impl Codec for Lzma {
    fn method(&self) -> Method {
        Method::Xz
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Self)
    }
}

impl Decoder for Lzma {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        let mut stream = XzStream::new_mem_limit(false, MEMORY_MAX_KIB);
        let (mut read, mut written) = (0, 0);
        loop {
            let input = source.get(read..).unwrap_or_default();
            let output = target.get_mut(written..).unwrap_or_default();
            let full = output.is_empty();
            // With a full target, one byte of room tells a longer output from the stream's end.
            let mut probe = [0; 1];
            let output = if full { &mut probe[..] } else { output };
            let step = stream.process(input, output, Action::Finish).map_err(|_| CodecError::Invalid)?;
            if full && step.bytes_produced > 0 {
                return Err(CodecError::TooSmall);
            }
            read += step.bytes_consumed;
            written += step.bytes_produced;
            match step.status {
                Status::StreamEnd if read == source.len() => return Ok(written),
                Status::StreamEnd => return Err(CodecError::Invalid),
                // A step without progress would be repeated for ever.
                Status::Ok if step.bytes_consumed == 0 && step.bytes_produced == 0 => return Err(CodecError::Invalid),
                Status::Ok => {}
            }
        }
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        let mut stream = XzStream::new_mem_limit(false, MEMORY_MAX_KIB);
        let (mut read, mut written) = (0, 0);
        while written < target.len() {
            let input = source.get(read..).unwrap_or_default();
            let output = target.get_mut(written..).unwrap_or_default();
            let step = stream.process(input, output, Action::Finish).map_err(|_| CodecError::Invalid)?;
            read += step.bytes_consumed;
            written += step.bytes_produced;
            // The stream's end, and a step without progress, which would be repeated for ever.
            if step.bytes_produced == 0 && (step.status == Status::StreamEnd || step.bytes_consumed == 0) {
                return Err(CodecError::Invalid);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;

    /// "abc" forty times, preset 0, check none.
    const STREAM: &str = "fd377a585a000000ff12d941020021010c0000008f98419ce0007700095d00309888abd44d69
        80000000000000011d783920348106729e7a010000000000595a";

    fn decode(source: &[u8], room: usize) -> Result<usize, CodecError> {
        Lzma.decode(source, &mut alloc::vec![0; room])
    }

    #[test]
    fn decodes_a_stream() {
        let mut target = [0; 120];
        assert_eq!(Lzma.decode(&hex(STREAM), &mut target), Ok(120));
        assert!(target.chunks(3).all(|chunk| chunk == b"abc"));
        let empty = "fd377a585a000000ff12d941000000001cdf442106729e7a010000000000595a";
        assert_eq!(decode(&hex(empty), 0), Ok(0));
    }

    #[test]
    fn errors_are_told_apart() {
        let stream = hex(STREAM);
        assert_eq!(decode(&stream, 121), Ok(120));
        for room in 0..120 {
            assert_eq!(decode(&stream, room), Err(CodecError::TooSmall), "{room} bytes of room");
        }
        for cut in 0..stream.len() {
            assert!(decode(&stream[..cut], 120).is_err(), "cut at {cut}");
        }
        // Stream padding and a second stream are input after the end as well.
        for tail in [&[0][..], &[0; 4], &stream] {
            assert_eq!(decode(&[&stream, tail].concat(), 240), Err(CodecError::Invalid));
        }
    }

    #[test]
    fn a_prefix_ends_anywhere() {
        let stored = [&hex(STREAM)[..], &[0; 9]].concat();
        for len in 0..=120 {
            let mut target = [0; 120];
            assert_eq!(Lzma.decode_prefix(&stored, &mut target[..len]), Ok(()), "{len} bytes");
            assert_eq!(target[..len], b"abc".repeat(40)[..len]);
        }
        assert_eq!(Lzma.decode_prefix(&stored, &mut [0; 121]), Err(CodecError::Invalid));
        assert_eq!(Lzma.decode_prefix(&stored[..30], &mut [0; 120]), Err(CodecError::Invalid));
    }

    #[test]
    fn a_check_is_verified() {
        // "abc" with a CRC-32.
        let mut stream = hex("fd377a585a0000016922de36020021010c0000008f98419c0100026162630000c24124350001170307600c
            bc9042990d010000000001595a");
        assert_eq!(decode(&stream, 3), Ok(3));
        if let Some(byte) = stream.get_mut(27) {
            assert_eq!(*byte, b'a');
            *byte = b'b';
        }
        assert_eq!(decode(&stream, 3), Err(CodecError::Invalid));
    }

    #[test]
    fn dictionaries_are_limited() {
        // "abc" with a dictionary of 64 MiB, then of 128 MiB.
        let stream = hex("fd377a585a000000ff12d941020021011c00000010cf58cc01000261626300000001130303a560d806729e7a
            010000000000595a");
        assert_eq!(decode(&stream, 3), Ok(3));
        let stream = hex("fd377a585a000000ff12d941020021011e0000009b07516601000261626300000001130303a560d806729e7a
            010000000000595a");
        assert_eq!(decode(&stream, 3), Err(CodecError::Invalid));
    }
}
