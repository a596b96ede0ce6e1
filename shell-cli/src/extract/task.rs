//! What crosses to a worker and back: batches of stored objects with the things to do with them.

use crate::store::Fetched;
use crate::target::{Finished, Folder, NewFile, Problem, SavedTimes, Warning};
use packtrain_core::base::{Error, Fault, bytes::part};
use packtrain_core::objects::{Entry, Refusal};
use packtrain_core::plan::batch::Batch;
use std::collections::VecDeque;
use std::sync::Arc;

/// One job: what to fetch and decode, and what to do with it, in order.
pub struct Job {
    /// The stored objects.
    pub batch: Batch,
    /// What to do, in order.
    pub tasks: VecDeque<Task>,
    /// What is done so far.
    pub results: Vec<TaskDone>,
    /// The stored bytes, where a reader fetched them ahead.
    pub fetched: Option<Fetched>,
}

/// Where an entry goes.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The folder it is made in.
    pub folder: Arc<Folder>,
    /// Its name there.
    pub name: Vec<u8>,
    /// What the planner knows its path by, while it is under way.
    pub key: u64,
}

/// One piece of a file's content.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Number of the chunk in the entry.
    pub chunk: usize,
    /// Where it goes in the file, bytes from its start.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The first byte of the unit's plaintext that belongs to it.
    pub skip: u32,
    /// What is there.
    pub source: PieceSource,
}

impl Piece {
    /// The piece, given all of the unit's plaintext.
    pub fn of<'a>(&self, plain: &'a [u8]) -> &'a [u8] {
        part(plain, self.skip as usize, self.len as usize).unwrap_or(&[])
    }
}

/// Where a piece comes from.
#[derive(Clone, Debug)]
pub enum PieceSource {
    /// A unit of the batch, by number.
    Unit(usize),
    /// Nothing but zeros: a hole, never fetched.
    Zeros,
    /// It cannot be found; the fault says so.
    Lost(Box<Fault>),
}

/// A piece that could not be restored.
#[derive(Clone, Debug)]
pub struct BadPiece {
    /// Number of the chunk in the entry.
    pub chunk: usize,
    /// First byte of the range in the file.
    pub offset: u64,
    /// What was wrong.
    pub fault: Fault,
}

/// A file too large for one batch: several workers write to it.
pub struct BigFile {
    /// The entry.
    pub entry: Box<Entry>,
    /// Where it goes.
    pub spot: Spot,
    /// The file.
    pub file: NewFile,
}

/// One thing to do.
pub enum Task {
    /// Write a whole file.
    File {
        /// The entry.
        entry: Box<Entry>,
        /// Where.
        spot: Spot,
        /// All of its content.
        pieces: Vec<Piece>,
    },
    /// Write some pieces of a big file.
    Part {
        /// The file.
        big: Arc<BigFile>,
        /// The pieces.
        pieces: Vec<Piece>,
    },
    /// Make a symbolic link, pipe or device.
    Node {
        /// The entry.
        entry: Box<Entry>,
        /// Where.
        spot: Spot,
    },
    /// Done in order when it comes out of the line; workers pass it on.
    Later(Later),
}

/// What only the conductor does, in order.
pub enum Later {
    /// Every part of this big file is written.
    FinishBig(Arc<BigFile>),
    /// Another name of a link group.
    Link {
        /// The entry.
        entry: Box<Entry>,
        /// Where.
        spot: Spot,
    },
    /// Nothing more goes into this folder.
    LeaveFolder {
        /// The folder.
        folder: Arc<Folder>,
        /// Its entry, if it has one.
        entry: Option<Box<Entry>>,
        /// Its times, if its attributes were set before.
        times: Option<SavedTimes>,
    },
    /// Something to say about an entry, at its place in the order.
    Say {
        /// Raw path.
        path: Vec<u8>,
        /// What.
        what: Saying,
    },
}

/// Things said about entries that are not restored.
pub enum Saying {
    /// The entry cannot be made because of its folder or what is there.
    Problem(Problem),
    /// The archive lost the content.
    ContentLost,
    /// The stored path or type is refused.
    Refused(Refusal),
    /// Entries are missing here.
    Gap(Error),
    /// The file exists and is left as it is.
    Kept,
}

/// What a worker brought about.
pub enum Effect {
    /// It tried to make an object.
    Made(Outcome),
    /// It wrote pieces of a big file: the bad ones, and the first write error.
    Written(Vec<BadPiece>, Option<Problem>),
    /// Nothing: the task is the conductor's.
    None,
}

impl Task {
    /// The task's result, given its effect.
    pub fn done(self, effect: Effect) -> TaskDone {
        match (self, effect) {
            (Self::File { entry, spot, .. } | Self::Node { entry, spot }, Effect::Made(outcome)) => {
                TaskDone::Made { entry, spot, outcome }
            }
            (Self::Part { big, .. }, Effect::Written(bad, problem)) => TaskDone::Part { big, bad, problem },
            (Self::Later(later), _) => TaskDone::Later(later),
            // No other pair is made; it would mean that nothing was done.
            (Self::File { entry, spot, .. } | Self::Node { entry, spot }, _) => {
                TaskDone::Made { entry, spot, outcome: Outcome::Failed(Problem::WrongKind) }
            }
            (Self::Part { big, .. }, _) => TaskDone::Part { big, bad: Vec::new(), problem: Some(Problem::WrongKind) },
        }
    }
}

/// A job's results, one per task, in order.
pub struct Done {
    /// Results.
    pub results: Vec<TaskDone>,
    /// Plaintext bytes decoded.
    pub plain: u64,
    /// Time taken, nanoseconds.
    pub nanos: u64,
}

/// What became of a task.
pub enum TaskDone {
    /// A file or other object was tried.
    Made {
        /// The entry.
        entry: Box<Entry>,
        /// Where.
        spot: Spot,
        /// How it went.
        outcome: Outcome,
    },
    /// Some pieces of a big file were tried.
    Part {
        /// The file.
        big: Arc<BigFile>,
        /// Bad pieces.
        bad: Vec<BadPiece>,
        /// The first write error.
        problem: Option<Problem>,
    },
    /// For the conductor.
    Later(Later),
}

/// How it went with one entry.
pub enum Outcome {
    /// It is in place.
    Complete(Finished, Vec<Warning>),
    /// Some content is missing; the file is still open and has no name yet.
    Damaged(Box<NewFile>, Vec<BadPiece>),
    /// It could not be made.
    Failed(Problem),
}
