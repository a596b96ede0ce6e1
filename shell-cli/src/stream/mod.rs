//! Streaming: content in archive order, for pipes: `cat`, `export-tar`, `extract --stdout`, `--dry-run`.
//!
//! Workers decode, the conductor writes. A chunk that is wanted again while its first use is
//! under way is held, not decoded twice; what is held counts against the memory bound.

pub mod sink;
pub mod tar;

use crate::exit::{self, Failure, Result, describe, describe_fault};
use crate::extract::OnDamage;
use crate::line::{self, Conductor, Crew, Line, Next, Settings};
use crate::messages::{Messages, Status};
use crate::opened::Opened;
use crate::store::{Fetched, Store};
use core::sync::atomic::AtomicBool;
use packtrain_core::base::{Check, Error, Fault, Id, Stage};
use packtrain_core::engine::{Bench, Ticket};
use packtrain_core::formats::{Catalog, Listed};
use packtrain_core::objects::{ArchiveState, ChunkRef, Entry, EntryKind, Load, Refusal, Unit};
use packtrain_core::plan::batch::{Batch, Builder, Pace};
use packtrain_core::plan::select::Selection;
use packtrain_core::platform::{Content, Kit, Opener, Scratch};
use sink::Sink;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The crew that decodes and hands the plaintext back; also used to verify.
pub struct Decoders {
    store: Arc<dyn Store>,
    opener: Arc<dyn Opener>,
    kit: Kit,
    keep: Keep,
    /// Bytes that buffers keep between jobs.
    spare: usize,
}

/// What becomes of plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It goes back to the conductor.
    Plain,
    /// Only whether it could be decoded.
    Nothing,
}

/// A batch to decode, and its stored bytes where a reader fetched them ahead.
pub struct DecodeJob {
    /// The units.
    pub batch: Batch,
    fetched: Option<Fetched>,
}

impl DecodeJob {
    /// A job whose bytes are not fetched yet.
    pub const fn new(batch: Batch) -> Self {
        Self { batch, fetched: None }
    }
}

/// Per unit its plaintext (empty if not kept) or its fault.
pub struct Decoded {
    /// One per unit.
    pub units: Vec<Result<Vec<u8>, Fault>>,
    /// Time taken, nanoseconds.
    pub nanos: u64,
    /// Plaintext bytes declared.
    pub plain: u64,
}

impl Decoders {
    /// Decoders for one source.
    pub fn new(opened: &Opened, keep: Keep, settings: &Settings) -> Self {
        Self {
            store: opened.store.clone(),
            opener: opened.source.opener(),
            kit: opened.kit,
            keep,
            // Of what is only looked at, each unit takes a buffer that is larger than it need be.
            spare: usize::try_from(settings.share() / if keep == Keep::Nothing { 4 } else { 1 }).unwrap_or(usize::MAX),
        }
    }
}

impl Crew for Decoders {
    type Job = DecodeJob;
    type Done = Decoded;
    type Bench = Bench;

    fn bench(&self) -> Bench {
        Bench::new(Scratch::new(self.kit))
    }

    fn read_ahead(&self, job: &mut DecodeJob) {
        job.fetched = Some(self.store.read_ahead(&*self.opener, &job.batch));
    }

    fn work(&self, bench: &mut Bench, job: &mut DecodeJob) -> (Decoded, u64) {
        let started = Instant::now();
        let failures = self.store.bring(&*self.opener, &job.batch, job.fetched.take(), &mut bench.stored);
        bench.begin();
        let mut held = 0;
        let units = (0..job.batch.units.len()).map(|at| {
            let content = bench.open(&job.batch, at, &*self.opener, &failures)?;
            let plain = match (self.keep, content) {
                (Keep::Nothing, _) => Vec::new(),
                // The buffer that was decoded into is the one that is written out.
                (Keep::Plain, Content::Plain(len)) => {
                    let mut plain = std::mem::take(&mut bench.plain);
                    plain.truncate(len);
                    plain
                }
                (Keep::Plain, stored) => bench.bytes(&stored).to_vec(),
            };
            held += plain.capacity() as u64;
            Ok(plain)
        });
        let units = units.collect();
        bench.trim(self.spare);
        (Decoded { units, nanos: started.elapsed().as_nanos() as u64, plain: job.batch.plain }, held)
    }

    fn lost(&self, job: DecodeJob) -> Decoded {
        let lost = |unit: &Unit| Err(Error::from(Check::Worker).of_chunk(unit.id).during(Stage::Worker));
        Decoded { units: job.batch.units.iter().map(lost).collect(), nanos: 0, plain: 0 }
    }
}

/// Writes the selected entries of an archive to `sink`, in order.
///
/// # Errors
/// A failure that ended the run; warnings are in `messages`.
#[expect(clippy::too_many_arguments, reason = "the run's parts, each named; a struct would only rename them")]
pub fn stream(
    opened: &Opened,
    archive: &ArchiveState,
    selection: &Selection,
    sink: &mut dyn Sink,
    on_damage: OnDamage,
    settings: &Settings,
    messages: &mut Messages,
    cancelled: &AtomicBool,
) -> Result<()> {
    let crew = Decoders::new(opened, Keep::Plain, settings);
    let mut streamer = Streamer {
        opened,
        catalog: opened.source.catalog(archive),
        selection,
        on_damage,
        messages,
        sink,
        builder: opened.builder(settings.share()),
        rows: Vec::new(),
        scripts: VecDeque::new(),
        growing: None,
        pace: Pace::new(),
        window: HashMap::new(),
        holds: HashMap::new(),
        kept: HashMap::new(),
        groups: HashMap::new(),
        damaged: false,
    };
    line::run(settings, &crew, cancelled, &mut streamer)?;
    streamer.sink.finish()
}

/// One step of writing the stream.
enum Row {
    Begin(Box<Entry>),
    /// Another name of an entry that was written under the given path.
    Link(Box<Entry>, Vec<u8>),
    Chunk {
        chunk: ChunkRef,
        offset: u64,
        from: From,
    },
    End(Box<Entry>),
    Refused(Vec<u8>, Refusal),
    Gap(Error),
    ContentLost(Vec<u8>),
}

#[derive(Clone, Copy)]
enum From {
    /// Unit of this row's own batch.
    Unit(usize),
    /// Unit of an earlier batch, held for this row.
    Held(Ticket, usize),
    Zeros,
    /// Not found anywhere.
    Nowhere,
}

struct Streamer<'a> {
    opened: &'a Opened,
    catalog: Box<dyn Catalog + 'a>,
    selection: &'a Selection,
    on_damage: OnDamage,
    messages: &'a mut Messages,
    sink: &'a mut dyn Sink,
    builder: Builder,
    rows: Vec<Row>,
    /// What to do when a batch comes out, in the order of the batches.
    scripts: VecDeque<(Ticket, Vec<Row>)>,
    /// A file whose chunks are being planned: the entry, the next chunk, its offset.
    growing: Option<(Box<Entry>, usize, u64)>,
    pace: Pace,
    /// Chunks of batches that have not come out.
    window: HashMap<Id, (Ticket, usize)>,
    /// How many later rows want something of a batch.
    holds: HashMap<Ticket, u32>,
    /// Batches that came out and are still wanted.
    kept: HashMap<Ticket, Vec<Result<Vec<u8>, Fault>>>,
    groups: HashMap<Id, Vec<u8>>,
    /// The entry being written has damaged ranges.
    damaged: bool,
}

impl Streamer<'_> {
    fn is_full(&self) -> bool {
        self.builder.is_full(&self.pace, 0) || self.rows.len() >= 4 * Pace::UNITS_MAX
    }

    fn flush(&mut self, line: &Line<'_, Decoders>) -> Next<DecodeJob> {
        let batch = self.builder.take();
        let ticket = line.next_ticket();
        for (at, unit) in batch.units.iter().enumerate() {
            self.window.insert(unit.id, (ticket, at));
        }
        let rows = std::mem::take(&mut self.rows);
        self.opened.store.announce_batch(&*self.opened.source.opener(), &batch);
        let load = batch.load(rows.len());
        self.scripts.push_back((ticket, rows));
        Next::Job(load, DecodeJob::new(batch))
    }

    fn plan(&mut self, listed: Listed) {
        let entry = match listed {
            Listed::Entry(entry) => entry,
            Listed::Refused { path, why } => {
                if self.selection.wants(&path) {
                    self.rows.push(Row::Refused(path, why));
                }
                return;
            }
            Listed::Gap(error) => {
                self.rows.push(Row::Gap(error));
                return;
            }
        };
        if !self.selection.wants(&entry.path) {
            return;
        }
        let Some(path) = self.selection.target(&entry.path).map(<[u8]>::to_vec) else { return };
        if let Some(why) = self.sink.refusal(&entry.kind) {
            self.rows.push(Row::Refused(path, why));
            return;
        }
        let entry = Box::new(Entry { path, ..*entry });
        if self.sink.links()
            && let Some(group) = entry.link_group
        {
            if let Some(first) = self.groups.get(&group) {
                self.rows.push(Row::Link(entry, first.clone()));
                return;
            }
            self.groups.insert(group, entry.path.clone());
        }
        if entry.kind == EntryKind::File(None) {
            self.rows.push(Row::ContentLost(entry.path));
            return;
        }
        self.rows.push(Row::Begin(entry.clone()));
        self.growing = Some((entry, 0, 0));
    }

    fn grow(&mut self, (entry, mut at, mut offset): (Box<Entry>, usize, u64)) -> Result<()> {
        let chunks = entry.chunks();
        while at < chunks.len() && !self.is_full() {
            let chunk = chunks[at];
            let from = self.place(&chunk)?;
            self.rows.push(Row::Chunk { chunk, offset, from });
            offset += u64::from(chunk.size);
            at += 1;
        }
        if at == chunks.len() {
            self.rows.push(Row::End(entry));
        } else {
            self.growing = Some((entry, at, offset));
        }
        Ok(())
    }

    fn place(&mut self, chunk: &ChunkRef) -> Result<From> {
        let source = &self.opened.source;
        let mut at = source.locate(chunk);
        if source.is_zeros(chunk, at) {
            return Ok(From::Zeros);
        }
        if let Some((ticket, unit)) = self.window.get(&chunk.id) {
            *self.holds.entry(*ticket).or_default() += 1;
            return Ok(From::Held(*ticket, *unit));
        }
        if at.is_none() {
            at = self.opened.drive(source.relocate(&self.opened.port, chunk.id, &[]))?;
        }
        Ok(match at {
            None => From::Nowhere,
            Some(at) => From::Unit(self.builder.add(Unit::content(chunk, at))),
        })
    }

    fn release(&mut self, line: &mut Line<'_, Decoders>, ticket: Ticket) {
        let Some(count) = self.holds.get_mut(&ticket) else { return };
        *count -= 1;
        if *count == 0 {
            self.holds.remove(&ticket);
            if self.kept.remove(&ticket).is_some() {
                self.window.retain(|_, (known, _)| *known != ticket);
                line.reclaim(ticket);
            }
        }
    }

    fn write(&mut self, entry_path: &[u8], chunk: &ChunkRef, offset: u64, plain: Result<&[u8], Fault>) -> Result<()> {
        let fault = match plain {
            Ok(plain) => return self.sink.data(chunk.of(plain)),
            Err(fault) => fault,
        };
        if let Some(plain) = self.opened.other_copy(chunk, &fault)? {
            return self.sink.data(&plain);
        }
        self.damaged = true;
        let end = offset + u64::from(chunk.size);
        let what = self.on_damage.consequence();
        let text = format!("bytes {offset} to {end} are damaged, {what}: {}", describe_fault(&fault));
        self.messages.damage(entry_path, &text);
        match self.on_damage {
            // Where files can be left out, they are only read, not written.
            OnDamage::Zero | OnDamage::Skip => self.sink.zeros(chunk.size.into()),
            OnDamage::Stop => {
                Err(Failure::new(exit::INTEGRITY, "damaged content; the run stops here (see --on-damage)"))
            }
        }
    }
}

impl Conductor<Decoders> for Streamer<'_> {
    fn next(&mut self, line: &mut Line<'_, Decoders>) -> Result<Next<DecodeJob>> {
        loop {
            if self.is_full() {
                return Ok(self.flush(line));
            }
            if let Some(growing) = self.growing.take() {
                self.grow(growing)?;
                continue;
            }
            match self.opened.drive(self.catalog.next(&self.opened.port))? {
                Some(listed) => self.plan(listed),
                None if self.rows.is_empty() => return Ok(Next::End),
                None => return Ok(self.flush(line)),
            }
        }
    }

    fn output(&mut self, line: &mut Line<'_, Decoders>, ticket: Ticket, done: Decoded) -> Result<bool> {
        self.pace.observe(done.plain, done.nanos);
        let Some((_, rows)) = self.scripts.pop_front() else { return Ok(true) };
        let wanted = self.holds.contains_key(&ticket);
        if !wanted {
            self.window.retain(|_, (known, _)| *known != ticket);
        }
        let units = done.units;
        for row in rows {
            match row {
                Row::Begin(entry) => {
                    self.damaged = false;
                    self.sink.begin(&entry)?;
                }
                Row::Link(entry, first) => {
                    self.sink.link(&entry, &first)?;
                    self.messages.entry(&entry, Status::Restored);
                }
                Row::Chunk { chunk, offset, from } => {
                    let path = self.sink.path().to_vec();
                    match from {
                        From::Zeros => self.sink.zeros(chunk.size.into())?,
                        From::Unit(at) => {
                            let plain = units.get(at).map_or(Ok(&[][..]), |unit| unit.as_deref().map_err(Clone::clone));
                            self.write(&path, &chunk, offset, plain)?;
                        }
                        From::Held(holder, at) => {
                            let kept = self.kept.remove(&holder).unwrap_or_default();
                            let plain = kept.get(at).map_or(Ok(&[][..]), |unit| unit.as_deref().map_err(Clone::clone));
                            self.write(&path, &chunk, offset, plain)?;
                            self.kept.insert(holder, kept);
                            self.release(line, holder);
                        }
                        From::Nowhere => {
                            self.write(&path, &chunk, offset, Err(Fault::nowhere(chunk.id)))?;
                        }
                    }
                }
                Row::End(entry) => {
                    self.sink.end()?;
                    let status = if self.damaged { Status::Damaged } else { Status::Restored };
                    self.messages.entry(&entry, status);
                }
                Row::Refused(path, why) => self.messages.refused(&path, &why),
                Row::Gap(error) => {
                    self.messages.damage(b"", &format!("entries of the archive are lost here: {}", describe(&error)));
                }
                Row::ContentLost(path) => {
                    self.messages.damage(&path, "the archive holds no content for this file; left out")
                }
            }
        }
        self.messages.tick();
        if wanted {
            self.kept.insert(ticket, units);
        }
        Ok(!wanted)
    }

    fn yield_held(&mut self, line: &mut Line<'_, Decoders>, _load: Load, job: DecodeJob) -> (Load, DecodeJob) {
        // Everything before this job is written, so only its own rows still want what is held:
        // let them decode it anew.
        let mut builder = Builder::default();
        for unit in &job.batch.units {
            builder.add(*unit);
        }
        let mut rows = self.scripts.pop_back().map(|(_, rows)| rows).unwrap_or_default();
        for row in &mut rows {
            if let Row::Chunk { chunk, from, .. } = row
                && let From::Held(holder, _) = *from
            {
                *from = match self.opened.source.locate(chunk) {
                    Some(at) => From::Unit(builder.add(Unit::content(chunk, at))),
                    None => From::Nowhere,
                };
                self.release(line, holder);
            }
        }
        let batch = builder.take();
        let load = batch.load(rows.len());
        self.scripts.push_back((line.next_ticket(), rows));
        (load, DecodeJob::new(batch))
    }
}
