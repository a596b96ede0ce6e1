//! Authentication of metadata maps: a MAC over the whole plaintext, stored inside it
//! (borg1.md section 10).

use super::envelope::Keys;
use crate::formats::common::msgpack::{Flaw, Read, Reader};
use subtle::ConstantTimeEq;

/// The one type there is.
const TYPE: &[u8] = b"HKDF_HMAC_SHA512";
/// Length of MAC and salt in bytes.
const LEN: usize = 64;

/// The authentication that a map carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tam {
    /// None, or one of an unknown type.
    Absent,
    /// Something that is none.
    Malformed,
    /// One that can be verified.
    Present {
        /// First byte of the MAC in the plaintext.
        at: usize,
        /// The salt.
        salt: [u8; LEN],
    },
}

/// What an authentication is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Authentic,
    /// There is none.
    Absent,
    /// It does not hold.
    Wrong,
}

impl Tam {
    /// Reads the value of the key `tam`. `reader` must be one over the whole plaintext.
    ///
    /// # Errors
    /// Only for a value that is no MessagePack.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        let inside = *reader;
        reader.skip()?;
        Ok(Self::parse(inside).unwrap_or(Self::Malformed))
    }

    fn parse(mut reader: Reader<'_>) -> Read<Self> {
        let (mut kind, mut at, mut salt) = (None, None, None);
        for _ in 0..reader.map()? {
            match reader.bytes()? {
                b"type" => kind = Some(reader.bytes()?),
                b"hmac" if reader.bytes()?.len() == LEN => at = reader.position().checked_sub(LEN),
                b"salt" => salt = reader.bytes()?.try_into().ok(),
                b"hmac" => return Err(Flaw::Malformed),
                _ => reader.skip()?,
            }
        }
        match (kind, at, salt) {
            (Some(kind), ..) if kind != TYPE => Ok(Self::Absent),
            (Some(_), Some(at), Some(salt)) => Ok(Self::Present { at, salt }),
            _ => Ok(Self::Malformed),
        }
    }

    /// Verifies the authentication of `plain` as `context`, which is `manifest` or `archive`.
    pub fn judge(&self, keys: &Keys, context: &[u8], plain: &[u8]) -> Verdict {
        let (at, salt) = match self {
            Self::Absent => return Verdict::Absent,
            Self::Malformed => return Verdict::Wrong,
            Self::Present { at, salt } => (*at, salt),
        };
        let (Some((front, rest)), zeros) = (plain.split_at_checked(at), [0; LEN]) else { return Verdict::Wrong };
        let Some((mac, back)) = rest.split_at_checked(LEN) else { return Verdict::Wrong };
        let expected = keys.tam(salt, context, &[front, &zeros, back]);
        if expected.as_slice().ct_eq(mac).into() { Verdict::Authentic } else { Verdict::Wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors;
    use super::*;

    fn of(map: &[u8]) -> Tam {
        let mut reader = Reader::new(map);
        for _ in 0..reader.map().unwrap() {
            if reader.bytes().unwrap() == b"tam" {
                return Tam::read(&mut reader).unwrap();
            }
            reader.skip().unwrap();
        }
        Tam::Absent
    }

    #[test]
    fn the_vector_is_authentic_in_every_bit() {
        let manifest = vectors::manifest();
        let keys = vectors::keys(3);
        assert_eq!(of(&manifest).judge(&keys, b"manifest", &manifest), Verdict::Authentic);
        assert_eq!(of(&manifest).judge(&keys, b"archive", &manifest), Verdict::Wrong);
        assert_eq!(of(&manifest).judge(&vectors::keys(2), b"manifest", &manifest), Verdict::Wrong);
        let tam = of(&manifest);
        for at in 0..manifest.len() {
            let mut other = manifest.clone();
            other[at] ^= 1;
            assert_eq!(tam.judge(&keys, b"manifest", &other), Verdict::Wrong, "{at}");
        }
    }

    #[test]
    fn without_a_key_it_is_against_accidents() {
        // In mode none the key is the salt and the context: whoever reads it can make it.
        let mut map = vectors::manifest();
        let Tam::Present { at, salt } = of(&map) else { panic!() };
        map[at..at + 64].fill(0);
        let key = [&salt[..], b"manifest"].concat();
        let mac = crate::crypto::hmac_sha512(&key, &[&map]);
        map[at..at + 64].copy_from_slice(&mac);
        assert_eq!(of(&map).judge(&vectors::keys(2), b"manifest", &map), Verdict::Authentic);
    }

    #[test]
    fn odd_forms() {
        assert_eq!(of(b"\x81\xa1x\x01"), Tam::Absent);
        assert_eq!(of(b"\x81\xa3tam\x81\xa4type\xa1x"), Tam::Absent);
        for malformed in [&b"\x81\xa3tam\xc0"[..], b"\x81\xa3tam\x80", b"\x81\xa3tam\x81\xa4hmac\xa1x"] {
            assert_eq!(of(malformed), Tam::Malformed);
            assert_eq!(of(malformed).judge(&vectors::keys(3), b"manifest", malformed), Verdict::Wrong);
        }
    }
}
