//! The same laws one floor up: real threads around the machine, with toy jobs that take random
//! times, panic, or are held; with conductors that fail or are cancelled.

use packtrain::exit::Failure;
use packtrain::line::{self, Conductor, Crew, Line, Next};
use packtrain_core::engine::Ticket;
use packtrain_core::objects::Load;
use packtrain_tests::inside::settings;
use packtrain_tests::writer::stage::in_time;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const JOBS: [usize; 5] = [1, 2, 3, 8, 16];

/// A number, squared by a worker after some time.
struct Job {
    number: u64,
    bytes: u64,
    micros: u64,
    panics: bool,
    read: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Square(u64),
    Lost(u64),
}

#[derive(Default)]
struct Squares {
    working: AtomicUsize,
    most: AtomicUsize,
    done: AtomicUsize,
    /// Each job must have been read ahead.
    readers: bool,
}

impl Crew for Squares {
    type Job = Job;
    type Done = Answer;
    type Bench = ();

    fn bench(&self) {}

    fn read_ahead(&self, job: &mut Job) {
        assert!(!job.read, "read twice");
        job.read = true;
        if job.panics && job.number.is_multiple_of(2) {
            panic!("a reader's panic, on purpose");
        }
    }

    fn work(&self, (): &mut (), job: &mut Job) -> (Answer, u64) {
        assert_eq!(job.read, self.readers);
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        if job.micros > 0 {
            std::thread::sleep(Duration::from_micros(job.micros));
        }
        self.working.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
        assert!(!job.panics, "a worker's panic, on purpose");
        (Answer::Square(job.number * job.number), job.bytes)
    }

    fn lost(&self, job: Job) -> Answer {
        Answer::Lost(job.number)
    }
}

/// Plans `count` jobs and notes what comes out.
struct Counting {
    count: u64,
    next: u64,
    /// Bytes each job declares, from its number.
    bytes: fn(u64) -> u64,
    micros: fn(u64) -> u64,
    panics: fn(u64) -> bool,
    /// After each so many jobs comes a barrier.
    barrier: u64,
    at_barrier: bool,
    /// Results with this property are kept until so many later ones came.
    holds: fn(u64) -> bool,
    held: VecDeque<Ticket>,
    yields: usize,
    fail_next: u64,
    fail_output: u64,
    seen: Vec<Answer>,
    /// Numbers and bytes of jobs planned and not reclaimed, for the bound.
    flying: Vec<(u64, u64)>,
    tickets: Vec<(Ticket, u64)>,
    memory: u64,
}

impl Counting {
    fn new(count: u64, memory: u64) -> Self {
        Self {
            count,
            next: 0,
            bytes: |_| 50,
            micros: |_| 0,
            panics: |_| false,
            barrier: u64::MAX,
            at_barrier: false,
            holds: |_| false,
            held: VecDeque::new(),
            yields: 0,
            fail_next: u64::MAX,
            fail_output: u64::MAX,
            seen: Vec::new(),
            flying: Vec::new(),
            tickets: Vec::new(),
            memory,
        }
    }

    fn let_go(&mut self, line: &mut Line<'_, Squares>) {
        if let Some(ticket) = self.held.pop_front() {
            line.reclaim(ticket);
            self.landed(ticket);
        }
    }

    fn landed(&mut self, ticket: Ticket) {
        let number = self
            .tickets
            .iter()
            .find(|(known, _)| *known == ticket)
            .map(|(_, number)| *number)
            .expect("a ticket of ours");
        self.flying.retain(|(known, _)| *known != number);
    }
}

impl Conductor<Squares> for Counting {
    fn next(&mut self, line: &mut Line<'_, Squares>) -> Result<Next<Job>, Failure> {
        // All that was planned before is on the line, within the bound: but for one alone.
        let bytes: u64 = self.flying.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes <= self.memory || self.flying.len() == 1, "{bytes} bytes of {} jobs", self.flying.len());
        if self.at_barrier {
            assert_eq!(self.seen.len() as u64, self.next, "a barrier waits for every result");
            self.at_barrier = false;
        } else if self.next > 0 && self.next.is_multiple_of(self.barrier) && self.next < self.count {
            self.at_barrier = true;
            return Ok(Next::Barrier);
        }
        if self.next == self.fail_next {
            return Err(Failure::new(77, "planning failed"));
        }
        if self.next == self.count {
            while !self.held.is_empty() {
                self.let_go(line);
            }
            return Ok(Next::End);
        }
        let number = self.next;
        self.next += 1;
        let bytes = (self.bytes)(number);
        self.flying.push((number, bytes));
        let job = Job { number, bytes, micros: (self.micros)(number), panics: (self.panics)(number), read: false };
        Ok(Next::Job(Load { stored: bytes / 2, plain: bytes - bytes / 2, units: 1 }, job))
    }

    fn output(&mut self, line: &mut Line<'_, Squares>, ticket: Ticket, done: Answer) -> Result<bool, Failure> {
        let number = self.seen.len() as u64;
        if number == self.fail_output {
            return Err(Failure::new(78, "writing failed"));
        }
        self.seen.push(done);
        self.tickets.push((ticket, number));
        while self.held.len() > 5 {
            self.let_go(line);
        }
        if (self.holds)(number) && self.next < self.count {
            self.held.push_back(ticket);
            return Ok(false);
        }
        self.landed(ticket);
        Ok(true)
    }

    fn yield_held(&mut self, line: &mut Line<'_, Squares>, load: Load, job: Job) -> (Load, Job) {
        self.yields += 1;
        assert!(!self.held.is_empty(), "asked to let go of nothing");
        self.let_go(line);
        (load, job)
    }
}

fn run(jobs: usize, readers: usize, conductor: &mut Counting) -> (Result<(), Failure>, usize) {
    let crew = Squares { readers: jobs > 1 && readers > 0, ..Squares::default() };
    let cancelled = AtomicBool::new(false);
    let memory = conductor.memory;
    let result = in_time(|| line::run(&settings(jobs, readers, memory), &crew, &cancelled, conductor));
    assert!(crew.most.load(Ordering::SeqCst) <= jobs, "more workers than asked for");
    (result, crew.done.load(Ordering::SeqCst))
}

fn squares(count: u64) -> Vec<Answer> {
    (0..count).map(|number| Answer::Square(number * number)).collect()
}

/// A time from 0 to 300 microseconds that looks random.
fn jitter(number: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 300
}

#[test]
fn the_order_is_that_of_the_plan() {
    for (jobs, readers) in JOBS.into_iter().flat_map(|jobs| [(jobs, 0), (jobs, 3)]) {
        for memory in [1, 5000, 50 << 20] {
            let mut conductor = Counting { micros: jitter, ..Counting::new(300, memory) };
            let (result, done) = run(jobs, readers, &mut conductor);
            assert_eq!((result, done), (Ok(()), 300), "{jobs} workers, {readers} readers, {memory} bytes");
            assert_eq!(conductor.seen, squares(300));
        }
    }
}

#[test]
fn nothing_to_do_ends_at_once() {
    for jobs in JOBS {
        let mut conductor = Counting::new(0, 100);
        assert_eq!(run(jobs, 1, &mut conductor).0, Ok(()));
    }
}

#[test]
fn giants_pass_alone() {
    for jobs in JOBS {
        let bytes = |number: u64| if number.is_multiple_of(7) { 1_000_000 } else { 900 };
        let mut conductor = Counting { bytes, micros: jitter, ..Counting::new(200, 20_000) };
        assert_eq!(run(jobs, 0, &mut conductor).0, Ok(()));
        assert_eq!(conductor.seen, squares(200));
    }
}

#[test]
fn barriers_wait_for_all_that_was_planned() {
    for (jobs, barrier) in JOBS.into_iter().flat_map(|jobs| [(jobs, 1), (jobs, 13)]) {
        let mut conductor = Counting { barrier, micros: jitter, ..Counting::new(100, 1 << 20) };
        assert_eq!(run(jobs, 0, &mut conductor).0, Ok(()));
        assert_eq!(conductor.seen, squares(100));
    }
}

#[test]
fn a_panic_costs_one_job() {
    // The panics print their message; that is not what fails here.
    for (jobs, readers) in JOBS.into_iter().flat_map(|jobs| [(jobs, 0), (jobs, 2)]) {
        let panics = |number: u64| number % 10 == 3 || (60..64).contains(&number);
        let mut conductor = Counting { panics, micros: jitter, ..Counting::new(100, 1 << 20) };
        assert_eq!(run(jobs, readers, &mut conductor).0, Ok(()));
        let expected: Vec<Answer> = (0..100)
            .map(|number| if panics(number) { Answer::Lost(number) } else { Answer::Square(number * number) })
            .collect();
        assert_eq!(conductor.seen, expected);
    }
}

#[test]
fn held_results_come_free_later() {
    for jobs in JOBS {
        // Room for a few results only: the conductor must let go when it is asked.
        for memory in [100, 300, 100_000] {
            let mut conductor =
                Counting { holds: |number| number % 3 != 0, micros: jitter, ..Counting::new(200, memory) };
            assert_eq!(run(jobs, 0, &mut conductor).0, Ok(()));
            assert_eq!(conductor.seen, squares(200));
            assert!(memory > 1000 || conductor.yields > 0, "{jobs} workers in {memory} bytes never ran out of room");
        }
    }
}

#[test]
fn a_conductor_that_fails_ends_the_run() {
    for (jobs, readers) in JOBS.into_iter().flat_map(|jobs| [(jobs, 0), (jobs, 2)]) {
        for at in [0, 1, 50, 99] {
            let mut conductor = Counting { fail_next: at, micros: jitter, ..Counting::new(100, 10_000) };
            assert_eq!(run(jobs, readers, &mut conductor).0.unwrap_err().code, 77);
            let mut conductor = Counting { fail_output: at, micros: jitter, ..Counting::new(100, 10_000) };
            assert_eq!(run(jobs, readers, &mut conductor).0.unwrap_err().code, 78);
            assert_eq!(conductor.seen, squares(at), "what came before the failure stands");
        }
    }
}

#[test]
fn cancelling_ends_soon_and_in_order() {
    for jobs in JOBS {
        let crew = Squares::default();
        let cancelled = AtomicBool::new(false);
        let mut conductor = Counting { micros: |_| 2000, ..Counting::new(100_000, 1 << 20) };
        let started = Instant::now();
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                while crew.done.load(Ordering::SeqCst) < 20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                cancelled.store(true, Ordering::SeqCst);
            });
            line::run(&settings(jobs, 0, 1 << 20), &crew, &cancelled, &mut conductor)
        });
        assert_eq!(result.unwrap_err().code, 3);
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!(conductor.seen, squares(conductor.seen.len() as u64));
        assert_eq!(crew.working.load(Ordering::SeqCst), 0, "no worker is left behind");
    }
}

#[test]
fn a_slow_first_job_holds_nobody_up_within_the_bound() {
    // All others can be done while the first one takes its time, as long as they fit.
    for jobs in [2, 8] {
        let mut conductor =
            Counting { micros: |number| if number == 0 { 100_000 } else { 0 }, ..Counting::new(2000, 100 << 20) };
        assert_eq!(run(jobs, 0, &mut conductor).0, Ok(()));
        assert_eq!(conductor.seen, squares(2000));
    }
}

#[test]
fn many_workers_take_turns() {
    // With one worker there are no threads at all; with several, they do work at the same time.
    let crew = Squares::default();
    let mut conductor = Counting { micros: |_| 3000, ..Counting::new(40, 1 << 20) };
    line::run(&settings(4, 0, 1 << 20), &crew, &AtomicBool::new(false), &mut conductor).unwrap();
    assert!(crew.most.load(Ordering::SeqCst) > 1);
}
