//! Envelopes: the type byte, and MAC and encryption where the mode has them (borg1.md section 6).

use super::keys::KeyMaterial;
use super::mode::{Family, Mode};
use crate::base::{Check, Id, Result, Secret};
use crate::crypto::{AesCtr, Claim, MacKey, hmac_sha512, sha256};
use crate::platform::Wide;
use alloc::vec::Vec;

/// Length of a MAC.
const TAG_LEN: usize = 32;
/// Start of the context that the key of an authentication is derived with (borg1.md 10.2).
const TAM_CONTEXT: &[u8] = b"borg-metadata-authentication-";

/// The opened keys of a repository, or what stands for them where there are none.
pub struct Keys {
    mode: &'static Mode,
    cipher: Option<(AesCtr, MacKey)>,
    hash: IdHash,
    /// What authentications are derived from.
    secret: Secret,
}

enum IdHash {
    Plain,
    Keyed(MacKey),
    /// The key is missing: nothing can be compared.
    Unknown,
}

impl Keys {
    /// The keys of a repository that needs none.
    pub fn none(mode: &'static Mode) -> Self {
        Self { mode, cipher: None, hash: IdHash::Plain, secret: Secret::new(Vec::new()) }
    }

    /// What can be done without the keys of an authenticated mode: read, and verify nothing
    /// (borg1.md 7.7).
    pub fn unverified(mode: &'static Mode) -> Self {
        Self { mode, cipher: None, hash: IdHash::Unknown, secret: Secret::new(Vec::new()) }
    }

    /// Derives what `mode` needs from the unwrapped key material.
    ///
    /// # Errors
    /// `Key` if the material's lengths do not fit the mode.
    pub fn new(mode: &'static Mode, material: &KeyMaterial) -> Result<Self> {
        if !material.fits(mode) {
            return Err(Check::Key.into());
        }
        let keyed = |key: &Secret| match mode.family {
            Family::Blake2b => MacKey::blake2b_after(key.expose()),
            _ => MacKey::hmac_sha256(key.expose()),
        };
        let cipher = mode.encrypted.then(|| (AesCtr::new(&material.enc_key), keyed(&material.enc_hmac_key)));
        let (id_key, mac_key) = (material.id_key.expose(), material.enc_hmac_key.expose());
        let mut secret = Vec::with_capacity(id_key.len() + material.enc_key.len() + mac_key.len());
        secret.extend_from_slice(id_key);
        secret.extend_from_slice(material.enc_key.as_slice());
        secret.extend_from_slice(mac_key);
        Ok(Self { mode, cipher, hash: IdHash::Keyed(keyed(&material.id_key)), secret: Secret::new(secret) })
    }

    /// The mode these keys belong to.
    pub const fn mode(&self) -> &'static Mode {
        self.mode
    }

    /// True if nothing can be verified because the key is missing.
    pub const fn is_unverified(&self) -> bool {
        matches!(self.hash, IdHash::Unknown)
    }

    /// The chunk id of the concatenation of `parts` (borg1.md 6.4), if the key for it is there.
    pub fn chunk_id(&self, parts: &[&[u8]]) -> Option<Id> {
        match &self.hash {
            IdHash::Plain => Some(sha256(parts).into()),
            IdHash::Keyed(key) => Some(key.mac(parts).into()),
            IdHash::Unknown => None,
        }
    }

    /// True if `plain` hashes to `id`, or if that cannot be known.
    pub fn is_chunk(&self, id: &Id, plain: &[u8]) -> bool {
        match &self.hash {
            IdHash::Plain => sha256(&[plain]) == id.0,
            IdHash::Keyed(key) => key.verify(&[plain], &id.0),
            IdHash::Unknown => true,
        }
    }

    /// For each plaintext with its id, as [`is_chunk`](Self::is_chunk).
    pub fn are_chunks(&self, claims: &[Claim<'_>], wide: &Wide) -> Vec<bool> {
        match &self.hash {
            IdHash::Plain => claims.iter().map(|(plain, id)| sha256(&[plain]) == **id).collect(),
            IdHash::Keyed(key) => key.verify_many(claims, wide),
            IdHash::Unknown => alloc::vec![true; claims.len()],
        }
    }

    /// Opens an object in place and returns its payload, [`Mode::overhead`] bytes from its start.
    ///
    /// # Errors
    /// `Truncated`, `EnvelopeType` for another mode's type byte, `Tag`.
    pub fn open<'a>(&self, object: &'a mut [u8]) -> Result<&'a mut [u8]> {
        if let Some((sealed, tag)) = self.sealed(object)?
            && !self.is_authentic(sealed, tag)
        {
            return Err(Check::Tag.into());
        }
        self.decrypt(object)
    }

    /// True if hashes and MACs of several objects take less time together.
    pub fn gains_from_many(&self) -> bool {
        matches!(&self.hash, IdHash::Keyed(key) if key.gains_from_many())
    }

    /// What the MAC of an object covers, and the MAC; nothing in modes without one.
    ///
    /// # Errors
    /// `Truncated`, `EnvelopeType` for another mode's type byte.
    pub fn sealed<'a>(&self, object: &'a [u8]) -> Result<Option<Claim<'a>>> {
        if object.len() < self.mode.overhead() + 2 {
            return Err(Check::Truncated.into());
        }
        let (type_byte, rest) = object.split_first().ok_or(Check::Truncated)?;
        if !self.mode.accepts(*type_byte) {
            return Err(Check::EnvelopeType.into());
        }
        let has_mac = self.cipher.is_some();
        Ok(rest.split_at_checked(TAG_LEN).filter(|_| has_mac).map(|(tag, sealed)| (sealed, tag)))
    }

    fn is_authentic(&self, sealed: &[u8], tag: &[u8]) -> bool {
        self.cipher.as_ref().is_some_and(|(_, key)| key.verify(&[sealed], tag))
    }

    /// For each of what [`sealed`](Self::sealed) gave, whether the MAC holds.
    pub fn are_authentic(&self, sealed: &[Claim<'_>], wide: &Wide) -> Vec<bool> {
        self.cipher.as_ref().map_or_else(|| alloc::vec![false; sealed.len()], |(_, key)| key.verify_many(sealed, wide))
    }

    /// Decrypts an object that is authentic, in place, and returns its payload.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn decrypt<'a>(&self, object: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let (_, rest) = object.split_first_mut().ok_or(Check::Truncated)?;
        let Some((cipher, _)) = &self.cipher else { return Ok(rest) };
        let (_, sealed) = rest.split_at_mut_checked(TAG_LEN).ok_or(Check::Truncated)?;
        let (iv, payload) = sealed.split_first_chunk_mut::<8>().ok_or(Check::Truncated)?;
        let counter = u128::from(u64::from_be_bytes(*iv)).to_be_bytes();
        cipher.apply(&counter, payload);
        Ok(payload)
    }

    /// The MAC that authenticates the concatenation of `parts` as `context` under `salt`
    /// (borg1.md 10.2).
    pub fn tam(&self, salt: &[u8], context: &[u8], parts: &[&[u8]]) -> [u8; 64] {
        if self.mode.is_plain() {
            let mut key = salt.to_vec();
            key.extend_from_slice(context);
            return hmac_sha512(&key, parts);
        }
        let extracted = zeroize::Zeroizing::new(hmac_sha512(salt, &[self.secret.expose()]));
        let key = zeroize::Zeroizing::new(hmac_sha512(extracted.as_slice(), &[TAM_CONTEXT, context, &[1]]));
        hmac_sha512(key.as_slice(), parts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{self, hex};
    use super::*;

    #[test]
    fn objects_of_the_vectors_open() {
        let cases = [
            (
                vectors::keys(3),
                "03396e455032bee913e826fc9cf277a6705759eea78829e1344852d604cbc9a07e0000000000000001f05d1ecb26d5f0ef",
                "f532ec0a52feaa5fdd429dd5472d62a3593654ee6720a116056cb68a45897979",
            ),
            (
                vectors::keys(5),
                "05ce4649692b3d3fc2cb9092ab8da478a01773b13e3c60b6d000f5f3918d139c230000000000000001f05d1ecb26d5f0ef",
                "cd0369e53f371402dd253efc5d7934aba59dafb6000bfd96bdc0717d89f7a97f",
            ),
            (
                vectors::keys(2),
                "02000068656c6c6f0a",
                "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
            ),
        ];
        for (keys, object, id) in cases {
            let object = hex(object);
            assert_eq!(*keys.open(&mut object.clone()).unwrap(), *b"\0\0hello\n");
            assert_eq!(keys.chunk_id(&[b"hel", b"lo\n"]).unwrap().to_hex(), id);
            assert!(keys.is_chunk(&Id::from_hex(id.as_bytes()).unwrap(), b"hello\n"));
            assert!(!keys.is_chunk(&Id([0; 32]), b"hello\n"));
            for at in 0..object.len() {
                let mut other = object.clone();
                other[at] ^= 0x10;
                assert!(keys.open(&mut other).is_err() || (keys.mode().is_plain() && at > 0), "{at}");
            }
            for len in 0..keys.mode().overhead() + 2 {
                assert_eq!(keys.open(&mut object[..len].to_vec()), Err(Check::Truncated.into()));
            }
        }
    }

    #[test]
    fn keys_of_one_family_do_not_serve_another() {
        let material = vectors::material(3);
        assert!(Keys::new(Mode::of(5).unwrap(), &material).is_err());
        assert!(Keys::new(Mode::of(7).unwrap(), &material).is_ok());
        let unverified = Keys::unverified(Mode::of(7).unwrap());
        assert!(unverified.is_unverified() && unverified.chunk_id(&[]).is_none());
    }
}
