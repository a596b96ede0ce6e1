//! The browser kit: Rust codecs that trade some `unsafe` inside for speed, where a fault of theirs
//! could not leave the sandbox of the WebAssembly instance; the portable codecs elsewhere.
//!
//! Measured in V8, wasm32, one thread, against the portable codec of the same method:
//! `structured-zstd` 3.4 to 3.7 times `ruzstd`, `zlib-rs` 1.7 to 2.0 times `miniz_oxide`. libzstd itself
//! gains nothing over the former there. `structured-zstd` is young, so its version is pinned and the
//! differential tests compare it with libzstd.

use packtrain_core::codecs;
use packtrain_core::objects::Method;
use packtrain_core::platform::{Codec, CodecError, Decoder, Kit};
use structured_zstd::decoding::{
    ContentChecksum, FrameContentSize, FrameDecoder, FrameMagic, errors::ErrorCode, find_frame_compressed_size,
    frame_magic, read_frame_content_size,
};
use zlib_rs::{Inflate, InflateFlush, Status};

/// The portable kit with `structured-zstd` and `zlib-rs` in place of their portable counterparts.
pub fn browser() -> Kit {
    codecs::portable().with(&Zstd).with(&Zlib)
}

/// zstd by `structured-zstd`: exactly one frame (RFC 8878), without dictionary. A content checksum,
/// where a frame has one, is checked.
#[derive(Clone, Copy, Debug)]
pub struct Zstd;

impl Codec for Zstd {
    fn method(&self) -> Method {
        Method::Zstd
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        let mut decoder = FrameDecoder::new();
        decoder.set_content_checksum(ContentChecksum::Verify);
        Box::new(Frames(decoder))
    }
}

struct Frames(FrameDecoder);

impl Decoder for Frames {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        // The decoder would take any number of frames and pass over skippable ones.
        if frame_magic(source) != Some(FrameMagic::Zstd) {
            return Err(CodecError::Invalid);
        }
        match read_frame_content_size(source) {
            Ok(FrameContentSize::Known(size)) if size > target.len() as u64 => return Err(CodecError::TooSmall),
            Ok(_) => {}
            Err(_) => return Err(CodecError::Invalid),
        }
        if !find_frame_compressed_size(source).is_ok_and(|len| len == source.len()) {
            return Err(CodecError::Invalid);
        }
        self.0.decode_all(source, target).map_err(|error| match error.code() {
            ErrorCode::DstSizeTooSmall => CodecError::TooSmall,
            _ => CodecError::Invalid,
        })
    }
}

/// zlib streams by `zlib-rs` (RFC 1950), without preset dictionary; the Adler-32 is checked.
#[derive(Clone, Copy, Debug)]
pub struct Zlib;

impl Codec for Zlib {
    fn method(&self) -> Method {
        Method::Zlib
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Inflater(Inflate::new(true, WINDOW_BITS)))
    }
}

/// The largest window of the format, 32 KiB: streams may declare any up to it.
const WINDOW_BITS: u8 = 15;

struct Inflater(Inflate);

impl Decoder for Inflater {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        self.0.reset(true);
        // `Finish` says that all input is here and the target is all there is, so no window is kept.
        let status = self.0.decompress(source, target, InflateFlush::Finish).map_err(|_| CodecError::Invalid)?;
        let all_read = self.0.total_in() == source.len() as u64;
        match status {
            Status::StreamEnd if all_read => usize::try_from(self.0.total_out()).map_err(|_| CodecError::Invalid),
            // The input cannot have run out before the output did: a checksum ends the stream.
            Status::Ok | Status::BufError if !all_read => Err(CodecError::TooSmall),
            _ => Err(CodecError::Invalid),
        }
    }
}
