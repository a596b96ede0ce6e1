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
use crate::crypto::Claim;
use crate::objects::{Method, Role, Unit};
use crate::platform::{Content, Opener, Opening, Scratch};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::ops::Range;

/// Opens objects with the repository's keys; shared by all workers.
pub struct ObjectOpener {
    keys: Arc<Keys>,
    log: Arc<Log>,
}

/// Units whose hashes are computed together.
const GROUP: usize = 8;

impl ObjectOpener {
    /// What the MAC of a unit covers, and the MAC, if the unit is well-formed so far.
    fn sealed<'a>(&self, opening: &'a Opening<'_>) -> Result<Option<Claim<'a>>, Fault> {
        let object = opening.outcome.as_ref().map_err(Fault::clone)?.bytes(opening.stored, &opening.plain);
        self.keys.sealed(object).map_err(|error| error.during(Stage::Open))
    }

    /// The content of a unit that is authentic.
    fn content(&self, opening: &mut Opening<'_>, scratch: &mut Scratch) -> Result<Content, Fault> {
        let Opening { unit, stored, plain, outcome } = opening;
        let Ok(Content::Stored(range)) = outcome else { return Err(Error::from(Check::Entry).during(Stage::Open)) };
        let object = stored.get_mut(range.clone()).unwrap_or_default();
        let payload = self.keys.decrypt(object).map_err(|error| error.during(Stage::Open))?;
        self.inflate(payload, unit.size, cap(unit.role), plain, scratch).map(in_entry)
    }

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
        let payload = self.keys.open(object).map_err(|error| error.during(Stage::Open))?;
        self.inflate(payload, size, cap, plain, scratch)
    }

    /// Decompresses a payload, which starts [`Mode::overhead`](super::mode::Mode::overhead) bytes after
    /// the type byte; content that was stored as it is, is given from the type byte on.
    fn inflate(
        &self,
        payload: &[u8],
        size: Option<u32>,
        cap: u32,
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let (method, range) = payload::unwrap(payload).map_err(|error| error.during(Stage::Inflate))?;
        let packed = payload.get(range.clone()).unwrap_or(&[]);
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

    fn open_alone(
        &self,
        unit: &Unit,
        stored: &mut [u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let object = stored.get_mut(Self::object(unit, stored)?).unwrap_or_default();
        let content = in_entry(self.unseal(object, unit.size, cap(unit.role), plain, scratch)?);
        if unit.id != MANIFEST && !self.keys.is_chunk(&unit.id, content.bytes(stored, plain)) {
            return Err(Error::from(Check::ChunkId).during(Stage::Verify));
        }
        Ok(content)
    }

    /// The object in the entry of a unit, from its type byte to its end.
    fn object(unit: &Unit, stored: &[u8]) -> Result<Range<usize>, Fault> {
        // The manifest has no id that its content could be compared with: it is no content of files.
        if unit.id == MANIFEST && unit.role != Role::Any {
            return Err(Error::from(Check::ObjectType).during(Stage::Open));
        }
        let len = entry::put(stored, &unit.id).map_err(|error| error.during(Stage::Open))?;
        Ok(HEADER_LEN..len)
    }
}

/// Most plaintext that a unit may have, bytes.
const fn cap(role: Role) -> u32 {
    match role {
        Role::Archive | Role::Any => limits::MANIFEST_MAX,
        Role::Content | Role::List | Role::Stream => limits::OBJECT_MAX,
    }
}

/// Content given from the type byte on, as one from the entry's first byte on.
fn in_entry(content: Content) -> Content {
    match content {
        Content::Stored(range) => Content::Stored(HEADER_LEN + range.start..HEADER_LEN + range.end),
        plain => plain,
    }
}

/// The plaintext of an opened unit with the id that it should have.
fn claim<'a>(opening: &'a Opening<'_>) -> Option<Claim<'a>> {
    let content = opening.outcome.as_ref().ok().filter(|_| opening.unit.id != MANIFEST)?;
    Some((content.bytes(opening.stored, &opening.plain), &opening.unit.id.0))
}

fn blame(fault: Fault, unit: &Unit) -> Fault {
    Fault { error: fault.error.of_chunk(unit.id).at(unit.at.offset), ..fault }
}

impl Opener for ObjectOpener {
    fn is_content(&self, id: &Id, plain: &[u8]) -> bool {
        self.keys.is_chunk(id, plain)
    }

    fn group(&self) -> usize {
        if self.keys.gains_from_many() { GROUP } else { 1 }
    }

    /// Step by step for all: entries, MACs together, decryption and decompression, ids together.
    fn open_group(&self, group: &mut [Opening<'_>], scratch: &mut Scratch) {
        for opening in &mut *group {
            opening.outcome = Self::object(opening.unit, opening.stored).map(Content::Stored);
        }
        let sealed: Vec<_> = group.iter().map(|opening| self.sealed(opening)).collect();
        let claims: Vec<_> = sealed.iter().filter_map(|sealed| sealed.as_ref().ok().copied().flatten()).collect();
        let mut verdicts = self.keys.are_authentic(&claims, scratch.wide()).into_iter();
        let checked: Vec<Result<(), Fault>> = sealed
            .into_iter()
            .map(|sealed| match sealed? {
                Some(_) if verdicts.next() != Some(true) => Err(Error::from(Check::Tag).during(Stage::Open)),
                _ => Ok(()),
            })
            .collect();
        for (opening, checked) in group.iter_mut().zip(checked) {
            opening.outcome = checked.and_then(|()| self.content(opening, scratch));
        }
        let claims: Vec<Claim<'_>> = group.iter().filter_map(claim).collect();
        let mut verdicts = self.keys.are_chunks(&claims, scratch.wide()).into_iter();
        let holds: Vec<bool> =
            group.iter().map(|opening| claim(opening).is_none() || verdicts.next() == Some(true)).collect();
        for (opening, holds) in group.iter_mut().zip(holds) {
            if !holds {
                opening.outcome = Err(Error::from(Check::ChunkId).during(Stage::Verify));
            }
            let outcome = core::mem::replace(&mut opening.outcome, Ok(Content::Plain(0)));
            opening.outcome = outcome.map_err(|fault| blame(fault, opening.unit));
        }
    }

    fn open(
        &self,
        unit: &Unit,
        stored: &mut [u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        self.open_alone(unit, stored, plain, scratch).map_err(|fault| blame(fault, unit))
    }

    fn object_name(&self, object: u32) -> String {
        self.log.segments.name(object)
    }
}
