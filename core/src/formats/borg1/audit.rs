//! Reading a segment from front to end: every checksum, and whether it ends a transaction
//! (borg1.md 3.3, 3.4). Needs no key and keeps nothing but a few numbers.

use super::entry::{FRONT_LEN, Front, MAGIC, Tag};
use crate::base::{Check, Error, Result};
use crate::crypto::Crc32;
use crate::formats::Audit;
use alloc::{boxed::Box, vec::Vec};

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
    flaw: Option<(Check, u64)>,
}

#[derive(Clone, Debug)]
struct Open {
    start: u64,
    front: Front,
    left: usize,
    crc: Crc32,
}

impl SegmentAudit {
    /// Takes the next bytes.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.flaw.is_none() {
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
                self.flaw = Some((Check::Magic, start));
            }
        } else if let Some(front) = Front::parse(&self.front) {
            let mut crc = Crc32::new();
            crc.update(self.front.get(4..).unwrap_or(&[]));
            self.open = Some(Open { start, front, left: front.size as usize - FRONT_LEN, crc });
            self.close();
        } else {
            self.flaw = Some((Check::Entry, start));
        }
        self.front.clear();
    }

    /// Ends the open entry, if all of it is there.
    fn close(&mut self) {
        let Some(open) = self.open.take_if(|open| open.left == 0) else { return };
        if open.crc.finish() != open.front.crc {
            self.flaw = Some((Check::Crc, open.start));
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
        let cut = match &self.open {
            Some(open) => Some((Check::Truncated, open.start)),
            None => (!self.front.is_empty()).then(|| (Check::Truncated, self.seen - self.front.len() as u64)),
        };
        match self.flaw.or(cut) {
            Some((check, offset)) => Err(Error::from(check).at(offset)),
            None => Ok(()),
        }
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

    fn finish(self: Box<Self>) -> Result<()> {
        self.verdict()
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
