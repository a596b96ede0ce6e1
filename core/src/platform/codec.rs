//! Codecs: decompression into the caller's buffer.

use super::Wide;
use crate::objects::Method;
use alloc::boxed::Box;

/// Why a block could not be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The input is not a valid stream of this method.
    #[error("not a valid stream")]
    Invalid,
    /// The output does not fit into the given buffer.
    #[error("the output does not fit")]
    TooSmall,
}

/// One compression method, shared by all workers. Holds no state of its own.
pub trait Codec: Send + Sync {
    /// The method.
    fn method(&self) -> Method;

    /// Makes a decoder for one worker; its state and tables are reused from block to block.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// A worker's decoder for one method.
pub trait Decoder: Send {
    /// Decompresses the whole of `source` into the front of `target` and returns the number of
    /// bytes written. A caller that knows the size passes a buffer of exactly that size.
    ///
    /// Input after the end of the stream is an error. Never panics, never allocates more than
    /// the method's own window, bounded by what the target can hold or 64 MiB for `.xz`.
    ///
    /// A [`Method::MicroLzma`] stream does not say where it ends: there the target's length is the
    /// size, so the result is that length or an error, and the error is always `Invalid`.
    ///
    /// # Errors
    /// [`CodecError::TooSmall`] if the output is longer than `target` (told apart from
    /// [`CodecError::Invalid`] wherever the method allows it).
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError>;

    /// Decompresses the start of `source` until `target` is full, and ignores what follows: more of
    /// the stream, or bytes behind it. An empty target is full from the start.
    ///
    /// No checksum of the stream is checked. A decoder may have to read on past what fills the
    /// target (up to one window of zstd), and may then find fault with it; it never makes other
    /// bytes of it. Never panics, never allocates more than the method's own window, bounded by what
    /// the target can hold, 8 MiB for zstd or 64 MiB for `.xz`.
    ///
    /// # Errors
    /// [`CodecError::Invalid`], also if the stream ends before the target is full. A
    /// [`Method::MicroLzma`] stream ends for this where its input does.
    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError>;
}

/// The codecs of one run, by method, and vector code for hashes. Passed by value; there is no global table.
#[derive(Clone, Copy, Default)]
pub struct Kit {
    codecs: [Option<&'static dyn Codec>; Method::ALL.len()],
    wide: Wide,
}

impl Kit {
    /// A kit without codecs; [`Method::None`] needs none.
    pub const fn empty() -> Self {
        Self { codecs: [None; Method::ALL.len()], wide: Wide { blake2b: None } }
    }

    /// Adds `codec`, in place of one of the same method.
    #[must_use]
    pub fn with(mut self, codec: &'static dyn Codec) -> Self {
        if let Some(slot) = self.codecs.get_mut(codec.method() as usize) {
            *slot = Some(codec);
        }
        self
    }

    /// Adds hashing of several messages at a time.
    #[must_use]
    pub const fn with_wide(mut self, wide: Wide) -> Self {
        self.wide = wide;
        self
    }

    /// Hashing of several messages at a time, as far as the shell offers it.
    pub const fn wide(&self) -> &Wide {
        &self.wide
    }

    /// The codec for `method`, if this build has one.
    pub fn codec(&self, method: Method) -> Option<&'static dyn Codec> {
        self.codecs.get(method as usize).copied().flatten()
    }
}

impl core::fmt::Debug for Kit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.codecs.iter().flatten().map(|codec| codec.method().name())).finish()
    }
}
