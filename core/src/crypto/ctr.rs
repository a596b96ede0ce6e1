//! AES-256 in counter mode (NIST SP 800-38A, 6.5), without authentication: whoever decrypts with
//! it checks a MAC first.

use ::ctr::CtrCore;
use ::ctr::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper};
use ::ctr::flavors::Ctr128BE;
use aes::Aes256Enc;

/// The cipher with its key: the key schedule is worked out once. Wiped on drop.
pub struct AesCtr(Aes256Enc);

impl AesCtr {
    /// A cipher under `key`.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Aes256Enc::new(key.into()))
    }

    /// Encrypts or decrypts `buf` in place. `counter` is the first counter block: one number of 128
    /// bits, big-endian, that grows by one from block to block.
    pub fn apply(&self, counter: &[u8; 16], buf: &mut [u8]) {
        let core = CtrCore::<_, Ctr128BE>::inner_iv_init(self.0.clone(), counter.into());
        StreamCipherCoreWrapper::from_core(core).apply_keystream(buf);
    }
}

impl core::fmt::Debug for AesCtr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("AesCtr")
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    #[test]
    fn vector() {
        // NIST SP 800-38A, F.5.5.
        let key = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4").try_into().unwrap();
        let counter = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff").try_into().unwrap();
        let mut text = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let cipher = AesCtr::new(&key);
        cipher.apply(&counter, &mut text);
        assert_eq!(text, hex("601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"));
        cipher.apply(&counter, &mut text);
        assert_eq!(text[..4], [0x6b, 0xc1, 0xbe, 0xe2]);
    }

    #[test]
    fn the_counter_is_one_number() {
        let cipher = AesCtr::new(&[7; 32]);
        let mut counter = [0xff; 16];
        let mut whole = [0; 32];
        cipher.apply(&counter, &mut whole);
        counter = [0; 16];
        let mut second = [0; 16];
        cipher.apply(&counter, &mut second);
        assert_eq!(whole[16..], second);
    }
}
