//! The native kit: C libraries where they are worth a C compiler, the portable codecs elsewhere.
//!
//! Measured on one x86-64 core against the portable codec of the same method, chunks of 2 MiB and
//! 64 KiB: libzstd 3.6 to 4.2 times `ruzstd`, libdeflate 2.0 to 2.5 times `miniz_oxide`, liblz4 1.2
//! to 1.3 times `lz4_flex`, which is 7 % of the CPU time of restoring large files. liblzma would
//! give at most 1.3 times where decoding is slow anyway: not worth a second implementation.
//!
//! All codecs are called through safe wrappers only, decode straight into the target and hold no window,
//! so a frame cannot make them allocate more than their own tables.

use packtrain_core::codecs;
use packtrain_core::objects::Method;
use packtrain_core::platform::{Codec, CodecError, Decoder, Kit, Wide};

/// The portable kit with libzstd, libdeflate and liblz4 in place of their portable counterparts.
pub fn native() -> Kit {
    codecs::portable().with(&Zstd).with(&Zlib).with(&Lz4).with_wide(wide())
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
}

/// zlib streams by libdeflate (RFC 1950), without preset dictionary; the Adler-32 is checked.
#[derive(Clone, Copy, Debug)]
pub struct Zlib;

impl Codec for Zlib {
    fn method(&self) -> Method {
        Method::Zlib
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Inflater(libdeflater::Decompressor::new()))
    }
}

struct Inflater(libdeflater::Decompressor);

impl Decoder for Inflater {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        let written = self.0.zlib_decompress(source, target).map_err(|error| match error {
            libdeflater::DecompressionError::InsufficientSpace => CodecError::TooSmall,
            libdeflater::DecompressionError::BadData => CodecError::Invalid,
        })?;
        let plain = target.get(..written).ok_or(CodecError::Invalid)?;
        let sum = libdeflater::adler32(plain).to_be_bytes();
        let Some((_, cut)) = source.split_last().filter(|_| source.ends_with(&sum)) else {
            return Err(CodecError::Invalid);
        };
        // The wrapper does not say where the stream ended, and the library ignores what follows. The
        // end is that of the input unless the sum occurs before it too, which happens to one input
        // in thousands of millions; then a stream that can do without the last byte ended before it.
        if memchr::memmem::find(cut, &sum).is_some() {
            if self.0.zlib_decompress(cut, target).is_ok() {
                return Err(CodecError::Invalid);
            }
            return self.0.zlib_decompress(source, target).map_err(|_| CodecError::Invalid);
        }
        Ok(written)
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

    fn decode(method: Method, source: &[u8], room: usize) -> Result<usize, CodecError> {
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

    #[test]
    fn one_zlib_stream_and_nothing_else() {
        // A stored block: "abc".
        let stream = [0x78, 0x01, 0x01, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27];
        assert_eq!(decode(Method::Zlib, &stream, 3), Ok(3));
        assert_eq!(decode(Method::Zlib, &stream, 4), Ok(3));
        assert_eq!(decode(Method::Zlib, &stream, 2), Err(CodecError::TooSmall));
        for tail in [&[0][..], &stream, &stream[10..]] {
            assert_eq!(decode(Method::Zlib, &[&stream[..], tail].concat(), 3), Err(CodecError::Invalid));
        }
        // A stored block that holds its own Adler-32 is no reason to see an early end.
        let own_sum = [0x78, 0x01, 0x01, 5, 0, 0xfa, 0xff, 2, 0, 1, 0x79, 0xfc, 2, 0, 1, 0x79];
        assert_eq!(decode(Method::Zlib, &own_sum, 5), Ok(5));
    }
}
