//! Codecs and ciphers alone: MB/s of plaintext, for each kit and each suite's primitives.
//!
//! `cargo bench -p packtrain-benches --bench decode`. Chunks of text, 2 MiB and 64 KiB.

use packtrain_benches::{rounds, spread, text};
use packtrain_core::codecs::portable;
use packtrain_core::crypto::{Aead, AeadKind, MacKey};
use packtrain_core::objects::Method;
use std::hint::black_box;

/// Bytes decoded per measurement.
const WORK: usize = 32 << 20;

fn main() {
    for size in [2 << 20, 64 << 10] {
        println!("chunks of {size} bytes");
        codecs(size);
        ciphers(size);
    }
}

fn report(name: &str, times: &[std::time::Duration]) {
    let (median, min, max) = spread(times);
    let rate = |seconds: f64| WORK as f64 / seconds / 1e6;
    println!("  {name:32} {:>6.0} MB/s ({:.0} to {:.0})", rate(median), rate(max), rate(min));
}

fn codecs(size: usize) {
    let plain = text(size);
    for method in Method::ALL.into_iter().filter(|&method| method != Method::None) {
        let packed = compress(method, &plain);
        for (name, kit) in [
            ("portable", portable()),
            ("native", packtrain::codecs::native()),
            ("browser", packtrain_wasm::codecs::browser()),
        ] {
            let Some(codec) = kit.codec(method) else { continue };
            let mut decoder = codec.decoder();
            let mut target = vec![0; size];
            let times = rounds(
                5,
                &mut [&mut || {
                    for _ in 0..WORK / size {
                        assert_eq!(decoder.decode(black_box(&packed), &mut target), Ok(size));
                    }
                }],
            );
            report(&format!("{} {name}", method.name()), &times[0]);
        }
    }
}

fn compress(method: Method, plain: &[u8]) -> Vec<u8> {
    match method {
        Method::None => plain.to_vec(),
        Method::Lz4 => lz4_flex::block::compress(plain),
        Method::Zstd => {
            let mut out = vec![0; zstd_safe::compress_bound(plain.len())];
            let len = zstd_safe::compress(out.as_mut_slice(), plain, 3).expect("the buffer is large enough");
            out.truncate(len);
            out
        }
        Method::Zlib => {
            let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
            let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
            let len = compressor.zlib_compress(plain, &mut out).expect("the buffer is large enough");
            out.truncate(len);
            out
        }
        Method::Deflate => {
            let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
            let mut out = vec![0; compressor.deflate_compress_bound(plain.len())];
            let len = compressor.deflate_compress(plain, &mut out).expect("the buffer is large enough");
            out.truncate(len);
            out
        }
        Method::MicroLzma => {
            let options = lzma_rust2::LzmaOptions::with_preset(6);
            let mut encoder = lzma_rust2::MicroLzmaEncoder::new(&options).expect("preset 6 exists");
            let mut out = vec![0; plain.len() + plain.len() / 16 + 64];
            let (_, len) = encoder.compress_prefix(plain, &mut out).expect("the buffer is large enough");
            out.truncate(len);
            out
        }
        Method::Xz => {
            let stream =
                liblzma::stream::Stream::new_easy_encoder(6, liblzma::stream::Check::None).expect("level 6 exists");
            let mut out = Vec::new();
            let mut encoder = liblzma::read::XzEncoder::new_stream(plain, stream);
            std::io::Read::read_to_end(&mut encoder, &mut out).expect("memory does not fail");
            out
        }
    }
}

fn ciphers(size: usize) {
    let plain = text(size);
    for (name, kind) in [("AES-256-OCB", AeadKind::Aes256Ocb), ("ChaCha20-Poly1305", AeadKind::ChaCha20Poly1305)] {
        let cipher = Aead::new(kind, &[7; 32]);
        let mut sealed = plain.clone();
        let tag = cipher.seal_in_place(&[1; 12], b"", &mut sealed);
        let mut work = sealed.clone();
        // The copy stands for the read that brings fresh bytes each time.
        let times = rounds(
            5,
            &mut [&mut || {
                for _ in 0..WORK / size {
                    work.copy_from_slice(&sealed);
                    cipher.open_in_place(&[1; 12], b"", &tag, &mut work).expect("the tag holds");
                }
            }],
        );
        report(name, &times[0]);
    }
    for (name, key) in
        [("id HMAC-SHA-256", MacKey::hmac_sha256(&[7; 32])), ("id keyed BLAKE3", MacKey::blake3(&[7; 32]))]
    {
        let times = rounds(
            5,
            &mut [&mut || {
                for _ in 0..WORK / size {
                    black_box(key.mac(&[black_box(&plain)]));
                }
            }],
        );
        report(name, &times[0]);
    }
}
