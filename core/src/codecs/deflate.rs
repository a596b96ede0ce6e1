//! Raw DEFLATE streams (RFC 1951), without preset dictionary. Nothing vouches for the content.
//!
//! The same decoder as for zlib streams, told to expect neither header nor checksum. Windows are up
//! to 32 KiB, whatever a container says of them: the target is the window.

use super::zlib::Inflater;
use crate::objects::Method;
use crate::platform::{Codec, Decoder};
use alloc::boxed::Box;

/// The raw DEFLATE codec.
#[derive(Clone, Copy, Debug)]
pub struct Deflate;

impl Codec for Deflate {
    fn method(&self) -> Method {
        Method::Deflate
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Inflater::new(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;
    use crate::platform::CodecError;
    use alloc::vec::Vec;

    /// A block of fixed codes, as zlib writes it.
    const FIXED: ([u8; 6], &[u8]) = ([0x4b, 0x4c, 0x84, 0x82, 0x24, 0x00], b"aaaaaaaaab");
    /// A stored block.
    const STORED: ([u8; 8], &[u8]) = ([1, 3, 0, 0xfc, 0xff, b'a', b'b', b'c'], b"abc");
    /// "abc" a thousand times in a block of dynamic codes: a cluster of an image by mkfs.erofs 1.9.4
    /// (`-zdeflate -b512 -C65536`) without the zeros before it.
    const CLUSTER: &str = "35c2010900000c02b0acbffd3b08c2c6eea3aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        aaaaaaaaaaaaaaaaaaaaaaaaaaaa5b";

    fn decode(source: &[u8], room: usize) -> Result<usize, CodecError> {
        Deflate.decoder().decode(source, &mut alloc::vec![0; room])
    }

    fn streams() -> [(Vec<u8>, Vec<u8>); 3] {
        [
            (FIXED.0.to_vec(), FIXED.1.to_vec()),
            (STORED.0.to_vec(), STORED.1.to_vec()),
            (hex(CLUSTER), b"abc".repeat(1000)),
        ]
    }

    #[test]
    fn decodes_streams() {
        let mut decoder = Deflate.decoder();
        for (stored, plain) in streams() {
            let mut target = alloc::vec![0; plain.len()];
            assert_eq!(decoder.decode(&stored, &mut target), Ok(plain.len()));
            assert_eq!(target, plain);
        }
        assert_eq!(decode(&[3, 0], 0), Ok(0));
    }

    #[test]
    fn errors_are_told_apart() {
        for (stored, plain) in streams() {
            let len = plain.len();
            assert_eq!(decode(&stored, len + 1), Ok(len));
            for room in [0, 1, len / 2, len - 1] {
                assert_eq!(decode(&stored, room), Err(CodecError::TooSmall), "{room} bytes of room");
            }
            for cut in 0..stored.len() {
                assert_eq!(decode(&stored[..cut], len), Err(CodecError::Invalid), "cut at {cut}");
            }
            for tail in [&[0][..], &[0; 9], &stored] {
                assert_eq!(decode(&[&stored, tail].concat(), len), Err(CodecError::Invalid), "{tail:?} behind");
            }
        }
        // A zlib header is none here.
        assert_eq!(decode(&[&[0x78, 0x9c], &FIXED.0[..], &[0, 0, 0, 1]].concat(), 10), Err(CodecError::Invalid));
    }

    #[test]
    fn a_prefix_ends_anywhere() {
        let mut decoder = Deflate.decoder();
        for (stored, plain) in streams() {
            let longer = [&stored[..], &[0; 9]].concat();
            for len in 0..=plain.len() {
                let mut target = alloc::vec![0; len];
                assert_eq!(decoder.decode_prefix(&longer, &mut target), Ok(()), "{len} bytes");
                assert_eq!(target, plain[..len]);
            }
            let result = decoder.decode_prefix(&longer, &mut alloc::vec![0; plain.len() + 1]);
            assert_eq!(result, Err(CodecError::Invalid));
        }
    }
}
