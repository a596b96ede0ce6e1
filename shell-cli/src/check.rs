//! Verifying: names of stored objects, the archives' structure, and every byte.
//!
//! Three passes, each reporting everything it finds: (1) every stored object against what it says
//! of itself, such as the hash that is its name; (2) each archive's entries: metadata opens, every chunk is in the index,
//! sizes add up; (3) with `--verify-data`, every chunk is opened in storage order, and what is
//! damaged is then traced to the files that use it.

use crate::exit::{self, Result, describe, describe_fault};
use crate::line::{self, Conductor, Crew, Line, Next, Settings};
use crate::messages::{Messages, Status};
use crate::opened::Opened;
use crate::store::Store;
use crate::stream::{DecodeJob, Decoded, Decoders, Keep};
use core::sync::atomic::AtomicBool;
use packtrain_core::base::{Fault, Id};
use packtrain_core::engine::Ticket;
use packtrain_core::formats::{Audit, Listed, StoredObjects};
use packtrain_core::objects::{Archive, EntryKind, Extent, Load, Role, Unit};
use packtrain_core::plan::batch::{Builder, Pace};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes read at a time while checking an object.
const READ_STEP: usize = 1 << 20;

/// How much is checked.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Stored objects against what they say of themselves.
    pub repository: bool,
    /// The archives' structure.
    pub archives: bool,
    /// Every byte.
    pub data: bool,
    /// Share of the chunks to verify, 0 to 1.
    pub sample: f64,
    /// Stop verifying data after this time.
    pub max_duration: Option<Duration>,
}

/// Checks the source; findings go to `messages`.
///
/// # Errors
/// A failure that ended the run.
pub fn check(
    opened: &Opened,
    archives: &[&Archive],
    whole: bool,
    depth: &Depth,
    settings: &Settings,
    messages: &mut Messages,
    cancelled: &AtomicBool,
) -> Result<()> {
    if depth.repository {
        audit_objects(opened, settings, messages, cancelled)?;
    }
    let mut wanted = HashSet::new();
    // Which chunks belong to chosen archives only their entries tell.
    if depth.archives || depth.data && !whole {
        for archive in archives {
            walk(opened, archive, messages, if whole { None } else { Some(&mut wanted) })?;
        }
    }
    if depth.data {
        let wanted = if whole { None } else { Some(&wanted) };
        let bad = verify_data(opened, wanted, depth, settings, messages, cancelled)?;
        if !bad.is_empty() {
            blame(opened, archives, &bad, messages)?;
        }
    }
    Ok(())
}

/// Pass 1: every object that can be checked without a key.
fn audit_objects(opened: &Opened, settings: &Settings, messages: &mut Messages, cancelled: &AtomicBool) -> Result<()> {
    let crew = Auditors { store: opened.store.clone() };
    let mut conductor = AuditPass { objects: opened.source.stored_objects(), messages, checked: 0 };
    line::run(settings, &crew, cancelled, &mut conductor)?;
    let checked = conductor.checked;
    drop(conductor);
    messages.note(&format!("{checked} stored objects checked"));
    Ok(())
}

struct Auditors {
    store: Arc<dyn Store>,
}

impl Crew for Auditors {
    type Job = (String, Option<Box<dyn Audit>>);
    /// The object's name, and a remark or what is wrong with it.
    type Done = (String, Result<Option<String>, String>);
    type Bench = Vec<u8>;

    fn bench(&self) -> Vec<u8> {
        Vec::new()
    }

    fn read_ahead(&self, _job: &mut Self::Job) {}

    fn work(&self, buffer: &mut Vec<u8>, (name, audit): &mut Self::Job) -> (Self::Done, u64) {
        let Some(mut audit) = audit.take() else { return ((std::mem::take(name), Ok(None)), 0) };
        buffer.resize(READ_STEP, 0);
        let mut offset = 0;
        let verdict = loop {
            match self.store.read_into(name, offset, buffer) {
                Ok(0) => break audit.finish().map_err(|error| error.to_string()),
                Ok(got) => {
                    offset += got as u64;
                    audit.update(buffer.get(..got).unwrap_or(buffer));
                }
                Err(errno) => break Err(format!("reading failed: {}", std::io::Error::from(errno))),
            }
        };
        ((std::mem::take(name), verdict), 0)
    }

    fn lost(&self, (name, _): Self::Job) -> Self::Done {
        (name, Err("the worker stopped unexpectedly".into()))
    }
}

struct AuditPass<'a> {
    objects: StoredObjects<'a>,
    messages: &'a mut Messages,
    checked: u64,
}

impl Conductor<Auditors> for AuditPass<'_> {
    fn next(&mut self, _line: &mut Line<'_, Auditors>) -> Result<Next<(String, Option<Box<dyn Audit>>)>> {
        let load = Load { stored: READ_STEP as u64, plain: 0, units: 1 };
        Ok(self.objects.next().map_or(Next::End, |(name, audit)| Next::Job(load, (name, Some(audit)))))
    }

    fn output(
        &mut self,
        _line: &mut Line<'_, Auditors>,
        _ticket: Ticket,
        (name, verdict): (String, Result<Option<String>, String>),
    ) -> Result<bool> {
        self.checked += 1;
        match verdict {
            Ok(None) => {}
            Ok(Some(remark)) => self.messages.note(&format!("{name}: {remark}")),
            Err(trouble) => self.messages.damage(b"", &format!("{name}: {trouble}")),
        }
        self.messages.tick();
        Ok(true)
    }
}

/// Pass 2: one archive. Collects its chunks where only they shall be verified.
fn walk(
    opened: &Opened,
    archive: &Archive,
    messages: &mut Messages,
    mut wanted: Option<&mut HashSet<Id>>,
) -> Result<()> {
    let state = match &archive.state {
        Ok(state) => state,
        Err(error) => {
            messages.damage(b"", &format!("archive {} cannot be read: {}", archive.id, describe(error)));
            return Ok(());
        }
    };
    let mut catalog = opened.source.catalog(state);
    while let Some(listed) = opened.drive(catalog.next(&opened.port))? {
        match listed {
            Listed::Refused { path, why } => messages.refused(&path, &why),
            Listed::Gap(error) => {
                let name = state.name.escape_ascii();
                messages
                    .damage(b"", &format!("archive {name} ({}): entries are lost: {}", archive.id, describe(&error)));
            }
            Listed::Entry(entry) => {
                let (mut missing, mut unlisted) = (0u64, 0u64);
                for chunk in entry.chunks() {
                    if opened.source.locate(chunk).is_none() {
                        if opened.source.is_zeros(chunk, None) {
                            continue;
                        }
                        match opened.drive(opened.source.relocate(&opened.port, chunk.id, &[]))? {
                            Some(_) => unlisted += 1,
                            None => missing += 1,
                        }
                    }
                    if let Some(wanted) = &mut wanted {
                        wanted.insert(chunk.id);
                    }
                }
                let all = entry.chunks().len();
                if missing > 0 {
                    messages.damage(&entry.path, &format!("{missing} of {all} chunks are missing"));
                }
                if unlisted > 0 {
                    messages
                        .damage(&entry.path, &format!("{unlisted} of {all} chunks are stored, but not in the index"));
                }
                if entry.kind == EntryKind::File(None) {
                    messages.damage(&entry.path, "the archive holds no content for this file");
                }
                messages.misstated_size(&entry);
                messages.entry(&entry, if missing == 0 { Status::Restored } else { Status::Damaged });
            }
        }
    }
    Ok(())
}

/// Pass 3: opens every chunk, or those in `wanted`, in storage order.
fn verify_data(
    opened: &Opened,
    wanted: Option<&HashSet<Id>>,
    depth: &Depth,
    settings: &Settings,
    messages: &mut Messages,
    cancelled: &AtomicBool,
) -> Result<BTreeMap<Id, Fault>> {
    let mut chunks = opened.source.indexed();
    chunks.retain(|(id, _)| wanted.is_none_or(|wanted| wanted.contains(id)) && is_sampled(id, depth.sample));
    let total = chunks.len();
    let crew = Decoders::new(opened, Keep::Nothing, settings);
    let mut conductor = DataPass {
        chunks: chunks.into_iter(),
        // Stored bytes stand for plaintext of unknown size, which may be several times as long.
        builder: opened.builder(settings.share() / 6),
        pace: Pace::new(),
        batches: std::collections::VecDeque::new(),
        messages,
        bad: BTreeMap::new(),
        verified: 0,
        deadline: depth.max_duration.map(|limit| Instant::now() + limit),
    };
    line::run(settings, &crew, cancelled, &mut conductor)?;
    let DataPass { bad, verified, .. } = conductor;
    let partly = if verified < total as u64 { format!(" of {total}") } else { String::new() };
    messages.note(&format!("{verified}{partly} chunks verified, {} damaged", bad.len()));
    Ok(bad)
}

/// Whether a chunk belongs to a sample: ids are hashes, so their first bytes are random enough.
fn is_sampled(id: &Id, share: f64) -> bool {
    let [a, b, c, d, ..] = id.0;
    f64::from(u32::from_be_bytes([a, b, c, d])) < share * f64::from(u32::MAX) || share >= 1.0
}

struct DataPass<'a> {
    chunks: std::vec::IntoIter<(Id, Extent)>,
    builder: Builder,
    pace: Pace,
    /// The units of batches on the line.
    batches: std::collections::VecDeque<Vec<Unit>>,
    messages: &'a mut Messages,
    bad: BTreeMap<Id, Fault>,
    verified: u64,
    deadline: Option<Instant>,
}

impl Conductor<Decoders> for DataPass<'_> {
    fn next(&mut self, _line: &mut Line<'_, Decoders>) -> Result<Next<DecodeJob>> {
        let late = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        // Plaintext sizes are known only once a unit is open; stored bytes stand for them.
        while !late && !self.builder.is_full(&self.pace, 0) {
            let Some((id, at)) = self.chunks.next() else { break };
            self.builder.add(Unit { id, at, size: None, role: Role::Any });
        }
        if self.builder.is_empty() {
            return Ok(Next::End);
        }
        let batch = self.builder.take();
        self.batches.push_back(batch.units.clone());
        let load = batch.load(batch.units.len());
        // Workers keep nothing, but each unit's plaintext exists for a moment.
        Ok(Next::Job(Load { plain: load.stored, ..load }, DecodeJob::new(batch)))
    }

    fn output(&mut self, _line: &mut Line<'_, Decoders>, _ticket: Ticket, done: Decoded) -> Result<bool> {
        let units = self.batches.pop_front().unwrap_or_default();
        let stored = units.iter().map(|unit| u64::from(unit.at.len)).sum();
        self.pace.observe(stored, done.nanos);
        for (unit, result) in units.iter().zip(done.units) {
            self.verified += 1;
            if let Err(fault) = result {
                self.messages.damage(b"", &describe_fault(&fault));
                self.bad.insert(unit.id, fault);
            }
        }
        self.messages.tick();
        Ok(true)
    }
}

/// Names the files and byte ranges that use damaged chunks.
fn blame(opened: &Opened, archives: &[&Archive], bad: &BTreeMap<Id, Fault>, messages: &mut Messages) -> Result<()> {
    for archive in archives {
        let Ok(state) = &archive.state else { continue };
        let mut catalog = opened.source.catalog(state);
        while let Some(listed) = opened.drive(catalog.next(&opened.port))? {
            let Listed::Entry(entry) = listed else { continue };
            let mut offset = 0;
            for chunk in entry.chunks() {
                let end = offset + u64::from(chunk.size);
                if bad.contains_key(&chunk.id) {
                    let name = state.name.escape_ascii();
                    let text = format!("archive {name}: bytes {offset} to {end} are damaged, chunk {}", chunk.id);
                    messages.warn(exit::DAMAGED, &entry.path, &text);
                }
                offset = end;
            }
        }
    }
    Ok(())
}
