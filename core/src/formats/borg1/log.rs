//! The log as a whole: its segments and where the live objects are (borg1.md 3, 4).

use super::audit::SegmentAudit;
use super::entry::{self, HEADER_LEN};
use super::replay::{MANIFEST, replay};
use super::segments::Segments;
use super::stored_index;
use crate::base::{Check, Error, Kind, Result};
use crate::formats::Audit;
use crate::formats::common::index::{Index, Slot};
use crate::objects::Notice;
use crate::platform::Port;
use alloc::{format, vec::Vec};

/// Attempts at a log that a writer changes under our hands.
const ATTEMPTS: usize = 3;
/// Objects looked at for a type byte where the manifest has none.
const LOOKS: usize = 64;
/// Bytes read at a time.
const RUN: u64 = 1 << 20;

/// The segments of the last transaction and the index of what they hold.
#[derive(Clone, Debug)]
pub struct Log {
    /// The segments.
    pub segments: Segments,
    /// Live objects, the manifest among them.
    pub index: Index,
    /// True if the index is the writer's own, whose lengths are only bounds.
    pub is_stored: bool,
    /// What was found on the way.
    pub notices: Vec<Notice>,
}

impl Log {
    /// Finds the last transaction and reads the index, or replays the log.
    ///
    /// # Errors
    /// As [`Segments::committed`]; I/O errors.
    pub async fn open(port: &Port, per_dir: u32) -> Result<Self> {
        let mut failure = Error::from(Check::NoCommit);
        for _ in 0..ATTEMPTS {
            match Self::attempt(port, per_dir).await {
                // Compaction removes segments while we read: look again.
                Err(error) if matches!(error.kind(), Kind::Missing(_)) => failure = error,
                other => return other,
            }
        }
        Err(failure)
    }

    async fn attempt(port: &Port, per_dir: u32) -> Result<Self> {
        let mut notices = Vec::new();
        if port.stat("lock.exclusive").await?.is_some() {
            let text = "the repository is locked: a writer may be at work, or one was interrupted";
            notices.push(Notice { serious: false, text: text.into() });
        }
        let segments = Segments::committed(port, per_dir, &mut notices).await?;
        let (slots, is_stored) = match stored_index::load(port, &segments).await? {
            Ok(slots) => (slots, true),
            Err(why) => {
                let text = format!("the index is not used ({why}); replaying the log instead");
                notices.push(Notice { serious: false, text });
                (replay(port, &segments, &mut notices).await?, false)
            }
        };
        Ok(Self { segments, index: Index::of_sorted(slots), is_stored, notices })
    }

    /// The stored object of the manifest, its entry checked.
    ///
    /// # Errors
    /// `Missing` without one, damage of its entry, I/O errors.
    pub async fn manifest(&self, port: &Port) -> Result<Vec<u8>> {
        let slot = self.index.find(&MANIFEST).ok_or_else(|| Error::new(Kind::Missing("the manifest")))?;
        self.object(port, slot).await.map_err(|error| error.at(slot.offset.into()))
    }

    async fn object(&self, port: &Port, slot: &Slot) -> Result<Vec<u8>> {
        let name = self.segments.name(slot.object);
        let mut stored = port.read(&name, slot.offset.into(), slot.len.into()).await?;
        let len = entry::put(&stored, &slot.id).map_err(|error| error.in_object(&name))?;
        stored.truncate(len);
        stored.drain(..HEADER_LEN.min(len));
        Ok(stored)
    }

    /// The type byte of the manifest, or where it is lost, that of the first objects that can be read.
    ///
    /// # Errors
    /// Why the manifest cannot be read, if nothing else can; I/O errors.
    pub async fn type_byte(&self, port: &Port) -> Result<u8> {
        let failure = match self.manifest(port).await {
            Ok(object) => return object.first().copied().ok_or_else(|| Check::Truncated.into()),
            Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
            Err(error) => error,
        };
        for slot in self.index.slots().iter().filter(|slot| slot.id != MANIFEST).take(LOOKS) {
            match self.object(port, slot).await {
                Ok(object) if !object.is_empty() => return object.first().copied().ok_or(failure),
                Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
                _ => {}
            }
        }
        Err(failure)
    }

    /// Makes sure that a manifest which nothing authenticates was not met by hopping into the middle
    /// of a file's content: everything before it in its segment must hold.
    ///
    /// # Errors
    /// The first damage before the manifest; I/O errors.
    pub async fn prove_manifest(&self, port: &Port) -> Result<()> {
        let Some(slot) = self.index.find(&MANIFEST).filter(|_| !self.is_stored) else { return Ok(()) };
        let name = self.segments.name(slot.object);
        let mut audit = SegmentAudit::default();
        let (mut at, end) = (0, u64::from(slot.offset));
        while at < end {
            let bytes = port.read(&name, at, RUN.min(end - at)).await?;
            if bytes.is_empty() {
                break;
            }
            at += bytes.len() as u64;
            audit.update(&bytes);
        }
        audit.verdict().map_err(|error| error.in_object(&name))
    }
}
