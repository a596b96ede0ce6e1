//! The other half of the conductor: results in order, repairs, links, folders' attributes.

use super::plan::{Planner, full_path};
use super::task::{BadPiece, BigFile, Done, Job, Later, Outcome, Saying, Spot, TaskDone};
use super::worker::Writers;
use super::{OnDamage, Options};
use crate::exit::{self, Failure, Result, describe, describe_fault};
use crate::line::{Conductor, Line, Next};
use crate::messages::{Messages, Status};
use crate::target::{Finished, Identity, NewFile, Problem, Target, Warning, What, special};
use packtrain_core::base::Id;
use packtrain_core::engine::Ticket;
use packtrain_core::objects::{Entry, EntryKind};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The first restored name of a link group.
struct Linked {
    path: Vec<u8>,
    identity: Option<Identity>,
    /// Restored, or restored with damage.
    status: Status,
}

/// Takes results and finishes what must be done in order.
pub struct Restorer<'a> {
    planner: Planner<'a>,
    options: &'a Options,
    messages: &'a mut Messages,
    links: HashMap<Id, Linked>,
    /// What went wrong with parts of big files, by the address of the file.
    troubles: HashMap<*const BigFile, (Vec<BadPiece>, Option<Problem>)>,
    /// Files of link groups whose flags wait until all names exist.
    late_flags: Vec<(Vec<u8>, Box<Entry>)>,
    /// Paths of entries that were not restored whole.
    unproven: HashSet<Vec<u8>>,
}

impl<'a> Restorer<'a> {
    /// The conductor around a planner.
    pub fn new(planner: Planner<'a>, options: &'a Options, messages: &'a mut Messages) -> Self {
        Self {
            planner,
            options,
            messages,
            links: HashMap::new(),
            troubles: HashMap::new(),
            late_flags: Vec::new(),
            unproven: HashSet::new(),
        }
    }

    /// What remains when the line has run empty. Returns the target, and the paths of entries
    /// that are not in it as the archive has them.
    pub fn finish(mut self) -> (Target, HashSet<Vec<u8>>) {
        for (path, entry) in std::mem::take(&mut self.late_flags) {
            let (parent, name) = split(&path);
            let mut warnings = Vec::new();
            match self.planner.target.folder(parent) {
                Ok(folder) => folder.apply_flags(name, &entry, &mut warnings),
                Err(problem) => self.messages.problem(&entry.path, &problem),
            }
            self.messages.warnings(&entry.path, &warnings);
        }
        (self.planner.target, self.unproven)
    }

    fn made(&mut self, entry: Box<Entry>, spot: &Spot, outcome: Outcome) -> Result<()> {
        match outcome {
            Outcome::Complete(finished, warnings) => {
                self.complete(entry, spot, finished, &warnings, Status::Restored);
                Ok(())
            }
            Outcome::Damaged(file, bad) => self.damaged(entry, spot, *file, bad),
            Outcome::Failed(problem) => self.failed(&entry, &problem),
        }
    }

    fn complete(&mut self, entry: Box<Entry>, spot: &Spot, finished: Finished, warnings: &[Warning], status: Status) {
        self.messages.misstated_size(&entry);
        self.messages.warnings(&entry.path, warnings);
        self.messages.entry(&entry, status);
        if let Some(group) = entry.link_group
            && !self.links.contains_key(&group)
        {
            let identity = spot.folder.identity(&spot.name).ok();
            let path = full_path(&spot.folder, &spot.name);
            self.links.insert(group, Linked { path, identity, status });
        }
        if finished == Finished::FlagsLeft {
            self.late_flags.push((full_path(&spot.folder, &spot.name), entry));
        }
    }

    fn failed(&mut self, entry: &Entry, problem: &Problem) -> Result<()> {
        self.unproven.insert(entry.path.clone());
        self.messages.problem(&entry.path, problem);
        self.messages.entry(entry, Status::Failed);
        if problem.stops_the_run() {
            return Err(Failure::new(
                exit::IO,
                format!("{}: {problem}; the run stops here", entry.path.escape_ascii()),
            ));
        }
        Ok(())
    }

    /// Tries other copies of bad pieces, then follows the policy.
    fn damaged(&mut self, entry: Box<Entry>, spot: &Spot, file: NewFile, bad: Vec<BadPiece>) -> Result<()> {
        let mut lost = Vec::new();
        for piece in bad {
            let Some(chunk) = entry.chunks().get(piece.chunk).copied() else { continue };
            match self.planner.opened.other_copy(&chunk, &piece.fault)? {
                Some(plain) => {
                    if let Err(problem) = file.write_at(piece.offset, &plain) {
                        return self.failed(&entry, &problem);
                    }
                }
                None => lost.push((chunk, piece)),
            }
        }
        for (chunk, piece) in &lost {
            let end = piece.offset + u64::from(chunk.size);
            let what = self.options.on_damage.consequence();
            let fault = describe_fault(&piece.fault);
            self.messages.damage(&entry.path, &format!("bytes {} to {end} are damaged, {what}: {fault}", piece.offset));
        }
        if !lost.is_empty() {
            self.unproven.insert(entry.path.clone());
        }
        let status = match (lost.is_empty(), self.options.on_damage) {
            (true, _) => Status::Restored,
            (false, OnDamage::Zero) => Status::Damaged,
            (false, OnDamage::Skip) => {
                self.messages.entry(&entry, Status::LeftOut);
                return Ok(());
            }
            (false, OnDamage::Stop) => {
                let text =
                    format!("{}: damaged content; the run stops here (--on-damage stop)", entry.path.escape_ascii());
                return Err(Failure::new(exit::INTEGRITY, text));
            }
        };
        let mut warnings = Vec::new();
        match file.finish(&spot.name, &entry, entry.content_len(), &mut warnings) {
            Ok(finished) => {
                self.complete(entry, spot, finished, &warnings, status);
                Ok(())
            }
            Err(problem) => self.failed(&entry, &problem),
        }
    }

    fn later(&mut self, later: Later) -> Result<()> {
        match later {
            Later::FinishBig(big) => self.finish_big(big),
            Later::Link { entry, spot } => {
                let result = self.link(entry, &spot);
                self.planner.settle(spot.key);
                result
            }
            Later::LeaveFolder { folder, entry, times } => {
                if let Some(entry) = entry {
                    let mut warnings = Vec::new();
                    match folder.apply(&entry, &mut warnings) {
                        Ok(()) => {
                            self.messages.warnings(&entry.path, &warnings);
                            self.messages.entry(&entry, Status::Restored);
                        }
                        Err(problem) => self.failed(&entry, &problem)?,
                    }
                } else if let Some(times) = times
                    && let Err(problem) = folder.put_times_back(&times)
                {
                    self.messages.problem(folder.path(), &problem);
                }
                self.planner.settle_folder(folder.path());
                Ok(())
            }
            Later::Say { path, what } => self.say(&path, what),
        }
    }

    fn say(&mut self, path: &[u8], what: Saying) -> Result<()> {
        self.unproven.insert(path.to_vec());
        match what {
            Saying::Problem(problem) => {
                self.messages.problem(path, &problem);
                self.messages.skipped();
                if problem.stops_the_run() {
                    return Err(Failure::new(
                        exit::IO,
                        format!("{}: {problem}; the run stops here", path.escape_ascii()),
                    ));
                }
            }
            Saying::ContentLost => self.messages.damage(path, "the archive holds no content for this file; left out"),
            Saying::Refused(why) => self.messages.refused(path, &why),
            Saying::Gap(error) => {
                self.messages.damage(path, &format!("entries of the archive are lost here: {}", describe(&error)))
            }
            Saying::Kept => self.messages.kept(path),
        }
        Ok(())
    }

    fn finish_big(&mut self, big: Arc<BigFile>) -> Result<()> {
        let (bad, problem) = self.troubles.remove(&Arc::as_ptr(&big)).unwrap_or_default();
        let Some(BigFile { entry, spot, file }) = Arc::into_inner(big) else {
            return Err(Failure::new(
                exit::ERROR,
                "internal: a file is finished while it is written; please report this",
            ));
        };
        let result = match problem {
            Some(problem) => self.failed(&entry, &problem),
            None => self.damaged(entry, &spot, file, bad),
        };
        self.planner.settle(spot.key);
        result
    }

    /// Makes another name of a link group, or a copy where no link is possible.
    fn link(&mut self, entry: Box<Entry>, spot: &Spot) -> Result<()> {
        let group = entry.link_group.and_then(|group| self.links.get(&group));
        let Some(first) = group else {
            // The first name could not be restored; this one stands for itself.
            return self.restore_here(entry, spot);
        };
        let (parent, name) = split(&first.path);
        let linked = self
            .planner
            .target
            .folder(parent)
            .and_then(|from| special::link(&from, name, first.identity, &spot.folder, &spot.name));
        match linked {
            Ok(()) if first.status == Status::Damaged => {
                let text = format!("it is another name of {}, which is damaged", first.path.escape_ascii());
                self.unproven.insert(entry.path.clone());
                self.messages.damage(&entry.path, &text);
                self.messages.entry(&entry, Status::DamagedLink);
                Ok(())
            }
            Ok(()) => {
                self.messages.entry(&entry, Status::Linked);
                Ok(())
            }
            // Another entry took the first name's place; what was restored there is gone.
            Err(Problem::UnsafeLink) => {
                self.messages.copied(&entry.path);
                if let Some(group) = &entry.link_group {
                    self.links.remove(group);
                }
                self.restore_here(entry, spot)
            }
            // The folder of the first name may be closed to a normal user by now.
            Err(Problem::CopyWanted(_) | Problem::Failed { what: What::Open, .. }) => {
                self.messages.copied(&entry.path);
                self.restore_here(entry, spot)
            }
            Err(problem) => self.failed(&entry, &problem),
        }
    }

    /// Restores one entry without the line: rare cases that are met only in order.
    fn restore_here(&mut self, entry: Box<Entry>, spot: &Spot) -> Result<()> {
        let EntryKind::File(chunks) = &entry.kind else {
            let mut warnings = Vec::new();
            return match special::create(&spot.folder, &spot.name, &entry, &mut warnings) {
                Ok(()) => {
                    self.complete(entry, spot, Finished::Complete, &warnings, Status::Restored);
                    Ok(())
                }
                Err(problem) => self.failed(&entry, &problem),
            };
        };
        let file = match NewFile::create(&spot.folder, &entry) {
            Ok(file) => file,
            Err(problem) => return self.failed(&entry, &problem),
        };
        let mut bad = Vec::new();
        let mut offset = 0;
        for (at, chunk) in chunks.iter().flatten().enumerate() {
            match self.planner.opened.decode(chunk)? {
                Ok(plain) => {
                    if let Err(problem) = file.write_at(offset, &plain) {
                        return self.failed(&entry, &problem);
                    }
                }
                Err(fault) => bad.push(BadPiece { chunk: at, offset, fault }),
            }
            offset += u64::from(chunk.size);
        }
        self.damaged(entry, spot, file, bad)
    }
}

impl Conductor<Writers> for Restorer<'_> {
    fn next(&mut self, line: &mut Line<'_, Writers>) -> Result<Next<Job>> {
        self.planner.next(line)
    }

    fn output(&mut self, _line: &mut Line<'_, Writers>, ticket: Ticket, done: Done) -> Result<bool> {
        self.planner.forget(ticket);
        self.planner.pace.observe(done.plain, done.nanos);
        for result in done.results {
            match result {
                TaskDone::Made { entry, spot, outcome } => {
                    let result = self.made(entry, &spot, outcome);
                    self.planner.settle(spot.key);
                    result?;
                }
                TaskDone::Part { big, bad, problem } => {
                    if !bad.is_empty() || problem.is_some() {
                        let trouble = self.troubles.entry(Arc::as_ptr(&big)).or_default();
                        trouble.0.extend(bad);
                        trouble.0.sort_by_key(|piece| piece.chunk);
                        trouble.1 = trouble.1.take().or(problem);
                    }
                }
                TaskDone::Later(later) => self.later(later)?,
            }
        }
        self.messages.tick();
        Ok(true)
    }
}

/// Parent and name of a relative path.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}
