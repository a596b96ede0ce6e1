//! The ordered decode machine: jobs go out to any number of workers, results come back in any
//! order and leave in the order in which the jobs were offered, within a bound on bytes and units.
//!
//! It is blind to content: `J` is whatever a worker needs, `R` whatever it answers; the machine
//! works from declared sizes. It has no thread, no clock and no lock.
//!
//! # Verbs
//!
//! [`offer`](Ordered::offer) a job, [`poll_job`](Ordered::poll_job) it to a worker, report
//! [`done`](Ordered::done), [`poll_output`](Ordered::poll_output) results in order, and
//! [`reclaim`](Ordered::reclaim) a result's share of the budget once its bytes are written.
//! [`finish`](Ordered::finish) says that no more is offered, [`cancel`](Ordered::cancel) that
//! nothing new shall start.
//!
//! # Laws
//!
//! Each offered job comes out exactly once, in offer order. Held bytes never exceed the budget,
//! but for one larger job that passes alone. A refusal gives the job back. After `cancel`
//! what is queued or waits for its turn is dropped, and late answers come back to the caller.

use crate::objects::Load;
use alloc::collections::VecDeque;
use core::mem;

/// The bound: what all jobs between `offer` and `reclaim` may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Stored plus plain bytes.
    pub bytes: u64,
    /// Units of work, so that many tiny ones are bounded too.
    pub units: u64,
}

/// Names one offered job; later jobs have larger tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// A job that does not fit now, given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<J>(pub J);

/// What [`Ordered::poll_output`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<R> {
    /// The next result in order; its budget is held until `reclaim`.
    Ready(Ticket, R),
    /// Nothing to hand out, and what would change that.
    Wait(Wait),
    /// Nothing will come any more.
    Ended(End),
}

/// What the machine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Another `offer`, or `finish`.
    Input,
    /// `poll_job` or `done` for the next job in order.
    Worker,
    /// `reclaim` of results handed out.
    Reclaim,
}

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every offered job came out.
    Complete,
    /// It was cancelled.
    Cancelled,
}

enum Slot<J, R> {
    /// Offered, not handed out.
    Queued(J),
    /// With a worker.
    Out,
    /// Come home, waiting for its turn.
    Done(R),
    /// Handed to the caller, its budget still held.
    Held,
    /// Reclaimed.
    Free,
}

struct Entry<J, R> {
    slot: Slot<J, R>,
    bytes: u64,
    units: u64,
}

/// The machine.
pub struct Ordered<J, R> {
    budget: Budget,
    /// Slots from `first` on; a ticket minus `first` is a position here.
    ring: VecDeque<Entry<J, R>>,
    first: u64,
    /// Sequence of the next job to hand out.
    next_job: u64,
    /// Sequence of the next result to hand out.
    next_output: u64,
    held_bytes: u64,
    held_units: u64,
    out: usize,
    finished: bool,
    cancelled: bool,
}

impl<J, R> Ordered<J, R> {
    /// An empty machine with this bound.
    pub const fn new(budget: Budget) -> Self {
        Self {
            budget,
            ring: VecDeque::new(),
            first: 0,
            next_job: 0,
            next_output: 0,
            held_bytes: 0,
            held_units: 0,
            out: 0,
            finished: false,
            cancelled: false,
        }
    }

    /// Bytes held now. At most the budget's, but for a lone larger job.
    pub const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Jobs with workers now.
    pub const fn jobs_out(&self) -> usize {
        self.out
    }

    /// True after `finish`.
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// The ticket that the next accepted job will have.
    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.first + self.ring.len() as u64)
    }

    /// True if a job of this load would be accepted. Changes with `offer`, `done` and `reclaim`.
    pub fn has_room(&self, load: &Load) -> bool {
        let fits = self.held_bytes.saturating_add(load.bytes()) <= self.budget.bytes
            && self.held_units.saturating_add(load.units) <= self.budget.units;
        fits || self.ring.is_empty()
    }

    /// Accepts a job at the end of the order.
    ///
    /// # Errors
    /// [`Refused`] gives the job back if it does not fit now, or after `finish` or `cancel`.
    pub fn offer(&mut self, load: Load, job: J) -> Result<Ticket, Refused<J>> {
        if self.finished || self.cancelled || !self.has_room(&load) {
            return Err(Refused(job));
        }
        let ticket = self.next_ticket();
        self.held_bytes = self.held_bytes.saturating_add(load.bytes());
        self.held_units = self.held_units.saturating_add(load.units);
        self.ring.push_back(Entry { slot: Slot::Queued(job), bytes: load.bytes(), units: load.units });
        Ok(ticket)
    }

    /// No more jobs will be offered.
    pub const fn finish(&mut self) {
        self.finished = true;
    }

    /// The oldest job not handed out yet. Changes with `offer`.
    pub fn poll_job(&mut self) -> Option<(Ticket, J)> {
        let at = usize::try_from(self.next_job.checked_sub(self.first)?).ok()?;
        let entry = self.ring.get_mut(at)?;
        match mem::replace(&mut entry.slot, Slot::Out) {
            Slot::Queued(job) => {
                let ticket = Ticket(self.next_job);
                self.next_job += 1;
                self.out += 1;
                Some((ticket, job))
            }
            other => {
                entry.slot = other;
                None
            }
        }
    }

    /// A job that is still queued, to add to it: the load must not grow.
    pub fn queued_mut(&mut self, ticket: Ticket) -> Option<&mut J> {
        match &mut self.entry(ticket)?.slot {
            Slot::Queued(job) => Some(job),
            _ => None,
        }
    }

    /// Takes a worker's answer. `holds` is the number of bytes the result keeps in memory, from
    /// now on charged instead of the declared load (never more than that).
    ///
    /// A stale answer (unknown ticket, answered twice, or after `cancel`) is given back.
    pub fn done(&mut self, ticket: Ticket, holds: u64, result: R) -> Option<R> {
        let cancelled = self.cancelled;
        let Some(entry) = self.entry(ticket) else { return Some(result) };
        if !matches!(entry.slot, Slot::Out) {
            return Some(result);
        }
        let freed = if cancelled { entry.bytes } else { entry.bytes.saturating_sub(holds) };
        entry.bytes -= freed;
        let stale = if cancelled {
            entry.slot = Slot::Held;
            Some(result)
        } else {
            entry.slot = Slot::Done(result);
            None
        };
        self.held_bytes -= freed;
        self.out -= 1;
        if stale.is_some() {
            self.reclaim(ticket);
        }
        stale
    }

    /// The next result in order. Changes with `done` for the next job in order, `finish`, `cancel`
    /// and `reclaim`.
    pub fn poll_output(&mut self) -> Output<R> {
        if self.cancelled {
            return if self.out == 0 { Output::Ended(End::Cancelled) } else { Output::Wait(Wait::Worker) };
        }
        let ticket = Ticket(self.next_output);
        let (finished, ring_empty) = (self.finished, self.ring.is_empty());
        let Some(entry) = self.entry(ticket) else {
            return match (finished, ring_empty) {
                (true, true) => Output::Ended(End::Complete),
                (true, false) => Output::Wait(Wait::Reclaim),
                (false, _) => Output::Wait(Wait::Input),
            };
        };
        match mem::replace(&mut entry.slot, Slot::Held) {
            Slot::Done(result) => {
                self.next_output += 1;
                Output::Ready(ticket, result)
            }
            other => {
                entry.slot = other;
                Output::Wait(Wait::Worker)
            }
        }
    }

    /// Returns the budget of a result that was handed out; in any order. Unknown tickets are ignored.
    pub fn reclaim(&mut self, ticket: Ticket) {
        let Some(entry) = self.entry(ticket) else { return };
        if !matches!(entry.slot, Slot::Held) {
            return;
        }
        entry.slot = Slot::Free;
        let (bytes, units) = (mem::take(&mut entry.bytes), mem::take(&mut entry.units));
        self.held_bytes -= bytes;
        self.held_units -= units;
        while matches!(self.ring.front(), Some(Entry { slot: Slot::Free, .. })) {
            self.ring.pop_front();
            self.first += 1;
        }
    }

    /// Stops: nothing queued goes out any more, late answers are stale. What was queued or
    /// waiting for its turn is dropped; the run ends when no job is out.
    pub fn cancel(&mut self) {
        self.cancelled = true;
        for at in 0..self.ring.len() {
            let ticket = Ticket(self.first + at as u64);
            if let Some(entry) = self.entry(ticket)
                && !matches!(entry.slot, Slot::Out | Slot::Free)
            {
                entry.slot = Slot::Free;
                let (bytes, units) = (mem::take(&mut entry.bytes), mem::take(&mut entry.units));
                self.held_bytes -= bytes;
                self.held_units -= units;
            }
        }
    }

    fn entry(&mut self, ticket: Ticket) -> Option<&mut Entry<J, R>> {
        let at = usize::try_from(ticket.0.checked_sub(self.first)?).ok()?;
        self.ring.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn load(bytes: u64) -> Load {
        Load { stored: bytes, plain: 0, units: 1 }
    }

    #[test]
    fn results_wait_for_their_turn() {
        let mut machine = Ordered::new(Budget { bytes: 10, units: 10 });
        let a = machine.offer(load(4), 'a').unwrap();
        let b = machine.offer(load(4), 'b').unwrap();
        assert_eq!(machine.offer(load(4), 'c'), Err(Refused('c')));
        assert_eq!(machine.poll_job(), Some((a, 'a')));
        assert_eq!(machine.poll_job(), Some((b, 'b')));
        assert_eq!(machine.done(b, 4, 'B'), None);
        assert_eq!(machine.poll_output(), Output::Wait(Wait::Worker));
        assert_eq!(machine.done(a, 0, 'A'), None);
        // `a` keeps nothing in memory, so there is room again before it is reclaimed.
        let c = machine.offer(load(4), 'c').unwrap();
        assert_eq!(machine.poll_output(), Output::Ready(a, 'A'));
        assert_eq!(machine.poll_output(), Output::Ready(b, 'B'));
        machine.reclaim(b);
        machine.reclaim(a);
        machine.reclaim(a);
        assert_eq!(machine.held_bytes(), 4);
        machine.finish();
        assert_eq!(machine.poll_job(), Some((c, 'c')));
        assert_eq!(machine.done(c, 9, 'C'), None);
        assert_eq!(machine.done(c, 9, 'X'), Some('X'));
        assert_eq!(machine.poll_output(), Output::Ready(c, 'C'));
        assert_eq!(machine.poll_output(), Output::Wait(Wait::Reclaim));
        machine.reclaim(c);
        assert_eq!(machine.poll_output(), Output::Ended(End::Complete));
        assert_eq!(machine.held_bytes(), 0);
    }

    #[test]
    fn a_giant_passes_alone() {
        let mut machine = Ordered::<_, ()>::new(Budget { bytes: 10, units: 10 });
        let giant = machine.offer(load(1000), ()).unwrap();
        assert_eq!(machine.offer(load(0), ()).map_err(|_| ()), Err(()));
        machine.poll_job();
        machine.done(giant, 1000, ());
        machine.poll_output();
        machine.reclaim(giant);
        assert!(machine.offer(load(1), ()).is_ok());
    }

    #[test]
    fn cancel_ends_when_the_last_worker_answers() {
        let mut machine = Ordered::new(Budget { bytes: 10, units: 10 });
        let a = machine.offer(load(1), ()).unwrap();
        machine.offer(load(1), ()).unwrap();
        machine.poll_job();
        machine.cancel();
        assert_eq!(machine.poll_job(), None);
        assert_eq!(machine.poll_output(), Output::Wait(Wait::Worker));
        assert_eq!(machine.done(a, 1, 'a'), Some('a'));
        assert_eq!(machine.poll_output(), Output::Ended(End::Cancelled));
        assert_eq!(machine.held_bytes(), 0);
        assert!(machine.offer(load(1), ()).is_err());
    }
}
