//! Keys: the wrapped blob and its opening by passphrase (borg1.md 7.3 to 7.5).

use super::mode::Mode;
use crate::base::{Check, Denied, Error, Id, Result, Secret, Unsupported};
use crate::crypto::{AesCtr, MacKey, pbkdf2_sha256};
use crate::formats::common::msgpack::{Flaw, Reader};
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Most pairs of either map.
const PAIRS_MAX: usize = 16;
/// Longest sealed inner map accepted, bytes (borg1.md 16).
const SEALED_MAX: usize = 4096;

/// A key as stored: sealed under a passphrase, nothing verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedKey {
    iterations: u32,
    salt: Vec<u8>,
    hash: [u8; 32],
    data: Vec<u8>,
}

/// The unwrapped key material.
pub struct KeyMaterial {
    /// Key of the cipher.
    pub enc_key: Zeroizing<[u8; 32]>,
    /// Key of the MAC.
    pub enc_hmac_key: Secret,
    /// Key of the chunk id hash.
    pub id_key: Secret,
}

impl SealedKey {
    /// Parses the decoded blob.
    ///
    /// # Errors
    /// `Key` if malformed, `Unsupported` for another version or wrapping.
    pub fn parse(blob: &[u8]) -> Result<Self> {
        let map = OuterMap::read(blob).map_err(|_| Error::from(Check::Key))?;
        if map.version != Some(1) || map.algorithm != Some(b"sha256") {
            let algorithm = map.algorithm.unwrap_or_default();
            return Err(Unsupported::KeyWrap(alloc::format!("'{}'", algorithm.escape_ascii())).into());
        }
        let (Some(iterations), Some(salt), Some(hash), Some(data)) = (map.iterations, map.salt, map.hash, map.data)
        else {
            return Err(Check::Key.into());
        };
        let hash = hash.try_into().map_err(|_| Check::Key)?;
        if !(8..=1024).contains(&salt.len()) || !(1..=SEALED_MAX).contains(&data.len()) {
            return Err(Check::Key.into());
        }
        Ok(Self { iterations, salt: salt.to_vec(), hash, data: data.to_vec() })
    }

    /// Opens the key with `passphrase` and checks that it belongs to `repository`.
    ///
    /// # Errors
    /// `Denied(WrongPassphrase)` if the MAC does not hold, which a damaged key shows too; `KeyRepository` or
    /// `Key` for an opened key that does not fit.
    pub fn open(&self, passphrase: &Secret, repository: &Id) -> Result<KeyMaterial> {
        let kek = pbkdf2_sha256(passphrase, &self.salt, self.iterations)?;
        let cipher = AesCtr::new(kek.expose().try_into().map_err(|_| Check::Key)?);
        let mut inner = Zeroizing::new(self.data.clone());
        cipher.apply(&[0; 16], &mut inner);
        // The MAC is over the plaintext.
        if !MacKey::hmac_sha256(kek.expose()).verify(&[&inner], &self.hash) {
            return Err(Denied::WrongPassphrase.into());
        }
        KeyMaterial::parse(&inner, repository)
    }
}

#[derive(Default)]
struct OuterMap<'a> {
    version: Option<u32>,
    algorithm: Option<&'a [u8]>,
    iterations: Option<u32>,
    salt: Option<&'a [u8]>,
    hash: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
}

impl<'a> OuterMap<'a> {
    fn read(blob: &'a [u8]) -> Result<Self, Flaw> {
        let mut map = Self::default();
        let mut reader = Reader::new(blob);
        for _ in 0..pairs(&mut reader)? {
            match reader.bytes()? {
                b"version" => map.version = Some(reader.int()?),
                b"algorithm" => map.algorithm = Some(reader.bytes()?),
                b"iterations" => map.iterations = Some(reader.int()?),
                b"salt" => map.salt = Some(reader.bytes()?),
                b"hash" => map.hash = Some(reader.bytes()?),
                b"data" => map.data = Some(reader.bytes()?),
                _ => reader.skip()?,
            }
        }
        if reader.is_empty() { Ok(map) } else { Err(Flaw::Malformed) }
    }
}

fn pairs(reader: &mut Reader<'_>) -> Result<usize, Flaw> {
    reader.map().and_then(|pairs| if pairs <= PAIRS_MAX { Ok(pairs) } else { Err(Flaw::Malformed) })
}

impl KeyMaterial {
    /// Parses the unwrapped inner map (borg1.md 7.5).
    fn parse(bytes: &[u8], repository: &Id) -> Result<Self> {
        let malformed = |_: Flaw| Error::from(Check::Key);
        let mut reader = Reader::new(bytes);
        let (mut version, mut owner, mut enc_key, mut enc_hmac_key, mut id_key) = (None, None, None, None, None);
        let secret = |bytes: &[u8]| Some(Secret::new(bytes.to_vec()));
        for _ in 0..pairs(&mut reader).map_err(malformed)? {
            match reader.bytes().map_err(malformed)? {
                b"version" => version = Some(reader.int::<u32>().map_err(malformed)?),
                b"repository_id" => owner = Some(reader.id().map_err(malformed)?),
                b"enc_key" => enc_key = Some(Zeroizing::new(reader.id().map_err(malformed)?.0)),
                b"enc_hmac_key" => enc_hmac_key = secret(reader.bytes().map_err(malformed)?),
                b"id_key" => id_key = secret(reader.bytes().map_err(malformed)?),
                _ => reader.skip().map_err(malformed)?,
            }
        }
        if version != Some(1) {
            return Err(Unsupported::KeyWrap(alloc::format!("inner version {version:?}")).into());
        }
        if owner != Some(*repository) {
            return Err(Check::KeyRepository.into());
        }
        match (enc_key, enc_hmac_key, id_key) {
            (Some(enc_key), Some(enc_hmac_key), Some(id_key)) => Ok(Self { enc_key, enc_hmac_key, id_key }),
            _ => Err(Check::Key.into()),
        }
    }

    /// True if the keys have the lengths that `mode` demands: a changed type byte must not lead to
    /// keys of one family being used as those of another (borg1.md 16).
    pub fn fits(&self, mode: &Mode) -> bool {
        let len = mode.family.key_len();
        self.enc_hmac_key.expose().len() == len && self.id_key.expose().len() == len
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors;
    use super::*;
    use crate::base::Kind;
    use crate::formats::common::keyfile;

    #[test]
    fn the_vectors_open() {
        for (blob, type_byte) in [(vectors::hmac_blob(), 3), (keyfile::decode(vectors::BLAKE2_BLOB).unwrap(), 5)] {
            let sealed = SealedKey::parse(&blob).unwrap();
            let material = sealed.open(&Secret::new(b"test".to_vec()), &vectors::REPOSITORY).unwrap();
            assert!(material.enc_key.iter().copied().eq(0..32));
            assert!(material.fits(Mode::of(type_byte).unwrap()) && !material.fits(Mode::of(type_byte ^ 6).unwrap()));
            let foreign = sealed.open(&Secret::new(b"test".to_vec()), &Id([0; 32])).err().unwrap();
            assert_eq!(foreign, Check::KeyRepository.into());
            let wrong = sealed.open(&Secret::new(b"Test".to_vec()), &vectors::REPOSITORY).err().unwrap();
            assert_eq!(wrong.kind(), &Kind::Denied(Denied::WrongPassphrase));
        }
    }

    #[test]
    fn cut_or_strange_blobs_are_refused() {
        let blob = vectors::hmac_blob();
        for cut in 0..blob.len() {
            assert_eq!(SealedKey::parse(&blob[..cut]), Err(Check::Key.into()), "{cut}");
        }
        let at = blob.windows(6).position(|six| six == b"sha256").unwrap();
        let mut newer = blob.clone();
        newer[at] = b'S';
        assert!(matches!(SealedKey::parse(&newer).unwrap_err().kind(), Kind::Unsupported(_)));
        let mut longer = blob.clone();
        longer.push(0);
        assert_eq!(SealedKey::parse(&longer), Err(Check::Key.into()));
        // So many rounds would take minutes.
        let mut slow = SealedKey::parse(&blob).unwrap();
        slow.iterations = u32::MAX;
        let error = slow.open(&Secret::new(Vec::new()), &vectors::REPOSITORY).err().unwrap();
        assert!(matches!(error.kind(), Kind::OverLimit { .. }));
    }
}
