//! MicroLZMA by liblzma, through its decoder of `.lzma` files.
//!
//! That decoder is fed with the header which such a file would have, and then with the stream as it
//! is. Making a decoder for each stream costs nothing that can be measured, nor does its dictionary,
//! which never needs to be larger than the target.

use liblzma::stream::{Action, Status, Stream};
use packtrain_core::codecs;
use packtrain_core::objects::Method;
use packtrain_core::platform::{Codec, CodecError, Decoder};

/// MicroLZMA streams; the range coder's end is checked.
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

/// Smallest dictionary of the format, bytes.
const DICTIONARY_MIN: u32 = 1 << 12;

/// Properties, dictionary size, plaintext size, and the zero that the properties stand in place of.
const HEADER_LEN: usize = 1 + 4 + 8 + 1;

/// Plaintext size of a stream that is to be decoded until the target is full.
const UNKNOWN: u64 = u64::MAX;

/// Runs the decoder once over all of `source`; returns what it says, and whether it has read all and
/// filled `target`.
fn run(source: &[u8], size: u64, target: &mut [u8]) -> Result<(Status, bool, bool), CodecError> {
    let props = codecs::microlzma::properties(source)?;
    let rest = source.get(1..).unwrap_or_default();
    let dictionary = u32::try_from(target.len()).map_err(|_| CodecError::Invalid)?.max(DICTIONARY_MIN);
    let mut header = [0; HEADER_LEN];
    header[0] = props;
    header[1..5].copy_from_slice(&dictionary.to_le_bytes());
    header[5..13].copy_from_slice(&size.to_le_bytes());
    let mut stream = Stream::new_lzma_decoder(u64::MAX).map_err(|_| CodecError::Invalid)?;
    stream.process(&header, target, Action::Run).map_err(|_| CodecError::Invalid)?;
    let status = stream.process(rest, target, Action::Finish).map_err(|_| CodecError::Invalid)?;
    let all_read = stream.total_in() == (HEADER_LEN + rest.len()) as u64;
    Ok((status, all_read, stream.total_out() == target.len() as u64))
}

impl Decoder for MicroLzma {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        if target.is_empty() {
            // Without room the decoder would not look at the stream.
            return codecs::MicroLzma.decode(source, target);
        }
        match run(source, target.len() as u64, target)? {
            (Status::StreamEnd, true, true) => Ok(target.len()),
            _ => Err(CodecError::Invalid),
        }
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        if target.is_empty() {
            return Ok(());
        }
        match run(source, UNKNOWN, target)? {
            (_, _, true) => Ok(()),
            _ => Err(CodecError::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decode;
    use super::*;

    /// "abc" a thousand times, as mkfs.erofs 1.9.4 writes it.
    const CLUSTER: [u8; 25] = [
        0xa2, 0x30, 0x98, 0x88, 0xad, 0x4b, 0x37, 0x12, 0xa3, 0x31, 0x85, 0xdd, 0xfa, 0x53, 0x04, 0xed, 0xeb, 0xdf,
        0x42, 0xb8, 0x12, 0xc3, 0x3b, 0x59, 0xd8,
    ];

    #[test]
    fn the_size_and_the_end_are_exact() {
        assert_eq!(decode(Method::MicroLzma, &CLUSTER, 3000), Ok(3000));
        for size in [0, 1, 2999, 3001, 5000] {
            assert_eq!(decode(Method::MicroLzma, &CLUSTER, size), Err(CodecError::Invalid), "{size} bytes");
        }
        for cut in 0..CLUSTER.len() {
            assert_eq!(decode(Method::MicroLzma, &CLUSTER[..cut], 3000), Err(CodecError::Invalid), "cut at {cut}");
        }
        let longer = [&CLUSTER[..], &[0]].concat();
        assert_eq!(decode(Method::MicroLzma, &longer, 3000), Err(CodecError::Invalid));
        assert_eq!(decode(Method::MicroLzma, &[0xa2, 0, 0, 0, 0], 0), Ok(0));
    }

    #[test]
    fn properties_out_of_bounds_are_invalid() {
        for props in [225, 255, 5, 13] {
            let stream = [&[!props][..], &CLUSTER[1..]].concat();
            assert_eq!(decode(Method::MicroLzma, &stream, 3000), Err(CodecError::Invalid), "{props}");
        }
    }

    #[test]
    fn a_prefix_ends_anywhere() {
        let longer = [&CLUSTER[..], &[0; 9]].concat();
        for len in 0..=3000 {
            let mut target = vec![0; len];
            assert_eq!(MicroLzma.decode_prefix(&longer, &mut target), Ok(()), "{len} bytes");
            assert_eq!(target, b"abc".repeat(1000)[..len]);
        }
        assert_eq!(MicroLzma.decode_prefix(&CLUSTER, &mut [0; 3500]), Err(CodecError::Invalid));
        assert_eq!(MicroLzma.decode_prefix(&CLUSTER[..12], &mut [0; 3000]), Err(CodecError::Invalid));
    }
}
