//! Walking the tree, folder by folder, in the order of the image (erofs.md 6, 7).

use super::directory::{self, Dirent};
use super::inode::{Inode, Type};
use super::map::Content;
use super::volume::Volume;
use super::xattr;
use crate::base::{Check, Error, Id, Kind, Result, limits};
use crate::formats::{Catalog, Listed};
use crate::objects::{Acl, Entry, EntryKind, Refusal, Storage};
use crate::platform::{Pending, Port};
use alloc::{boxed::Box, collections::BTreeMap, collections::BTreeSet, format, string::String, vec::Vec};

/// Faulty blocks after which the rest of a directory is given up: a few are damage, many are a hole
/// that somebody declared to be a directory.
const FAULTS_MAX: u32 = 16;

/// A folder that is being walked.
struct Level {
    nid: u64,
    parent: u64,
    content: Content,
    /// The next block.
    block: u64,
    names: alloc::vec::IntoIter<Dirent>,
    /// The last name of the block before.
    last: Vec<u8>,
    /// Length of its path.
    path: usize,
    links: u32,
    omits_dot: bool,
    folders: u32,
    dots: (u32, u32),
    faults: u32,
}

/// The walk through one image.
pub struct Walk<'a> {
    volume: &'a Volume,
    started: bool,
    stack: Vec<Level>,
    /// Path of the innermost folder, empty for the root.
    path: Vec<u8>,
    /// Folders that were entered.
    seen: BTreeSet<u64>,
    /// Objects with several names: how many they say that they have, and how many were met.
    links: BTreeMap<u64, (u32, u32)>,
}

impl<'a> Walk<'a> {
    /// A walk that has not begun.
    pub const fn new(volume: &'a Volume) -> Self {
        Self {
            volume,
            started: false,
            stack: Vec::new(),
            path: Vec::new(),
            seen: BTreeSet::new(),
            links: BTreeMap::new(),
        }
    }

    async fn advance(&mut self, port: &Port) -> Result<Option<Listed>> {
        if !self.started {
            self.started = true;
            let root = self.volume.image.superblock.root;
            let inode = self.volume.image.inode(port, root).await?;
            return self.listed(port, inode, b".".to_vec(), root).await.map(Some);
        }
        while let Some(level) = self.stack.last_mut() {
            self.path.truncate(level.path);
            let Some(entry) = level.names.next() else {
                match self.next_block(port).await {
                    Ok(true) => {}
                    Ok(false) => self.leave(),
                    Err(error) => return gap(error, &self.path).map(Some),
                }
                continue;
            };
            let (nid, parent) = (level.nid, level.parent);
            match entry.name.as_slice() {
                b"." => {
                    level.dots.0 += 1;
                    if entry.nid != nid {
                        return gap(Check::Directory("its own entry leads elsewhere").into(), &self.path).map(Some);
                    }
                    continue;
                }
                b".." => {
                    level.dots.1 += 1;
                    if entry.nid != parent {
                        return gap(Check::Directory("its parent's entry leads elsewhere").into(), &self.path)
                            .map(Some);
                    }
                    continue;
                }
                _ => {}
            }
            let path = below(&self.path, &entry.name);
            if path.len() > limits::TEXT_MAX || self.stack.len() >= limits::COMPONENTS_MAX {
                return Ok(Some(Listed::Refused { path, why: Refusal::Path("it is too long or too deep") }));
            }
            let inode = match self.volume.image.inode(port, entry.nid).await {
                Ok(inode) => inode,
                Err(error) => return gap(error, &path).map(Some),
            };
            return match self.listed(port, inode, path, nid).await {
                Err(error) => gap(error, &below(&self.path, &entry.name)).map(Some),
                listed => listed.map(Some),
            };
        }
        self.tell_links();
        Ok(None)
    }

    /// Reads the innermost folder's next block. False if there is none.
    async fn next_block(&mut self, port: &Port) -> Result<bool> {
        let Some(level) = self.stack.last_mut() else { return Ok(false) };
        let size = self.volume.image.superblock.block_size();
        let from = level.block * size;
        let len = size.min(level.content.len().saturating_sub(from));
        if len == 0 || level.faults >= FAULTS_MAX {
            return Ok(false);
        }
        level.block += 1;
        let parsed = match self.volume.read(port, &level.content, from, len).await {
            Ok(block) => directory::parse(&block, &level.last),
            Err(error) => Err(error),
        };
        match parsed {
            Ok(names) => {
                if let Some(last) = names.last() {
                    level.last.clone_from(&last.name);
                }
                level.names = names.into_iter();
                Ok(true)
            }
            Err(error) => {
                level.faults += 1;
                Err(error)
            }
        }
    }

    /// The entry of `inode`; a folder is entered.
    async fn listed(&mut self, port: &Port, inode: Inode, path: Vec<u8>, parent: u64) -> Result<Listed> {
        if inode.kind == Type::Directory {
            if !self.seen.insert(inode.nid) {
                return Ok(Listed::Refused { path, why: Refusal::Loop });
            }
            let above = self.stack.last_mut();
            above.into_iter().for_each(|level| level.folders += 1);
        }
        let entry = self.entry(port, &inode, path).await?;
        if inode.kind == Type::Directory {
            let content = self.volume.content(port, &inode).await?.chunks;
            if entry.path != b"." {
                self.path.clone_from(&entry.path);
            }
            self.stack.push(Level {
                nid: inode.nid,
                parent,
                content: Content::new(content),
                block: 0,
                names: Vec::new().into_iter(),
                last: Vec::new(),
                path: self.path.len(),
                links: inode.links,
                omits_dot: inode.omits_dot,
                folders: 0,
                dots: (0, 0),
                faults: 0,
            });
        } else if inode.links > 1 {
            self.links.entry(inode.nid).or_insert((inode.links, 0)).1 += 1;
        }
        Ok(Listed::Entry(Box::new(entry)))
    }

    async fn entry(&self, port: &Port, inode: &Inode, path: Vec<u8>) -> Result<Entry> {
        let attributes = xattr::read(&self.volume.image, port, &self.volume.prefixes, inode).await?;
        let mut storage = Storage::default();
        let kind = match inode.kind {
            Type::Directory => EntryKind::Directory,
            Type::Fifo => EntryKind::Fifo,
            Type::Socket => EntryKind::Socket,
            Type::CharDevice => EntryKind::CharDevice(inode.device()),
            Type::BlockDevice => EntryKind::BlockDevice(inode.device()),
            Type::File => {
                let found = self.volume.content(port, inode).await?;
                storage = found.storage;
                let chunks = found.chunks;
                EntryKind::File(Some(chunks))
            }
            Type::Symlink => {
                let content = Content::new(self.volume.content(port, inode).await?.chunks);
                let target = self.volume.read(port, &content, 0, inode.size).await?;
                if target.is_empty() || target.contains(&0) {
                    return Err(Check::Inode("the link has no valid target").into());
                }
                EntryKind::Symlink(target)
            }
        };
        let is_directory = inode.kind == Type::Directory;
        Ok(Entry {
            path,
            kind,
            mode: inode.mode,
            uid: Some(inode.uid.into()),
            gid: Some(inode.gid.into()),
            user: None,
            group: None,
            mtime: Some(inode.mtime),
            atime: None,
            ctime: None,
            birthtime: None,
            size: Some(inode.size).filter(|_| inode.kind == Type::File),
            link_group: Some(Id::padded(&inode.nid.to_be_bytes())).filter(|_| !is_directory && inode.links > 1),
            inode: Some(inode.nid),
            xattrs: attributes.pairs,
            acl: Acl::default(),
            flags: 0,
            digests: attributes.sha256.map(|sum| (String::from("sha256"), sum)).into_iter().collect(),
            storage,
        })
    }

    /// Leaves the innermost folder, after a look at what it said of itself.
    fn leave(&mut self) {
        let Some(level) = self.stack.pop() else { return };
        if level.faults > 0 {
            return;
        }
        let path = if self.path.is_empty() { b"." } else { self.path.as_slice() };
        let name = path.escape_ascii();
        if level.dots != (u32::from(!level.omits_dot), 1) {
            self.volume.note(
                true,
                format!("{name}: the entries of the directory itself and its parent are not there once each"),
            );
        }
        // 1 stands for more than fit into the field.
        if level.links != 1 && level.links != level.folders.saturating_add(2) {
            let (links, folders) = (level.links, level.folders);
            self.volume.note(true, format!("{name}: it states {links} links and has {folders} folders"));
        }
    }

    fn tell_links(&mut self) {
        for (nid, (stated, met)) in core::mem::take(&mut self.links) {
            if stated != met {
                self.volume.note(true, format!("inode {nid}: it states {stated} names, {met} were found"));
            }
        }
    }
}

/// The path of `name` in the folder at `path`, which is empty for the root.
fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(path.len() + 1 + name.len());
    whole.extend_from_slice(path);
    if !path.is_empty() {
        whole.push(b'/');
    }
    whole.extend_from_slice(name);
    whole
}

/// What is reported of damage; other errors end the run.
fn gap(error: Error, path: &[u8]) -> Result<Listed> {
    if matches!(error.kind(), Kind::Store(_)) {
        return Err(error);
    }
    Ok(Listed::Gap(error.of_entry(if path.is_empty() { b"." } else { path })))
}

impl Catalog for Walk<'_> {
    fn next<'b>(&'b mut self, port: &'b Port) -> Pending<'b, Result<Option<Listed>>> {
        Box::pin(self.advance(port))
    }
}
