//! A worker of an extraction: decodes a batch and writes it where it belongs.

use super::task::{BadPiece, Done, Fetched, Job, Outcome, Piece, PieceSource, Task, TaskDone};
use crate::line::Crew;
use crate::opened::Opened;
use crate::store::Store;
use crate::target::{Finished, NewFile, Problem, special};
use packtrain_core::base::{Check, Error, Fault, Stage};
use packtrain_core::engine::Bench;
use packtrain_core::objects::Entry;
use packtrain_core::plan::batch::Batch;
use packtrain_core::platform::{Kit, Opener, Scratch};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A worker's buffers are given back when a batch left them larger than this, bytes.
pub const KEEP: usize = 12 << 20;

/// The crew that writes files.
pub struct Writers {
    store: Arc<dyn Store>,
    opener: Arc<dyn Opener>,
    kit: Kit,
}

impl Writers {
    /// Writers for one source.
    pub fn new(opened: &Opened) -> Self {
        Self { store: opened.store.clone(), opener: opened.source.opener(), kit: opened.kit }
    }
}

impl Crew for Writers {
    type Job = Job;
    type Done = Done;
    type Bench = Bench;

    fn bench(&self) -> Bench {
        Bench::new(Scratch::new(self.kit))
    }

    fn read_ahead(&self, job: &mut Job) {
        let mut stored = Vec::new();
        let failures = self.store.fetch(&*self.opener, &job.batch, &mut stored);
        job.fetched = Some(Fetched { stored, failures });
    }

    fn work(&self, bench: &mut Bench, job: &mut Job) -> (Done, u64) {
        let started = Instant::now();
        let failures = match job.fetched.take() {
            Some(fetched) => {
                bench.stored = fetched.stored;
                fetched.failures
            }
            None => self.store.fetch(&*self.opener, &job.batch, &mut bench.stored),
        };
        let mut decoder = Decoder {
            batch: &job.batch,
            failures: &failures,
            opener: &*self.opener,
            bench,
            uses: uses(&job.tasks, job.batch.units.len()),
            kept: HashMap::new(),
        };
        let results = job.tasks.drain(..).map(|task| decoder.perform(task)).collect();
        let plain = job.batch.plain;
        bench.trim(KEEP);
        (Done { results, plain, nanos: started.elapsed().as_nanos() as u64 }, 0)
    }

    fn lost(&self, job: Job) -> Done {
        let fault = || Error::from(Check::Worker).during(Stage::Worker);
        let results = job
            .tasks
            .into_iter()
            .filter_map(|task| match task {
                Task::File { entry, spot, .. } | Task::Node { entry, spot } => {
                    let bad = BadPiece { chunk: 0, offset: 0, fault: fault() };
                    let outcome = match NewFile::create(&spot.folder, &entry) {
                        Ok(file) => Outcome::Damaged(Box::new(file), vec![bad]),
                        Err(problem) => Outcome::Failed(problem),
                    };
                    Some(TaskDone::Made { entry, spot, outcome })
                }
                Task::Part { big, pieces } => {
                    let bad = pieces.iter().map(|piece| BadPiece {
                        chunk: piece.chunk,
                        offset: piece.offset,
                        fault: fault(),
                    });
                    Some(TaskDone::Part { bad: bad.collect(), big, problem: None })
                }
                Task::Later(later) => Some(TaskDone::Later(later)),
            })
            .collect();
        Done { results, plain: 0, nanos: 0 }
    }
}

/// How often each unit of a batch is wanted.
fn uses(tasks: &[Task], units: usize) -> Vec<u32> {
    let mut uses = vec![0; units];
    for task in tasks {
        let (Task::File { pieces, .. } | Task::Part { pieces, .. }) = task else { continue };
        for piece in pieces {
            if let PieceSource::Unit(at) = piece.source
                && let Some(count) = uses.get_mut(at)
            {
                *count += 1;
            }
        }
    }
    uses
}

/// Zeros that are known without decoding: a hole where holes are wanted, bytes otherwise.
fn write_zeros(file: &NewFile, piece: &Piece) -> Result<(), Problem> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let end = piece.offset + u64::from(piece.len);
    (piece.offset..end).step_by(ZEROS.len()).try_for_each(|at| {
        let len = ZEROS.len().min((end - at) as usize);
        file.write_at(at, &ZEROS[..len])
    })
}

/// Decoding within one job.
struct Decoder<'a> {
    batch: &'a Batch,
    failures: &'a [Option<Error>],
    opener: &'a dyn Opener,
    bench: &'a mut Bench,
    /// Uses of each unit still to come.
    uses: Vec<u32>,
    /// Plaintext, or the fault, of units that are wanted again.
    kept: HashMap<usize, Result<Vec<u8>, Fault>>,
}

impl Decoder<'_> {
    fn perform(&mut self, task: Task) -> TaskDone {
        match task {
            Task::File { entry, spot, pieces } => {
                let outcome = self.write_file(&entry, &spot.folder, &spot.name, &pieces);
                TaskDone::Made { entry, spot, outcome }
            }
            Task::Part { big, pieces } => {
                let mut bad = Vec::new();
                let problem = self.write_pieces(&big.file, &pieces, &mut bad).err();
                TaskDone::Part { big, bad, problem }
            }
            Task::Node { entry, spot } => {
                let mut warnings = Vec::new();
                let outcome = match special::create(&spot.folder, &spot.name, &entry, &mut warnings) {
                    Ok(()) => Outcome::Complete(Finished::Complete, warnings),
                    Err(problem) => Outcome::Failed(problem),
                };
                TaskDone::Made { entry, spot, outcome }
            }
            Task::Later(later) => TaskDone::Later(later),
        }
    }

    fn write_file(
        &mut self,
        entry: &Entry,
        folder: &Arc<crate::target::Folder>,
        name: &[u8],
        pieces: &[Piece],
    ) -> Outcome {
        let file = match NewFile::create(folder, entry) {
            Ok(file) => file,
            Err(problem) => return Outcome::Failed(problem),
        };
        let mut bad = Vec::new();
        if let Err(problem) = self.write_pieces(&file, pieces, &mut bad) {
            return Outcome::Failed(problem);
        }
        if !bad.is_empty() {
            return Outcome::Damaged(Box::new(file), bad);
        }
        let mut warnings = Vec::new();
        match file.finish(name, entry, entry.content_len(), &mut warnings) {
            Ok(finished) => Outcome::Complete(finished, warnings),
            Err(problem) => Outcome::Failed(problem),
        }
    }

    fn write_pieces(&mut self, file: &NewFile, pieces: &[Piece], bad: &mut Vec<BadPiece>) -> Result<(), Problem> {
        for piece in pieces {
            let fault = match &piece.source {
                PieceSource::Zeros => {
                    write_zeros(file, piece)?;
                    None
                }
                PieceSource::Lost(fault) => Some((**fault).clone()),
                PieceSource::Unit(at) => self.with_plain(*at, |plain| file.write_at(piece.offset, plain))?,
            };
            if let Some(fault) = fault {
                bad.push(BadPiece { chunk: piece.chunk, offset: piece.offset, fault });
            }
        }
        Ok(())
    }

    /// Calls `sink` with the plaintext of a unit, decoded now or kept from before. The fault comes
    /// back instead where there is no plaintext.
    fn with_plain(
        &mut self,
        at: usize,
        sink: impl FnOnce(&[u8]) -> Result<(), Problem>,
    ) -> Result<Option<Fault>, Problem> {
        let more = self.uses.get_mut(at).is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left > 0
        });
        if let Some(kept) = self.kept.get(&at) {
            let fault = match kept {
                Ok(plain) => sink(plain).map(|()| None),
                Err(fault) => Ok(Some(fault.clone())),
            };
            if !more {
                self.kept.remove(&at);
            }
            return fault;
        }
        let failure = self.batch.read_of(at).and_then(|read| self.failures.get(read)).and_then(Option::as_ref);
        match self.bench.open(self.batch, at, self.opener, failure) {
            Ok(content) => {
                let plain = self.bench.bytes(&content);
                if more {
                    self.kept.insert(at, Ok(plain.to_vec()));
                }
                sink(plain)?;
                Ok(None)
            }
            Err(fault) => {
                if more {
                    self.kept.insert(at, Err(fault.clone()));
                }
                Ok(Some(fault))
            }
        }
    }
}
