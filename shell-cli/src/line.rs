//! The line of workers: threads around the core's ordered machine.
//!
//! One conductor (the calling thread) plans jobs and takes results in order; workers do the jobs.
//! With one worker there are no threads at all: the same loop runs each job itself.

use crate::exit::{Failure, Result};
use core::sync::atomic::{AtomicBool, Ordering};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use packtrain_core::engine::{Budget, End, Ordered, Output, Refused, Ticket, Wait};
use packtrain_core::objects::Load;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many workers, and within what bound.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Decoding workers; 1 means no threads.
    pub jobs: usize,
    /// Extra threads that read ahead of the workers; 0 lets each worker read for itself.
    pub readers: usize,
    /// Bound on bytes in flight.
    pub memory: u64,
}

impl Settings {
    /// Places to work at: one per core, or per worker where there are fewer.
    pub fn benches(&self) -> usize {
        std::thread::available_parallelism().map_or(self.jobs, usize::from).min(self.jobs).max(1)
    }

    /// Bytes that one job may take so that there is one for each place to work at, and one more. So
    /// many its buffers keep between jobs: an unusually large object must not cost its size for the
    /// rest of the run.
    pub fn share(&self) -> u64 {
        (self.memory / (self.benches() as u64 + 1)).max(SHARE_MIN)
    }
}

/// Bytes that a job may always take.
const SHARE_MIN: u64 = 256 << 10;
/// Jobs handed out per worker: one in work, one waiting, so that none is idle while the
/// conductor plans.
const AHEAD: usize = 4;
/// Jobs that a worker does before another may have its place.
const TURN: usize = 32;
/// Memory that one unit of work is taken to hold beside its bytes.
const UNIT_COST: u64 = 2048;
/// After this long without any result, the user is told that the run still waits.
const SILENCE: Duration = Duration::from_secs(60);
/// How often a waiting conductor looks whether it was cancelled.
const TICK: Duration = Duration::from_millis(100);

/// What workers do. Shared by all of them.
pub trait Crew: Sync {
    /// A job; it stays with the worker until its result is made.
    type Job: Send;
    /// A result.
    type Done: Send;
    /// Buffers and state that are kept from job to job.
    type Bench: Send;

    /// Sets up one place to work at.
    fn bench(&self) -> Self::Bench;

    /// Fetches what the job needs, ahead of the worker. Called only where readers are wanted.
    fn read_ahead(&self, job: &mut Self::Job);

    /// Does a job. The number is the bytes that the result keeps in memory.
    fn work(&self, bench: &mut Self::Bench, job: &mut Self::Job) -> (Self::Done, u64);

    /// The result of a job whose worker panicked.
    fn lost(&self, job: Self::Job) -> Self::Done;
}

/// What the conductor does next.
pub enum Next<J> {
    /// Offer this job.
    Job(Load, J),
    /// Go on only when every result is out.
    Barrier,
    /// There is nothing more.
    End,
}

/// The one who plans jobs and takes results.
pub trait Conductor<C: Crew> {
    /// Plans the next job. Called only when there may be room for one.
    ///
    /// # Errors
    /// A failure ends the run.
    fn next(&mut self, line: &mut Line<'_, C>) -> Result<Next<C::Job>>;

    /// Takes the next result in order and says whether its budget is free again now; if not, the
    /// conductor calls [`Line::reclaim`] later.
    ///
    /// # Errors
    /// A failure ends the run.
    fn output(&mut self, line: &mut Line<'_, C>, ticket: Ticket, done: C::Done) -> Result<bool>;

    /// A job does not fit although nothing else is running: the conductor holds too much. It must
    /// let go of it, and give the job back, changed if need be.
    fn yield_held(&mut self, _line: &mut Line<'_, C>, load: Load, job: C::Job) -> (Load, C::Job) {
        (load, job)
    }
}

/// The line as the conductor sees it.
pub struct Line<'a, C: Crew> {
    machine: Ordered<C::Job, C::Done>,
    lanes: Lanes<'a, C>,
    cancelled: &'a AtomicBool,
}

enum Lanes<'a, C: Crew> {
    Inline { crew: &'a C, bench: Box<C::Bench> },
    Threads { jobs: Sender<(Ticket, C::Job)>, done: Receiver<(Ticket, u64, C::Done)>, ahead: usize },
}

/// Runs `conductor` over a line of workers until it ends.
///
/// # Errors
/// The conductor's first failure, or cancellation (code 3) when `cancelled` is set.
pub fn run<C: Crew>(
    settings: &Settings,
    crew: &C,
    cancelled: &AtomicBool,
    conductor: &mut impl Conductor<C>,
) -> Result<()> {
    let budget = Budget { bytes: settings.memory, units: (settings.memory / UNIT_COST).max(1) };
    let machine = Ordered::new(budget);
    if settings.jobs <= 1 {
        let bench = Box::new(crew.bench());
        return Line { machine, lanes: Lanes::Inline { crew, bench }, cancelled }.drive(conductor);
    }
    let ahead = settings.jobs * AHEAD + settings.readers;
    let benches = Benches::new(crew, settings.benches());
    std::thread::scope(|scope| {
        let (job_in, mut job_out) = crossbeam_channel::bounded(ahead);
        let (done_in, done_out) = crossbeam_channel::bounded(ahead);
        if settings.readers > 0 {
            let (read_in, read_out) = crossbeam_channel::bounded(settings.jobs);
            for _ in 0..settings.readers {
                let (from, to) = (job_out.clone(), read_in.clone());
                scope.spawn(move || {
                    for (ticket, mut job) in from {
                        // A panic here is met again, and reported, by the worker that finds no bytes.
                        let _ = catch_unwind(AssertUnwindSafe(|| crew.read_ahead(&mut job)));
                        if to.send((ticket, job)).is_err() {
                            return;
                        }
                    }
                });
            }
            job_out = read_out;
        }
        for _ in 0..settings.jobs {
            let (jobs, done, benches) = (job_out.clone(), done_in.clone(), &benches);
            scope.spawn(move || serve(crew, benches, &jobs, &done));
        }
        // Only workers hold these ends from here on, so that a queue closes when they are gone.
        drop((job_out, done_in));
        let lanes = Lanes::Threads { jobs: job_in, done: done_out, ahead };
        // The line, and with it the job queue, is dropped before the scope joins its threads.
        Line { machine, lanes, cancelled }.drive(conductor)
    })
}

/// Places to work at: one per core, however many workers there are, since more at a time would
/// only drive each other's bytes out of the caches. A worker has a place before it takes a job, so
/// that no job waits with a worker that waits itself.
struct Benches<B> {
    idle: Mutex<Vec<B>>,
    returned: Condvar,
}

impl<B> Benches<B> {
    fn new<C: Crew<Bench = B>>(crew: &C, count: usize) -> Self {
        let idle = (0..count).map(|_| crew.bench()).collect();
        Self { idle: Mutex::new(idle), returned: Condvar::new() }
    }

    fn take(&self) -> B {
        // No code that could panic runs under the lock.
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(bench) = idle.pop() {
                return bench;
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, bench: B) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(bench);
        self.returned.notify_one();
    }
}

fn serve<C: Crew>(
    crew: &C,
    benches: &Benches<C::Bench>,
    jobs: &Receiver<(Ticket, C::Job)>,
    done: &Sender<(Ticket, u64, C::Done)>,
) {
    loop {
        let mut bench = benches.take();
        for _ in 0..TURN {
            let over = match jobs.recv() {
                Ok((ticket, job)) => {
                    let (result, holds) = attempt(crew, &mut bench, job);
                    done.send((ticket, holds, result)).is_err()
                }
                Err(_) => true,
            };
            if over {
                benches.give_back(bench);
                return;
            }
        }
        benches.give_back(bench);
    }
}

/// Does a job; a panic becomes the result of a lost job, and the worker starts afresh.
fn attempt<C: Crew>(crew: &C, bench: &mut C::Bench, mut job: C::Job) -> (C::Done, u64) {
    match catch_unwind(AssertUnwindSafe(|| crew.work(bench, &mut job))) {
        Ok(result) => result,
        Err(_) => {
            *bench = crew.bench();
            (crew.lost(job), 0)
        }
    }
}

impl<C: Crew> Line<'_, C> {
    /// Returns the budget of a result that the conductor had kept.
    pub fn reclaim(&mut self, ticket: Ticket) {
        self.machine.reclaim(ticket);
    }

    /// A job that was offered and is not with a worker yet, to add something to it.
    pub fn queued_mut(&mut self, ticket: Ticket) -> Option<&mut C::Job> {
        self.machine.queued_mut(ticket)
    }

    /// The ticket that the next offered job will have.
    pub fn next_ticket(&self) -> Ticket {
        self.machine.next_ticket()
    }

    fn drive(mut self, conductor: &mut impl Conductor<C>) -> Result<()> {
        let result = self.steps(conductor);
        if result.is_err() {
            self.machine.cancel();
            while self.machine.jobs_out() > 0 && self.take_one().is_ok() {}
        }
        result
    }

    fn steps(&mut self, conductor: &mut impl Conductor<C>) -> Result<()> {
        let mut waiting: Option<(Load, C::Job)> = None;
        let mut barrier = false;
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Failure::new(crate::exit::CANCELLED, "cancelled"));
            }
            self.absorb();
            let blocked = match self.machine.poll_output() {
                Output::Ready(ticket, done) => {
                    if conductor.output(self, ticket, done)? {
                        self.machine.reclaim(ticket);
                    }
                    continue;
                }
                Output::Ended(End::Complete) => return Ok(()),
                Output::Ended(End::Cancelled) => return Err(Failure::new(crate::exit::CANCELLED, "cancelled")),
                Output::Wait(wait) => wait,
            };
            if let Some((load, job)) = waiting.take() {
                match self.machine.offer(load, job) {
                    Ok(_) => {
                        self.hand_out();
                        continue;
                    }
                    Err(Refused(job)) if blocked == Wait::Worker => waiting = Some((load, job)),
                    Err(Refused(job)) => {
                        // Nothing runs, yet it does not fit: only the conductor can make room.
                        let (load, job) = conductor.yield_held(self, load, job);
                        waiting = Some((load, job));
                        continue;
                    }
                }
            } else if !barrier && !self.machine.is_finished() {
                match conductor.next(self)? {
                    Next::Job(load, job) => waiting = Some((load, job)),
                    Next::Barrier => barrier = true,
                    Next::End => self.machine.finish(),
                }
                continue;
            } else if barrier && blocked == Wait::Input {
                barrier = false;
                continue;
            }
            if blocked != Wait::Worker {
                return Err(Failure::new(crate::exit::ERROR, "internal: the line is stuck; please report this"));
            }
            self.take_one()?;
        }
    }

    /// Sends queued jobs out as far as workers can take them.
    fn hand_out(&mut self) {
        if let Lanes::Threads { jobs, ahead, .. } = &self.lanes {
            while self.machine.jobs_out() < *ahead {
                let Some(job) = self.machine.poll_job() else { return };
                if jobs.send(job).is_err() {
                    return;
                }
            }
        }
    }

    /// Takes the results that are there already, so that workers go on while the conductor plans.
    fn absorb(&mut self) {
        let Lanes::Threads { done, .. } = &self.lanes else { return };
        let mut any = false;
        while let Ok((ticket, holds, result)) = done.try_recv() {
            drop(self.machine.done(ticket, holds, result));
            any = true;
        }
        if any {
            self.hand_out();
        }
    }

    /// Waits for one result, or does one job here.
    fn take_one(&mut self) -> Result<()> {
        self.hand_out();
        let (ticket, holds, result) = match &mut self.lanes {
            Lanes::Inline { crew, bench } => {
                let Some((ticket, job)) = self.machine.poll_job() else { return Ok(()) };
                let (result, holds) = attempt(*crew, bench, job);
                (ticket, holds, result)
            }
            Lanes::Threads { done, .. } => {
                let started = Instant::now();
                let mut told = false;
                loop {
                    match done.recv_timeout(TICK) {
                        Ok(result) => break result,
                        Err(RecvTimeoutError::Disconnected) => {
                            return Err(Failure::new(
                                crate::exit::ERROR,
                                "internal: all workers are gone; please report this",
                            ));
                        }
                        Err(RecvTimeoutError::Timeout) => {
                            if self.cancelled.load(Ordering::Relaxed) && started.elapsed() > SILENCE {
                                return Err(Failure::new(crate::exit::CANCELLED, "cancelled"));
                            }
                            if !told && started.elapsed() > SILENCE {
                                told = true;
                                eprintln!(
                                    "packtrain: nothing has moved for 60 s; still waiting for {} jobs",
                                    self.machine.jobs_out()
                                );
                            }
                        }
                    }
                }
            }
        };
        drop(self.machine.done(ticket, holds, result));
        self.hand_out();
        Ok(())
    }
}
