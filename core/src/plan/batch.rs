//! Batches: units that cross to a worker together, and the reads that fetch them.
//!
//! A queue operation costs microseconds, as much as decoding a small unit; so units travel in
//! batches of a certain expected decode time ([`Pace`]). Neighbours in a pack are fetched with one read.

use crate::base::Id;
use crate::objects::{Extent, Load, Unit};
use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;

/// Two units of one object whose gap is at most this are fetched by one read: reading a few
/// unwanted kilobytes costs less than another call, or another seek.
pub const HOLE_MAX: u64 = 16 << 10;
/// Longest merged read, bytes.
pub const READ_MAX: u64 = 8 << 20;

/// One read of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRun {
    /// Object number.
    pub object: u32,
    /// First byte in the object.
    pub offset: u64,
    /// Bytes to read.
    pub len: u64,
    /// Where they go in the batch's buffer.
    pub to: usize,
}

/// Units and how to fetch them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The units, each once.
    pub units: Vec<Unit>,
    /// The reads, in storage order.
    pub reads: Vec<ReadRun>,
    /// For each unit: its read, and the start of its bytes in the buffer.
    places: Vec<(u32, usize)>,
    /// Buffer length in bytes.
    pub stored: usize,
    /// Sum of the units' declared plaintext sizes.
    pub plain: u64,
}

impl Batch {
    /// Lays out the reads for `units`: sorted by place, neighbours merged.
    pub fn new(units: Vec<Unit>) -> Self {
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by_key(|&at| units.get(at).map(|unit| unit.at));
        let mut reads: Vec<ReadRun> = Vec::new();
        let mut places = alloc::vec![(0, 0); units.len()];
        let mut stored = 0usize;
        let mut plain = 0u64;
        for at in order {
            let Some(unit) = units.get(at) else { continue };
            let extent = unit.at;
            let merged = reads.last_mut().filter(|read| joins(read, &extent));
            let place = match merged {
                Some(read) => {
                    let grown = read.len.max(extent.end() - read.offset);
                    stored += (grown - read.len) as usize;
                    read.len = grown;
                    read.to + (extent.offset - read.offset) as usize
                }
                None => {
                    reads.push(ReadRun {
                        object: extent.object,
                        offset: extent.offset,
                        len: extent.len.into(),
                        to: stored,
                    });
                    stored += extent.len as usize;
                    stored - extent.len as usize
                }
            };
            if let Some(slot) = places.get_mut(at) {
                *slot = ((reads.len() - 1) as u32, place);
            }
            plain += u64::from(unit.size.unwrap_or(0));
        }
        Self { units, reads, places, stored, plain }
    }

    /// Where the stored bytes of unit `at` lie in the buffer.
    pub fn place(&self, at: usize) -> Option<Range<usize>> {
        let (_, start) = *self.places.get(at)?;
        Some(start..start + self.units.get(at)?.at.len as usize)
    }

    /// Which read covers unit `at`.
    pub fn read_of(&self, at: usize) -> Option<usize> {
        self.places.get(at).map(|(read, _)| *read as usize)
    }

    /// What the batch holds while it is in flight, counted as so many units of work.
    pub const fn load(&self, units: usize) -> Load {
        Load { stored: self.stored as u64, plain: self.plain, units: units as u64 }
    }
}

/// True if `extent` continues `read` closely enough. Overlapping extents (only a hostile index
/// has them) are kept apart, since each unit is decrypted in place.
fn joins(read: &ReadRun, extent: &Extent) -> bool {
    let end = read.offset + read.len;
    read.object == extent.object
        && extent.offset >= end
        && extent.offset - end <= HOLE_MAX
        && extent.end() - read.offset <= READ_MAX
}

/// Collects units until a batch is full; a unit wanted twice is there once.
#[derive(Debug, Default)]
pub struct Builder {
    units: Vec<Unit>,
    known: BTreeMap<Id, usize>,
    stored: u64,
    plain: u64,
    /// Units that are opened together.
    group: usize,
    /// Most bytes, stored and plain, that a batch takes to hold so many.
    group_bytes: u64,
}

impl Builder {
    /// A builder whose batches hold at least `group` units, if stored and plain these are not more than
    /// `group_bytes` bytes.
    pub fn for_groups(group: usize, group_bytes: u64) -> Self {
        Self { group, group_bytes, ..Self::default() }
    }

    /// True if the batch is large enough, with `more` nanoseconds of other work in it.
    pub fn is_full(&self, pace: &Pace, more: u64) -> bool {
        let enough = self.cost(pace) + more >= Pace::TARGET_NANOS || self.bytes() >= 2 * Pace::PLAIN_MAX;
        let waiting = !self.is_empty() && self.len() < self.group && self.bytes() < self.group_bytes;
        let whole = !waiting || more >= 2 * Pace::TARGET_NANOS;
        self.len() >= Pace::UNITS_MAX || (enough && whole)
    }

    /// Adds a unit and returns its number in the batch; a unit already there keeps its number.
    pub fn add(&mut self, unit: Unit) -> usize {
        if let Some(&at) = self.known.get(&unit.id) {
            return at;
        }
        let at = self.units.len();
        self.known.insert(unit.id, at);
        self.stored += u64::from(unit.at.len);
        self.plain += u64::from(unit.size.unwrap_or(0));
        self.units.push(unit);
        at
    }

    /// The number of the unit, if it is in the batch.
    pub fn find(&self, id: &Id) -> Option<usize> {
        self.known.get(id).copied()
    }

    /// Number of units so far.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// True if there is no unit yet.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Stored and plain bytes so far.
    pub const fn bytes(&self) -> u64 {
        self.stored + self.plain
    }

    /// Expected time of what is there, nanoseconds.
    pub fn cost(&self, pace: &Pace) -> u64 {
        pace.cost(self.stored, self.plain)
    }

    /// The batch, leaving an empty builder.
    pub fn take(&mut self) -> Batch {
        let next = Self::for_groups(self.group, self.group_bytes);
        let Self { units, .. } = core::mem::replace(self, next);
        Batch::new(units)
    }
}

/// Expected decode time, learnt from measured batches.
///
/// Only the size of batches depends on it, never their content or order.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Picoseconds per plain byte, a moving average.
    per_byte: u64,
}

impl Pace {
    /// A batch of about this long amortises a hand-over of a few microseconds to a fraction of a
    /// percent, and still spreads a run of a tenth of a second over many workers. One millisecond
    /// was 2 to 3 % slower for small files.
    pub const TARGET_NANOS: u64 = 3_000_000;
    /// Most plaintext of one batch, bytes, unless a single unit is larger.
    pub const PLAIN_MAX: u64 = 2 << 20;
    /// Most units of one batch.
    pub const UNITS_MAX: usize = 256;
    /// First guess: about the speed of lz4 with a cipher and a hash.
    const FIRST_GUESS: u64 = 1_000;

    /// The first guess.
    pub const fn new() -> Self {
        Self { per_byte: Self::FIRST_GUESS }
    }

    /// Expected nanoseconds for so many stored and plain bytes.
    pub const fn cost(&self, stored: u64, plain: u64) -> u64 {
        let bytes = if stored > plain { stored } else { plain };
        bytes.saturating_mul(self.per_byte) / 1000
    }

    /// Learns from a batch of `plain` bytes that took `nanos`.
    pub fn observe(&mut self, plain: u64, nanos: u64) {
        // Tiny batches tell more about system calls than about decoding.
        if plain >= 64 << 10 {
            let seen = (nanos.saturating_mul(1000) / plain).clamp(100, 100_000);
            self.per_byte = (self.per_byte * 7 + seen) / 8;
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Role;
    use proptest::prelude::*;

    fn unit(id: u8, object: u32, offset: u64, len: u32) -> Unit {
        Unit { id: Id([id; 32]), at: Extent { object, offset, len }, size: Some(10), role: Role::Content }
    }

    #[test]
    fn neighbours_merge() {
        let batch = Batch::new(alloc::vec![
            unit(1, 0, 100, 50),
            unit(2, 0, 0, 100),
            unit(3, 0, 150 + HOLE_MAX, 5),
            unit(4, 1, 160, 5),
            unit(5, 0, 155 + HOLE_MAX + HOLE_MAX + 1, 5),
        ]);
        assert_eq!(batch.reads.len(), 3);
        assert_eq!(batch.reads[0], ReadRun { object: 0, offset: 0, len: 155 + HOLE_MAX, to: 0 });
        assert_eq!(batch.place(0), Some(100..150));
        assert_eq!(batch.plain, 50);
        assert_eq!(batch.stored as u64, batch.reads.iter().map(|read| read.len).sum::<u64>());
    }

    #[test]
    fn a_unit_wanted_twice_is_there_once() {
        let mut builder = Builder::default();
        assert_eq!(builder.add(unit(1, 0, 0, 10)), 0);
        assert_eq!(builder.add(unit(2, 0, 10, 10)), 1);
        assert_eq!(builder.add(unit(1, 0, 0, 10)), 0);
        assert_eq!(builder.take().units.len(), 2);
        assert!(builder.is_empty());
    }

    #[test]
    fn batches_hold_a_group_where_that_is_not_too_much() {
        let large = |id: u8| Unit { size: Some(2 << 20), ..unit(id, 0, u64::from(id) << 22, 1 << 20) };
        let pace = Pace::new();
        let filled = |mut builder: Builder| {
            (1..).find(|id| {
                builder.add(large(*id));
                builder.is_full(&pace, 0)
            })
        };
        assert_eq!(filled(Builder::default()), Some(2));
        assert_eq!(filled(Builder::for_groups(4, 16 << 20)), Some(4));
        assert_eq!(filled(Builder::for_groups(4, 8 << 20)), Some(3));
        assert_eq!(filled(Builder::for_groups(4, 0)), Some(2));
        // Other work fills a batch as well.
        assert!(Builder::for_groups(4, 16 << 20).is_full(&pace, Pace::TARGET_NANOS));
        let mut one = Builder::for_groups(4, 16 << 20);
        one.add(large(1));
        assert!(!one.is_full(&pace, Pace::TARGET_NANOS) && one.is_full(&pace, 2 * Pace::TARGET_NANOS));
    }

    proptest! {
        #[test]
        fn every_unit_has_its_own_bytes(spans in prop::collection::vec((0u32..3, 0u64..60_000, 1u32..4000), 1..40)) {
            let units: Vec<Unit> = spans.iter().enumerate().map(|(n, &(o, at, len))| unit(n as u8, o, at, len)).collect();
            let batch = Batch::new(units.clone());
            let mut taken = alloc::vec![false; batch.stored];
            for (at, unit) in units.iter().enumerate() {
                let place = batch.place(at).unwrap();
                let read = batch.reads[batch.read_of(at).unwrap()];
                prop_assert_eq!(read.object, unit.at.object);
                prop_assert_eq!((place.start - read.to) as u64 + read.offset, unit.at.offset);
                for byte in &mut taken[place] {
                    prop_assert!(!*byte, "two units share a byte");
                    *byte = true;
                }
            }
        }
    }
}
