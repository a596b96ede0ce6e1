//! The planning half of an extraction: entries to tasks.
//!
//! Folders are made here, as their entries come, and kept on a stack; everything else becomes a
//! task of the batch being collected. A path that is still under way is never touched a second
//! time before it came out of the line: then a barrier lets the line run empty first, so that an
//! archive with one path twice ends the same with any number of workers.

use super::task::{BigFile, Job, Later, Piece, PieceSource, Saying, Spot, Task};
use super::worker::Writers;
use super::{Options, Overwrite};
use crate::exit::Result;
use crate::line::{Line, Next, Settings};
use crate::opened::Opened;
use crate::target::{Folder, Make, NewFile, Problem, SavedTimes, Target, existing};
use packtrain_core::base::{Fault, Id};
use packtrain_core::engine::Ticket;
use packtrain_core::formats::{Catalog, Listed};
use packtrain_core::objects::{ArchiveState, ChunkRef, Entry, EntryKind, Unit};
use packtrain_core::plan::batch::{Builder, Pace};
use packtrain_core::plan::select::Selection;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Expected nanoseconds of file system work per task.
const TASK_NANOS: u64 = 12_000;
/// Expected nanoseconds of file system work that a batch may come to for the sake of one unit.
const RIDE_NANOS: u64 = 8 * Pace::TARGET_NANOS;
/// A chunk of at least this size that is wanted again while its job still waits is written to
/// both places by that job; below it, decoding again is cheaper than opening a file here.
const SHARE_MIN: u32 = 128 << 10;

/// A folder on the stack.
struct Level {
    folder: Arc<Folder>,
    /// Its path, relative to the target.
    path: Vec<u8>,
    entry: Option<Box<Entry>>,
    times: Option<SavedTimes>,
}

/// A big file whose parts are being planned.
struct Growing {
    big: Arc<BigFile>,
    next: usize,
    offset: u64,
}

/// The planner.
pub struct Planner<'a> {
    /// The source.
    pub opened: &'a Opened,
    catalog: Box<dyn Catalog + 'a>,
    selection: &'a Selection,
    options: &'a Options,
    /// Where files go.
    pub target: Target,
    stack: Vec<Level>,
    builder: Builder,
    tasks: Vec<Task>,
    growing: Option<Growing>,
    stalled: Option<Listed>,
    ended: bool,
    /// Expected decode time.
    pub pace: Pace,
    hasher: RandomState,
    /// Hashes of paths under way, with the number of tasks on each.
    busy: HashMap<u64, u32>,
    /// Hashes of folders whose attributes were set.
    left: HashSet<u64>,
    groups: HashSet<Id>,
    /// Large chunks of jobs that are on the line, with their ticket and unit.
    shared: HashMap<Id, (Ticket, usize)>,
    folders_open: usize,
    folders_max: usize,
}

impl<'a> Planner<'a> {
    /// A planner for the selected entries of `archive`.
    pub fn new(
        opened: &'a Opened,
        archive: &ArchiveState,
        selection: &'a Selection,
        target: Target,
        options: &'a Options,
        settings: &Settings,
    ) -> Self {
        let root = Level { folder: target.root().clone(), path: Vec::new(), entry: None, times: None };
        Self {
            opened,
            catalog: opened.source.catalog(archive),
            selection,
            options,
            target,
            stack: vec![root],
            builder: opened.builder(settings.share()),
            tasks: Vec::new(),
            growing: None,
            stalled: None,
            ended: false,
            pace: Pace::new(),
            hasher: RandomState::new(),
            busy: HashMap::new(),
            left: HashSet::new(),
            groups: HashSet::new(),
            shared: HashMap::new(),
            folders_open: 0,
            folders_max: raise_file_limit(),
        }
    }

    /// The next job, a barrier, or the end.
    ///
    /// # Errors
    /// I/O errors of the source.
    pub fn next(&mut self, line: &mut Line<'_, Writers>) -> Result<Next<Job>> {
        loop {
            if self.is_full() && !self.rides_along()? {
                return Ok(self.flush(line));
            }
            if let Some(growing) = self.growing.take() {
                self.grow(growing, line)?;
                continue;
            }
            let listed = match self.stalled.take() {
                Some(listed) => Some(listed),
                None if self.ended => None,
                None => self.opened.drive(self.catalog.next(&self.opened.port))?,
            };
            let Some(listed) = listed else {
                self.ended = true;
                while self.stack.len() > 1 {
                    self.leave();
                }
                self.leave_root();
                return Ok(if self.tasks.is_empty() { Next::End } else { self.flush(line) });
            };
            if self.is_blocked(&listed) {
                self.stalled = Some(listed);
                if !self.tasks.is_empty() {
                    return Ok(self.flush(line));
                }
                self.folders_open = 0;
                return Ok(Next::Barrier);
            }
            self.plan(listed)?;
        }
    }

    /// A result came out of the line, or no task was made: the path of this key may be touched again.
    pub fn settle(&mut self, key: u64) {
        if let Some(count) = self.busy.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(&key);
            }
        }
    }

    /// A folder came out of the line.
    pub fn settle_folder(&mut self, path: &[u8]) {
        let key = self.hash(path);
        self.settle(key);
    }

    /// A job came out: its chunks cannot be shared any more.
    pub fn forget(&mut self, ticket: Ticket) {
        self.shared.retain(|_, (known, _)| *known > ticket);
    }

    fn hash(&self, path: &[u8]) -> u64 {
        self.hasher.hash_one(path)
    }

    fn is_full(&self) -> bool {
        self.builder.is_full(&self.pace, self.tasks.len() as u64 * TASK_NANOS)
    }

    /// True if the next entry is a file all of whose chunks are in the batch already, with room for it:
    /// small files that are parts of one unit are written where that is decoded once.
    fn rides_along(&mut self) -> Result<bool> {
        if self.growing.is_some() || self.tasks.len() as u64 * TASK_NANOS > RIDE_NANOS {
            return Ok(false);
        }
        if self.stalled.is_none() && !self.ended {
            self.stalled = self.opened.drive(self.catalog.next(&self.opened.port))?;
            self.ended = self.stalled.is_none();
        }
        let Some(Listed::Entry(entry)) = &self.stalled else { return Ok(false) };
        let parts = entry.chunks();
        let is_part = |chunk: &ChunkRef| chunk.size < chunk.whole && self.builder.find(&chunk.id).is_some();
        Ok(!parts.is_empty() && parts.len() <= Pace::UNITS_MAX && parts.iter().all(is_part))
    }

    fn flush(&mut self, line: &Line<'_, Writers>) -> Next<Job> {
        let batch = self.builder.take();
        let tasks = std::mem::take(&mut self.tasks);
        let ticket = line.next_ticket();
        for (at, unit) in batch.units.iter().enumerate() {
            if unit.size.is_some_and(|size| size >= SHARE_MIN) {
                self.shared.insert(unit.id, (ticket, at));
            }
        }
        self.opened.store.announce_batch(&*self.opened.source.opener(), &batch);
        let load = batch.load(tasks.len());
        Next::Job(load, Job { batch, tasks: tasks.into(), results: Vec::new(), fetched: None })
    }

    /// True if the line must run empty before this entry is planned.
    fn is_blocked(&self, listed: &Listed) -> bool {
        if self.folders_open >= self.folders_max {
            return true;
        }
        let Listed::Entry(entry) = listed else { return false };
        let Some(path) = self.selection.target(&entry.path) else { return false };
        if self.busy.is_empty() {
            return false;
        }
        // The path itself, and every parent that would be entered anew.
        let entered = self.stack.last().map_or(0, |level| level.path.len());
        let inside = self.stack.last().is_some_and(|level| holds(&level.path, path));
        let parents = path
            .iter()
            .enumerate()
            .filter(|(at, byte)| **byte == b'/' && !(inside && *at <= entered))
            .map(|(at, _)| at);
        parents.chain([path.len()]).any(|end| self.busy.contains_key(&self.hash(path.get(..end).unwrap_or(path))))
    }

    fn plan(&mut self, listed: Listed) -> Result<()> {
        let entry = match listed {
            Listed::Entry(entry) => entry,
            Listed::Refused { path, why } => {
                if self.selection.wants(&path) {
                    self.say(path, Saying::Refused(why));
                }
                return Ok(());
            }
            Listed::Gap(error) => {
                self.say(Vec::new(), Saying::Gap(error));
                return Ok(());
            }
        };
        if !self.selection.wants(&entry.path) {
            return Ok(());
        }
        let Some(path) = self.selection.target(&entry.path).map(<[u8]>::to_vec) else { return Ok(()) };
        if path == b"." {
            if let Some(root) = self.stack.first_mut() {
                root.entry = Some(entry);
            }
            return Ok(());
        }
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], &path[..]),
        };
        let folder = match self.enter(parent) {
            Ok(folder) => folder,
            Err(problem) => {
                self.say(entry.path, Saying::Problem(problem));
                return Ok(());
            }
        };
        let spot = Spot { folder, name: name.to_vec(), key: self.hash(&path) };
        if entry.kind == EntryKind::Directory {
            self.make_folder(entry, &path, &spot);
            return Ok(());
        }
        if !self.may_overwrite(&entry, &spot) {
            self.say(entry.path, Saying::Kept);
            return Ok(());
        }
        *self.busy.entry(spot.key).or_default() += 1;
        self.plan_content(entry, spot)
    }

    fn plan_content(&mut self, entry: Box<Entry>, spot: Spot) -> Result<()> {
        if let Some(group) = entry.link_group
            && !self.groups.insert(group)
        {
            self.tasks.push(Task::Later(Later::Link { entry, spot }));
            return Ok(());
        }
        match &entry.kind {
            EntryKind::File(None) => {
                self.settle(spot.key);
                self.say(entry.path, Saying::ContentLost);
            }
            EntryKind::File(Some(chunks)) => {
                let large = entry.content_len() > Pace::PLAIN_MAX || chunks.len() > Pace::UNITS_MAX;
                if !large {
                    let pieces = self.pieces(&entry, 0, 0, chunks.len(), None)?;
                    self.tasks.push(Task::File { entry, spot, pieces });
                    return Ok(());
                }
                match NewFile::create(&spot.folder, &entry) {
                    Ok(file) => {
                        self.folders_open += 1;
                        let big = Arc::new(BigFile { entry, spot, file });
                        self.growing = Some(Growing { big, next: 0, offset: 0 });
                    }
                    Err(problem) => {
                        self.settle(spot.key);
                        self.say(entry.path, Saying::Problem(problem));
                    }
                }
            }
            _ => self.tasks.push(Task::Node { entry, spot }),
        }
        Ok(())
    }

    /// Plans as many parts of a big file as the batch takes.
    fn grow(&mut self, mut growing: Growing, line: &mut Line<'_, Writers>) -> Result<()> {
        let big = growing.big.clone();
        let chunks = big.entry.chunks();
        let mut pieces = Vec::new();
        while growing.next < chunks.len() && !self.is_full() {
            let at = growing.next;
            let shared = Some((&big, &mut *line));
            pieces.extend(self.pieces(&big.entry, growing.offset, at, at + 1, shared)?);
            growing.offset += u64::from(chunks[at].size);
            growing.next += 1;
        }
        if !pieces.is_empty() {
            self.tasks.push(Task::Part { big: big.clone(), pieces });
        }
        if growing.next == chunks.len() {
            drop(growing);
            self.tasks.push(Task::Later(Later::FinishBig(big)));
        } else {
            self.growing = Some(growing);
        }
        Ok(())
    }

    /// Pieces for the chunks `from..to` of an entry, the first at `offset` in the file. A chunk
    /// that a waiting job decodes anyway is handed to that job, where the file allows it.
    fn pieces(
        &mut self,
        entry: &Entry,
        mut offset: u64,
        from: usize,
        to: usize,
        mut share: Option<(&Arc<BigFile>, &mut Line<'_, Writers>)>,
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::with_capacity(to - from);
        for (chunk, reference) in entry.chunks().iter().enumerate().take(to).skip(from) {
            let place = offset;
            offset += u64::from(reference.size);
            let piece = |source| Piece { chunk, offset: place, len: reference.size, skip: reference.skip, source };
            let mut at = self.opened.source.locate(reference);
            if self.opened.source.is_zeros(reference, at) {
                pieces.push(piece(PieceSource::Zeros));
                continue;
            }
            if at.is_none() {
                at = self.opened.drive(self.opened.source.relocate(&self.opened.port, reference.id, &[]))?;
            }
            let Some(at) = at else {
                pieces.push(piece(PieceSource::Lost(Box::new(Fault::nowhere(reference.id)))));
                continue;
            };
            if let Some((big, line)) = &mut share
                && let Some((ticket, unit)) = self.shared.get(&reference.id)
                && let Some(job) = line.queued_mut(*ticket)
            {
                let pieces = vec![piece(PieceSource::Unit(*unit))];
                job.tasks.push_back(Task::Part { big: (*big).clone(), pieces });
                continue;
            }
            pieces.push(piece(PieceSource::Unit(self.builder.add(Unit::content(reference, at)))));
        }
        Ok(pieces)
    }

    fn may_overwrite(&self, entry: &Entry, spot: &Spot) -> bool {
        if self.options.overwrite == Overwrite::Always {
            return true;
        }
        let Ok(Some(there)) = existing::look(&spot.folder, &spot.name) else { return true };
        let archived = entry.mtime.map_or((0, 0), |time| (time.seconds, time.nanos));
        match self.options.overwrite {
            Overwrite::Always => true,
            Overwrite::Never => false,
            Overwrite::IfNewer => archived > there.mtime,
            Overwrite::IfChanged => archived != there.mtime || entry.content_len() != there.len,
        }
    }

    /// The folder at `path`, entered from the stack.
    fn enter(&mut self, path: &[u8]) -> Result<Arc<Folder>, Problem> {
        while !self.stack.last().is_some_and(|level| holds(&level.path, path)) {
            self.leave();
        }
        loop {
            let Some(top) = self.stack.last() else { return Err(Problem::ClimbsOut) };
            let rest = path.get(top.path.len()..).unwrap_or(&[]);
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            if rest.is_empty() {
                return Ok(top.folder.clone());
            }
            let name = rest.split(|byte| *byte == b'/').next().unwrap_or(rest);
            let (folder, _) = top.folder.child(name, Make::Parent)?;
            let path = full_path(&top.folder, name);
            self.push(folder, path, None);
        }
    }

    fn make_folder(&mut self, entry: Box<Entry>, path: &[u8], spot: &Spot) {
        match spot.folder.child(&spot.name, Make::Entry(&entry)) {
            Ok((folder, _)) => self.push(folder, path.to_vec(), Some(entry)),
            Err(problem) => self.say(entry.path, Saying::Problem(problem)),
        }
    }

    fn push(&mut self, folder: Arc<Folder>, path: Vec<u8>, entry: Option<Box<Entry>>) {
        // A folder that got its attributes already, entered once more: its times must survive.
        let again = entry.is_none() && self.left.contains(&self.hash(&path));
        let times = if again { folder.times().ok() } else { None };
        self.folders_open += 1;
        self.stack.push(Level { folder, path, entry, times });
    }

    /// Leaves the innermost folder: its attributes come after everything in it.
    fn leave(&mut self) {
        let Some(Level { folder, path, entry, times }) = self.stack.pop() else { return };
        if entry.is_some() || times.is_some() {
            let hash = self.hash(&path);
            self.left.insert(hash);
            *self.busy.entry(hash).or_default() += 1;
            self.tasks.push(Task::Later(Later::LeaveFolder { folder, entry, times }));
        }
    }

    fn leave_root(&mut self) {
        if let Some(root) = self.stack.first_mut()
            && let Some(entry) = root.entry.take()
        {
            let folder = root.folder.clone();
            self.tasks.push(Task::Later(Later::LeaveFolder { folder, entry: Some(entry), times: None }));
            let key = self.hash(b"");
            *self.busy.entry(key).or_default() += 1;
        }
    }

    fn say(&mut self, path: Vec<u8>, what: Saying) {
        self.tasks.push(Task::Later(Later::Say { path, what }));
    }
}

/// True if `path` is `folder` or below it; the empty path is the root.
fn holds(folder: &[u8], path: &[u8]) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The path of `name` in `folder`, relative to the target.
pub fn full_path(folder: &Folder, name: &[u8]) -> Vec<u8> {
    let mut path = folder.path().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Lets this process open as many files as it may, and says how many folders the planner may
/// have under way: folders and big files are open while their tasks are on the line.
fn raise_file_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    usize::try_from(current.unwrap_or(4096) / 2).unwrap_or(usize::MAX).clamp(16, 4096)
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn folders_hold_whole_components() {
        assert!(holds(b"", b"a/b") && holds(b"a", b"a/b") && holds(b"a", b"a"));
        assert!(!holds(b"a", b"ab") && !holds(b"a/b", b"a"));
    }
}
