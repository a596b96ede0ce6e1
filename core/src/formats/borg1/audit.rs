//! Reading a segment from front to end: every checksum, and whether it ends a transaction
//! (borg1.md 3.3, 3.4). Needs no key and keeps nothing but a few numbers.

use super::entry::{FRONT_LEN, Front, MAGIC, Tag};
use crate::base::{Check, Error, Result};
use crate::crypto::Crc32;
use crate::formats::Audit;
use crate::formats::common::index::Slot;
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};

/// Follows the entries of one segment through its bytes.
#[derive(Clone, Debug, Default)]
pub struct SegmentAudit {
    /// Bytes seen.
    seen: u64,
    /// The magic or the front of an entry, as far as it has come.
    front: Vec<u8>,
    started: bool,
    /// The entry inside which the bytes end: where it starts, and what is still to come.
    open: Option<Open>,
    commits: u64,
    /// A PUT or DELETE came after a COMMIT.
    reopened: bool,
    /// Damage in order. Only a wrong checksum lets the audit go on.
    flaws: Vec<Flaw>,
    /// Which entries are in use; without it all are.
    used: Option<(Arc<Places>, u32)>,
}

/// Flaws that are remembered of one segment.
const FLAWS_MAX: usize = 64;

/// Where the live objects are: object numbers and offsets, sorted. 8 bytes each.
#[derive(Clone, Debug)]
pub struct Places(Vec<(u32, u32)>);

impl Places {
    /// The places of these objects.
    pub fn new(slots: &[Slot]) -> Self {
        let mut places: Vec<(u32, u32)> = slots.iter().map(|slot| (slot.object, slot.offset)).collect();
        places.sort_unstable();
        Self(places)
    }

    /// The first live entry of a segment at or after `offset`.
    fn next(&self, object: u32, offset: u64) -> Option<u64> {
        let offset = u32::try_from(offset).ok()?;
        let at = self.0.partition_point(|place| *place < (object, offset));
        self.0.get(at).filter(|(other, _)| *other == object).map(|(_, offset)| u64::from(*offset))
    }
}

/// One damage: what, and the bytes that cannot be told apart because of it.
#[derive(Clone, Copy, Debug)]
struct Flaw {
    check: Check,
    start: u64,
    end: u64,
}

impl Flaw {
    /// Damage after which it is unknown where entries begin.
    const fn to_the_end(check: Check, start: u64) -> Self {
        Self { check, start, end: u64::MAX }
    }

    fn error(&self) -> Error {
        Error::from(self.check).at(self.start)
    }
}

#[derive(Clone, Debug)]
struct Open {
    start: u64,
    front: Front,
    left: usize,
    crc: Crc32,
}

impl SegmentAudit {
    /// The audit of segment `object`, of which only the entries at `places` are in use.
    pub fn of_used(places: Arc<Places>, object: u32) -> Self {
        Self { used: Some((places, object)), ..Self::default() }
    }

    /// Takes the next bytes.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.flaws.last().is_none_or(|flaw| flaw.check == Check::Crc) {
            if let Some(open) = &mut self.open {
                let (now, later) = bytes.split_at(open.left.min(bytes.len()));
                open.crc.update(now);
                open.left -= now.len();
                self.seen += now.len() as u64;
                bytes = later;
                self.close();
                continue;
            }
            let need = if self.started { FRONT_LEN } else { MAGIC.len() };
            let (now, later) = bytes.split_at((need - self.front.len()).min(bytes.len()));
            self.front.extend_from_slice(now);
            self.seen += now.len() as u64;
            bytes = later;
            if self.front.len() == need {
                self.begin();
            }
        }
    }

    /// The front is there.
    fn begin(&mut self) {
        let start = self.seen - self.front.len() as u64;
        if !self.started {
            self.started = true;
            if self.front != MAGIC {
                self.flaws.push(Flaw::to_the_end(Check::Magic, start));
            }
        } else if let Some(front) = Front::parse(&self.front) {
            let mut crc = Crc32::new();
            crc.update(self.front.get(4..).unwrap_or(&[]));
            self.open = Some(Open { start, front, left: front.size as usize - FRONT_LEN, crc });
            self.close();
        } else {
            self.flaws.push(Flaw::to_the_end(Check::Entry, start));
        }
        self.front.clear();
    }

    /// Ends the open entry, if all of it is there.
    fn close(&mut self) {
        let Some(open) = self.open.take_if(|open| open.left == 0) else { return };
        if open.crc.finish() != open.front.crc && self.flaws.len() < FLAWS_MAX {
            self.flaws.push(Flaw { check: Check::Crc, start: open.start, end: self.seen });
        }
        match open.front.tag {
            Tag::Commit => self.commits += 1,
            Tag::Put | Tag::Delete => self.reopened |= self.commits > 0,
        }
    }

    /// The first damage.
    ///
    /// # Errors
    /// `Magic`, `Entry`, `Crc` or `Truncated`, with the offset.
    pub fn verdict(&self) -> Result<()> {
        self.flaws.first().copied().or(self.cut()).map_or(Ok(()), |flaw| Err(flaw.error()))
    }

    /// The entry that the bytes end in.
    fn cut(&self) -> Option<Flaw> {
        let start = match &self.open {
            Some(open) => open.start,
            None if self.front.is_empty() => return None,
            None => self.seen - self.front.len() as u64,
        };
        Some(Flaw::to_the_end(Check::Truncated, start))
    }

    /// True if the segment ends a transaction: it is whole, and nothing follows its first COMMIT.
    pub fn is_committed(&self) -> bool {
        self.verdict().is_ok() && self.commits > 0 && !self.reopened
    }
}

impl Audit for SegmentAudit {
    fn update(&mut self, bytes: &[u8]) {
        self.take(bytes);
    }

    fn finish(self: Box<Self>) -> Result<Option<String>> {
        let Some((places, object)) = &self.used else { return self.verdict().map(|()| None) };
        let flaws = self.flaws.iter().copied().chain(self.cut());
        let concerns = |flaw: &Flaw| places.next(*object, flaw.start).is_some_and(|used| used < flaw.end);
        if let Some(flaw) = flaws.clone().find(concerns) {
            return Err(flaw.error());
        }
        let Some(first) = flaws.clone().next() else { return Ok(None) };
        let count = flaws.count();
        Ok(Some(format!("{count} damaged entries that nothing uses, the first at {}: {}", first.start, first.check)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::COMMIT;
    use super::super::vectors::sealed;
    use super::*;

    fn audit(bytes: &[u8], step: usize) -> SegmentAudit {
        let mut audit = SegmentAudit::default();
        bytes.chunks(step).for_each(|piece| audit.update(piece));
        audit
    }

    fn segment(entries: &[&[u8]]) -> Vec<u8> {
        [&MAGIC[..], &entries.concat()].concat()
    }

    #[test]
    fn commits_count_only_at_the_end() {
        let put = sealed(0, &[1; 50]);
        let delete = sealed(1, &[1; 32]);
        for (entries, committed) in [
            (&[&COMMIT[..]][..], true),
            (&[&put, &delete, COMMIT], true),
            (&[&put, COMMIT, COMMIT], true),
            (&[&put, COMMIT, &put, COMMIT], false),
            (&[COMMIT, &delete], false),
            (&[&put], false),
            (&[], false),
            (&[COMMIT, b"abc"], false),
        ] {
            let bytes = segment(entries);
            for step in [1, 7, 1000] {
                assert_eq!(audit(&bytes, step).is_committed(), committed, "{entries:?}");
            }
        }
    }

    #[test]
    fn damage_of_what_nothing_uses_is_a_remark() {
        let (a, b) = (sealed(0, &[1; 50]), sealed(0, &[2; 50]));
        let bytes = segment(&[&a, &b, &sealed(1, &[1; 32]), COMMIT]);
        let slot = |offset: u32| Slot { id: crate::base::Id([0; 32]), object: 7, offset, len: 59 };
        let judge = |bytes: &[u8], live: &[u32]| {
            let slots: Vec<Slot> = live.iter().map(|offset| slot(*offset)).collect();
            let mut audit = SegmentAudit::of_used(Arc::new(Places::new(&slots)), 7);
            bytes.chunks(16).for_each(|piece| audit.update(piece));
            Box::new(audit).finish()
        };
        assert_eq!(judge(&bytes, &[8, 67]), Ok(None));
        let mut other = bytes.clone();
        other[30] ^= 1;
        assert_eq!(judge(&other, &[8, 67]).unwrap_err().place().offset, Some(8));
        assert!(judge(&other, &[67]).unwrap().unwrap().starts_with("1 damaged entries"));
        // A second one that is in use is found behind it.
        other[90] ^= 1;
        assert_eq!(judge(&other, &[67]).unwrap_err().place().offset, Some(67));
        // A wrong length hides what follows.
        let mut other = bytes.clone();
        other[12] ^= 4;
        assert!(judge(&other, &[67]).is_err());
        assert!(judge(&other, &[]).unwrap().is_some());
        assert!(judge(&bytes[..70], &[8, 67]).is_err());
    }

    #[test]
    fn every_flip_and_every_cut_is_seen() {
        let bytes = segment(&[&sealed(0, &[1; 50]), &sealed(1, &[1; 32]), COMMIT]);
        let starts = [8, 67, 108, 117];
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            let error = audit(&other, 16).verdict().unwrap_err();
            let start = starts.iter().rfind(|start| **start <= at).copied().unwrap_or(0);
            assert_eq!(error.place().offset, Some(start as u64), "{at}: {error}");
            assert_eq!(audit(&bytes[..at], 16).verdict().is_ok(), at == 0 || starts.contains(&at), "{at}");
            assert!(!audit(&bytes[..at], 16).is_committed());
        }
    }
}
