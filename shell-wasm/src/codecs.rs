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
use std::io::Read;
use structured_zstd::decoding::{
    BlockDecodingStrategy, ContentChecksum, FrameContentSize, FrameDecoder, FrameMagic, errors::ErrorCode,
    errors::FrameDecoderError, find_frame_compressed_size, frame_magic, read_frame_content_size,
};
use zlib_rs::{Inflate, InflateFlush, Status};

/// The portable kit with `structured-zstd` and `zlib-rs` in place of their portable counterparts.
pub fn browser() -> Kit {
    codecs::portable().with(&Zstd).with(&Zlib).with(&Deflate)
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

/// Largest window for the start of a frame, bytes, as in the portable codec.
const PREFIX_WINDOW_MAX: u64 = 8 << 20;

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

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        if target.is_empty() {
            return Ok(());
        }
        if frame_magic(source) != Some(FrameMagic::Zstd) {
            return Err(CodecError::Invalid);
        }
        // For this alone: a whole frame has the target for its window.
        let ceiling = self.0.max_window_size();
        let result = self
            .0
            .set_max_window_size(PREFIX_WINDOW_MAX)
            .and_then(|()| fill(&mut self.0, source, target))
            .map_err(|_| CodecError::Invalid);
        self.0.set_max_window_size(ceiling).map_err(|_| CodecError::Invalid)?;
        if result? == target.len() { Ok(()) } else { Err(CodecError::Invalid) }
    }
}

/// Decodes block by block until `target` is full or the frame ends, and returns the bytes written.
/// They come out when the window has moved past them, or at the frame's end.
fn fill(decoder: &mut FrameDecoder, mut source: &[u8], target: &mut [u8]) -> Result<usize, FrameDecoderError> {
    decoder.reset(&mut source)?;
    let mut written = 0;
    loop {
        let last = decoder.decode_blocks(&mut source, BlockDecodingStrategy::UptoBlocks(1))?;
        let room = target.get_mut(written..).unwrap_or_default();
        written += decoder.read(room).map_err(FrameDecoderError::FailedToDrainDecodebuffer)?;
        if last || written == target.len() {
            return Ok(written);
        }
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
        Box::new(Inflater::new(true))
    }
}

/// Raw DEFLATE streams by `zlib-rs` (RFC 1951), without preset dictionary.
#[derive(Clone, Copy, Debug)]
pub struct Deflate;

impl Codec for Deflate {
    fn method(&self) -> Method {
        Method::Deflate
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Inflater::new(false))
    }
}

/// The largest window of the format, 32 KiB: streams may declare any up to it.
const WINDOW_BITS: u8 = 15;

struct Inflater {
    state: Inflate,
    wrapped: bool,
}

impl Inflater {
    fn new(wrapped: bool) -> Self {
        Self { state: Inflate::new(wrapped, WINDOW_BITS), wrapped }
    }

    /// `Finish` says that all input is here and the target is all there is, so no window is kept.
    fn run(&mut self, source: &[u8], target: &mut [u8]) -> Result<Status, CodecError> {
        self.state.reset(self.wrapped);
        self.state.decompress(source, target, InflateFlush::Finish).map_err(|_| CodecError::Invalid)
    }
}

impl Decoder for Inflater {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        let status = self.run(source, target)?;
        let all_read = self.state.total_in() == source.len() as u64;
        let full = self.state.total_out() == target.len() as u64;
        match status {
            Status::StreamEnd if all_read => usize::try_from(self.state.total_out()).map_err(|_| CodecError::Invalid),
            // Input was left, so it was not that which ran out. The last bits of a raw stream may be read
            // already, and then a full target is taken for too small a one.
            Status::Ok | Status::BufError if !all_read || !self.wrapped && full => Err(CodecError::TooSmall),
            _ => Err(CodecError::Invalid),
        }
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        // An error counts only before the target is full.
        let _ = self.run(source, target);
        if self.state.total_out() == target.len() as u64 { Ok(()) } else { Err(CodecError::Invalid) }
    }
}
