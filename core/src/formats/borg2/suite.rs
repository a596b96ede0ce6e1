//! The six crypto suites (borg2.md section 4).

use crate::crypto::AeadKind;

/// How a suite protects an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Encrypted and authenticated.
    Aead(AeadKind),
    /// Authenticated only.
    Mac,
}

/// Hash family of chunk ids, and of the MAC where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFamily {
    /// HMAC-SHA-256.
    Sha256,
    /// Keyed BLAKE3.
    Blake3,
}

/// One row of the table of suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// `encryption` in the config.
    pub encryption: &'static str,
    /// `id_hash` in the config.
    pub id_hash: &'static str,
    /// First byte of every envelope.
    pub type_byte: u8,
    /// Envelope kind.
    pub protection: Protection,
    /// Chunk id hash.
    pub hash: HashFamily,
    /// Domain of the session key (AEAD) or the tag key (MAC).
    pub domain: &'static [u8],
}

const OCB: Protection = Protection::Aead(AeadKind::Aes256Ocb);
const CHACHA: Protection = Protection::Aead(AeadKind::ChaCha20Poly1305);
const OCB_DOMAIN: &[u8] = b"borg-session-key-AES256_OCB";
const CHACHA_DOMAIN: &[u8] = b"borg-session-key-CHACHA20_POLY1305";

/// The table.
pub const SUITES: [Suite; 6] = [
    row("aes256-ocb", "sha256", 0x10, OCB, HashFamily::Sha256, OCB_DOMAIN),
    row("chacha20-poly1305", "sha256", 0x20, CHACHA, HashFamily::Sha256, CHACHA_DOMAIN),
    row("aes256-ocb", "blake3", 0x30, OCB, HashFamily::Blake3, OCB_DOMAIN),
    row("chacha20-poly1305", "blake3", 0x40, CHACHA, HashFamily::Blake3, CHACHA_DOMAIN),
    row("authenticated-sha256", "sha256", 0x50, Protection::Mac, HashFamily::Sha256, b"borg-repoobj-mac-hmac-sha256"),
    row("authenticated-blake3", "blake3", 0x60, Protection::Mac, HashFamily::Blake3, b"borg-repoobj-mac-blake3"),
];

const fn row(
    encryption: &'static str,
    id_hash: &'static str,
    type_byte: u8,
    protection: Protection,
    hash: HashFamily,
    domain: &'static [u8],
) -> Suite {
    Suite { encryption, id_hash, type_byte, protection, hash, domain }
}

impl Suite {
    /// The suite that a config names.
    pub fn named(encryption: &str, id_hash: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.encryption == encryption && suite.id_hash == id_hash)
    }

    /// Bytes that an envelope adds to its payload: 48 (AEAD) or 34 (MAC).
    pub const fn overhead(&self) -> usize {
        match self.protection {
            Protection::Aead(_) => 48,
            Protection::Mac => 34,
        }
    }
}
