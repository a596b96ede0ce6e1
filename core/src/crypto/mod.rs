//! Cryptographic primitives, each behind the smallest interface a format needs.
//!
//! | file | holds |
//! |---|---|
//! | [`aead`] | AES-256-OCB and ChaCha20-Poly1305, in place |
//! | [`ocb`] | the OCB mode itself, over the AES of a crate |
//! | [`ctr`] | AES-256 in counter mode, without authentication |
//! | `blake2b` | BLAKE2b of several messages at a time |
//! | [`mac`] | HMAC-SHA-256, keyed BLAKE3, BLAKE2b behind a key, HMAC-SHA-512 |
//! | [`hash`] | SHA-256 and BLAKE3, at once or as a stream |
//! | [`checksum`] | CRC-32 and XXH64, against accidents only |
//! | [`kdf`] | Argon2 and PBKDF2, with costs checked before anything is allocated or worked out |
//!
//! Nothing here knows a format: which bytes are authenticated, and under which key, is decided
//! above. One mode is written here, OCB, since the crate for it works two blocks at a time and
//! was half of a restore, and the crate for BLAKE2b leaves most lanes of a vector empty where messages differ
//! in length, so `blake2b` shares out the lanes itself; everything else is the work of the crates named in the files. Keys are wiped on drop as far as those crates allow; each file says how far.

pub mod aead;
mod blake2b;
pub mod checksum;
pub mod ctr;
pub mod hash;
pub mod kdf;
pub mod mac;
pub mod ocb;

pub use aead::{Aead, AeadKind, TagMismatch};
pub use checksum::{Crc32, Xxh64, crc32};
pub use ctr::AesCtr;
pub use hash::{Blake3, blake3, sha256};
pub use kdf::{Argon2Params, Argon2Variant, argon2, pbkdf2_sha256};
pub use mac::{Claim, MacKey, hmac_sha512};

/// Decodes the hex of a test vector.
#[cfg(test)]
fn hex(text: &str) -> alloc::vec::Vec<u8> {
    let digits: alloc::vec::Vec<u8> =
        text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}
