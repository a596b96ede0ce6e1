//! Objects: a header, a metadata envelope and a data envelope (borg2.md section 7).

use super::envelope::{Keys, Sessions};
use crate::base::{Check, Cursor, Error, Fault, Id, Result, Stage, Unsupported, limits};
use crate::formats::common::msgpack::{Flaw, Reader};
use crate::objects::{Method, Role, Unit};
use crate::platform::{Content, Opener, Scratch};
use alloc::{string::String, sync::Arc, vec::Vec};

/// First bytes of every object.
pub const MAGIC: &[u8; 8] = b"BORG_OBJ";
/// The one object version of repository version 5.
const VERSION: u8 = 2;
/// Length of the header in bytes.
pub const HEADER_LEN: usize = 49;
/// The part of the header that is authenticated as context: magic, version, chunk id.
const BOUND_LEN: usize = 41;

/// The header's fields, sizes not yet judged against anything but the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Chunk id.
    pub id: Id,
    /// Length of the metadata envelope in bytes.
    pub meta_len: u32,
    /// Length of the data envelope in bytes.
    pub data_len: u32,
}

impl Header {
    /// Parses the 49 bytes at the front of `bytes`.
    ///
    /// # Errors
    /// `Truncated`, `Magic`, an unsupported version, or `Sizes` beyond the limits of an object.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let magic: [u8; 8] = cursor.array().ok_or(Check::Truncated)?;
        if &magic != MAGIC {
            return Err(Check::Magic.into());
        }
        let version = cursor.u8().ok_or(Check::Truncated)?;
        if version != VERSION {
            return Err(Unsupported::Version {
                format: "Borg object",
                version: alloc::format!("{version}"),
                supported: "2",
            }
            .into());
        }
        let id = Id(cursor.array().ok_or(Check::Truncated)?);
        let meta_len = cursor.u32_le().ok_or(Check::Truncated)?;
        let data_len = cursor.u32_le().ok_or(Check::Truncated)?;
        let header = Self { id, meta_len, data_len };
        if meta_len > limits::META_MAX || header.total() > u64::from(limits::OBJECT_MAX) {
            return Err(Check::Sizes.into());
        }
        Ok(header)
    }

    /// Length of the whole object in bytes.
    pub const fn total(&self) -> u64 {
        HEADER_LEN as u64 + self.meta_len as u64 + self.data_len as u64
    }
}

/// The metadata map, checked (borg2.md 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// `A`, `C`, `S` or `F`.
    pub kind: u8,
    /// How the payload is compressed.
    pub method: Method,
    /// Length of the data payload with padding, bytes.
    pub stored: u32,
    /// Length of the compressed part of it, bytes; absent means all.
    pub packed: Option<u32>,
    /// Plaintext length, bytes; absent in objects written with an `auto` compression.
    pub size: Option<u32>,
}

impl Metadata {
    /// Parses the opened metadata payload.
    ///
    /// # Errors
    /// `Metadata` if malformed, `Unsupported` for an unknown compression type.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let raw = RawMetadata::read(bytes).map_err(|_| Error::from(Check::Metadata))?;
        let (Some(kind), Some(ctype), Some(stored)) = (raw.kind, raw.ctype, raw.csize) else {
            return Err(Check::Metadata.into());
        };
        if raw.psize.is_some_and(|packed| packed > stored) {
            return Err(Check::Metadata.into());
        }
        let method = match ctype {
            0 => Method::None,
            1 => Method::Lz4,
            2 => Method::Xz,
            3 => Method::Zstd,
            5 => Method::Zlib,
            other => return Err(Unsupported::Compression(other).into()),
        };
        Ok(Self { kind, method, stored, packed: raw.psize, size: raw.size })
    }

    fn serves(&self, role: Role) -> bool {
        match role {
            Role::Archive => self.kind == b'A',
            Role::List => self.kind == b'C',
            Role::Stream => self.kind == b'S',
            // Deduplication ignores types: content equal to a metadata chunk refers to that chunk.
            Role::Content | Role::Any => true,
        }
    }
}

#[derive(Default)]
struct RawMetadata {
    kind: Option<u8>,
    ctype: Option<u8>,
    csize: Option<u32>,
    psize: Option<u32>,
    size: Option<u32>,
}

impl RawMetadata {
    fn read(bytes: &[u8]) -> Result<Self, Flaw> {
        let mut raw = Self::default();
        let mut reader = Reader::new(bytes);
        for _ in 0..reader.map()? {
            match reader.bytes()? {
                b"type" => match reader.bytes()? {
                    [kind] => raw.kind = Some(*kind),
                    _ => return Err(Flaw::Malformed),
                },
                b"ctype" => raw.ctype = Some(reader.int()?),
                b"csize" => raw.csize = Some(reader.int()?),
                b"psize" => raw.psize = Some(reader.int()?),
                b"size" => raw.size = Some(reader.int()?),
                _ => reader.skip()?,
            }
        }
        if reader.is_empty() { Ok(raw) } else { Err(Flaw::Malformed) }
    }
}

/// Opens objects with the repository's keys; shared by all workers.
pub struct ObjectOpener {
    keys: Arc<Keys>,
    packs: Arc<[Id]>,
}

impl ObjectOpener {
    /// An opener with these keys, for objects in these packs by number.
    pub const fn new(keys: Arc<Keys>, packs: Arc<[Id]>) -> Self {
        Self { keys, packs }
    }

    /// Opens the metadata slot of the object that starts `object`, in place.
    ///
    /// # Errors
    /// As [`Header::parse`] and [`Keys::open`], and `Sizes` if `data_len` contradicts the metadata.
    pub fn metadata(&self, object: &mut [u8], sessions: &mut Sessions) -> Result<(Header, Metadata)> {
        let header = Header::parse(object)?;
        let (front, rest) = object.split_at_mut_checked(HEADER_LEN).ok_or(Check::Truncated)?;
        let slot = rest.get_mut(..header.meta_len as usize).ok_or(Check::Truncated)?;
        let payload = self.keys.open(sessions, &context(front, b'M')?, &header.id.0, slot)?;
        let metadata = Metadata::parse(payload)?;
        if u64::from(header.data_len) != u64::from(metadata.stored) + self.keys.suite().overhead() as u64 {
            return Err(Check::Sizes.into());
        }
        Ok((header, metadata))
    }
}

/// The context of a slot: the bound part of the header and the slot's letter.
fn context(header: &[u8], slot: u8) -> Result<[u8; BOUND_LEN + 1]> {
    let mut context = [slot; BOUND_LEN + 1];
    let bound = header.first_chunk::<BOUND_LEN>().ok_or(Check::Truncated)?;
    if let Some(front) = context.first_chunk_mut::<BOUND_LEN>() {
        *front = *bound;
    }
    Ok(context)
}

impl Opener for ObjectOpener {
    fn is_content(&self, id: &Id, plain: &[u8]) -> bool {
        self.keys.is_chunk(id, plain)
    }

    fn open(
        &self,
        unit: &Unit,
        stored: &mut [u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let blame = |stage: Stage| move |error: Error| error.of_chunk(unit.id).at(unit.at.offset).during(stage);
        let open = blame(Stage::Open);
        let verify = blame(Stage::Verify);
        let total = stored.len() as u64;
        let (header, metadata) = self.metadata(stored, scratch.memo()).map_err(open)?;
        if header.id != unit.id {
            return Err(open(Check::OtherChunk.into()));
        }
        if header.total() != total {
            return Err(open(Check::Sizes.into()));
        }
        if !metadata.serves(unit.role) {
            return Err(open(Check::ObjectType.into()));
        }
        let size = match (metadata.size, unit.size) {
            (Some(stated), Some(wanted)) if stated != wanted => return Err(verify(Check::Length.into())),
            (stated, wanted) => stated.or(wanted),
        };
        let (front, slots) = stored.split_at_mut_checked(HEADER_LEN).ok_or_else(|| open(Check::Truncated.into()))?;
        let context = context(front, b'D').map_err(open)?;
        let slot = slots.get_mut(header.meta_len as usize..).ok_or_else(|| open(Check::Truncated.into()))?;
        let payload = self.keys.open(scratch.memo::<Sessions>(), &context, &header.id.0, slot).map_err(open)?;
        let packed = payload
            .get(..metadata.packed.map_or(payload.len(), |packed| packed as usize))
            .ok_or_else(|| open(Check::Sizes.into()))?;
        let content = match metadata.method {
            Method::None => {
                let start = HEADER_LEN + header.meta_len as usize + self.keys.suite().overhead();
                Content::Stored(start..start + packed.len())
            }
            method => {
                let inflated = scratch.inflate(method, packed, size, limits::OBJECT_MAX, plain);
                Content::Plain(inflated.map_err(|fault| blame(fault.stage)(fault.error))?)
            }
        };
        if size.is_some_and(|size| size as usize != content.len()) {
            return Err(verify(Check::Length.into()));
        }
        // The tag binds the object to its id; this catches a writer that hashed something else.
        if !self.keys.is_chunk(&unit.id, content.bytes(stored, plain)) {
            return Err(verify(Check::ChunkId.into()));
        }
        Ok(content)
    }

    fn object_name(&self, object: u32) -> String {
        self.packs.get(object as usize).map(pack_name).unwrap_or_default()
    }
}

/// `packs/19/19798940...`: one level of nesting by the first two digits.
pub fn pack_name(id: &Id) -> String {
    let hex = id.to_hex();
    alloc::format!("packs/{}/{hex}", hex.get(..2).unwrap_or_default())
}
