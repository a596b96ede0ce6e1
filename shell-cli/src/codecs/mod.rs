//! The native kit: C libraries where they are worth a C compiler, the portable codecs elsewhere.
//!
//! Measured on one x86-64 core against the portable codec of the same method, chunks of 2 MiB and
//! 64 KiB: libzstd 3.6 to 4.2 times `ruzstd`, libdeflate 2.0 to 2.5 times `miniz_oxide`, liblz4 1.2
//! to 1.3 times `lz4_flex`, which is 7 % of the CPU time of restoring large files. On clusters of
//! EROFS images of 4 KiB to 1 MiB: liblzma 1.25 to 1.28 times `lzma-rust2`, libdeflate 2.2 times
//! `miniz_oxide`. For `.xz` liblzma would give as little, and nothing waits for it: not worth a second
//! implementation.
//!
//! All decode straight into the target. But for DEFLATE they are called through safe wrappers, and
//! none allocates more than its own tables and what the target could need.

mod deflate;
mod microlzma;

pub use deflate::{Deflate, Zlib};
pub use microlzma::MicroLzma;

use packtrain_core::codecs;
use packtrain_core::objects::Method;
use packtrain_core::platform::{Codec, CodecError, Decoder, Kit, Wide};

/// The portable kit with the C libraries' codecs in place of their portable counterparts.
pub fn native() -> Kit {
    codecs::portable().with(&Zstd).with(&Zlib).with(&Deflate).with(&MicroLzma).with(&Lz4).with_wide(wide())
}

/// Hashing with the vectors of this processor.
fn wide() -> Wide {
    #[cfg(target_arch = "x86_64")]
    let blake2b = crate::blake2b::compress();
    #[cfg(not(target_arch = "x86_64"))]
    let blake2b = None;
    Wide { blake2b }
}

/// zstd by libzstd: exactly one frame (RFC 8878), without dictionary. A content checksum, where a
/// frame has one, is checked.
#[derive(Clone, Copy, Debug)]
pub struct Zstd;

impl Codec for Zstd {
    fn method(&self) -> Method {
        Method::Zstd
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Frames(zstd_safe::DCtx::create()))
    }
}

struct Frames(zstd_safe::DCtx<'static>);

/// Largest window, as a power of two, for the start of a frame: 8 MiB, as in the portable codec. A
/// whole frame needs none, as the target is its window.
const PREFIX_WINDOW_LOG_MAX: u32 = 23;

impl Decoder for Frames {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        // The library would decode any number of frames and pass over skippable ones.
        if !source.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes()) {
            return Err(CodecError::Invalid);
        }
        match zstd_safe::get_frame_content_size(source) {
            Ok(Some(size)) if size > target.len() as u64 => return Err(CodecError::TooSmall),
            Ok(_) => {}
            Err(_) => return Err(CodecError::Invalid),
        }
        if zstd_safe::find_frame_compressed_size(source) != Ok(source.len()) {
            return Err(CodecError::Invalid);
        }
        self.0.decompress(target, source).map_err(|code| {
            let kind = zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall;
            if zstd_safe::is_error_kind(code, kind) { CodecError::TooSmall } else { CodecError::Invalid }
        })
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        use zstd_safe::{DParameter, InBuffer, OutBuffer, ResetDirective};
        // A frame, and not one that is to be skipped.
        if !target.is_empty() && !source.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes()) {
            return Err(CodecError::Invalid);
        }
        self.0
            .reset(ResetDirective::SessionOnly)
            .and_then(|_| self.0.set_parameter(DParameter::WindowLogMax(PREFIX_WINDOW_LOG_MAX)))
            .map_err(|_| CodecError::Invalid)?;
        let mut input = InBuffer::around(source);
        let mut output = OutBuffer::around(target);
        while output.pos() < output.capacity() {
            let before = (input.pos, output.pos());
            let hint = self.0.decompress_stream(&mut output, &mut input).map_err(|_| CodecError::Invalid)?;
            // The frame's end, and a step without progress, which would be repeated for ever.
            if output.pos() < output.capacity() && (hint == 0 || before == (input.pos, output.pos())) {
                return Err(CodecError::Invalid);
            }
        }
        Ok(())
    }
}

/// LZ4 by liblz4: one raw block (LZ4 Block Format Description).
///
/// The library does not tell a block that is malformed from one that does not fit; where it gives
/// up, the portable decoder has the last word.
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
        lzzzz::lz4::decompress(source, target).or_else(|_| codecs::lz4::Lz4.decode(source, target))
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        let len = target.len();
        match lzzzz::lz4::decompress_partial(source, target, len) {
            Ok(written) if written == len => Ok(()),
            _ => codecs::lz4::Lz4.decode_prefix(source, target),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_codec() {
        for method in Method::ALL {
            assert_eq!(native().codec(method).map(|codec| codec.method()), (method != Method::None).then_some(method));
        }
    }

    #[test]
    fn lz4_blocks_that_do_not_fit_are_told_from_bad_ones() {
        // Four literals, a match of 12 bytes at distance 4, five literals.
        let block = *b"\x48abcd\x04\0\x50efghi";
        assert_eq!(decode(Method::Lz4, &block, 21), Ok(21));
        assert_eq!(decode(Method::Lz4, &block, 22), Ok(21));
        assert_eq!(decode(Method::Lz4, &block, 20), Err(CodecError::TooSmall));
        assert_eq!(decode(Method::Lz4, &block[..9], 21), Err(CodecError::Invalid));
        assert_eq!(decode(Method::Lz4, &[], 21), Err(CodecError::Invalid));
    }

    pub(super) fn decode(method: Method, source: &[u8], room: usize) -> Result<usize, CodecError> {
        let codec = native().codec(method).expect("the kit holds every method");
        codec.decoder().decode(source, &mut vec![0; room])
    }

    #[test]
    fn one_frame_and_nothing_else() {
        let mut frame = [0; 64];
        let len = zstd_safe::compress(&mut frame[..], &[7; 100], 3).expect("64 bytes hold it");
        let (frame, skippable) = (&frame[..len], [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]);
        assert_eq!(decode(Method::Zstd, frame, 100), Ok(100));
        assert_eq!(decode(Method::Zstd, frame, 99), Err(CodecError::TooSmall));
        for tail in [&[0][..], frame, &skippable] {
            assert_eq!(decode(Method::Zstd, &[frame, tail].concat(), 200), Err(CodecError::Invalid));
        }
        assert_eq!(decode(Method::Zstd, &skippable, 100), Err(CodecError::Invalid));
        assert_eq!(decode(Method::Zstd, &[], 100), Err(CodecError::Invalid));
    }
}
