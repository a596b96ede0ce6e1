//! Every kit against C encoders and decoders: same bytes, same kinds of error, no panic.
//!
//! liblz4, libzstd, libdeflate and liblzma are the references. All randomness is seeded.

use packtrain_core::objects::Method;
use packtrain_core::platform::{CodecError, Decoder, Kit};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// The browser's kit, compiled for the host: the same sources, with scalar kernels.
#[path = "../../shell-wasm/src/codecs.rs"]
mod wasm;

const METHODS: [Method; 4] = [Method::Lz4, Method::Zstd, Method::Zlib, Method::Xz];
const SIZES: [usize; 5] = [0, 1, 4095, 64 << 10, 2 << 20];

fn kits() -> [(&'static str, Kit); 3] {
    [
        ("portable", packtrain_core::codecs::portable()),
        ("native", packtrain::codecs::native()),
        ("browser", wasm::browser()),
    ]
}

fn decoder(kit: Kit, method: Method) -> Box<dyn Decoder> {
    kit.codec(method).expect("every kit has every method").decoder()
}

/// What content looks like.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Zeros,
    Text,
    Binary,
    Random,
}

const KINDS: [Kind; 4] = [Kind::Zeros, Kind::Text, Kind::Binary, Kind::Random];

/// `len` bytes of the given kind, the same for the same seed.
fn content(kind: Kind, len: usize, seed: u64) -> Vec<u8> {
    const WORDS: [&str; 12] =
        ["fn ", "let ", "self", ".", "return ", "0x", "while ", "buffer", "\n    ", "(", ");\n", " the "];
    let mut state = seed | 1;
    let mut next = move || {
        // Knuth's MMIX generator; its upper half is random enough for content.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        match kind {
            Kind::Zeros => bytes.resize(len, 0),
            Kind::Text => bytes.extend_from_slice(WORDS[next() % WORDS.len()].as_bytes()),
            Kind::Binary => {
                // Records of a counter, a few small numbers and a sparse flag, as tables have them.
                bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                bytes.extend_from_slice(&[(next() % 16) as u8, 0, (next() % 3) as u8, 0xff]);
                bytes.extend_from_slice(&[0; 8][..next() % 8]);
            }
            Kind::Random => bytes.extend_from_slice(&(next() as u32).to_le_bytes()),
        }
    }
    bytes.truncate(len);
    bytes
}

/// Encodes with a C library. `variant` picks level, frame fields and check type.
fn encode(method: Method, plain: &[u8], variant: usize) -> Vec<u8> {
    let mut stored = Vec::new();
    match method {
        Method::None => stored.extend_from_slice(plain),
        Method::Lz4 => {
            lzzzz::lz4::compress_to_vec(plain, &mut stored, [1, 9, 100][variant % 3]).expect("liblz4 encodes");
        }
        Method::Zstd => {
            use zstd_safe::{CCtx, CParameter};
            stored.reserve(zstd_safe::compress_bound(plain.len()));
            let mut context = CCtx::create();
            for parameter in [
                CParameter::CompressionLevel([3, -5, 1, 9][variant % 4]),
                CParameter::ContentSizeFlag(variant % 5 != 4),
                CParameter::ChecksumFlag(variant % 7 == 6),
            ] {
                context.set_parameter(parameter).expect("libzstd knows the parameter");
            }
            context.compress2(&mut stored, plain).expect("libzstd encodes");
        }
        Method::Zlib => {
            let level = libdeflater::CompressionLvl::new([6, 1, 12, 0][variant % 4]).expect("a level of libdeflate");
            let mut encoder = libdeflater::Compressor::new(level);
            stored.resize(encoder.zlib_compress_bound(plain.len()), 0);
            let len = encoder.zlib_compress(plain, &mut stored).expect("libdeflate encodes");
            stored.truncate(len);
        }
        Method::Xz => {
            use liblzma::stream::{Check, Stream};
            let check = [Check::None, Check::Crc32, Check::Crc64, Check::Sha256][variant % 4];
            let stream = Stream::new_easy_encoder([0, 1, 6][variant % 3], check).expect("liblzma knows the preset");
            std::io::Read::read_to_end(&mut liblzma::read::XzEncoder::new_stream(plain, stream), &mut stored)
                .expect("liblzma encodes");
        }
    }
    stored
}

/// Decodes with a C library that no kit uses for the method, or with libzstd, into at most `room` bytes.
fn reference(method: Method, stored: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut plain = vec![0; room];
    let len = match method {
        Method::None => return Some(stored.to_vec()),
        Method::Lz4 => lzzzz::lz4::decompress(stored, &mut plain).ok()?,
        Method::Zstd => zstd_safe::decompress(&mut plain[..], stored).ok()?,
        Method::Zlib => libdeflater::Decompressor::new().zlib_decompress(stored, &mut plain).ok()?,
        Method::Xz => {
            let stream = liblzma::stream::Stream::new_stream_decoder(65 << 20, 0).ok()?;
            let mut reader = liblzma::bufread::XzDecoder::new_stream(stored, stream);
            let mut len = 0;
            loop {
                match std::io::Read::read(&mut reader, &mut plain[len..]).ok()? {
                    0 => break len,
                    more => len += more,
                }
            }
        }
    };
    plain.truncate(len);
    Some(plain)
}

#[test]
fn what_the_reference_encodes_is_decoded_exactly() {
    for (name, kit) in kits() {
        for method in METHODS {
            // One decoder for all: nothing may leak from one stream into the next.
            let mut decoder = decoder(kit, method);
            for (variant, (len, kind)) in SIZES.iter().flat_map(|&len| KINDS.map(|kind| (len, kind))).enumerate() {
                let plain = content(kind, len, 7);
                let stored = encode(method, &plain, variant);
                let case = format!("{name}, {method:?}, {kind:?}, {len} bytes, variant {variant}");
                // A window is bounded by the target, so a small object in a large window needs room.
                let mut target = vec![0xaa; len + 1];
                assert_eq!(decoder.decode(&stored, &mut target[..len]), Ok(len), "{case}");
                assert!(target[..len] == plain, "{case}: other bytes");
                assert_eq!(target[len], 0xaa, "{case}: written past the end");
                assert_eq!(decoder.decode(&stored, &mut target), Ok(len), "{case}: one byte of room to spare");
                if let Some(short) = len.checked_sub(1) {
                    assert_eq!(
                        decoder.decode(&stored, &mut target[..short]),
                        Err(CodecError::TooSmall),
                        "{case}: one byte of room too few"
                    );
                }
                for tail in [&[0][..], &[0xff], &stored] {
                    let longer = [&stored, tail].concat();
                    // LZ4 has no end mark: what follows is more of the block.
                    match decoder.decode(&longer, &mut target[..len]) {
                        Err(_) => {}
                        Ok(written) => panic!("{case}: {} bytes behind the end give {written}", tail.len()),
                    }
                }
            }
        }
    }
}

#[test]
fn a_stream_that_is_cut_is_never_whole() {
    for (name, kit) in kits() {
        for method in METHODS {
            let mut decoder = decoder(kit, method);
            for (variant, kind) in KINDS.into_iter().cycle().take(16).enumerate() {
                let plain = content(kind, 700, 11);
                let stored = encode(method, &plain, variant);
                let mut target = vec![0; plain.len()];
                for cut in 0..stored.len() {
                    let result = decoder.decode(&stored[..cut], &mut target);
                    let whole = match method {
                        Method::Lz4 => result == Ok(plain.len()),
                        _ => result.is_ok(),
                    };
                    assert!(!whole, "{name}, {method:?}, {kind:?}, variant {variant}: cut at {cut} of {}", stored.len());
                }
            }
        }
    }
}
