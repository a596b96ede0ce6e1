//! Keys: the text form, the wrapped blob and its opening by passphrase (borg2.md section 5).

use crate::base::{Check, Denied, Error, Id, Result, Secret, Unsupported};
use crate::crypto::{Aead, AeadKind, Argon2Params, Argon2Variant, argon2};
pub use crate::formats::common::keyfile::belongs_to;
use crate::formats::common::keyfile::sealed;
use crate::formats::common::msgpack::{Flaw, Reader};
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Longest sealed inner map accepted, bytes (borg2.md 15.1).
const SEALED_MAX: usize = 4096;
/// The one wrapping of repository version 5.
const ALGORITHM: &[u8] = b"argon2 chacha20-poly1305";

/// A key as stored: sealed under a passphrase, nothing verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    argon2: Argon2Params,
    salt: Vec<u8>,
    /// Tag first, then ciphertext.
    data: Vec<u8>,
}

/// The unwrapped key material.
pub struct KeyMaterial {
    /// The encryption secret, in full.
    pub crypt_key: Secret,
    /// Key of the chunk id hash.
    pub id_key: Zeroizing<[u8; 32]>,
}

impl SealedKey {
    /// Parses the text form: a line `BORG_KEY <id>`, then base64 lines.
    ///
    /// # Errors
    /// `Key` if malformed, `Unsupported` for another version or wrapping.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Self::from_map(&sealed(text)?)
    }

    fn from_map(bytes: &[u8]) -> Result<Self> {
        let map = OuterMap::read(bytes).map_err(|_| Error::from(Check::Key))?;
        if map.version != Some(1) || map.algorithm.as_deref() != Some(ALGORITHM) {
            let algorithm = map.algorithm.unwrap_or_default();
            return Err(Unsupported::KeyWrap(alloc::format!("'{}'", algorithm.escape_ascii())).into());
        }
        let variant = match map.variant.as_deref() {
            Some(b"id") => Argon2Variant::Id,
            Some(b"i") => Argon2Variant::I,
            Some(b"d") => Argon2Variant::D,
            _ => return Err(Check::Key.into()),
        };
        let (Some(time), Some(memory_kib), Some(lanes)) = (map.time, map.memory, map.lanes) else {
            return Err(Check::Key.into());
        };
        let (Some(salt), Some(data)) = (map.salt, map.data) else { return Err(Check::Key.into()) };
        if !(8..=64).contains(&salt.len()) || !(17..=SEALED_MAX).contains(&data.len()) {
            return Err(Check::Key.into());
        }
        Ok(Self { argon2: Argon2Params { variant, time, memory_kib, lanes }, salt, data })
    }

    /// Opens the key with `passphrase` and checks that it belongs to `repository`.
    ///
    /// # Errors
    /// `Denied(WrongPassphrase)` if the tag does not hold, which a damaged key shows too;
    /// `KeyRepository` or `Key` for an opened key that does not fit.
    pub fn open(&self, passphrase: &Secret, repository: &Id) -> Result<KeyMaterial> {
        let derived = argon2(&self.argon2, passphrase, &self.salt)?;
        let kek: &[u8; 32] = derived.expose().try_into().map_err(|_| Check::Key)?;
        let (tag, sealed) = self.data.split_first_chunk::<16>().ok_or(Check::Key)?;
        let mut inner = Zeroizing::new(sealed.to_vec());
        Aead::new(AeadKind::ChaCha20Poly1305, kek)
            .open_in_place(&[0; 12], b"", tag, &mut inner)
            .map_err(|_| Error::from(Denied::WrongPassphrase))?;
        KeyMaterial::parse(&inner, repository)
    }
}

#[derive(Default)]
struct OuterMap {
    version: Option<u32>,
    algorithm: Option<Vec<u8>>,
    variant: Option<Vec<u8>>,
    time: Option<u32>,
    memory: Option<u32>,
    lanes: Option<u32>,
    salt: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
}

impl OuterMap {
    fn read(bytes: &[u8]) -> Result<Self, Flaw> {
        let mut map = Self::default();
        let mut reader = Reader::new(bytes);
        for _ in 0..reader.map()?.min(17) {
            match reader.bytes()? {
                b"version" => map.version = Some(reader.int()?),
                b"algorithm" => map.algorithm = Some(reader.bytes()?.to_vec()),
                b"argon2_type" => map.variant = Some(reader.bytes()?.to_vec()),
                b"argon2_time_cost" => map.time = Some(reader.int()?),
                b"argon2_memory_cost" => map.memory = Some(reader.int()?),
                b"argon2_parallelism" => map.lanes = Some(reader.int()?),
                b"salt" => map.salt = Some(reader.bytes()?.to_vec()),
                b"data" => map.data = Some(reader.bytes()?.to_vec()),
                _ => reader.skip()?,
            }
        }
        Ok(map)
    }
}

impl KeyMaterial {
    /// Parses the unwrapped inner map (borg2.md 5.5).
    fn parse(bytes: &[u8], repository: &Id) -> Result<Self> {
        let malformed = |_: Flaw| Error::from(Check::Key);
        let mut reader = Reader::new(bytes);
        let (mut version, mut owner, mut crypt_key, mut id_key) = (None, None, None, None);
        for _ in 0..reader.map().map_err(malformed)?.min(17) {
            match reader.bytes().map_err(malformed)? {
                b"version" => version = Some(reader.int::<u32>().map_err(malformed)?),
                b"repository_id" => owner = Some(reader.id().map_err(malformed)?),
                b"crypt_key" => crypt_key = Some(Secret::new(reader.bytes().map_err(malformed)?.to_vec())),
                b"id_key" => id_key = Some(Zeroizing::new(reader.id().map_err(malformed)?.0)),
                _ => reader.skip().map_err(malformed)?,
            }
        }
        if version != Some(2) {
            return Err(Unsupported::KeyWrap(alloc::format!("inner version {version:?}")).into());
        }
        if owner != Some(*repository) {
            return Err(Check::KeyRepository.into());
        }
        match (crypt_key, id_key) {
            (Some(crypt_key), Some(id_key)) if crypt_key.expose().len() >= 32 => Ok(Self { crypt_key, id_key }),
            _ => Err(Check::Key.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    /// borg2.md 19.1, passphrase `test`.
    const VECTOR: &str = "BORG_KEY a589d7fabaad156f9f93f426eef9bec25b9bc464ae56250bf07c18cbf329d193
ialhbGdvcml0aG24YXJnb24yIGNoYWNoYTIwLXBvbHkxMzA1smFyZ29uMl9tZW1vcnlfY2
9zdM4AAQAAsmFyZ29uMl9wYXJhbGxlbGlzbQSwYXJnb24yX3RpbWVfY29zdAOrYXJnb24y
X3R5cGWiaWSkZGF0YcTPRK3tcIMm9g1eh1D0TVU1HqXUd4Yo08CZc++v/2xd0gUWuVHUW0
iewmr58N5/Ni9xVlA3s3BCOlfbPVsCjegCFnCBjrD63Rl6PetyEEoBpO5+WmGBrRdcQS9m
z3HiOFjueO12wKNQIX/o+AlegUuGB+Iv1exk5UWS6+Mfxb8m2UypX4lt0z4I+vHNjKzeGe
6gjnA0CEAmw0mtMe/8ERdjG0u3WcvM1BOmlTb4rYN8eTsQzjD39cTmafbKbYCOXpCBuqHQ
nqP9ubnfGq9MMW0LpWxhYmVspWFkbWlupHNhbHTEEPcKXx2P2iLGQ0/zevzrI1OndmVyc2
lvbgE=
";

    fn repository() -> Id {
        Id::from_hex(VECTOR.as_bytes().get(9..73).unwrap()).unwrap()
    }

    #[test]
    fn the_vector_opens() {
        assert!(belongs_to(VECTOR.as_bytes(), &repository()));
        assert!(!belongs_to(VECTOR.as_bytes(), &Id([0; 32])));
        let sealed = SealedKey::parse(VECTOR.replace('\n', "\r\n").as_bytes()).unwrap();
        let material = sealed.open(&Secret::new(b"test".to_vec()), &repository()).unwrap();
        assert_eq!(Id(*material.id_key).to_hex(), "e5f49a8d8fd7b2ff7602ed56ac008f98f964ca39979f75a83d978420256edb32");
        assert_eq!(material.crypt_key.expose().len(), 64);
        let foreign = sealed.open(&Secret::new(b"test".to_vec()), &Id([0; 32])).err().unwrap();
        assert_eq!(foreign, Check::KeyRepository.into());
        let wrong = sealed.open(&Secret::new(b"Test".to_vec()), &repository()).err().unwrap();
        assert_eq!(wrong.kind(), &Kind::Denied(Denied::WrongPassphrase));
    }

    #[test]
    fn cut_key_text_is_malformed() {
        for cut in [10, 72, 74, 100, 200, VECTOR.len() - 100] {
            assert_eq!(SealedKey::parse(&VECTOR.as_bytes()[..cut]), Err(Check::Key.into()), "{cut}");
        }
    }
}
