//! Authenticated encryption with associated data: AES-256-OCB (RFC 7253) and ChaCha20-Poly1305
//! (RFC 8439), both with 256-bit keys, 96-bit nonces and 128-bit tags.
//!
//! OCB learns the tag only after it has produced the plaintext. So that no caller can come to use
//! bytes that were never authenticated, a mismatch wipes the output, whichever cipher it was.
//!
//! Wiped on drop: key schedules and all that is derived from the key.

use super::ocb::Ocb;
use ::aead::{AeadInOut, KeyInit};
use alloc::boxed::Box;
use chacha20poly1305::ChaCha20Poly1305;

/// The ciphers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AeadKind {
    /// AES-256 in OCB mode, version 3 (RFC 7253). Text up to 64 GiB.
    Aes256Ocb,
    /// ChaCha20-Poly1305 (RFC 8439). Text up to 256 GiB.
    ChaCha20Poly1305,
}

/// The tag does not belong to these bytes under this key, or the text is longer than the cipher
/// takes. The output was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authentication failed")]
pub struct TagMismatch;

/// A cipher with its key: the key schedule is worked out once and shared by any number of calls.
pub struct Aead(Cipher);

enum Cipher {
    /// Boxed because key schedules and offsets take two kilobytes.
    Ocb(Box<Ocb>),
    ChaCha(ChaCha20Poly1305),
}

impl Aead {
    /// A cipher of the given kind under `key`.
    pub fn new(kind: AeadKind, key: &[u8; 32]) -> Self {
        Self(match kind {
            AeadKind::Aes256Ocb => Cipher::Ocb(Box::new(Ocb::new(key))),
            AeadKind::ChaCha20Poly1305 => Cipher::ChaCha(ChaCha20Poly1305::new(key.into())),
        })
    }

    /// Which cipher it is.
    pub const fn kind(&self) -> AeadKind {
        match self.0 {
            Cipher::Ocb(_) => AeadKind::Aes256Ocb,
            Cipher::ChaCha(_) => AeadKind::ChaCha20Poly1305,
        }
    }

    /// Decrypts `buf` in place and checks `tag` over it and `aad`.
    ///
    /// # Errors
    /// [`TagMismatch`]; `buf` is then all zeros.
    pub fn open_in_place(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        tag: &[u8; 16],
        buf: &mut [u8],
    ) -> Result<(), TagMismatch> {
        let held = match &self.0 {
            Cipher::Ocb(cipher) => cipher.open(nonce, aad, tag, buf),
            Cipher::ChaCha(cipher) => {
                cipher.decrypt_inout_detached(nonce.into(), aad, (&mut *buf).into(), tag.into()).is_ok()
            }
        };
        if held {
            Ok(())
        } else {
            buf.fill(0);
            Err(TagMismatch)
        }
    }

    /// Encrypts `buf` in place and returns the tag over it and `aad`. A nonce must never be used
    /// twice under one key.
    ///
    /// # Panics
    /// If `buf` or `aad` is longer than the cipher takes (see [`AeadKind`]).
    pub fn seal_in_place(&self, nonce: &[u8; 12], aad: &[u8], buf: &mut [u8]) -> [u8; 16] {
        match &self.0 {
            Cipher::Ocb(cipher) => cipher.seal(nonce, aad, buf),
            Cipher::ChaCha(cipher) => cipher
                .encrypt_inout_detached(nonce.into(), aad, buf.into())
                .expect("the text is no longer than the cipher takes")
                .into(),
        }
    }
}

impl core::fmt::Debug for Aead {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Aead").field(&self.kind()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;
    use alloc::{vec, vec::Vec};

    const KINDS: [AeadKind; 2] = [AeadKind::Aes256Ocb, AeadKind::ChaCha20Poly1305];

    fn nonce(number: u16) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[10..].copy_from_slice(&number.to_be_bytes());
        nonce
    }

    /// The iterated test of RFC 7253, appendix A: 384 messages of 0 to 127 bytes, with and without
    /// associated data, hashed into one tag. It is the RFC's only vector for 256-bit keys.
    #[test]
    fn ocb_iterated_vector() {
        let mut key = [0; 32];
        key[31] = 128;
        let aead = Aead::new(AeadKind::Aes256Ocb, &key);
        let mut all = Vec::new();
        let mut seal = |number: usize, aad: &[u8], text: &[u8]| {
            let mut text = text.to_vec();
            let tag = aead.seal_in_place(&nonce(number as u16), aad, &mut text);
            all.extend_from_slice(&text);
            all.extend_from_slice(&tag);
        };
        for i in 0..128 {
            let zeros = vec![0; i];
            seal(3 * i + 1, &zeros, &zeros);
            seal(3 * i + 2, &[], &zeros);
            seal(3 * i + 3, &zeros, &[]);
        }
        let tag = aead.seal_in_place(&nonce(385), &all, &mut []);
        assert_eq!(tag.as_slice(), hex("D90EB8E9C977C88B79DD793D7FFA161C"));
    }

    #[test]
    fn chacha_vector() {
        // RFC 8439, 2.8.2.
        let key = core::array::from_fn(|i| 0x80 + i as u8);
        let nonce = hex("070000004041424344454647").try_into().unwrap();
        let aad = hex("50515253c0c1c2c3c4c5c6c7");
        let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let aead = Aead::new(AeadKind::ChaCha20Poly1305, &key);
        let mut text = plain.to_vec();
        let tag = aead.seal_in_place(&nonce, &aad, &mut text);
        assert_eq!(tag.as_slice(), hex("1ae10b594f09e26a7e902ecbd0600691"));
        assert_eq!(text[..16], hex("d31a8d34648e60db7b86afbc53ef7ec2"));
        aead.open_in_place(&nonce, &aad, &tag, &mut text).unwrap();
        assert_eq!(text, plain);
    }

    #[test]
    fn what_was_sealed_opens() {
        for kind in KINDS {
            let aead = Aead::new(kind, &[7; 32]);
            for len in [0, 1, 15, 16, 17, 31, 32, 33, 255, 1000, 1023, 1024, 1025, 4096] {
                let plain: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
                let mut text = plain.clone();
                let tag = aead.seal_in_place(&nonce(1), b"aad", &mut text);
                aead.open_in_place(&nonce(1), b"aad", &tag, &mut text).unwrap();
                assert!(text == plain, "{kind:?}, {len} bytes");
            }
        }
    }

    #[test]
    fn any_change_is_noticed_and_wipes_the_output() {
        for kind in KINDS {
            let aead = Aead::new(kind, &[7; 32]);
            let mut sealed = vec![0x5a; 100];
            let tag = aead.seal_in_place(&nonce(1), b"aad", &mut sealed);
            let fails = |nonce: &[u8; 12], aad: &[u8], tag: &[u8; 16], text: &[u8]| {
                let mut inside = text.to_vec();
                assert_eq!(aead.open_in_place(nonce, aad, tag, &mut inside), Err(TagMismatch));
                assert!(inside.iter().all(|&byte| byte == 0), "unauthenticated bytes are left");
            };
            for bit in 0..128 {
                let mut tag = tag;
                tag[bit / 8] ^= 1 << (bit % 8);
                fails(&nonce(1), b"aad", &tag, &sealed);
            }
            for at in 0..sealed.len() {
                let mut text = sealed.clone();
                text[at] ^= 0x80;
                fails(&nonce(1), b"aad", &tag, &text);
            }
            fails(&nonce(2), b"aad", &tag, &sealed);
            fails(&nonce(1), b"aae", &tag, &sealed);
            fails(&nonce(1), b"", &tag, &sealed);
            fails(&nonce(1), b"aad", &tag, &sealed[..99]);
        }
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(alloc::format!("{:?}", Aead::new(AeadKind::Aes256Ocb, &[7; 32])), "Aead(Aes256Ocb)");
    }
}
