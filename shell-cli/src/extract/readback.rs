//! Reading back: what lies in the target now, against the chunk ids of the archive.
//!
//! A second pass over the archive's entries, after everything is restored and flushed to the
//! device, by the same line of workers. Nothing is decoded: a chunk id is a hash of the plaintext,
//! so the restored bytes themselves are hashed. Caches are dropped first where the system allows
//! it, so that the device is asked and not the memory that was written from.

use crate::exit::{self, Failure, Result};
use crate::line::{self, Conductor, Crew, Line, Next, Settings};
use crate::messages::Messages;
use crate::opened::Opened;
use crate::target::Target;
use core::sync::atomic::AtomicBool;
use packtrain_core::base::{Id, bytes::fit};
use packtrain_core::engine::Ticket;
use packtrain_core::formats::{Catalog, Listed};
use packtrain_core::objects::{ArchiveState, ChunkRef, Entry, EntryKind, Load};
use packtrain_core::plan::batch::Pace;
use packtrain_core::plan::select::Selection;
use packtrain_core::platform::Opener;
use rustix::fs::Advice;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Compares the restored content of the selected entries with their chunk ids. Entries whose path
/// is in `unproven` are left out: they were not restored whole, which was said already.
///
/// # Errors
/// A failure that ended the run; findings are in `messages`.
#[expect(clippy::too_many_arguments, reason = "the run's parts, each named; a struct would only rename them")]
pub fn read_back(
    opened: &Opened,
    archive: &ArchiveState,
    selection: &Selection,
    target: &Target,
    unproven: &HashSet<Vec<u8>>,
    settings: &Settings,
    messages: &mut Messages,
    cancelled: &AtomicBool,
) -> Result<()> {
    if let Err(problem) = target.flush() {
        return Err(Failure::new(exit::IO, format!("flushing what was restored failed: {problem}")));
    }
    let crew = Comparers { target, opener: opened.source.opener() };
    let mut pass = Pass {
        opened,
        catalog: opened.source.catalog(archive),
        selection,
        unproven,
        messages,
        entries: 0,
        groups: HashSet::new(),
        growing: None,
        findings: Vec::new(),
        files: 0,
        bytes: 0,
    };
    line::run(settings, &crew, cancelled, &mut pass)?;
    pass.finish(archive)
}

/// Some chunks of one restored file.
struct Stretch {
    /// Number of the entry in the archive.
    number: u64,
    entry: Arc<Entry>,
    /// Path below the target.
    path: Arc<[u8]>,
    /// The chunks, as positions in the entry.
    from: usize,
    to: usize,
    /// Where the first of them starts in the file.
    offset: u64,
}

impl Stretch {
    fn chunks(&self) -> &[ChunkRef] {
        self.entry.chunks().get(self.from..self.to).unwrap_or(&[])
    }

    fn bytes(&self) -> u64 {
        self.chunks().iter().map(|chunk| u64::from(chunk.size)).sum()
    }
}

/// What is wrong with a file.
struct Finding {
    number: u64,
    entry: Arc<Entry>,
    path: Arc<[u8]>,
    code: u8,
    text: String,
}

struct Comparers<'a> {
    target: &'a Target,
    opener: Arc<dyn Opener>,
}

impl Crew for Comparers<'_> {
    type Job = Vec<Stretch>;
    type Done = Vec<Finding>;
    type Bench = Vec<u8>;

    fn bench(&self) -> Vec<u8> {
        Vec::new()
    }

    fn read_ahead(&self, _job: &mut Self::Job) {}

    fn work(&self, buffer: &mut Vec<u8>, job: &mut Self::Job) -> (Self::Done, u64) {
        let mut findings = Vec::new();
        for stretch in job {
            if let Err((code, text)) = self.compare(stretch, buffer) {
                findings.push(finding(stretch, code, text));
            }
        }
        (findings, 0)
    }

    fn lost(&self, job: Self::Job) -> Self::Done {
        job.iter().map(|stretch| finding(stretch, exit::ERROR, "the worker stopped unexpectedly".into())).collect()
    }
}

impl Comparers<'_> {
    /// Reads one stretch and hashes its chunks.
    fn compare(&self, stretch: &Stretch, buffer: &mut Vec<u8>) -> Result<(), (u8, String)> {
        let unreadable = |errno: Errno| {
            let code = crate::target::Class::of(errno).code();
            (code, format!("cannot be read back: {}", std::io::Error::from(errno)))
        };
        let file = self.target.open_file(&stretch.path).map_err(unreadable)?;
        let len = rustix::fs::fstat(&file).map_err(unreadable)?.st_size;
        let wanted = stretch.entry.content_len();
        if u64::try_from(len) != Ok(wanted) {
            return Err((exit::DAMAGED, format!("read back as {len} bytes, the archive holds {wanted}")));
        }
        if let Some(len) = core::num::NonZeroU64::new(stretch.bytes()) {
            // Advice only: without it the answer may come from memory.
            let _ = rustix::fs::fadvise(&file, stretch.offset, Some(len), Advice::DontNeed);
        }
        let mut offset = stretch.offset;
        for chunk in stretch.chunks() {
            let bytes = fit(buffer, chunk.size as usize);
            read_exact(file.as_fd(), offset, bytes).map_err(unreadable)?;
            let end = offset + u64::from(chunk.size);
            if !self.opener.is_content(&chunk.id, bytes) {
                return Err((
                    exit::DAMAGED,
                    format!("bytes {offset} to {end} read back differently, chunk {}", chunk.id),
                ));
            }
            offset = end;
        }
        Ok(())
    }
}

fn finding(stretch: &Stretch, code: u8, text: String) -> Finding {
    Finding { number: stretch.number, entry: stretch.entry.clone(), path: stretch.path.clone(), code, text }
}

fn read_exact(file: impl AsFd, mut offset: u64, mut rest: &mut [u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        match rustix::io::pread(&file, &mut *rest, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(got) => {
                offset += got as u64;
                rest = rest.get_mut(got..).unwrap_or_default();
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

struct Pass<'a> {
    opened: &'a Opened,
    catalog: Box<dyn Catalog + 'a>,
    selection: &'a Selection,
    unproven: &'a HashSet<Vec<u8>>,
    messages: &'a mut Messages,
    entries: u64,
    /// Link groups that were read through one of their names.
    groups: HashSet<Id>,
    /// A file of which only a part is on the line.
    growing: Option<Stretch>,
    findings: Vec<Finding>,
    files: u64,
    bytes: u64,
}

impl Pass<'_> {
    /// The next file that was restored whole, as one stretch without chunks yet.
    fn next_file(&mut self) -> Result<Option<Stretch>> {
        while let Some(listed) = self.opened.drive(self.catalog.next(&self.opened.port))? {
            let Listed::Entry(entry) = listed else { continue };
            self.entries += 1;
            let Some(path) = self.restored(&entry) else { continue };
            if entry.link_group.is_some_and(|group| !self.groups.insert(group)) {
                continue;
            }
            self.files += 1;
            self.bytes += entry.content_len();
            let (number, path) = (self.entries, path.into());
            return Ok(Some(Stretch { number, entry: Arc::from(entry), path, from: 0, to: 0, offset: 0 }));
        }
        Ok(None)
    }

    /// Where the content of this entry was restored to, if it was.
    fn restored<'e>(&self, entry: &'e Entry) -> Option<&'e [u8]> {
        let wanted = matches!(entry.kind, EntryKind::File(Some(_))) && self.selection.wants(&entry.path);
        self.selection.target(&entry.path).filter(|_| wanted && !self.unproven.contains(&entry.path))
    }

    /// Reports what was found, except on files that a later entry of the same path replaced.
    fn finish(mut self, archive: &ArchiveState) -> Result<()> {
        let mut last: HashMap<&[u8], u64> = self.findings.iter().map(|finding| (&*finding.path, 0)).collect();
        if !last.is_empty() {
            let mut catalog = self.opened.source.catalog(archive);
            let mut number = 0;
            while let Some(listed) = self.opened.drive(catalog.next(&self.opened.port))? {
                let Listed::Entry(entry) = listed else { continue };
                number += 1;
                if self.selection.wants(&entry.path)
                    && let Some(path) = self.selection.target(&entry.path)
                    && let Some(last) = last.get_mut(path)
                {
                    *last = number;
                }
            }
        }
        for Finding { number, entry, path, code, text } in &self.findings {
            if last.get(&**path) == Some(number) {
                self.messages.warn(*code, &entry.path, text);
            }
        }
        self.findings.clear();
        let bytes = crate::messages::size(self.bytes as f64);
        self.messages.note(&format!("{} files with {bytes} read back and compared with their chunk ids", self.files));
        Ok(())
    }
}

impl Conductor<Comparers<'_>> for Pass<'_> {
    fn next(&mut self, _line: &mut Line<'_, Comparers<'_>>) -> Result<Next<Vec<Stretch>>> {
        let mut job: Vec<Stretch> = Vec::new();
        let mut bytes = 0;
        while bytes < Pace::PLAIN_MAX && job.len() < Pace::UNITS_MAX {
            let next = match self.growing.take() {
                Some(rest) => Some(rest),
                None => self.next_file()?,
            };
            let Some(mut stretch) = next else { break };
            while let Some(chunk) = stretch.entry.chunks().get(stretch.to)
                && bytes < Pace::PLAIN_MAX
            {
                bytes += u64::from(chunk.size);
                stretch.to += 1;
            }
            if stretch.to < stretch.entry.chunks().len() {
                self.growing = Some(Stretch {
                    number: stretch.number,
                    entry: stretch.entry.clone(),
                    path: stretch.path.clone(),
                    from: stretch.to,
                    to: stretch.to,
                    offset: stretch.offset + stretch.bytes(),
                });
            }
            job.push(stretch);
        }
        if job.is_empty() {
            return Ok(Next::End);
        }
        // Only one chunk is in memory at a time.
        let largest = job.iter().flat_map(Stretch::chunks).map(|chunk| u64::from(chunk.size)).max();
        Ok(Next::Job(Load { stored: 0, plain: largest.unwrap_or(0), units: job.len() as u64 }, job))
    }

    fn output(&mut self, _line: &mut Line<'_, Comparers<'_>>, _ticket: Ticket, done: Vec<Finding>) -> Result<bool> {
        self.findings.extend(done);
        self.messages.tick();
        Ok(true)
    }
}
