//! The engine with a null codec: what carrying a unit costs, apart from decoding it.
//!
//! `cargo bench -p packtrain-benches --bench engine`. Each row: workers, unit size, units per
//! batch, nanoseconds per unit (median, min to max), so the cost of a hand-over can be seen to be
//! spread over the units of a batch.

use packtrain::exit::Result;
use packtrain::line::{Conductor, Crew, Line, Next, Settings, run};
use packtrain_benches::{rounds, spread};
use packtrain_core::engine::Ticket;
use packtrain_core::objects::Load;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

const UNITS: usize = 200_000;

/// Touches the batch's bytes once, as the cheapest imaginable codec.
struct Null {
    unit: usize,
}

impl Crew for Null {
    type Job = usize;
    type Done = u64;
    type Bench = Vec<u8>;

    fn bench(&self) -> Vec<u8> {
        vec![1; self.unit]
    }

    fn read_ahead(&self, _job: &mut usize) {}

    fn work(&self, bench: &mut Vec<u8>, units: &mut usize) -> (u64, u64) {
        let mut sum = 0u64;
        for _ in 0..*units {
            sum += black_box(&bench).iter().map(|byte| u64::from(*byte)).sum::<u64>();
        }
        (sum, 0)
    }

    fn lost(&self, _job: usize) -> u64 {
        0
    }
}

struct Feed {
    left: usize,
    batch: usize,
    unit: usize,
    sum: u64,
}

impl Conductor<Null> for Feed {
    fn next(&mut self, _line: &mut Line<'_, Null>) -> Result<Next<usize>> {
        let take = self.left.min(self.batch);
        self.left -= take;
        let load = Load { stored: 0, plain: (take * self.unit) as u64, units: take as u64 };
        Ok(if take == 0 { Next::End } else { Next::Job(load, take) })
    }

    fn output(&mut self, _line: &mut Line<'_, Null>, _ticket: Ticket, done: u64) -> Result<bool> {
        self.sum += done;
        Ok(true)
    }
}

fn main() {
    let unit = 4096;
    println!("{UNITS} units of {unit} bytes, null codec (one pass over the bytes)");
    println!("workers  units/batch  ns/unit (min to max)");
    for workers in [1, 2, 4, 8, 16] {
        for batch in [1, 16, 64, 256] {
            let mut once = || {
                let settings = Settings { jobs: workers, readers: 0, memory: 48 << 20 };
                let mut feed = Feed { left: UNITS, batch, unit, sum: 0 };
                let cancelled = AtomicBool::new(false);
                run(&settings, &Null { unit }, &cancelled, &mut feed).expect("nothing can fail here");
                assert_eq!(feed.sum, (UNITS * unit) as u64);
            };
            let times = rounds(5, &mut [&mut once]);
            let (median, min, max) = spread(&times[0]);
            let per = |seconds: f64| seconds * 1e9 / UNITS as f64;
            println!("{workers:>7}  {batch:>11}  {:>7.0} ({:.0} to {:.0})", per(median), per(min), per(max));
        }
    }
}
