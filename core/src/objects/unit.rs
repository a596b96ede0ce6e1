//! Units: one stored object each, decoded as a whole.

use super::ChunkRef;
use crate::base::Id;

/// Where one stored object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Number of the store object (a pack, a segment, an image); the source knows its name.
    pub object: u32,
    /// First byte in that object.
    pub offset: u64,
    /// Stored length in bytes.
    pub len: u32,
}

impl Extent {
    /// The byte after the last one.
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

/// What a unit is used as. A format refuses objects of a type that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// File content: any object type whose plaintext matches the id.
    Content,
    /// Anything that is indexed, as for a full check.
    Any,
    /// An archive's own metadata.
    Archive,
    /// A list of further metadata units.
    List,
    /// A piece of the item stream.
    Stream,
}

/// One stored object to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The chunk id, which the plaintext must hash to.
    pub id: Id,
    /// Where its stored bytes are.
    pub at: Extent,
    /// Plaintext length in bytes where the reference states it.
    pub size: Option<u32>,
    /// What it is used as.
    pub role: Role,
}

impl Unit {
    /// A chunk of file content that lies at `at`.
    pub const fn content(chunk: &ChunkRef, at: Extent) -> Self {
        Self { id: chunk.id, at, size: Some(chunk.size), role: Role::Content }
    }
}

/// What one job holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes as stored.
    pub stored: u64,
    /// Bytes of plaintext, as declared.
    pub plain: u64,
    /// Units of work.
    pub units: u64,
}

impl Load {
    /// Stored and plain bytes together.
    pub const fn bytes(&self) -> u64 {
        self.stored.saturating_add(self.plain)
    }
}

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Stored as is.
    None,
    /// One raw LZ4 block without a length prefix.
    Lz4,
    /// One zstd frame (RFC 8878).
    Zstd,
    /// A zlib stream (RFC 1950).
    Zlib,
    /// An `.xz` container.
    Xz,
    /// A raw DEFLATE stream (RFC 1951), without header and checksum.
    Deflate,
    /// A raw LZMA stream without end mark, whose first byte, else always zero, is the complement of
    /// its properties (lc, lp, pb). It states no size: the reader must know it.
    MicroLzma,
}

impl Method {
    /// Every method, in the order of their discriminants.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Lz4, Self::Zstd, Self::Zlib, Self::Xz, Self::Deflate, Self::MicroLzma];

    /// The usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Zlib => "zlib",
            Self::Xz => "lzma",
            Self::Deflate => "deflate",
            Self::MicroLzma => "microlzma",
        }
    }
}
