//! MicroLZMA, as EROFS images hold it: a raw LZMA stream without header and end mark.
//!
//! A range coder's first byte is always zero, so its place is used for the complement of the
//! properties. The stream does not state its size; the target's length is it. At the end all input
//! must be read and the range coder must be at rest, which is all there is by way of a checksum; an end
//! mark behind the last byte, which no writer makes, is passed over.
//!
//! `lzma-rust2` decodes into a dictionary of its own, from which the target is filled. It is made
//! anew for each stream and never larger than the target, which no distance can reach beyond.

use crate::objects::Method;
use crate::platform::{Codec, CodecError, Decoder};
use alloc::boxed::Box;
use lzma_rust2::{Error, LzmaReader, Read};

/// The MicroLZMA codec. Its decoder keeps nothing between streams.
#[derive(Clone, Copy, Debug)]
pub struct MicroLzma;

impl Codec for MicroLzma {
    fn method(&self) -> Method {
        Method::MicroLzma
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Self)
    }
}

impl Decoder for MicroLzma {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        let mut reader = open(source, target.len(), target.len() as u64)?;
        reader.set_relaxed_end_condition(false);
        fill(&mut reader, target)?;
        let (rest, unread) = reader.into_parts();
        if rest.source.is_empty() && unread.is_empty() { Ok(target.len()) } else { Err(CodecError::Invalid) }
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        if target.is_empty() {
            return Ok(());
        }
        // Of unknown size, so that a match may go on past the target's end.
        fill(&mut open(source, target.len(), u64::MAX)?, target)
    }
}

/// A reader for a stream whose plaintext has `size` bytes, `u64::MAX` if that is not known, of which
/// `room` are wanted.
fn open(source: &[u8], room: usize, size: u64) -> Result<LzmaReader<Input<'_>>, CodecError> {
    let props = properties(source)?;
    let dictionary = u32::try_from(room).map_err(|_| CodecError::Invalid)?;
    let input = Input { first: true, source };
    LzmaReader::new_with_props(input, size, props, dictionary, None).map_err(|_| CodecError::Invalid)
}

fn fill(reader: &mut LzmaReader<Input<'_>>, target: &mut [u8]) -> Result<(), CodecError> {
    reader.read_exact(target).map_err(|_| CodecError::Invalid)
}

/// A stream as range coders begin it: with a zero.
struct Input<'a> {
    first: bool,
    source: &'a [u8],
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let (taken, rest) = self.source.split_at_checked(buffer.len()).unwrap_or((self.source, &[]));
        let len = taken.len();
        buffer.get_mut(..len).unwrap_or_default().copy_from_slice(taken);
        if let Some(first) = buffer.first_mut().filter(|_| self.first && len > 0) {
            *first = 0;
            self.first = false;
        }
        self.source = rest;
        Ok(len)
    }
}

/// The properties byte, `(pb * 5 + lp) * 9 + lc`, of a stream; [`CodecError::Invalid`] if it is not one
/// that the format allows: at most 4 bits of literal context and literal position together.
pub fn properties(stream: &[u8]) -> Result<u8, CodecError> {
    let props = !*stream.first().ok_or(CodecError::Invalid)?;
    let (lc, lp, pb) = (props % 9, props / 9 % 5, props / 45);
    if pb <= 4 && lc + lp <= 4 { Ok(props) } else { Err(CodecError::Invalid) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;
    use alloc::vec::Vec;

    /// "abc" a thousand times: a cluster of an image by mkfs.erofs 1.9.4 (`-zlzma -b512 -C65536`)
    /// without the zeros before it.
    const CLUSTER: &str = "a2309888ad4b3712a33185ddfa5304edebdf42b812c33b59d8";

    fn decode(source: &[u8], size: usize) -> Result<Vec<u8>, CodecError> {
        let mut target = alloc::vec![0; size];
        let written = MicroLzma.decode(source, &mut target)?;
        assert_eq!(written, size, "the size is exact or there is an error");
        Ok(target)
    }

    fn prefix(source: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
        let mut target = alloc::vec![0; len];
        MicroLzma.decode_prefix(source, &mut target).map(|()| target)
    }

    #[test]
    fn decodes_a_stream() {
        assert_eq!(decode(&hex(CLUSTER), 3000), Ok(b"abc".repeat(1000)));
        // Nothing at all: only what flushes the coder.
        assert_eq!(decode(&[0xa2, 0, 0, 0, 0], 0), Ok(Vec::new()));
    }

    #[test]
    fn the_size_and_the_end_are_exact() {
        let stream = hex(CLUSTER);
        for size in (0..3000).chain(3001..3300) {
            assert_eq!(decode(&stream, size), Err(CodecError::Invalid), "{size} bytes");
        }
        for cut in 0..stream.len() {
            assert_eq!(decode(&stream[..cut], 3000), Err(CodecError::Invalid), "cut at {cut}");
        }
        for tail in [&[0][..], &[0; 9], &[0xff], &stream] {
            assert_eq!(decode(&[&stream, tail].concat(), 3000), Err(CodecError::Invalid), "{tail:?} behind");
        }
        assert_eq!(decode(&[], 0), Err(CodecError::Invalid));
    }

    #[test]
    fn most_flipped_bits_are_seen() {
        let stream = hex(CLUSTER);
        let accepted = |&bit: &usize| {
            let mut stream = stream.clone();
            stream[bit / 8] ^= 1 << (bit % 8);
            decode(&stream, 3000).is_ok()
        };
        // Those that liblzma takes too: they make other letters and leave the rest as it is.
        let unseen: Vec<usize> = (8..stream.len() * 8).filter(accepted).collect();
        assert_eq!(unseen, [8, 9, 10, 11, 23]);
    }

    #[test]
    fn properties_have_bounds() {
        // lc 3, lp 0, pb 2; lc 0, lp 4, pb 4; lc 4.
        for (first, props) in [(0xa2, 0x5d), (!0xd8, 0xd8), (!4, 4)] {
            assert_eq!(properties(&[first, 9]), Ok(props));
        }
        // Too large a pb, lc 5, lc 4 with lp 1.
        for props in [225, 255, 5, 13] {
            assert_eq!(properties(&[!props]), Err(CodecError::Invalid), "{props}");
            assert_eq!(decode(&[!props, 0, 0, 0, 0], 0), Err(CodecError::Invalid), "{props}");
            assert_eq!(prefix(&[&[!props][..], &hex(CLUSTER)[1..]].concat(), 10), Err(CodecError::Invalid), "{props}");
        }
        assert_eq!(properties(&[]), Err(CodecError::Invalid));
    }

    #[test]
    fn a_prefix_ends_anywhere() {
        let stream = hex(CLUSTER);
        for tail in [&b""[..], &[0; 9], &[0xff; 9]] {
            for len in 0..=3000 {
                let result = prefix(&[&stream, tail].concat(), len);
                assert_eq!(result.as_deref(), Ok(&b"abc".repeat(1000)[..len]), "{len} bytes, {tail:?} behind");
            }
        }
        assert_eq!(prefix(&stream, 4000), Err(CodecError::Invalid));
        assert_eq!(prefix(&stream[..12], 3000), Err(CodecError::Invalid));
        assert_eq!(prefix(&[], 0), Ok(Vec::new()));
    }
}
