//! An opened repository: its index, archives and objects.

use super::archive;
use super::config::Config;
use super::envelope::{Keys, Sessions, hashed_context};
use super::index::parse_fragment;
use super::object::{ObjectOpener, pack_name};
use super::scan::{self, Found};
use crate::base::{Id, Kind, Result, limits};
use crate::formats::common::audit::NamedByHash;
use crate::formats::common::fetch::fetch;
use crate::formats::common::index::{Index, Slot, copies};
use crate::formats::common::item::Dialect;
use crate::formats::common::stream::{ItemStream, StreamStore};
use crate::formats::common::zeros::Zeros;
use crate::formats::{Audit, Catalog, Source, StoredObjects, Which};
use crate::objects::{Archive, ArchiveState, ChunkRef, Extent, Fact, Notice, Role};
use crate::platform::{Kit, Opener, Pending, Port, Scratch};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::cell::RefCell;

/// Present while the fragments cannot be trusted (borg2.md 9.3).
const INVALID_MARKER: &str = "cache/chunkindex-invalid";
/// Attempts at a listing that changes under our hands.
const ATTEMPTS: usize = 3;
/// A Borg 2 repository with its key open.
pub struct Repository {
    config: Config,
    keys: Arc<Keys>,
    opener: Arc<ObjectOpener>,
    /// Pack ids, sorted; a pack's number is its position.
    packs: Arc<[Id]>,
    index: Index,
    fragments: Vec<Id>,
    key_objects: Vec<Id>,
    scratch: RefCell<Scratch>,
    notices: RefCell<Vec<Notice>>,
    /// Everything the packs hold, sorted by id, once a scan was needed.
    scanned: RefCell<Option<Arc<Vec<Slot>>>>,
    zeros: Zeros,
}

impl Repository {
    /// Reads the index, or scans the packs where the index is missing, marked invalid or damaged.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn open(port: &Port, kit: Kit, config: Config, keys: Keys, key_objects: Vec<Id>) -> Result<Self> {
        let keys = Arc::new(keys);
        let mut strange = Vec::new();
        let packs: Arc<[Id]> = list_packs(port, &mut strange).await?.into();
        let mut repository = Self {
            config,
            opener: Arc::new(ObjectOpener::new(keys.clone(), packs.clone())),
            keys,
            packs,
            index: Index::default(),
            fragments: Vec::new(),
            key_objects,
            scratch: RefCell::new(Scratch::new(kit)),
            notices: RefCell::default(),
            scanned: RefCell::default(),
            zeros: Zeros::default(),
        };
        for text in strange {
            repository.note(false, text);
        }
        match repository.read_fragments(port).await? {
            Ok(slots) => repository.index = Index::new(slots),
            Err(reason) => {
                repository.note(true, format!("the index is not used ({reason}); scanning the packs instead"));
                let slots = repository.scan(port).await?;
                repository.index = Index::new(slots.to_vec());
            }
        }
        Ok(repository)
    }

    fn note(&self, serious: bool, text: String) {
        self.notices.borrow_mut().push(Notice { serious, text });
    }

    /// Merges all fragments, or says why they cannot be trusted.
    async fn read_fragments(&mut self, port: &Port) -> Result<Result<Vec<Slot>, String>> {
        if port.stat(INVALID_MARKER).await?.is_some() {
            return Ok(Err("it is marked invalid by an interrupted operation".into()));
        }
        for _ in 0..ATTEMPTS {
            let names = port.list("index").await?;
            self.fragments = ids_of(&names, "index", limits::PACKS_MAX)?;
            if self.fragments.is_empty() {
                return Ok(Err("it is missing".into()));
            }
            match self.merge_fragments(port).await {
                Ok((slots, unknown)) => {
                    if unknown > 0 {
                        self.note(
                            true,
                            format!(
                                "the index is stale: {unknown} of its entries name packs or objects that do not exist"
                            ),
                        );
                    }
                    unexpected(&names, "index").into_iter().for_each(|text| self.note(false, text));
                    return Ok(Ok(slots));
                }
                // Consolidation replaces small fragments while we read: list again.
                Err(error) if matches!(error.kind(), Kind::Missing(_)) => {}
                Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
                Err(error) => return Ok(Err(format!("{error}"))),
            }
        }
        Ok(Err("it keeps changing".into()))
    }

    /// The entries of all fragments in name order, and how many name packs or objects that do not exist.
    async fn merge_fragments(&self, port: &Port) -> Result<(Vec<Slot>, u64)> {
        let context = hashed_context(&self.config.id, "index");
        let mut slots = Vec::new();
        let mut unknown = 0;
        // Entries come in runs of one pack.
        let mut last = None;
        for fragment in &self.fragments {
            let name = format!("index/{fragment}");
            let mut bytes = port.load(&name, "index fragment size", limits::FRAGMENT_MAX).await?;
            let table = self
                .keys
                .open(self.scratch.borrow_mut().memo::<Sessions>(), &context, b"", &mut bytes)
                .map_err(|error| error.in_object(&name))?;
            parse_fragment(table, |id, pack, offset, len| {
                let number = match last {
                    Some((known, number)) if known == pack => Some(number),
                    _ => self.packs.binary_search(&pack).ok().and_then(|at| u32::try_from(at).ok()),
                };
                // No object is longer; such an entry would only ask for memory.
                match number.filter(|_| len <= limits::OBJECT_MAX) {
                    Some(number) => {
                        last = Some((pack, number));
                        slots.push(Slot { id, object: number, offset, len });
                    }
                    None => unknown += 1,
                }
            })
            .map_err(|error| error.in_object(&name))?;
        }
        Ok((slots, unknown))
    }

    /// Everything that all packs hold, by id; read once.
    async fn scan(&self, port: &Port) -> Result<Arc<Vec<Slot>>> {
        let known = self.scanned.borrow().clone();
        if let Some(slots) = known {
            return Ok(slots);
        }
        let mut slots = Vec::new();
        let mut sessions = Sessions::default();
        for (number, pack) in (0u32..).zip(self.packs.iter()) {
            let name = pack_name(pack);
            let Some(Some(size)) = port.stat(&name).await? else { continue };
            for found in scan::walk(port, &self.opener, &mut sessions, &name, size).await? {
                match found {
                    Found::Object { id, offset, len } => {
                        if let Ok(offset) = u32::try_from(offset) {
                            slots.push(Slot { id, object: number, offset, len });
                        }
                    }
                    Found::Gap { offset, len } => {
                        self.note(true, format!("{name}: {len} bytes at {offset} belong to no readable object"));
                    }
                }
            }
        }
        slots.sort_by_key(|slot| slot.id);
        let slots = Arc::new(slots);
        *self.scanned.borrow_mut() = Some(slots.clone());
        Ok(slots)
    }

    /// Another copy of `id` than those in `failed`.
    async fn another(&self, port: &Port, id: Id, failed: &[Extent]) -> Result<Option<Extent>> {
        if let Some(slot) = self.index.find(&id)
            && !failed.contains(&slot.extent())
        {
            return Ok(Some(slot.extent()));
        }
        let slots = self.scan(port).await?;
        Ok(copies(&slots, id).find(|extent| !failed.contains(extent)))
    }

    /// Reads and opens one metadata object, from another copy if the first is damaged.
    ///
    /// # Errors
    /// The first damage if no copy is good; I/O errors.
    pub async fn fetch(&self, port: &Port, id: Id, role: Role) -> Result<Vec<u8>> {
        fetch(self, &self.scratch, port, id, role).await
    }

    async fn read_archives(&self, port: &Port, deleted: bool) -> Result<Vec<Archive>> {
        let suffix = if deleted { ".del" } else { "" };
        let names = port.list("archives").await?;
        if !deleted {
            unexpected(&names, "archives").into_iter().for_each(|text| self.note(false, text));
        }
        let mut ids: Vec<Id> = names
            .iter()
            .filter_map(|name| name.strip_suffix(suffix))
            .filter_map(|name| Id::from_hex(name.as_bytes()))
            .collect();
        limits::within("number of archives", ids.len() as u64, limits::ARCHIVES_MAX as u64)?;
        ids.sort();
        let mut archives = Vec::with_capacity(ids.len());
        for id in ids {
            let state = match self.fetch(port, id, Role::Archive).await {
                Ok(plain) => archive::parse(&plain).map_err(|error| error.of_chunk(id)),
                Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
                Err(error) => Err(error),
            };
            archives.push(Archive { id, name: None, state, deleted });
        }
        archives.sort_by_key(Archive::order);
        Ok(archives)
    }
}

impl StreamStore for Repository {
    fn dialect(&self) -> Dialect {
        Dialect::Borg2
    }

    fn list<'a>(&'a self, port: &'a Port, id: Id) -> Pending<'a, Result<Vec<Id>>> {
        Box::pin(async move {
            let plain = self.fetch(port, id, Role::List).await?;
            archive::parse_list(&plain).map_err(|error| error.of_chunk(id))
        })
    }

    fn chunk<'a>(&'a self, port: &'a Port, id: Id) -> Pending<'a, Result<Vec<u8>>> {
        Box::pin(self.fetch(port, id, Role::Stream))
    }
}

impl Source for Repository {
    fn facts(&self) -> Vec<Fact> {
        let suite = self.config.suite;
        [
            ("format", "Borg 2".into()),
            ("version", "5".into()),
            ("id", self.config.id.to_hex()),
            ("encryption", suite.encryption.into()),
            ("id_hash", suite.id_hash.into()),
            ("keys_in_repository", format!("{}", self.key_objects.len())),
            ("packs", format!("{}", self.packs.len())),
            ("index_fragments", format!("{}", self.fragments.len())),
            ("chunks", format!("{}", self.index.slots().len())),
            ("stored_bytes", format!("{}", self.index.slots().iter().map(|slot| u64::from(slot.len)).sum::<u64>())),
        ]
        .into_iter()
        .map(|(key, value)| Fact { key, value })
        .collect()
    }

    fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    fn archives<'a>(&'a self, port: &'a Port, which: Which) -> Pending<'a, Result<Vec<Archive>>> {
        match which {
            Which::Live => Box::pin(self.read_archives(port, false)),
            Which::Deleted => Box::pin(self.read_archives(port, true)),
            // Checkpoints are archives like others, and nothing lists archives but their names.
            Which::Checkpoints | Which::Lost => Box::pin(core::future::ready(Ok(Vec::new()))),
        }
    }

    fn catalog<'a>(&'a self, archive: &ArchiveState) -> Box<dyn Catalog + 'a> {
        Box::new(ItemStream::new(self, &archive.roots))
    }

    fn locate(&self, chunk: &ChunkRef) -> Option<Extent> {
        self.index.find(&chunk.id).map(Slot::extent)
    }

    fn relocate<'a>(&'a self, port: &'a Port, id: Id, failed: &'a [Extent]) -> Pending<'a, Result<Option<Extent>>> {
        Box::pin(self.another(port, id, failed))
    }

    fn is_zeros(&self, chunk: &ChunkRef, at: Option<Extent>) -> bool {
        self.zeros.is_zeros(chunk, at, |parts| self.keys.chunk_id(parts))
    }

    fn indexed(&self) -> Vec<(Id, Extent)> {
        self.index.by_place()
    }

    fn stored_objects(&self) -> StoredObjects<'_> {
        let flat = |folder: &'static str| move |id: &Id| (format!("{folder}/{id}"), *id);
        let keys = self.key_objects.iter().map(flat("keys"));
        let fragments = self.fragments.iter().map(flat("index"));
        let all = keys.chain(fragments).chain(self.packs.iter().map(|id| (pack_name(id), *id)));
        Box::new(all.map(|(name, id)| (name, Box::new(NamedByHash::new(id)) as Box<dyn Audit>)))
    }

    fn opener(&self) -> Arc<dyn Opener> {
        self.opener.clone()
    }
}

/// The names in `folder` that are 64 lowercase hex digits, as sorted ids; others are not objects.
pub(super) async fn list_ids(port: &Port, folder: &str, cap: usize) -> Result<Vec<Id>> {
    ids_of(&port.list(folder).await?, folder, cap)
}

fn ids_of(names: &[String], folder: &str, cap: usize) -> Result<Vec<Id>> {
    let mut ids: Vec<Id> = names
        .iter()
        .filter(|name| !name.bytes().any(|byte| byte.is_ascii_uppercase()))
        .filter_map(|name| Id::from_hex(name.as_bytes()))
        .collect();
    limits::within("number of objects", ids.len() as u64, cap as u64).map_err(|error| error.in_object(folder))?;
    ids.sort();
    Ok(ids)
}

/// One line about names in `folder` that are neither objects nor what every reader skips (borg2.md 2.2).
fn unexpected(names: &[String], folder: &str) -> Option<String> {
    let odd = |name: &&String| {
        let skipped = name.len() > 100
            || !name.bytes().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase() && b != b'\\')
            || [".tmp", ".hid", ".del"].iter().any(|end| name.ends_with(end));
        !skipped && Id::from_hex(name.as_bytes()).is_none()
    };
    let first = names.iter().filter(odd).min()?;
    let more = match names.iter().filter(odd).count() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(format!("{folder}/{first} is no part of a repository{more}; ignored"))
}

async fn list_packs(port: &Port, strange: &mut Vec<String>) -> Result<Vec<Id>> {
    let mut packs = Vec::new();
    let mut folders = port.list("packs").await?;
    folders.retain(|name| name.len() == 2 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
    folders.sort();
    for folder in folders {
        let prefix = format!("packs/{folder}");
        let names = port.list(&prefix).await?;
        strange.extend(unexpected(&names, &prefix));
        let ids = ids_of(&names, &prefix, limits::PACKS_MAX - packs.len())?;
        packs.extend(ids.into_iter().filter(|id| id.has_prefix(&folder)));
    }
    Ok(packs)
}
