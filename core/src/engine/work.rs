//! The whole of a worker's decoding: one batch of units, mostly one after the other.
//!
//! Where the source's opener gains from it, units are opened in groups: some hashes take less than
//! half the time on four messages at once. What is opened ahead waits here until it is asked for.

use crate::base::{Check, Error, Fault, Stage};
use crate::objects::Unit;
use crate::plan::batch::Batch;
use crate::platform::{Content, Opener, Opening, Scratch};
use alloc::vec::Vec;
use core::ops::Range;

/// Units of one group beyond what the opener asks for, if they are small...
const GROUP_MAX: usize = 32;
/// ...that is, as long as the plaintext of all is at most this, so that it stays in a core's caches.
const GROUP_BYTES: u64 = 1 << 20;

/// What one worker keeps from batch to batch: buffers that grow to the largest unit, and codec state.
pub struct Bench {
    /// The stored bytes of a batch, laid out as [`Batch::place`] says.
    pub stored: Vec<u8>,
    /// The plaintext of the unit opened last.
    pub plain: Vec<u8>,
    /// Codec and cipher state.
    pub scratch: Scratch,
    /// Units of the batch that were opened ahead.
    ahead: Vec<Ahead>,
    /// The first unit of the batch that was not opened yet, as long as all before it were.
    next: usize,
    /// Buffers for plaintext that are not in use.
    spare: Vec<Vec<u8>>,
}

/// A unit that was opened and not asked for yet.
struct Ahead {
    at: usize,
    plain: Vec<u8>,
    outcome: Result<Content, Fault>,
}

impl Bench {
    /// Empty buffers around `scratch`.
    pub const fn new(scratch: Scratch) -> Self {
        Self { stored: Vec::new(), plain: Vec::new(), scratch, ahead: Vec::new(), next: 0, spare: Vec::new() }
    }

    /// Begins another batch, whose stored bytes are in `self.stored`.
    pub fn begin(&mut self) {
        self.spare.extend(self.ahead.drain(..).map(|ahead| ahead.plain));
        self.next = 0;
    }

    /// Opens unit number `at` of a batch whose stored bytes are in `self.stored`.
    ///
    /// Units of a batch may be opened in any order, each once: opening decrypts in place.
    ///
    /// # Errors
    /// The unit's [`Fault`]; `failures` has, by unit, the errors of reads that failed.
    pub fn open(
        &mut self,
        batch: &Batch,
        at: usize,
        opener: &dyn Opener,
        failures: &[Option<Error>],
    ) -> Result<Content, Fault> {
        if let Some(place) = self.ahead.iter().position(|ahead| ahead.at == at) {
            let Ahead { plain, outcome, .. } = self.ahead.swap_remove(place);
            self.spare.push(core::mem::replace(&mut self.plain, plain));
            return outcome;
        }
        let failed = |at: usize| failures.get(at).and_then(Option::as_ref);
        if opener.group() > 1 && at == self.next {
            let group = group(batch, at, opener.group(), |at| failed(at).is_none());
            if group.len() > 1 {
                self.open_ahead(batch, group, opener);
                return self.open(batch, at, opener, failures);
            }
        }
        self.next = self.next.max(at + 1);
        let (Some(unit), Some(range)) = (batch.units.get(at), batch.place(at)) else {
            return Err(Error::from(Check::Sizes).during(Stage::Fetch));
        };
        if let Some(error) = failed(at) {
            return Err(blame(error.clone(), unit));
        }
        let stored = self
            .stored
            .get_mut(range.clone())
            .ok_or_else(|| named(blame(Check::Truncated.into(), unit), opener, unit))?;
        let content = opener.open(unit, stored, &mut self.plain, &mut self.scratch);
        content.map(|content| within(content, &range)).map_err(|fault| named(fault, opener, unit))
    }

    /// Opens the units `group` together; they become those ahead.
    fn open_ahead(&mut self, batch: &Batch, group: Range<usize>, opener: &dyn Opener) {
        self.next = group.end;
        let mut order: Vec<(Range<usize>, usize)> =
            group.filter_map(|at| batch.place(at).map(|range| (range, at))).collect();
        order.sort_unstable_by_key(|(range, _)| range.start);
        let mut openings = Vec::with_capacity(order.len());
        let mut rest = self.stored.as_mut_slice();
        let mut start = 0;
        for (range, at) in &order {
            // A batch gives each unit bytes of its own; what is not there is met when asked for alone.
            let Some(skip) = range.start.checked_sub(start) else { continue };
            let Some((_, from)) = core::mem::take(&mut rest).split_at_mut_checked(skip) else { break };
            let Some((stored, after)) = from.split_at_mut_checked(range.len()) else { break };
            (rest, start) = (after, range.end);
            let Some(unit) = batch.units.get(*at) else { continue };
            let outcome = Err(Error::from(Check::Worker).during(Stage::Worker));
            openings.push((*at, range, Opening { unit, stored, plain: buffer_for(unit, &mut self.spare), outcome }));
        }
        let mut group: Vec<Opening<'_>> = Vec::with_capacity(openings.len());
        let mut places = Vec::with_capacity(openings.len());
        for (at, range, opening) in openings {
            group.push(opening);
            places.push((at, range));
        }
        opener.open_group(&mut group, &mut self.scratch);
        for ((at, range), Opening { unit, plain, outcome, .. }) in places.into_iter().zip(group) {
            let outcome = outcome.map(|content| within(content, range)).map_err(|fault| named(fault, opener, unit));
            self.ahead.push(Ahead { at, plain, outcome });
        }
    }

    /// The bytes of what `open` returned last.
    pub fn bytes(&self, content: &Content) -> &[u8] {
        content.bytes(&self.stored, &self.plain)
    }

    /// Gives memory back so that all buffers together hold at most `cap` bytes, after unusually large
    /// units.
    pub fn trim(&mut self, cap: usize) {
        let mut left = cap;
        let mut fits = |buffer: &Vec<u8>| {
            let fits = buffer.capacity() <= left;
            left -= if fits { buffer.capacity() } else { 0 };
            fits
        };
        for buffer in [&mut self.stored, &mut self.plain] {
            if !fits(buffer) {
                *buffer = Vec::new();
            }
        }
        self.spare.retain(fits);
    }
}

/// A buffer for the plaintext of `unit`. Of those in `spare`, one that is grown to a known size may be any; one for
/// plaintext that takes no more than it needs is the smallest, so that few become large.
fn buffer_for(unit: &Unit, spare: &mut Vec<Vec<u8>>) -> Vec<u8> {
    if unit.size.is_some() {
        return spare.pop().unwrap_or_default();
    }
    let smallest = spare.iter().enumerate().min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at);
    smallest.map(|at| spare.swap_remove(at)).unwrap_or_default()
}

/// The units from `at` on that are opened together.
fn group(batch: &Batch, at: usize, least: usize, is_whole: impl Fn(usize) -> bool) -> Range<usize> {
    let mut plain = 0;
    let fits = |(number, unit): &(usize, &Unit)| {
        // Of unknown plaintext it is taken that compression halves it.
        plain += unit.size.map_or(2 * u64::from(unit.at.len), u64::from);
        is_whole(at + number) && (*number < least || (plain <= GROUP_BYTES && *number < GROUP_MAX))
    };
    let count = batch.units.get(at..).unwrap_or(&[]).iter().enumerate().take_while(fits).count();
    at..at + count
}

/// Content that lies in a part of the stored bytes, as one in all of them.
fn within(content: Content, range: &Range<usize>) -> Content {
    match content {
        Content::Stored(inner) => Content::Stored(range.start + inner.start..range.start + inner.end),
        plain => plain,
    }
}

/// The fault with the object's name, which only whoever knows the opener can tell.
fn named(fault: Fault, opener: &dyn Opener, unit: &Unit) -> Fault {
    Fault { error: fault.error.in_object(&opener.object_name(unit.at.object)), ..fault }
}

fn blame(error: Error, unit: &Unit) -> Fault {
    error.of_chunk(unit.id).at(unit.at.offset).during(Stage::Fetch)
}
