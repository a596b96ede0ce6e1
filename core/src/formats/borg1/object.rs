//! Opening stored objects: from the entry in a segment to checked plaintext (borg1.md 6.3, 16).
//!
//! The order keeps what is done to unauthenticated bytes small: checksum, key, type byte, MAC,
//! decryption, bounded decompression, id.

use super::entry::{self, HEADER_LEN};
use super::envelope::Keys;
use super::log::Log;
use super::payload;
use super::replay::MANIFEST;
use crate::base::{Check, Error, Fault, Id, Result, Stage, limits};
use crate::objects::{Method, Role, Unit};
use crate::platform::{Content, Opener, Scratch};
use alloc::{string::String, sync::Arc, vec::Vec};

/// Opens objects with the repository's keys; shared by all workers.
pub struct ObjectOpener {
    keys: Arc<Keys>,
    log: Arc<Log>,
}

impl ObjectOpener {
    /// An opener with these keys, for objects in the segments of this log.
    pub const fn new(keys: Arc<Keys>, log: Arc<Log>) -> Self {
        Self { keys, log }
    }

    /// Opens an object without its entry, and without looking at its id: `object` starts with the type
    /// byte. `size` is the plaintext's length where it is known, `cap` its limit.
    ///
    /// # Errors
    /// A fault without a place.
    pub fn unseal(
        &self,
        object: &mut [u8],
        size: Option<u32>,
        cap: u32,
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let opened = self.keys.open(object).map_err(|error| error.during(Stage::Open))?;
        let (method, range) = payload::unwrap(opened).map_err(|error| error.during(Stage::Inflate))?;
        let packed = opened.get(range.clone()).unwrap_or(&[]);
        let content = match method {
            Method::None => {
                limits::within("plaintext size", packed.len() as u64, cap.into())
                    .map_err(|error| error.during(Stage::Inflate))?;
                let start = self.keys.mode().overhead();
                Content::Stored(start + range.start..start + range.end)
            }
            method => Content::Plain(scratch.inflate(method, packed, size, cap, plain)?),
        };
        if size.is_some_and(|size| size as usize != content.len()) {
            return Err(Error::from(Check::Length).during(Stage::Verify));
        }
        Ok(content)
    }
}

impl Opener for ObjectOpener {
    fn is_content(&self, id: &Id, plain: &[u8]) -> bool {
        self.keys.is_chunk(id, plain)
    }

    fn open(
        &self,
        unit: &Unit,
        stored: &mut [u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let blame = |fault: Fault| Fault { error: fault.error.of_chunk(unit.id).at(unit.at.offset), ..fault };
        let at_stage = |stage: Stage| move |error: Error| blame(error.during(stage));
        // The manifest has no id that its content could be compared with: it is no content of files.
        if unit.id == MANIFEST && unit.role != Role::Any {
            return Err(at_stage(Stage::Open)(Check::ObjectType.into()));
        }
        let len = entry::put(stored, &unit.id).map_err(at_stage(Stage::Open))?;
        let object = stored.get_mut(HEADER_LEN..len).unwrap_or_default();
        let cap = match unit.role {
            Role::Archive | Role::Any => limits::MANIFEST_MAX,
            Role::Content | Role::List | Role::Stream => limits::OBJECT_MAX,
        };
        let content = match self.unseal(object, unit.size, cap, plain, scratch).map_err(blame)? {
            Content::Stored(range) => Content::Stored(HEADER_LEN + range.start..HEADER_LEN + range.end),
            plain => plain,
        };
        if unit.id != MANIFEST && !self.keys.is_chunk(&unit.id, content.bytes(stored, plain)) {
            return Err(at_stage(Stage::Verify)(Check::ChunkId.into()));
        }
        Ok(content)
    }

    fn object_name(&self, object: u32) -> String {
        self.log.segments.name(object)
    }
}
