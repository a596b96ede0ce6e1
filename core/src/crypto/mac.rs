//! Message authentication: HMAC-SHA-256 (RFC 2104, FIPS 180-4), keyed BLAKE3, BLAKE2b-256 of a key
//! and the message (RFC 7693), and HMAC-SHA-512 for the few messages that want it.
//!
//! The first three also serve as keyed hashes for chunk ids, so a message is given as parts: an envelope
//! authenticates a header and a payload that lie in different buffers.

use super::blake2b;
use crate::platform::{Wide, wide::BLOCK};
use alloc::boxed::Box;
use alloc::vec::Vec;
use blake2b_simd::many::update_many;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

/// A message, and what it should have as its MAC.
pub type Claim<'a> = (&'a [u8], &'a [u8]);

/// A keyed MAC, shared by any number of calls. Wiped on drop.
pub struct MacKey(State);

#[derive(Clone)]
enum State {
    /// The state after both key pads were absorbed, cloned for each message: keying costs two
    /// compressions, which is a tenth of the MAC of a small object. Boxed for its size.
    Hmac(Box<Hmac<Sha256>>),
    /// BLAKE3 has no key schedule; the key itself is all there is to keep.
    Blake3(Zeroizing<[u8; 32]>),
    /// The state after the key, cloned for each message, and the key.
    Blake2b(Box<Blake2b>, Zeroizing<Vec<u8>>),
}

/// A BLAKE2b-256 state that is overwritten on drop: up to a block of what it took, the key, is in it.
#[derive(Clone)]
struct Blake2b(blake2b_simd::State);

impl Blake2b {
    fn new() -> Self {
        Self(blake2b_simd::Params::new().hash_length(32).to_state())
    }

    fn finish(&self) -> [u8; 32] {
        self.0.finalize().as_bytes().first_chunk().copied().unwrap_or_default()
    }
}

impl Drop for Blake2b {
    fn drop(&mut self) {
        self.0 = blake2b_simd::Params::new().to_state();
        // The last write to what nobody reads again must happen all the same.
        core::hint::black_box(&self.0);
    }
}

impl MacKey {
    /// HMAC-SHA-256 under a key of any length.
    pub fn hmac_sha256(key: &[u8]) -> Self {
        // HMAC takes every key length (RFC 2104, 2); the crate's error type is for other MACs.
        let keyed = Hmac::new_from_slice(key).expect("HMAC takes a key of any length");
        Self(State::Hmac(Box::new(keyed)))
    }

    /// Keyed BLAKE3 with 32 bytes of output.
    pub fn blake3(key: &[u8; 32]) -> Self {
        Self(State::Blake3(Zeroizing::new(*key)))
    }

    /// BLAKE2b with 32 bytes of output over `key` and then the message: not BLAKE2b's own keyed mode.
    pub fn blake2b_after(key: &[u8]) -> Self {
        let mut keyed = Box::new(Blake2b::new());
        keyed.0.update(key);
        Self(State::Blake2b(keyed, Zeroizing::new(key.to_vec())))
    }

    /// The MAC of the concatenation of `parts`.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        match &self.0 {
            State::Hmac(keyed) => {
                let mut mac = Hmac::clone(keyed);
                for part in parts {
                    mac.update(part);
                }
                mac.finalize().into_bytes().into()
            }
            State::Blake3(key) => {
                if let [whole] = parts {
                    return blake3::keyed_hash(key, whole).into();
                }
                let mut hasher = blake3::Hasher::new_keyed(key);
                for part in parts {
                    hasher.update(part);
                }
                let mac = hasher.finalize().into();
                hasher.zeroize();
                mac
            }
            State::Blake2b(keyed, _) => {
                let mut hasher = Blake2b::clone(keyed);
                for part in parts {
                    hasher.0.update(part);
                }
                hasher.finish()
            }
        }
    }

    /// The MACs of several messages. BLAKE2b works on four or eight of them at a time, which takes less
    /// than half or a quarter of the time of one after the other.
    pub fn mac_many(&self, messages: &[&[u8]], wide: &Wide) -> Vec<[u8; 32]> {
        let State::Blake2b(keyed, key) = &self.0 else { return messages.iter().map(|one| self.mac(&[one])).collect() };
        if let Some(compress) = wide.blake2b
            && key.len().is_multiple_of(BLOCK)
            && !key.is_empty()
            && messages.iter().all(|message| !message.is_empty())
        {
            return blake2b::hash_many(compress, key, messages);
        }
        let mut hashers = alloc::vec![Blake2b::clone(keyed); messages.len()];
        // The longest first, so that no long one is left over to be hashed alone.
        let mut order: Vec<(&mut Blake2b, &&[u8])> = hashers.iter_mut().zip(messages).collect();
        order.sort_by_key(|(_, message)| core::cmp::Reverse(message.len()));
        update_many(order.into_iter().map(|(hasher, message)| (&mut hasher.0, message)));
        hashers.iter().map(Blake2b::finish).collect()
    }

    /// True if [`mac_many`](Self::mac_many) gains anything.
    pub const fn gains_from_many(&self) -> bool {
        matches!(self.0, State::Blake2b(..))
    }

    /// True if `expected` is the MAC of the concatenation of `parts`, compared in constant time.
    /// A value that is not 32 bytes long is never right.
    pub fn verify(&self, parts: &[&[u8]], expected: &[u8]) -> bool {
        self.mac(parts).as_slice().ct_eq(expected).into()
    }

    /// Whether each claim holds, as [`verify`](Self::verify).
    pub fn verify_many(&self, claims: &[Claim<'_>], wide: &Wide) -> Vec<bool> {
        let messages: Vec<&[u8]> = claims.iter().map(|(message, _)| *message).collect();
        let macs = self.mac_many(&messages, wide);
        macs.iter().zip(claims).map(|(mac, (_, expected))| mac.as_slice().ct_eq(expected).into()).collect()
    }
}

impl core::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            State::Hmac(_) => "MacKey(HMAC-SHA-256)",
            State::Blake3(_) => "MacKey(BLAKE3)",
            State::Blake2b(..) => "MacKey(BLAKE2b)",
        })
    }
}

/// HMAC-SHA-512 under a key of any length of the concatenation of `parts`.
pub fn hmac_sha512(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;
    use alloc::{vec, vec::Vec};

    #[test]
    fn hmac_vectors() {
        // RFC 4231, cases 1, 2 and 6 (a key longer than a block).
        let cases: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            let key = MacKey::hmac_sha256(key);
            assert_eq!(key.mac(&[message]).as_slice(), hex(expected));
            // The keyed state is not used up.
            assert!(key.verify(&[message], &hex(expected)));
        }
    }

    #[test]
    fn blake3_vectors() {
        // From the vectors published with BLAKE3; input bytes count up from 0 modulo 251.
        let key = MacKey::blake3(b"whats the Elvish word for friend");
        let cases = [
            (0, "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"),
            (1, "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b"),
        ];
        for (len, expected) in cases {
            let message: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            assert_eq!(key.mac(&[&message]).as_slice(), hex(expected), "{len} bytes");
        }
    }

    #[test]
    fn blake2b_vectors() {
        // RFC 7693 defines the hash; this is the value that `b2sum -l 256` gives for "abc".
        let abc = hex("bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
        for (key, message) in [(&b""[..], &b"abc"[..]), (b"a", b"bc"), (b"abc", b"")] {
            assert_eq!(MacKey::blake2b_after(key).mac(&[message]).as_slice(), abc);
        }
    }

    #[test]
    fn hmac_sha512_vector() {
        // RFC 4231, case 2.
        let expected = "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737";
        assert_eq!(hmac_sha512(b"Jefe", &[b"what do ya want ", b"for nothing?"]).as_slice(), hex(expected));
    }

    #[test]
    fn parts_are_concatenated() {
        let message = vec![0x33; 5000];
        for key in [MacKey::hmac_sha256(b"k"), MacKey::blake3(&[9; 32]), MacKey::blake2b_after(&[9; 128])] {
            let whole = key.mac(&[&message]);
            for cut in [0, 1, 63, 64, 1024, 1025, 5000] {
                let (head, tail) = message.split_at(cut);
                assert_eq!(key.mac(&[head, &[], tail]), whole);
            }
            assert_eq!(key.mac(&[]), key.mac(&[b""]));
        }
    }

    #[test]
    fn many_are_as_each() {
        let text: Vec<u8> = (0..3000u32).map(|n| n as u8).collect();
        for key in [MacKey::hmac_sha256(b"k"), MacKey::blake3(&[9; 32]), MacKey::blake2b_after(&[9; 128])] {
            for count in [0, 1, 2, 3, 4, 5, 9, 17] {
                let messages: Vec<&[u8]> = (0..count).map(|n| &text[n..n * 137 + n / 3]).collect();
                let each: Vec<[u8; 32]> = messages.iter().map(|message| key.mac(&[message])).collect();
                assert_eq!(key.mac_many(&messages, &Wide::default()), each, "{count} {key:?}");
                let mut claims: Vec<(&[u8], &[u8])> =
                    messages.iter().zip(&each).map(|(message, mac)| (*message, mac.as_slice())).collect();
                assert!(key.verify_many(&claims, &Wide::default()).into_iter().all(|holds| holds));
                if let Some(claim) = claims.last_mut() {
                    claim.1 = &[7; 32];
                    assert_eq!(key.verify_many(&claims, &Wide::default()).iter().filter(|holds| !**holds).count(), 1);
                }
            }
        }
    }

    #[test]
    fn verification_needs_every_bit_and_the_length() {
        for key in [MacKey::hmac_sha256(b"k"), MacKey::blake3(&[9; 32]), MacKey::blake2b_after(&[9; 128])] {
            let mac = key.mac(&[b"message"]);
            assert!(key.verify(&[b"mess", b"age"], &mac));
            for bit in 0..256 {
                let mut other = mac;
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!key.verify(&[b"message"], &other));
            }
            assert!(!key.verify(&[b"message"], &mac[..31]));
            assert!(!key.verify(&[b"message"], &[&mac[..], &[0]].concat()));
            assert!(!key.verify(&[b"message"], &[]));
        }
    }
}
