//! The entries of an archive, with hard links resolved (borg1.md 12.4).
//!
//! Later names of a file hold nothing but the path of its first one. So that any of them can be
//! restored alone, the chunks of first names are kept: 36 bytes a chunk and about 150 a file, for
//! files with several names only. Where the writer did not mark first names, the stream is read once
//! ahead for the paths that later names refer to: about 50 bytes a path. Where a later name refers to
//! another later name (only imported or made-up archives do), it is read once for all of those: about
//! 100 bytes each. All stop at [`limits::LINKS_MAX`] bytes; beyond it later names are links without
//! content of their own.

use super::repository::Repository;
use crate::base::{Id, Result, limits};
use crate::crypto::sha256;
use crate::formats::common::item::Link;
use crate::formats::common::stream::{ItemStream, Step};
use crate::formats::{Catalog, Listed};
use crate::objects::{ChunkRef, Entry, EntryKind, Refusal};
use crate::platform::{Pending, Port};
use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Bytes that a first name costs beside its chunks.
const MASTER_COST: usize = 150;
/// Bytes that a path read ahead costs.
const PATH_COST: usize = 50;
/// Bytes that a later name costs, and how many are followed to a first one.
const LATER_COST: usize = 100;
const LATER_MAX: usize = 16;

/// The entries of one archive.
pub struct Entries<'a> {
    stream: ItemStream<'a>,
    /// The same stream, not begun.
    whole: ItemStream<'a>,
    /// First names by the hash of their path.
    masters: BTreeMap<Id, Master>,
    /// Hashes of the paths that later names refer to, once they had to be known.
    needed: Option<BTreeSet<Id>>,
    /// Later names and the names that they refer to, both by hash, once they had to be known.
    later: Option<BTreeMap<Id, Id>>,
    /// Bytes held for links.
    held: usize,
}

/// What later names take over.
struct Master {
    group: Id,
    chunks: Option<Rc<[ChunkRef]>>,
    size: Option<u64>,
}

impl<'a> Entries<'a> {
    /// The entries behind an archive's top-level lists.
    pub fn new(repository: &'a Repository, roots: &[Id]) -> Self {
        let stream = ItemStream::new(repository, roots);
        Self { whole: stream.clone(), stream, masters: BTreeMap::new(), needed: None, later: None, held: 0 }
    }

    async fn step(&mut self, port: &Port) -> Result<Option<Listed>> {
        Ok(match self.stream.step(port).await? {
            None => None,
            Some(Step::Refused { path, why }) => Some(Listed::Refused { path, why }),
            Some(Step::Gap(error)) => Some(Listed::Gap(error)),
            Some(Step::Entry(entry, link)) => Some(self.linked(port, entry, link).await?),
        })
    }

    async fn linked(&mut self, port: &Port, mut entry: Box<Entry>, link: Link) -> Result<Listed> {
        match link {
            Link::Single => {}
            Link::First => self.remember(&mut entry),
            Link::Unknown => {
                if self.needed.is_none() {
                    self.needed = Some(self.look_ahead(port).await?);
                }
                if self.is_needed(&entry.path) {
                    self.remember(&mut entry);
                }
            }
            Link::To(first) => {
                let key = self.first_name(port, hash(&first)).await?;
                self.take_over(&mut entry, key);
                if entry.kind == EntryKind::File(None) && entry.link_group.is_none() {
                    return Ok(Listed::Refused { path: entry.path, why: Refusal::FirstName(first) });
                }
            }
        }
        Ok(Listed::Entry(entry))
    }

    /// The first name that this one leads to through other later names, or itself if it leads nowhere.
    async fn first_name(&mut self, port: &Port, name: Id) -> Result<Id> {
        if self.masters.contains_key(&name) {
            return Ok(name);
        }
        if self.later.is_none() {
            self.later = Some(self.later_names(port).await?);
        }
        let later = |name: &Id| self.later.as_ref().and_then(|later| later.get(name)).copied();
        let chain = core::iter::successors(later(&name), |name| later(name));
        Ok(chain.take(LATER_MAX).find(|name| self.masters.contains_key(name)).unwrap_or(name))
    }

    /// All later names of the archive.
    async fn later_names(&self, port: &Port) -> Result<BTreeMap<Id, Id>> {
        let mut later = BTreeMap::new();
        let mut whole = self.whole.clone();
        while let Some(step) = whole.step(port).await? {
            if let Step::Entry(entry, Link::To(first)) = step
                && later.len() < limits::LINKS_MAX / LATER_COST
            {
                later.insert(hash(&entry.path), hash(&first));
            }
        }
        Ok(later)
    }

    /// A first name: later ones may refer to it.
    fn remember(&mut self, entry: &mut Entry) {
        let group = hash(&entry.path);
        entry.link_group = Some(group);
        self.keep(group, Master { group, chunks: None, size: entry.size }, entry.chunks());
    }

    fn keep(&mut self, path: Id, mut master: Master, chunks: &[ChunkRef]) {
        let cost = MASTER_COST + core::mem::size_of_val(chunks);
        if self.held.saturating_add(cost) <= limits::LINKS_MAX {
            self.held += cost;
            master.chunks = Some(chunks.into());
            self.masters.insert(path, master);
        }
    }

    /// A later name: its content is that of the first one. Without a first one it has none.
    fn take_over(&mut self, entry: &mut Entry, first: Id) {
        let is_lost = entry.kind == EntryKind::File(None);
        let Some(master) = self.masters.get(&first) else {
            // Where there was no room for it, the first name can still be linked to.
            if self.held.saturating_add(MASTER_COST + size_of::<ChunkRef>()) > limits::LINKS_MAX {
                entry.link_group = Some(first);
            }
            return;
        };
        entry.link_group = Some(master.group);
        if let (true, Some(chunks)) = (is_lost, &master.chunks) {
            entry.kind = EntryKind::File(Some(chunks.to_vec()));
            entry.size = entry.size.or(master.size);
        }
    }

    fn is_needed(&self, path: &[u8]) -> bool {
        self.needed.as_ref().is_some_and(|needed| !needed.is_empty() && needed.contains(&hash(path)))
    }

    /// The paths that later names from here on refer to. They come after their first names.
    async fn look_ahead(&self, port: &Port) -> Result<BTreeSet<Id>> {
        let mut needed = BTreeSet::new();
        let mut ahead = self.stream.clone();
        while let Some(step) = ahead.step(port).await? {
            if let Step::Entry(_, Link::To(first)) = step
                && needed.len() < limits::LINKS_MAX / PATH_COST
            {
                needed.insert(hash(&first));
            }
        }
        Ok(needed)
    }
}

fn hash(path: &[u8]) -> Id {
    Id(sha256(&[path]))
}

impl Catalog for Entries<'_> {
    fn next<'b>(&'b mut self, port: &'b Port) -> Pending<'b, Result<Option<Listed>>> {
        Box::pin(self.step(port))
    }
}
