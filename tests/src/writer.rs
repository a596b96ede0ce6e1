//! A small writer of Borg 2 repositories that can also write what Borg never would.
//!
//! Everything a test wants to be odd can be odd: object types, declared sizes, padding, ids, item
//! maps with any keys and values, streams cut anywhere, index entries that lie. What is not made
//! odd is right: real Borg lists, extracts and checks what comes out.
//!
//! It shares no code with the reader under test: sealing is in [`seal`] on its own choice of
//! crates, items are in [`item`], and this file lays objects into packs, fragments and pointers.
//! Keys and sessions are fixed, so one test gives the same bytes every time; nothing secret may
//! ever be written with it.

pub mod item;
pub mod seal;
pub mod stage;

pub use item::{Item, Value};
pub use seal::{Seal, Suite};
pub use stage::{Ran, Stage};

use std::fs;
use std::io;
use std::path::Path;

/// A chunk, pack or archive id.
pub type Id = [u8; 32];

/// How the payload of an object is packed.
#[derive(Clone, Debug)]
pub enum Packing {
    /// As it is.
    None,
    /// One raw LZ4 block.
    Lz4,
    /// One zstd frame of this level.
    Zstd(i32),
    /// These bytes, under this compression type.
    Raw(u8, Vec<u8>),
}

/// One object to write. The defaults are what Borg would write.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// `A`, `C`, `S` or `F`.
    pub kind: u8,
    /// The plaintext, which the id is the hash of.
    pub plain: &'a [u8],
    /// Compression.
    pub packing: Packing,
    /// Zero bytes appended to the compressed payload, as obfuscation does; then `psize` is there too.
    pub padding: Option<usize>,
    /// The `size` stated in the metadata. `None` leaves it out, as `auto` compressions do.
    pub size: Option<u64>,
    /// Another id than the right one.
    pub id: Option<Id>,
    /// Metadata written in place of the whole map.
    pub metadata: Option<Vec<u8>>,
}

impl<'a> Object<'a> {
    /// An uncompressed object with true metadata.
    pub fn new(kind: u8, plain: &'a [u8]) -> Self {
        Self {
            kind,
            plain,
            packing: Packing::None,
            padding: None,
            size: Some(plain.len() as u64),
            id: None,
            metadata: None,
        }
    }

    /// With this compression.
    #[must_use]
    pub fn packed(self, packing: Packing) -> Self {
        Self { packing, ..self }
    }
}

/// One entry of the index, as it will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Chunk id.
    pub id: Id,
    /// Number of the pack.
    pub pack: usize,
    /// First byte in the pack.
    pub offset: u32,
    /// Bytes of the object.
    pub len: u32,
}

/// A repository in the making.
pub struct Writer {
    /// Keys and suite.
    pub seal: Seal,
    /// Packs, whose names follow from their bytes when they are saved.
    pub packs: Vec<Vec<u8>>,
    /// The index; a test may change it before it is saved.
    pub slots: Vec<Slot>,
    /// Archive ids that get a pointer.
    pub archives: Vec<Id>,
    /// Archive ids whose pointer is marked as deleted.
    pub deleted: Vec<Id>,
    /// Into how many fragments the index is split.
    pub fragments: usize,
    /// How objects of archives and streams are packed.
    pub packing: Packing,
    /// Bytes of item stream in one `S` object.
    pub cut: usize,
    /// Ids of `S` objects in one `C` object.
    pub list: usize,
    /// Time of the next archive, seconds after 2026-01-01.
    clock: u32,
}

impl Default for Writer {
    /// Encrypted with AES-256-OCB and opened by the empty passphrase.
    fn default() -> Self {
        Self::new(Suite::OCB_SHA256, "")
    }
}

impl Writer {
    /// An empty repository.
    pub fn new(suite: Suite, passphrase: &str) -> Self {
        Self {
            seal: Seal::new(suite, passphrase),
            packs: vec![Vec::new()],
            slots: Vec::new(),
            archives: Vec::new(),
            deleted: Vec::new(),
            fragments: 1,
            packing: Packing::Lz4,
            cut: 128 << 10,
            list: 524_286,
            clock: 0,
        }
    }

    /// The id that a plaintext has in this repository.
    pub fn chunk_id(&self, plain: &[u8]) -> Id {
        self.seal.chunk_id(plain)
    }

    /// Writes an object into the current pack and the index.
    pub fn put(&mut self, object: &Object<'_>) -> Id {
        let (id, bytes) = self.object(object);
        self.put_bytes(id, &bytes);
        id
    }

    /// The id and the sealed bytes of an object, not stored anywhere yet.
    pub fn object(&mut self, object: &Object<'_>) -> (Id, Vec<u8>) {
        let id = object.id.unwrap_or_else(|| self.chunk_id(object.plain));
        let (ctype, mut payload) = match &object.packing {
            Packing::None => (0, object.plain.to_vec()),
            Packing::Raw(ctype, bytes) => (*ctype, bytes.clone()),
            Packing::Lz4 => (1, lz4(object.plain)),
            Packing::Zstd(level) => (3, zstd(object.plain, *level)),
        };
        // Like Borg: what does not shrink stays as it is.
        let (ctype, packed) = match object.packing {
            Packing::Lz4 | Packing::Zstd(_) if payload.len() >= object.plain.len() => {
                payload = object.plain.to_vec();
                (0, payload.len())
            }
            _ => (ctype, payload.len()),
        };
        payload.resize(packed + object.padding.unwrap_or(0), 0);
        let metadata = object.metadata.clone().unwrap_or_else(|| {
            let mut map = vec![
                ("type", Value::Text(vec![object.kind])),
                ("ctype", Value::Int(ctype.into())),
                ("clevel", Value::Int(255)),
                ("csize", Value::Int(payload.len() as i64)),
            ];
            if let Some(size) = object.size {
                map.push(("size", Value::Int(size as i64)));
            }
            if object.padding.is_some() {
                map.push(("psize", Value::Int(packed as i64)));
                map.push(("olevel", Value::Int(110)));
            }
            Value::map(map).encode()
        });
        (id, self.seal.object(&id, &metadata, &payload))
    }

    /// Stores ready-made bytes under an id.
    pub fn put_bytes(&mut self, id: Id, bytes: &[u8]) {
        let pack = self.packs.len() - 1;
        let offset = u32::try_from(self.packs[pack].len()).expect("test packs are small");
        self.packs[pack].extend_from_slice(bytes);
        self.slots.push(Slot { id, pack, offset, len: u32::try_from(bytes.len()).expect("test objects are small") });
    }

    /// Starts a new pack.
    pub fn next_pack(&mut self) {
        if self.packs.last().is_some_and(|pack| !pack.is_empty()) {
            self.packs.push(Vec::new());
        }
    }

    /// Stores content in chunks of `chunk` bytes, each only once, and returns the chunk list.
    pub fn content(&mut self, data: &[u8], chunk: usize) -> Vec<(Id, u32)> {
        let packing = self.packing.clone();
        self.content_as(data, chunk, &packing)
    }

    /// As [`content`](Self::content), with this compression.
    pub fn content_as(&mut self, data: &[u8], chunk: usize, packing: &Packing) -> Vec<(Id, u32)> {
        data.chunks(chunk)
            .map(|plain| {
                let id = self.chunk_id(plain);
                if self.slot(&id).is_none() {
                    self.put(&Object::new(b'F', plain).packed(packing.clone()));
                }
                (id, plain.len() as u32)
            })
            .collect()
    }

    /// Where a chunk is, by the index.
    pub fn slot(&self, id: &Id) -> Option<Slot> {
        self.slots.iter().find(|slot| slot.id == *id).copied()
    }

    /// The stored bytes of a chunk, to damage them.
    pub fn bytes_mut(&mut self, id: &Id) -> &mut [u8] {
        let slot = self.slot(id).expect("the chunk is stored");
        &mut self.packs[slot.pack][slot.offset as usize..(slot.offset + slot.len) as usize]
    }

    /// Takes a chunk out of the repository: its bytes become zeros, its index entry goes.
    ///
    /// # Panics
    /// If it is not stored.
    pub fn lose(&mut self, id: &Id) {
        self.bytes_mut(id).fill(0);
        self.slots.retain(|slot| slot.id != *id);
    }

    /// A regular file of this content, in one item.
    pub fn file(&mut self, path: &str, data: &[u8]) -> Item {
        let chunks = self.content(data, 1 << 20);
        Item::file(path.as_bytes(), &chunks)
    }

    /// Writes an archive of these items, and its pointer.
    pub fn archive(&mut self, name: &str, items: &[Item]) -> Id {
        let stream: Vec<u8> = items.iter().flat_map(Item::encode).collect();
        self.archive_of_stream(name, &stream)
    }

    /// Writes an archive of these stream bytes, cut every [`cut`](Self::cut) bytes.
    pub fn archive_of_stream(&mut self, name: &str, stream: &[u8]) -> Id {
        let cut = self.cut;
        let pieces: Vec<&[u8]> = stream.chunks(cut).collect();
        self.archive_of_pieces(name, &pieces)
    }

    /// Writes an archive whose stream is cut into exactly these pieces.
    pub fn archive_of_pieces(&mut self, name: &str, pieces: &[&[u8]]) -> Id {
        self.next_pack();
        let packing = self.packing.clone();
        let ids: Vec<Id> =
            pieces.iter().map(|piece| self.put(&Object::new(b'S', piece).packed(packing.clone()))).collect();
        self.archive_of_ids(name, &ids)
    }

    /// Writes an archive whose `S` objects are these.
    pub fn archive_of_ids(&mut self, name: &str, streams: &[Id]) -> Id {
        let list = self.list;
        let lists: Vec<Id> = streams
            .chunks(list)
            .map(|ids| {
                let plain = Value::List(ids.iter().map(|id| Value::Blob(id.to_vec())).collect()).encode();
                self.put(&Object::new(b'C', &plain))
            })
            .collect();
        let map = self.archive_map(name, &lists);
        self.archive_of_map(&Value::map(map))
    }

    /// The archive map that Borg would write.
    pub fn archive_map(&mut self, name: &str, lists: &[Id]) -> Vec<(&'static str, Value)> {
        self.clock += 1;
        let time = format!(
            "2026-01-01T{:02}:{:02}:{:02}.000000+00:00",
            self.clock / 3600,
            self.clock / 60 % 60,
            self.clock % 60
        );
        vec![
            ("chunker_params", Value::List(vec![Value::text("fixed"), Value::Int(1 << 20), Value::Int(0)])),
            ("command_line", Value::text("test")),
            ("comment", Value::text("")),
            ("cwd", Value::text("/")),
            ("end", Value::text(&time)),
            ("hostname", Value::text("host")),
            ("item_ptrs", Value::List(lists.iter().map(|id| Value::Blob(id.to_vec())).collect())),
            ("name", Value::text(name)),
            ("nfiles", Value::Int(0)),
            ("size", Value::Int(0)),
            ("start", Value::text(&time)),
            ("tags", Value::List(Vec::new())),
            ("time", Value::text(&time)),
            ("username", Value::text("user")),
            ("version", Value::Int(2)),
        ]
    }

    /// Writes an archive object in a pack of its own, and its pointer.
    pub fn archive_of_map(&mut self, map: &Value) -> Id {
        self.next_pack();
        let id = self.put(&Object::new(b'A', &map.encode()));
        self.archives.push(id);
        self.next_pack();
        id
    }

    /// The sealed fragments of the index.
    pub fn sealed_fragments(&mut self) -> Vec<Vec<u8>> {
        let names: Vec<Id> = self.packs.iter().map(|pack| store_hash(pack)).collect();
        let per = self.slots.len().div_ceil(self.fragments.max(1)).max(1);
        let mut parts: Vec<Vec<Slot>> = self.slots.chunks(per).map(<[Slot]>::to_vec).collect();
        parts.resize(self.fragments, Vec::new());
        parts.iter().map(|slots| self.seal.store_object("index", &table(slots, &names))).collect()
    }

    /// The whole repository as store names and bytes.
    pub fn files(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut files = vec![("config/config".to_string(), self.seal.config().into_bytes())];
        files.push(("config/defaults".into(), self.seal.named_object("config/defaults", &[0x80])));
        let key = self.seal.key_text().into_bytes();
        files.push((format!("keys/{}", hex(&store_hash(&key))), key));
        files.extend(
            (0..self.packs.len())
                .filter(|at| !self.packs[*at].is_empty())
                .map(|at| (self.pack_name(at), self.packs[at].clone())),
        );
        files.extend(
            self.sealed_fragments().into_iter().map(|bytes| (format!("index/{}", hex(&store_hash(&bytes))), bytes)),
        );
        files.extend(self.archives.iter().map(|id| (format!("archives/{}", hex(id)), Vec::new())));
        files.extend(self.deleted.iter().map(|id| (format!("archives/{}.del", hex(id)), Vec::new())));
        files
    }

    /// Writes the repository below `root`, with only the folders that hold something.
    ///
    /// # Errors
    /// What the system refused.
    pub fn save(&mut self, root: &Path) -> io::Result<()> {
        for folder in ["config", "keys", "archives", "index", "cache", "locks", "packs"] {
            fs::create_dir_all(root.join(folder))?;
        }
        for (name, bytes) in self.files() {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap_or(root))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }

    /// Makes every folder that Borg makes at creation, beside what [`save`](Self::save) writes.
    ///
    /// # Errors
    /// What the system refused.
    pub fn save_for_borg(&mut self, root: &Path) -> io::Result<()> {
        for high in 0..=255u8 {
            fs::create_dir_all(root.join("packs").join(format!("{high:02x}")))?;
        }
        self.save(root)
    }

    /// The store name of a pack, such as `packs/19/1979...`.
    pub fn pack_name(&self, pack: usize) -> String {
        let name = hex(&store_hash(&self.packs[pack]));
        format!("packs/{}/{name}", &name[..2])
    }
}

/// The name of a stored object: the plain BLAKE3 hash of its bytes.
pub fn store_hash(bytes: &[u8]) -> Id {
    *blake3::hash(bytes).as_bytes()
}

/// Lowercase hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A BORGHASH table of index entries.
pub fn table(slots: &[Slot], packs: &[Id]) -> Vec<u8> {
    let json = format!(
        "{{\"key_size\": 32, \"value_size\": 48, \"byte_order\": \"little\", \"value_type_name\": \"ChunkIndexEntry\", \
         \"value_type_fields\": [\"flags\", \"size\", \"pack_id\", \"obj_offset\", \"obj_size\"], \
         \"value_format_name\": \"ChunkIndexEntryFormatT\", \
         \"value_format_fields\": [\"flags\", \"size\", \"pack_id\", \"obj_offset\", \"obj_size\"], \
         \"value_format\": [\"I\", \"I\", \"32s\", \"I\", \"I\"], \"capacity\": {}, \"used\": {}}}",
        (slots.len() * 2).max(1000),
        slots.len()
    );
    let mut out = b"BORGHASH".to_vec();
    out.extend(1u32.to_le_bytes());
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json.as_bytes());
    for slot in slots {
        out.extend(slot.id);
        out.extend(0x0100_0000u32.to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(packs.get(slot.pack).copied().unwrap_or([0xee; 32]));
        out.extend(slot.offset.to_le_bytes());
        out.extend(slot.len.to_le_bytes());
    }
    out
}

fn lz4(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    lzzzz::lz4::compress_to_vec(plain, &mut out, lzzzz::lz4::ACC_LEVEL_DEFAULT).expect("compressing to memory");
    out
}

fn zstd(plain: &[u8], level: i32) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(plain.len())];
    let len = zstd_safe::compress(out.as_mut_slice(), plain, level).expect("compressing to memory");
    out.truncate(len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the format note, 19.5, and the metadata of 19.1, byte for byte.
    #[test]
    fn encodings_are_those_of_the_format_note() {
        for (seconds, nanos, bytes) in [
            (0, 0, "d6ff00000000"),
            (4_294_967_295, 0, "d6ffffffffff"),
            (4_294_967_296, 0, "d7ff0000000100000000"),
            (0, 1, "d7ff0000000400000000"),
            (1_700_000_000, 999_999_999, "d7ffee6b27fc6553f100"),
            (9_223_199_236, 0, "d7ff0000000225beda04"),
        ] {
            assert_eq!(hex(&Value::time(seconds, nanos).encode()), bytes);
        }
        let map = Value::map(vec![
            ("type", Value::text("F")),
            ("size", Value::Int(12)),
            ("ctype", Value::Int(0)),
            ("clevel", Value::Int(255)),
            ("csize", Value::Int(12)),
        ]);
        let vector = "85a474797065a146a473697a650ca5637479706500a6636c6576656cccffa56373697a650c";
        assert_eq!(hex(&map.encode()), vector);
    }
}
