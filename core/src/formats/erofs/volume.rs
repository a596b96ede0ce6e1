//! An opened image: the metabox in memory, the packed inode's map, long prefixes, and what all else needs.

use super::catalog::Walk;
use super::image::{Image, space_name};
use super::inode::{Inode, Space, Spot, Type};
use super::map::{Content, Map, map};
use super::opener::PclusterOpener;
use super::recipe::{Coding, HOLE, Recipe};
use super::tables::Prefix;
use crate::base::{Check, Error, Id, Kind, Result, bytes::Cursor, limits};
use crate::formats::common::{fetch, time};
use crate::formats::{Catalog, OpenOptions, Source, StoredObjects, Which};
use crate::objects::{Archive, ArchiveState, ChunkRef, Extent, Fact, Notice, Role, Unit};
use crate::platform::{IMAGE, Kit, Opener, Pending, Port, Scratch};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::cell::RefCell;

/// An opened image.
pub struct Volume {
    /// The image.
    pub image: Image,
    /// Its long attribute prefixes.
    pub prefixes: Vec<Prefix>,
    /// What the fragments of files are in.
    pub packed: Option<Content>,
    opener: Arc<PclusterOpener>,
    scratch: RefCell<Scratch>,
    /// The unit that was opened last, to read metadata: directories may be parts of one pcluster.
    kept: RefCell<Option<(Id, Vec<u8>)>>,
    notices: RefCell<Vec<Notice>>,
}

impl Volume {
    /// Opens the image.
    ///
    /// # Errors
    /// What is wrong with its superblock, metabox or root; I/O errors. A packed inode that cannot be
    /// read is a notice: files without fragments do without it.
    pub async fn open(port: &Port, kit: Kit, options: OpenOptions) -> Result<Self> {
        let len = port.stat(IMAGE).await?.flatten().ok_or(Kind::Missing("the image"))?;
        let image = Image::open(port, len, options.ignore_checksum).await?;
        let mut volume = Self {
            opener: Arc::new(PclusterOpener::new(&image)),
            image,
            prefixes: Vec::new(),
            packed: None,
            scratch: RefCell::new(Scratch::new(kit)),
            kept: RefCell::default(),
            notices: RefCell::default(),
        };
        if let Some(nid) = volume.image.superblock.metabox {
            volume.load_metabox(port, nid).await?;
        }
        if let Some(nid) = volume.image.superblock.packed {
            match volume.file(port, nid).await {
                Ok(content) => volume.packed = Some(content),
                Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
                Err(error) => volume.note(true, format!("the packed inode cannot be read: {error}")),
            }
        }
        volume.prefixes = volume.read_prefixes(port).await?;
        if volume.image.inode(port, volume.image.superblock.root).await?.kind != Type::Directory {
            return Err(Check::Superblock("the root is no directory").into());
        }
        for device in volume.image.missing_devices(port).await? {
            let tag = volume.image.devices.get(device as usize - 1).map_or(&[][..], |device| &device.tag);
            let tag = if tag.is_empty() { String::new() } else { format!(" ({})", tag.escape_ascii()) };
            volume.note(true, format!("device {device}{tag} of the image is not given, so what lies on it is missing"));
        }
        Ok(volume)
    }

    /// The content of a file outside the tree, which has no fragments itself.
    async fn file(&self, port: &Port, nid: u64) -> Result<Content> {
        let inode = self.image.inode(port, nid).await?;
        if inode.kind != Type::File {
            return Err(Check::Inode("it should be a file").into());
        }
        Ok(Content::new(map(&self.image, port, None, &inode).await?.chunks))
    }

    async fn load_metabox(&mut self, port: &Port, nid: u64) -> Result<()> {
        let content = self.file(port, nid).await?;
        limits::within("size of the metabox", content.len(), limits::METABOX_MAX)?;
        let bytes = self.read(port, &content, 0, content.len()).await?;
        self.image.metabox = Arc::from(bytes);
        self.opener = Arc::new(PclusterOpener::new(&self.image));
        Ok(())
    }

    /// The table of long attribute prefixes (erofs.md 3.3).
    async fn read_prefixes(&self, port: &Port) -> Result<Vec<Prefix>> {
        let superblock = &self.image.superblock;
        let mut at = superblock.prefixes_at;
        let mut prefixes = Vec::new();
        for _ in 0..superblock.prefixes {
            let head = self.prefix_bytes(port, at, 2).await?;
            let len = Cursor::new(&head).u16_le().filter(|len| (1..=256).contains(len));
            let len = u64::from(len.ok_or(Check::Xattr("a long prefix has no valid length"))?);
            let record = self.prefix_bytes(port, at + 2, len).await?;
            let (base, infix) = record.split_first().ok_or(Check::Truncated)?;
            prefixes.push(Prefix { base: *base, infix: infix.to_vec() });
            at = (at + 2 + len).next_multiple_of(4);
        }
        Ok(prefixes)
    }

    async fn prefix_bytes(&self, port: &Port, at: u64, len: u64) -> Result<Vec<u8>> {
        let superblock = &self.image.superblock;
        let space = match (&self.packed, superblock.metabox) {
            _ if superblock.has_plain_prefixes() => Space::Image,
            (_, Some(_)) => Space::Metabox,
            (Some(packed), None) => return self.read(port, packed, at, len).await,
            (None, None) => Space::Image,
        };
        self.image.read(port, Spot { space, offset: at }, len).await
    }

    /// The bytes `from` to `from + len` of a content that is metadata.
    ///
    /// # Errors
    /// `Truncated` if there are not so many; damage of its units; I/O errors.
    pub async fn read(&self, port: &Port, content: &Content, from: u64, len: u64) -> Result<Vec<u8>> {
        let parts = content.part(from, len).ok_or(Check::Truncated)?;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        for part in parts {
            match Recipe::of(&part.id) {
                None => bytes.resize(bytes.len() + part.size as usize, 0),
                Some(Recipe { coding: Coding::Raw, device: 0, space, address, .. }) => {
                    let at = Spot { space, offset: address.saturating_add(part.skip.into()) };
                    bytes.extend(self.image.read(port, at, part.size.into()).await?);
                }
                Some(recipe) => bytes.extend(self.unit(port, &recipe, &part).await?),
            }
        }
        Ok(bytes)
    }

    /// A part of one unit. The whole of it is kept for the next part.
    async fn unit(&self, port: &Port, recipe: &Recipe, part: &ChunkRef) -> Result<Vec<u8>> {
        if let Some((_, plain)) = self.kept.borrow().as_ref().filter(|(id, _)| *id == part.id) {
            return Ok(part.of(plain).to_vec());
        }
        let at = recipe.extent();
        let name = self.opener.object_name(at.object);
        let mut stored = match at.len {
            0 => Vec::new(),
            len => port.read(&name, at.offset, len.into()).await?,
        };
        if stored.len() != at.len as usize {
            return Err(Error::from(Check::Truncated).in_object(&name).at(at.offset));
        }
        let unit = Unit { id: part.id, at, size: Some(part.whole), role: Role::Stream };
        let plain = fetch::open(&*self.opener, &mut self.scratch.borrow_mut(), &unit, &mut stored)
            .map_err(|error| error.in_object(&name))?;
        let wanted = part.of(&plain).to_vec();
        *self.kept.borrow_mut() = Some((part.id, plain));
        Ok(wanted)
    }

    /// The content of `inode`.
    ///
    /// # Errors
    /// As [`map()`].
    pub async fn content(&self, port: &Port, inode: &Inode) -> Result<Map> {
        let found = map(&self.image, port, self.packed.as_ref(), inode).await;
        found.map_err(|error| error.in_object(space_name(inode.xattrs.space)).at(inode.xattrs.offset))
    }

    /// Notes a finding.
    pub fn note(&self, serious: bool, text: String) {
        self.notices.borrow_mut().push(Notice { serious, text });
    }

    fn archive(&self) -> Archive {
        let superblock = &self.image.superblock;
        let state = ArchiveState {
            time: time::iso(superblock.created),
            instant: superblock.created.saturating_mul(1_000_000),
            comment: superblock.label.clone(),
            ..ArchiveState::default()
        };
        Archive { id: Id::padded(&superblock.uuid), name: None, state: Ok(state), deleted: false }
    }
}

impl Source for Volume {
    fn is_image(&self) -> bool {
        true
    }

    fn facts(&self) -> Vec<Fact> {
        let (superblock, algorithms) = (&self.image.superblock, &self.image.algorithms);
        let uuid: String = superblock.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let dashed = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| String::from(uuid.get(range).unwrap_or("")));
        let mut facts: Vec<(&'static str, String)> = alloc::vec![
            ("format", "EROFS".into()),
            ("uuid", dashed.join("-")),
            ("label", format!("{}", superblock.label.escape_ascii())),
            ("created", time::iso(superblock.created)),
            ("block_size", format!("{}", superblock.block_size())),
            ("blocks", format!("{}", superblock.blocks)),
            ("inodes", format!("{}", superblock.inodes)),
            ("features", superblock.features()),
            ("algorithms", algorithms.names()),
        ];
        facts.extend(algorithms.texts.iter().map(|text| ("algorithm", text.clone())));
        facts.extend(
            self.image
                .devices
                .iter()
                .map(|device| ("device", format!("{} blocks, tag '{}'", device.blocks, device.tag.escape_ascii()))),
        );
        if let Some(packed) = &self.packed {
            facts.push(("packed_inode", format!("{} bytes of fragments", packed.len())));
        }
        if !self.image.metabox.is_empty() {
            facts.push(("metabox", format!("{} bytes of metadata", self.image.metabox.len())));
        }
        facts.into_iter().map(|(key, value)| Fact { key, value }).collect()
    }

    fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    fn archives<'a>(&'a self, _port: &'a Port, which: Which) -> Pending<'a, Result<Vec<Archive>>> {
        let archives = if which == Which::Live { alloc::vec![self.archive()] } else { Vec::new() };
        Box::pin(core::future::ready(Ok(archives)))
    }

    fn catalog<'a>(&'a self, _archive: &ArchiveState) -> Box<dyn Catalog + 'a> {
        Box::new(Walk::new(self))
    }

    fn locate(&self, chunk: &ChunkRef) -> Option<Extent> {
        Recipe::of(&chunk.id).map(|recipe| recipe.extent())
    }

    /// There is only one copy of anything.
    fn relocate<'a>(&'a self, _port: &'a Port, id: Id, failed: &'a [Extent]) -> Pending<'a, Result<Option<Extent>>> {
        let at = Recipe::of(&id).map(|recipe| recipe.extent()).filter(|at| !failed.contains(at));
        Box::pin(core::future::ready(Ok(at)))
    }

    fn is_zeros(&self, chunk: &ChunkRef, _at: Option<Extent>) -> bool {
        chunk.id == HOLE
    }

    /// There is no index: what refers to content says where it is.
    fn indexed(&self) -> Vec<(Id, Extent)> {
        Vec::new()
    }

    /// Nothing but the superblock says of itself what it should be, and that is looked at on opening.
    fn stored_objects(&self) -> StoredObjects<'_> {
        Box::new(core::iter::empty())
    }

    fn opener(&self) -> Arc<dyn Opener> {
        self.opener.clone()
    }
}
