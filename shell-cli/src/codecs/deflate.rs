//! DEFLATE by libdeflate, as zlib streams (RFC 1950, the Adler-32 is checked) and raw (RFC 1951).
//!
//! The library is called without the usual wrapper, which does not say where a stream ended: with a
//! raw one nothing else tells whether bytes follow it, and asking by decoding all but the last byte
//! once more would halve the speed. [`Library`] is all that is `unsafe` here.
//!
//! libdeflate decodes whole streams only; the start of one is left to the portable codec.

use libdeflate_sys as sys;
use packtrain_core::codecs;
use packtrain_core::objects::Method;
use packtrain_core::platform::{Codec, CodecError, Decoder};
use std::ptr::NonNull;

/// zlib streams, without preset dictionary; the Adler-32 is checked.
#[derive(Clone, Copy, Debug)]
pub struct Zlib;

impl Codec for Zlib {
    fn method(&self) -> Method {
        Method::Zlib
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        inflater(sys::libdeflate_zlib_decompress_ex, &codecs::Zlib)
    }
}

/// Raw DEFLATE streams, without preset dictionary.
#[derive(Clone, Copy, Debug)]
pub struct Deflate;

impl Codec for Deflate {
    fn method(&self) -> Method {
        Method::Deflate
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        inflater(sys::libdeflate_deflate_decompress_ex, &codecs::Deflate)
    }
}

fn inflater(function: Function, portable: &'static dyn Codec) -> Box<dyn Decoder> {
    Box::new(Inflater { library: Library::new(function), portable, prefixes: None })
}

struct Inflater {
    library: Library,
    portable: &'static dyn Codec,
    /// Made for the first prefix.
    prefixes: Option<Box<dyn Decoder>>,
}

impl Decoder for Inflater {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        match self.library.decompress(source, target)? {
            (read, written) if read == source.len() => Ok(written),
            _ => Err(CodecError::Invalid),
        }
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        self.prefixes.get_or_insert_with(|| self.portable.decoder()).decode_prefix(source, target)
    }
}

/// One of the library's functions that also return how much they have read.
type Function = unsafe extern "C" fn(
    *mut sys::libdeflate_decompressor,
    *const std::ffi::c_void,
    usize,
    *mut std::ffi::c_void,
    usize,
    *mut usize,
    *mut usize,
) -> sys::libdeflate_result;

/// A decompressor of the library, owned, and the function it is used with.
struct Library {
    decompressor: NonNull<sys::libdeflate_decompressor>,
    function: Function,
}

// SAFETY: a decompressor is memory of its own without ties to a thread; it is used by `&mut` only.
unsafe impl Send for Library {}

impl Library {
    fn new(function: Function) -> Self {
        // SAFETY: the function takes nothing and returns an owned decompressor or null.
        let decompressor = unsafe { sys::libdeflate_alloc_decompressor() };
        Self { decompressor: NonNull::new(decompressor).expect("memory for a decompressor's tables"), function }
    }

    /// Decompresses one stream at the front of `source`; returns the bytes read and written.
    fn decompress(&mut self, source: &[u8], target: &mut [u8]) -> Result<(usize, usize), CodecError> {
        let (mut read, mut written) = (0, 0);
        // SAFETY: both pointers come with the lengths of their slices, which the library keeps to; the
        // decompressor is valid until `drop`, and both counts outlive the call.
        let result = unsafe {
            (self.function)(
                self.decompressor.as_ptr(),
                source.as_ptr().cast(),
                source.len(),
                target.as_mut_ptr().cast(),
                target.len(),
                &mut read,
                &mut written,
            )
        };
        match result {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => Ok((read, written)),
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Err(CodecError::TooSmall),
            _ => Err(CodecError::Invalid),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and is not used again.
        unsafe { sys::libdeflate_free_decompressor(self.decompressor.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decode;
    use super::*;

    #[test]
    fn one_stream_and_nothing_else() {
        // A stored block: "abc".
        let stream = [0x78, 0x01, 0x01, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27];
        for (method, stream) in [(Method::Zlib, &stream[..]), (Method::Deflate, &stream[2..10])] {
            assert_eq!(decode(method, stream, 3), Ok(3));
            assert_eq!(decode(method, stream, 4), Ok(3));
            assert_eq!(decode(method, stream, 2), Err(CodecError::TooSmall));
            for tail in [&[0][..], stream, &stream[4..]] {
                assert_eq!(decode(method, &[stream, tail].concat(), 3), Err(CodecError::Invalid), "{tail:?} behind");
            }
            for cut in 0..stream.len() {
                assert_eq!(decode(method, &stream[..cut], 3), Err(CodecError::Invalid), "cut at {cut}");
            }
        }
        // No content, read from and written to nothing.
        assert_eq!(decode(Method::Deflate, &[3, 0], 0), Ok(0));
        assert_eq!(decode(Method::Deflate, &[], 0), Err(CodecError::Invalid));
    }

    #[test]
    fn a_stored_block_may_hold_its_own_sum() {
        let own_sum = [0x78, 0x01, 0x01, 5, 0, 0xfa, 0xff, 2, 0, 1, 0x79, 0xfc, 2, 0, 1, 0x79];
        assert_eq!(decode(Method::Zlib, &own_sum, 5), Ok(5));
    }
}
