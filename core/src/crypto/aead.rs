//! Authenticated encryption with associated data: AES-256-OCB (RFC 7253) and ChaCha20-Poly1305
//! (RFC 8439), both with 256-bit keys, 96-bit nonces and 128-bit tags.
//!
//! OCB learns the tag only after it has produced the plaintext. So that no caller can come to use
//! bytes that were never authenticated, a mismatch wipes the output, whichever cipher it was.
//!
//! Wiped on drop: both AES key schedules and the ChaCha20 key. Not wiped: OCB's table of L values,
//! which `ocb3` keeps to itself. They are `E(0)` and its doublings: no way back to the key, and no
//! way to the plaintext of a block.

use ::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use aes::Aes256;
use alloc::boxed::Box;
use chacha20poly1305::ChaCha20Poly1305;
use ocb3::Ocb3;

/// The ciphers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AeadKind {
    /// AES-256 in OCB mode, version 3 (RFC 7253). Text and associated data up to 1 GiB each.
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
    /// Boxed because two key schedules and the L table take a kilobyte.
    Ocb(Box<Ocb3<Aes256>>),
    ChaCha(ChaCha20Poly1305),
}

impl Aead {
    /// A cipher of the given kind under `key`.
    pub fn new(kind: AeadKind, key: &[u8; 32]) -> Self {
        Self(match kind {
            AeadKind::Aes256Ocb => Cipher::Ocb(Box::new(Ocb3::new(key.into()))),
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
        self.open(nonce, aad, tag, InOutBuf::from(&mut *buf)).inspect_err(|_| buf.fill(0))
    }

    /// Decrypts `src` into `dst`, which has the same length, and checks `tag` over it and `aad`.
    ///
    /// # Errors
    /// [`TagMismatch`], also if the lengths differ; `dst` is then all zeros.
    pub fn open_into(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        tag: &[u8; 16],
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), TagMismatch> {
        InOutBuf::new(src, &mut *dst)
            .map_err(|_| TagMismatch)
            .and_then(|text| self.open(nonce, aad, tag, text))
            .inspect_err(|_| dst.fill(0))
    }

    /// Encrypts `buf` in place and returns the tag over it and `aad`. A nonce must never be used
    /// twice under one key.
    ///
    /// # Panics
    /// If `buf` or `aad` is longer than the cipher takes (see [`AeadKind`]).
    pub fn seal_in_place(&self, nonce: &[u8; 12], aad: &[u8], buf: &mut [u8]) -> [u8; 16] {
        let text = InOutBuf::from(buf);
        match &self.0 {
            Cipher::Ocb(cipher) => cipher.encrypt_inout_detached(nonce.into(), aad, text),
            Cipher::ChaCha(cipher) => cipher.encrypt_inout_detached(nonce.into(), aad, text),
        }
        .expect("the text is no longer than the cipher takes")
        .into()
    }

    fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        tag: &[u8; 16],
        text: InOutBuf<'_, '_, u8>,
    ) -> Result<(), TagMismatch> {
        match &self.0 {
            Cipher::Ocb(cipher) => cipher.decrypt_inout_detached(nonce.into(), aad, text, tag.into()),
            Cipher::ChaCha(cipher) => cipher.decrypt_inout_detached(nonce.into(), aad, text, tag.into()),
        }
        .map_err(|_| TagMismatch)
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
    fn both_ways_of_opening_agree() {
        for kind in KINDS {
            let aead = Aead::new(kind, &[7; 32]);
            for len in [0, 1, 15, 16, 17, 31, 32, 33, 255, 1000, 4096] {
                let plain: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
                let mut text = plain.clone();
                let tag = aead.seal_in_place(&nonce(1), b"aad", &mut text);
                let mut apart = vec![0xff; len];
                aead.open_into(&nonce(1), b"aad", &tag, &text, &mut apart).unwrap();
                aead.open_in_place(&nonce(1), b"aad", &tag, &mut text).unwrap();
                assert!(apart == plain && text == plain, "{kind:?}, {len} bytes");
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
                let (mut inside, mut apart) = (text.to_vec(), vec![0xff; text.len()]);
                assert_eq!(aead.open_in_place(nonce, aad, tag, &mut inside), Err(TagMismatch));
                assert_eq!(aead.open_into(nonce, aad, tag, text, &mut apart), Err(TagMismatch));
                assert!(inside.iter().chain(&apart).all(|&byte| byte == 0), "unauthenticated bytes are left");
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
            let mut short = vec![0xff; 99];
            assert_eq!(aead.open_into(&nonce(1), b"aad", &tag, &sealed, &mut short), Err(TagMismatch));
            assert!(short.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(alloc::format!("{:?}", Aead::new(AeadKind::Aes256Ocb, &[7; 32])), "Aead(Aes256Ocb)");
    }
}
