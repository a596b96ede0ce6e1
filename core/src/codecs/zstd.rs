//! Zstandard: exactly one frame (RFC 8878), without dictionary.
//!
//! `ruzstd` decodes block by block into a window of its own, from which the target is filled: one
//! copy more than the other codecs make. The window is limited to what the target could need, so
//! a small object cannot ask for a large one. A content checksum is skipped, not checked; writers
//! of the formats here leave it out.

use crate::objects::Method;
use crate::platform::{Codec, CodecError, Decoder};
use alloc::boxed::Box;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, errors::FrameDecoderError};
use ruzstd::io::Read;

/// Smallest window a frame can declare, bytes (RFC 8878, 3.1.1.1.2).
const WINDOW_MIN: usize = 1 << 10;

/// Largest window for the start of a frame whose size the target does not tell, bytes: what every
/// decoder should support (RFC 8878, 3.1.1.1.2).
const PREFIX_WINDOW_MAX: u64 = 8 << 20;

/// The zstd codec.
#[derive(Clone, Copy, Debug)]
pub struct Zstd;

impl Codec for Zstd {
    fn method(&self) -> Method {
        Method::Zstd
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Frames(FrameDecoder::new()))
    }
}

struct Frames(FrameDecoder);

impl Frames {
    /// Decodes one block more, and takes out what has moved past the window, or is left at the
    /// frame's end. True at that end.
    fn block(&mut self, source: &mut &[u8], target: &mut [u8], written: &mut usize) -> Result<bool, CodecError> {
        let step = BlockDecodingStrategy::UptoBlocks(1);
        let last = self.0.decode_blocks(source, step).map_err(|_| CodecError::Invalid)?;
        let room = target.get_mut(*written..).unwrap_or_default();
        *written += self.0.read(room).map_err(|_| CodecError::Invalid)?;
        Ok(last)
    }
}

impl Decoder for Frames {
    fn decode(&mut self, mut source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        let declared = content_size(source);
        if declared.is_some_and(|size| size > target.len() as u64) {
            return Err(CodecError::TooSmall);
        }
        // Encoders that round the window up to a power of two declare at most twice the content.
        let window = target.len().saturating_mul(2).max(WINDOW_MIN);
        self.0.set_max_window_size(window as u64);
        self.0.reset(&mut source).map_err(|error| match error {
            FrameDecoderError::WindowSizeTooBig { .. } => CodecError::TooSmall,
            _ => CodecError::Invalid,
        })?;
        let mut written = 0;
        loop {
            let last = self.block(&mut source, target, &mut written)?;
            if self.0.can_collect() > 0 {
                return Err(CodecError::TooSmall);
            }
            if last {
                break;
            }
        }
        if source.is_empty() && declared.is_none_or(|size| size == written as u64) {
            Ok(written)
        } else {
            Err(CodecError::Invalid)
        }
    }

    /// Decodes whole blocks, and up to a window more than the target holds: `ruzstd` gives bytes out
    /// when the window has moved past them, or at the frame's end.
    fn decode_prefix(&mut self, mut source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        if target.is_empty() {
            return Ok(());
        }
        self.0.set_max_window_size(PREFIX_WINDOW_MAX);
        self.0.reset(&mut source).map_err(|_| CodecError::Invalid)?;
        let mut written = 0;
        loop {
            let last = self.block(&mut source, target, &mut written)?;
            if written == target.len() {
                return Ok(());
            }
            if last {
                return Err(CodecError::Invalid);
            }
        }
    }
}

/// The length of the plaintext as the frame's header declares it, if it does (RFC 8878, 3.1.1.1).
/// `None` also for anything that is not the start of a frame.
pub fn content_size(frame: &[u8]) -> Option<u64> {
    let rest = frame.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?;
    let (&descriptor, rest) = rest.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    // Window descriptor, unless the content is the window; then the dictionary id.
    let skipped = usize::from(!single_segment)
        + match descriptor & 3 {
            0 => 0,
            1 => 1,
            2 => 2,
            _ => 4,
        };
    let rest = rest.get(skipped..)?;
    match descriptor >> 6 {
        0 if single_segment => rest.first().map(|&size| size.into()),
        0 => None,
        // Two bytes cannot hold the sizes that one byte can: they count on from 256.
        1 => rest.first_chunk().map(|&size| u64::from(u16::from_le_bytes(size)) + 256),
        2 => rest.first_chunk().map(|&size| u32::from_le_bytes(size).into()),
        _ => rest.first_chunk().map(|&size| u64::from_le_bytes(size)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;

    /// "abc" forty times in a single segment, its size declared.
    const SIZED: &str = "28b52ffd2078550000186162630100d2d40d01";
    /// The same without a size, in a window of 2 MiB.
    const UNSIZED: &str = "28b52ffd0058550000186162630100d2d40d01";
    /// The same with size and checksum.
    const SUMMED: &str = "28b52ffd2478550000186162630100d2d40d01e599dbf8";

    fn decode(source: &[u8], room: usize) -> Result<usize, CodecError> {
        Zstd.decoder().decode(source, &mut alloc::vec![0; room])
    }

    #[test]
    fn decodes_a_frame() {
        let mut decoder = Zstd.decoder();
        // One decoder for all: nothing may be left over from the frame before.
        for frame in [SIZED, SUMMED, SIZED] {
            let mut target = [0; 120];
            assert_eq!(decoder.decode(&hex(frame), &mut target), Ok(120));
            assert!(target.chunks(3).all(|chunk| chunk == b"abc"));
        }
        assert_eq!(decode(&hex("28b52ffd2000010000"), 0), Ok(0));
    }

    #[test]
    fn errors_are_told_apart() {
        let frame = hex(SIZED);
        assert_eq!(decode(&frame, 121), Ok(120));
        for room in 0..120 {
            assert_eq!(decode(&frame, room), Err(CodecError::TooSmall), "{room} bytes of room");
        }
        for cut in 0..frame.len() {
            assert_eq!(decode(&frame[..cut], 120), Err(CodecError::Invalid), "cut at {cut}");
        }
        // A byte, another frame, and a skippable frame behind it or alone.
        let skippable = hex("502a4d1800000000");
        for tail in [&[0][..], &frame, &skippable] {
            assert_eq!(decode(&[&frame, tail].concat(), 240), Err(CodecError::Invalid));
        }
        assert_eq!(decode(&skippable, 240), Err(CodecError::Invalid));
        assert_eq!(decode(&[&skippable, &frame[..]].concat(), 240), Err(CodecError::Invalid));
    }

    #[test]
    fn a_prefix_ends_anywhere() {
        let plain = b"abc".repeat(40);
        let mut decoder = Zstd.decoder();
        for frame in [SIZED, UNSIZED, SUMMED] {
            let stored = [&hex(frame)[..], &[0; 9]].concat();
            for len in 0..=120 {
                let mut target = [0; 120];
                assert_eq!(decoder.decode_prefix(&stored, &mut target[..len]), Ok(()), "{len} bytes");
                assert_eq!(target[..len], plain[..len]);
            }
            assert_eq!(decoder.decode_prefix(&stored, &mut [0; 121]), Err(CodecError::Invalid));
            assert_eq!(decoder.decode_prefix(&stored[..18], &mut [0; 120]), Err(CodecError::Invalid));
        }
        // A whole frame is decoded as ever after the start of another.
        assert_eq!(decoder.decode(&hex(SIZED), &mut [0; 120]), Ok(120));
        // A window of 16 MiB.
        let wide = hex("28b52ffd0070550000186162630100d2d40d01");
        assert_eq!(decoder.decode_prefix(&wide, &mut [0; 120]), Err(CodecError::Invalid));
    }

    #[test]
    fn a_size_that_is_not_kept_is_invalid() {
        for (size, error) in [(0, CodecError::Invalid), (119, CodecError::Invalid), (121, CodecError::TooSmall)] {
            let mut frame = hex(SIZED);
            frame[5] = size;
            assert_eq!(decode(&frame, 120), Err(error), "{size} declared");
        }
        let mut frame = hex(SIZED);
        frame[5] = 121;
        assert_eq!(decode(&frame, 121), Err(CodecError::Invalid));
    }

    #[test]
    fn a_window_is_bounded_by_the_target() {
        let frame = hex(UNSIZED);
        assert_eq!(decode(&frame, 120), Err(CodecError::TooSmall));
        assert_eq!(decode(&frame, 1 << 20), Ok(120));
    }

    #[test]
    fn dictionaries_are_refused() {
        // SIZED with a one-byte dictionary id of 7.
        assert_eq!(decode(&hex("28b52ffd210778550000186162630100d2d40d01"), 120), Err(CodecError::Invalid));
    }

    #[test]
    fn declared_sizes() {
        for (frame, size) in [
            (SIZED, Some(120)),
            (UNSIZED, None),
            ("28b52ffd4058ffff", Some(65_535 + 256)),
            ("28b52ffd6005000000", Some(261)),
            ("28b52ffd8058ffffffff", Some(u32::MAX.into())),
            ("28b52ffde3010203040000000001000000", Some(1 << 32)),
            ("28b52ffd20", None),
            ("28b52ffd", None),
            ("502a4d1820ff", None),
        ] {
            assert_eq!(content_size(&hex(frame)), size, "{frame}");
        }
    }
}
