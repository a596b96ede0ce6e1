//! A worker of an extraction: decodes a batch and writes it where it belongs.

use super::task::{BadPiece, Done, Effect, Job, Outcome, Piece, PieceSource, Task};
use crate::line::{Crew, Settings};
use crate::opened::Opened;
use crate::store::Store;
use crate::target::{Finished, NewFile, Problem, special};
use packtrain_core::base::{Check, Error, Fault, Stage};
use packtrain_core::engine::Bench;
use packtrain_core::objects::Entry;
use packtrain_core::plan::batch::Batch;
use packtrain_core::platform::{Kit, Opener, Scratch};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The crew that writes files.
pub struct Writers {
    store: Arc<dyn Store>,
    opener: Arc<dyn Opener>,
    kit: Kit,
    /// Bytes that buffers keep between jobs.
    keep: usize,
}

impl Writers {
    /// Writers for one source.
    pub fn new(opened: &Opened, settings: &Settings) -> Self {
        Self {
            store: opened.store.clone(),
            opener: opened.source.opener(),
            kit: opened.kit,
            keep: usize::try_from(settings.share() / 2).unwrap_or(usize::MAX),
        }
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
        job.fetched = Some(self.store.read_ahead(&*self.opener, &job.batch));
    }

    fn work(&self, bench: &mut Bench, job: &mut Job) -> (Done, u64) {
        let started = Instant::now();
        let failures = self.store.bring(&*self.opener, &job.batch, job.fetched.take(), &mut bench.stored);
        bench.begin();
        let Job { batch, tasks, results, .. } = job;
        let uses = uses(tasks, batch.units.len());
        let mut decoder =
            Decoder { batch, failures: &failures, opener: &*self.opener, bench, uses, kept: HashMap::new() };
        // A task leaves the queue only when it is done, so that a panic loses none.
        while let Some(task) = tasks.front() {
            let effect = decoder.perform(task);
            if let Some(task) = tasks.pop_front() {
                results.push(task.done(effect));
            }
        }
        bench.trim(self.keep);
        let results = core::mem::take(results);
        (Done { results, plain: batch.plain, nanos: started.elapsed().as_nanos() as u64 }, 0)
    }

    fn lost(&self, job: Job) -> Done {
        let mut results = job.results;
        results.extend(job.tasks.into_iter().map(|task| {
            let effect = lose(&task);
            task.done(effect)
        }));
        Done { results, plain: 0, nanos: 0 }
    }
}

/// The effect of a task whose worker panicked: all its content is faulty.
fn lose(task: &Task) -> Effect {
    let bad = |pieces: &[Piece]| {
        let fault = Error::from(Check::Worker).during(Stage::Worker);
        pieces.iter().map(|piece| BadPiece { chunk: piece.chunk, offset: piece.offset, fault: fault.clone() }).collect()
    };
    match task {
        Task::File { entry, spot, pieces } => Effect::Made(match NewFile::create(&spot.folder, entry) {
            Ok(file) => Outcome::Damaged(Box::new(file), bad(pieces)),
            Err(problem) => Outcome::Failed(problem),
        }),
        Task::Part { pieces, .. } => Effect::Written(bad(pieces), None),
        Task::Node { .. } => Effect::Made(Outcome::Failed(Problem::WrongKind)),
        Task::Later(_) => Effect::None,
    }
}

/// How often each unit of a batch is wanted.
fn uses(tasks: &VecDeque<Task>, units: usize) -> Vec<u32> {
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
    fn perform(&mut self, task: &Task) -> Effect {
        match task {
            Task::File { entry, spot, pieces } => {
                Effect::Made(self.write_file(entry, &spot.folder, &spot.name, pieces))
            }
            Task::Part { big, pieces } => {
                let mut bad = Vec::new();
                let problem = self.write_pieces(&big.file, pieces, &mut bad).err();
                Effect::Written(bad, problem)
            }
            Task::Node { entry, spot } => {
                let mut warnings = Vec::new();
                Effect::Made(match special::create(&spot.folder, &spot.name, entry, &mut warnings) {
                    Ok(()) => Outcome::Complete(Finished::Complete, warnings),
                    Err(problem) => Outcome::Failed(problem),
                })
            }
            Task::Later(_) => Effect::None,
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
                    file.write_zeros(piece.offset, piece.len.into())?;
                    None
                }
                PieceSource::Lost(fault) => Some((**fault).clone()),
                PieceSource::Unit(at) => self.with_plain(*at, |plain| file.write_at(piece.offset, piece.of(plain)))?,
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
        match self.bench.open(self.batch, at, self.opener, self.failures) {
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
