//! An opened repository: its manifest, archives and objects.

use super::archive::{self, ArchiveMap};
use super::audit::{Places, SegmentAudit};
use super::catalog::Entries;
use super::config::Config;
use super::envelope::Keys;
use super::log::Log;
use super::lost;
use super::manifest::{Manifest, Named};
use super::object::ObjectOpener;
use super::replay::{MANIFEST, leftovers};
use super::tam::Verdict;
use crate::base::{Check, Error, Id, Kind, Result, limits};
use crate::formats::common::fetch::{fetch, open};
use crate::formats::common::index::{Slot, copies};
use crate::formats::common::item::Dialect;
use crate::formats::common::stream::StreamStore;
use crate::formats::common::zeros::Zeros;
use crate::formats::{Audit, Catalog, OpenOptions, Source, StoredObjects, Which};
use crate::objects::{Archive, ArchiveState, ChunkRef, Extent, Fact, Notice, Role, Unit};
use crate::platform::{Kit, Opener, Pending, Port, Scratch};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::cell::{Cell, RefCell};

/// An archive name that holds this is of an interrupted run (borg1.md section 9).
const CHECKPOINT: &[u8] = b".checkpoint";

/// A Borg 1.x repository with its key open.
pub struct Repository {
    config: Config,
    options: OpenOptions,
    keys: Arc<Keys>,
    log: Arc<Log>,
    opener: Arc<ObjectOpener>,
    /// The manifest, or why there is none.
    manifest: Result<Manifest>,
    scratch: RefCell<Scratch>,
    notices: RefCell<Vec<Notice>>,
    /// What is stored beside the live objects, by id, once it was needed.
    leftovers: RefCell<Option<Arc<Vec<Slot>>>>,
    /// An object was longer than its plaintext explains: lengths are not cut short any more.
    is_padded: Cell<bool>,
    zeros: Zeros,
}

impl Repository {
    /// Reads and judges the manifest. One that is lost or damaged leaves what can be found without.
    ///
    /// # Errors
    /// `TamWrong` or `TamAbsent` for a manifest that is not authentic, unless the options allow it; I/O errors.
    pub async fn open(
        port: &Port,
        kit: Kit,
        config: Config,
        options: OpenOptions,
        keys: Keys,
        log: Arc<Log>,
    ) -> Result<Self> {
        let keys = Arc::new(keys);
        let mut repository = Self {
            config,
            options,
            opener: Arc::new(ObjectOpener::new(keys.clone(), log.clone())),
            manifest: Err(Error::new(Kind::Missing("the manifest"))),
            scratch: RefCell::new(Scratch::new(kit)),
            notices: RefCell::new(log.notices.clone()),
            leftovers: RefCell::default(),
            is_padded: Cell::new(false),
            zeros: Zeros::default(),
            keys,
            log,
        };
        if repository.keys.is_unverified() {
            repository.note(true, "not authenticated: the key is missing, nothing that is read can be verified".into());
        }
        repository.manifest = match repository.read_manifest(port).await {
            Err(error) if matches!(error.kind(), Kind::Corrupt(Check::TamAbsent | Check::TamWrong)) => {
                return Err(error);
            }
            Err(error) if matches!(error.kind(), Kind::Store(_) | Kind::Unsupported(_)) => return Err(error),
            other => other,
        };
        if let Err(error) = &repository.manifest {
            repository.note(true, format!("the list of archives cannot be read ({error}); --lost looks for them"));
        }
        Ok(repository)
    }

    async fn read_manifest(&self, port: &Port) -> Result<Manifest> {
        let mut object = self.log.manifest(port).await?;
        if self.keys.mode().is_plain() {
            self.log.prove_manifest(port).await?;
        }
        let mut plain = Vec::new();
        let content = self
            .opener
            .unseal(&mut object, None, limits::MANIFEST_MAX, &mut plain, &mut self.scratch.borrow_mut())
            .map_err(|fault| fault.error.of_chunk(MANIFEST))?;
        let bytes = content.bytes(&object, &plain);
        let (manifest, tam) = Manifest::parse(bytes)?;
        self.admit("the manifest", tam.judge(&self.keys, b"manifest", bytes))?;
        limits::within("number of archives", manifest.archives.len() as u64, limits::ARCHIVES_MAX as u64)?;
        Ok(manifest)
    }

    /// Lets metadata pass that is authentic, or that the options let pass (borg1.md 10.3).
    fn admit(&self, what: &str, verdict: Verdict) -> Result<()> {
        let check = match verdict {
            _ if self.keys.is_unverified() => return Ok(()),
            Verdict::Authentic => return Ok(()),
            Verdict::Absent if self.keys.mode().is_plain() => {
                // Nothing is authentic where there is no key; only accidents go unnoticed.
                self.note(false, format!("{what} carries no authentication"));
                return Ok(());
            }
            Verdict::Absent => Check::TamAbsent,
            Verdict::Wrong => Check::TamWrong,
        };
        if !self.options.not_authenticated {
            return Err(check.into());
        }
        self.note(true, format!("not authenticated: {what} ({check})"));
        Ok(())
    }

    pub(super) fn note(&self, serious: bool, text: String) {
        self.notices.borrow_mut().push(Notice { serious, text });
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// What is stored beside the live objects, by id; read once.
    pub(super) async fn leftovers(&self, port: &Port) -> Result<Arc<Vec<Slot>>> {
        let known = self.leftovers.borrow().clone();
        if let Some(slots) = known {
            return Ok(slots);
        }
        let is_live = |slot: &Slot| {
            let live = self.log.index.find(&slot.id);
            live.is_some_and(|live| (live.object, live.offset) == (slot.object, slot.offset))
        };
        let slots = match leftovers(port, &self.log.segments, is_live).await {
            // A writer that compacts takes leftovers away first.
            Err(error) if matches!(error.kind(), Kind::Missing(_)) => Vec::new(),
            other => other?,
        };
        let slots = Arc::new(slots);
        *self.leftovers.borrow_mut() = Some(slots.clone());
        Ok(slots)
    }

    /// Another copy of `id` than those in `failed`.
    async fn another(&self, port: &Port, id: Id, failed: &[Extent]) -> Result<Option<Extent>> {
        if id == MANIFEST {
            return Ok(None);
        }
        if let Some(at) = self.log.index.find(&id).map(Slot::extent)
            && !failed.contains(&at)
        {
            // Its start was tried, and its end was cut off.
            if failed.iter().any(|other| (other.object, other.offset) == (at.object, at.offset)) {
                self.is_padded.set(true);
            }
            return Ok(Some(at));
        }
        let slots = self.leftovers(port).await?;
        Ok(copies(&slots, id).find(|extent| !failed.contains(extent)))
    }

    /// Reads and opens one metadata object, from another copy if the first is damaged.
    async fn fetch(&self, port: &Port, id: Id, role: Role) -> Result<Vec<u8>> {
        fetch(self, &self.scratch, port, id, role).await
    }

    pub(super) fn open_unit(&self, unit: &Unit, stored: &mut [u8]) -> Result<Vec<u8>> {
        open(&*self.opener, &mut self.scratch.borrow_mut(), unit, stored)
    }

    /// The metadata of an archive whose object is `plain`, if it may be believed.
    pub(super) fn state(&self, id: Id, map: ArchiveMap, plain: &[u8]) -> Result<ArchiveState> {
        let what = format!("archive {}", map.state.name.escape_ascii());
        self.admit(&what, map.tam.judge(&self.keys, b"archive", plain)).map_err(|error| error.of_chunk(id))?;
        // The list of item chunks can be long: it is read again when the entries are.
        Ok(ArchiveState { roots: alloc::vec![id], ..map.state })
    }

    async fn read_archive(&self, port: &Port, named: &Named) -> Result<Result<ArchiveState>> {
        let plain = match self.fetch(port, named.id, Role::Archive).await {
            Ok(plain) => plain,
            Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
            Err(error) => return Ok(Err(error)),
        };
        Ok(archive::parse(&plain)
            .map_err(|error| error.of_chunk(named.id))
            .and_then(|map| self.state(named.id, map, &plain))
            // After a repair, only the manifest knows the name.
            .map(|state| ArchiveState { name: named.name.clone(), ..state }))
    }

    async fn read_archives(&self, port: &Port, checkpoints: bool) -> Result<Vec<Archive>> {
        let manifest = self.manifest.as_ref().map_err(Error::clone)?;
        let mut archives = Vec::new();
        for named in &manifest.archives {
            let is_checkpoint = named.name.windows(CHECKPOINT.len()).any(|part| part == CHECKPOINT);
            if is_checkpoint == checkpoints {
                let state = self.read_archive(port, named).await?;
                archives.push(Archive { id: named.id, name: Some(named.name.clone()), state, deleted: false });
            }
        }
        archives.sort_by_key(Archive::order);
        Ok(archives)
    }

    async fn lost(&self, port: &Port) -> Result<Vec<Archive>> {
        let known: Vec<Id> = self.manifest.iter().flat_map(|manifest| manifest.archives.iter().map(|n| n.id)).collect();
        lost::find(self, port, &known).await
    }
}

impl StreamStore for Repository {
    fn dialect(&self) -> Dialect {
        Dialect::Borg1 { parts: self.options.parts }
    }

    fn list<'a>(&'a self, port: &'a Port, id: Id) -> Pending<'a, Result<Vec<Id>>> {
        Box::pin(async move {
            let plain = self.fetch(port, id, Role::Archive).await?;
            archive::parse(&plain).map(|map| map.items).map_err(|error| error.of_chunk(id))
        })
    }

    fn chunk<'a>(&'a self, port: &'a Port, id: Id) -> Pending<'a, Result<Vec<u8>>> {
        Box::pin(self.fetch(port, id, Role::Stream))
    }
}

impl Source for Repository {
    fn facts(&self) -> Vec<Fact> {
        let mode = self.keys.mode();
        let slots = self.log.index.slots();
        let bytes: u64 = slots.iter().map(|slot| u64::from(slot.len)).sum();
        let mut facts = alloc::vec![
            ("format", "Borg 1".into()),
            ("version", "1".into()),
            ("id", self.config.id.to_hex()),
            ("encryption", mode.name.into()),
            ("id_hash", mode.id_hash().into()),
            ("segments", format!("{}", self.log.segments.len())),
            ("transaction", format!("{}", self.log.segments.transaction())),
            ("index", if self.log.is_stored { "stored" } else { "replayed" }.into()),
            (
                "chunks",
                format!("{}", slots.len().saturating_sub(usize::from(self.log.index.find(&MANIFEST).is_some())))
            ),
            // With the writer's index an upper bound: it has no lengths.
            (if self.log.is_stored { "stored_bytes_at_most" } else { "stored_bytes" }, format!("{bytes}")),
        ];
        if let Ok(Manifest { timestamp: Some(timestamp), .. }) = &self.manifest {
            facts.push(("last_modified", format!("{timestamp}+00:00")));
        }
        facts.into_iter().map(|(key, value)| Fact { key, value }).collect()
    }

    fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    fn archives<'a>(&'a self, port: &'a Port, which: Which) -> Pending<'a, Result<Vec<Archive>>> {
        match which {
            Which::Live => Box::pin(self.read_archives(port, false)),
            Which::Checkpoints => Box::pin(self.read_archives(port, true)),
            Which::Lost => Box::pin(self.lost(port)),
            // Deleting removes the name at once; what is left of such archives counts as lost.
            Which::Deleted => Box::pin(core::future::ready(Ok(Vec::new()))),
        }
    }

    fn catalog<'a>(&'a self, archive: &ArchiveState) -> Box<dyn Catalog + 'a> {
        Box::new(Entries::new(self, &archive.roots))
    }

    fn locate(&self, chunk: &ChunkRef) -> Option<Extent> {
        let mut at = self.log.index.find(&chunk.id).filter(|slot| slot.id != MANIFEST)?.extent();
        if self.log.is_stored && !self.is_padded.get() {
            // Removed objects may follow: no compression makes a chunk longer than this.
            at.len = at.len.min(chunk.size + chunk.size / 64 + 4096);
        }
        Some(at)
    }

    fn relocate<'a>(&'a self, port: &'a Port, id: Id, failed: &'a [Extent]) -> Pending<'a, Result<Option<Extent>>> {
        Box::pin(self.another(port, id, failed))
    }

    fn is_zeros(&self, chunk: &ChunkRef, at: Option<Extent>) -> bool {
        // Without the key the manifest's id stands for what no chunk has.
        self.zeros.is_zeros(chunk, at, |parts| self.keys.chunk_id(parts).unwrap_or(MANIFEST)) && chunk.id != MANIFEST
    }

    fn indexed(&self) -> Vec<(Id, Extent)> {
        self.log.index.by_place()
    }

    fn stored_objects(&self) -> StoredObjects<'_> {
        let places = Arc::new(Places::new(self.log.index.slots()));
        let audit = move |object: u32| Box::new(SegmentAudit::of_used(places.clone(), object)) as Box<dyn Audit>;
        Box::new(self.log.segments.names().map(move |(object, name)| (name, audit(object))))
    }

    fn opener(&self) -> Arc<dyn Opener> {
        self.opener.clone()
    }
}
