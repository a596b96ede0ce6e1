//! Envelopes: encryption and authentication around one byte string (borg2.md section 6).

use super::suite::{HashFamily, Protection, Suite};
use crate::base::{Check, Error, Id, Result, Secret};
use crate::crypto::{Aead, MacKey, sha256};
use alloc::vec::Vec;

/// Session keys kept at hand: one per writer run, and a restore meets few of them at a time.
const SESSIONS: usize = 8;

/// The opened key of a repository.
pub struct Keys {
    suite: &'static Suite,
    crypt_key: Secret,
    tag_key: Option<MacKey>,
    id_key: MacKey,
}

/// Cipher states by session id, most recently used last. One per thread.
#[derive(Default)]
pub struct Sessions(Vec<([u8; 24], Aead)>);

impl Keys {
    /// Derives what `suite` needs from the unwrapped key material (borg2.md 5.5).
    ///
    /// `crypt_key` counts in full, whatever its length: 64 bytes, or 160 if it came from Borg 1.
    pub fn new(suite: &'static Suite, crypt_key: Secret, id_key: &[u8; 32]) -> Self {
        let tag_key = (suite.protection == Protection::Mac)
            .then(|| mac_key(suite.hash, &sha256(&[crypt_key.expose(), suite.domain])));
        Self { suite, crypt_key, tag_key, id_key: mac_key(suite.hash, id_key) }
    }

    /// The suite these keys belong to.
    pub const fn suite(&self) -> &'static Suite {
        self.suite
    }

    /// The chunk id of the concatenation of `parts` (borg2.md section 4).
    pub fn chunk_id(&self, parts: &[&[u8]]) -> Id {
        self.id_key.mac(parts).into()
    }

    /// True if `plain` hashes to `id`.
    pub fn is_chunk(&self, id: &Id, plain: &[u8]) -> bool {
        self.id_key.verify(&[plain], &id.0)
    }

    /// Opens an envelope in place and returns its payload.
    ///
    /// `context` is the `aad` of borg2.md 6.3, `id` the chunk id, or empty for store objects.
    ///
    /// # Errors
    /// `EnvelopeType` for another suite's type byte or a set reserved byte, `Truncated`, `Tag`.
    pub fn open<'a>(
        &self,
        sessions: &mut Sessions,
        context: &[u8],
        id: &[u8],
        envelope: &'a mut [u8],
    ) -> Result<&'a mut [u8]> {
        if envelope.len() < self.suite.overhead() {
            return Err(Check::Truncated.into());
        }
        if envelope.first_chunk::<2>() != Some(&[self.suite.type_byte, 0]) {
            return Err(Check::EnvelopeType.into());
        }
        match &self.tag_key {
            None => self.open_aead(sessions, context, id, envelope),
            Some(key) => open_mac(key, context, id, envelope),
        }
    }

    /// Layout: type, reserved, counter u48be, session id 24, tag 16, ciphertext.
    fn open_aead<'a>(
        &self,
        sessions: &mut Sessions,
        context: &[u8],
        id: &[u8],
        envelope: &'a mut [u8],
    ) -> Result<&'a mut [u8]> {
        let (header, rest) = envelope.split_first_chunk_mut::<32>().ok_or(Check::Truncated)?;
        let (tag, payload) = rest.split_first_chunk_mut::<16>().ok_or(Check::Truncated)?;
        let (_, session) = header.split_last_chunk::<24>().ok_or(Check::Truncated)?;
        let mut nonce = [0; 12];
        if let (Some(low), Some(counter)) = (nonce.last_chunk_mut::<6>(), header.get(2..8)) {
            low.copy_from_slice(counter);
        }
        // Order: context, id, header. At most 42 + 32 + 32 bytes for objects, a name more for store objects.
        let mut aad = Vec::with_capacity(context.len() + id.len() + header.len());
        aad.extend_from_slice(context);
        aad.extend_from_slice(id);
        aad.extend_from_slice(header);
        let cipher = sessions.cipher(self, session)?;
        cipher.open_in_place(&nonce, &aad, tag, payload).map_err(|_| Error::from(Check::Tag))?;
        Ok(payload)
    }
}

impl Sessions {
    fn cipher(&mut self, keys: &Keys, session: &[u8; 24]) -> Result<&Aead> {
        let Protection::Aead(kind) = keys.suite.protection else { return Err(Check::EnvelopeType.into()) };
        match self.0.iter().position(|(known, _)| known == session) {
            Some(at) if at + 1 == self.0.len() => {}
            Some(at) => {
                let hit = self.0.remove(at);
                self.0.push(hit);
            }
            None => {
                if self.0.len() == SESSIONS {
                    self.0.remove(0);
                }
                let key = zeroize::Zeroizing::new(sha256(&[keys.crypt_key.expose(), session, keys.suite.domain]));
                self.0.push((*session, Aead::new(kind, &key)));
            }
        }
        self.0.last().map(|(_, cipher)| cipher).ok_or_else(|| Check::Tag.into())
    }
}

/// Layout: type, reserved, tag 32, payload in clear.
fn open_mac<'a>(key: &MacKey, context: &[u8], id: &[u8], envelope: &'a mut [u8]) -> Result<&'a mut [u8]> {
    let (header, rest) = envelope.split_first_chunk_mut::<2>().ok_or(Check::Truncated)?;
    let (tag, payload) = rest.split_first_chunk_mut::<32>().ok_or(Check::Truncated)?;
    let bound = u16::try_from(context.len() + id.len()).map_err(|_| Check::Sizes)?;
    if key.verify(&[header, &bound.to_be_bytes(), context, id, payload], tag) {
        Ok(payload)
    } else {
        Err(Check::Tag.into())
    }
}

fn mac_key(family: HashFamily, key: &[u8; 32]) -> MacKey {
    match family {
        HashFamily::Sha256 => MacKey::hmac_sha256(key),
        HashFamily::Blake3 => MacKey::blake3(key),
    }
}

/// The context of a store object named by the hash of its content (borg2.md 6.3).
pub fn hashed_context(repository: &Id, namespace: &str) -> Vec<u8> {
    let mut context = b"borg-store-object\0".to_vec();
    context.extend_from_slice(&repository.0);
    context.push(b'h');
    context.extend_from_slice(namespace.as_bytes());
    context
}
