//! Errors and faults: what is wrong, where, and at which stage.
//!
//! [`Kind`] answers what the user can do about it; inside, one variant stands for one check.
//! [`Place`] says where: store object, offset, chunk, entry. A [`Fault`] is an error that
//! belongs to one unit of work and leaves the rest of the run intact.

use super::Id;
use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;

/// Result with the core's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// One failed check and its place. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: Kind,
    place: Place,
}

/// What went wrong, sorted by what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Kind {
    /// Bytes are not what they must be: damage, tampering, or a faulty writer.
    #[error("{0}")]
    Corrupt(Check),
    /// Something that is referred to does not exist.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Well-formed, but not readable by this build or version.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// A secret is absent or wrong.
    #[error("{0}")]
    Denied(Denied),
    /// A value asks for more than the stated limit.
    #[error("{what} is {asked}, more than the limit of {cap}")]
    OverLimit {
        /// The quantity.
        what: &'static str,
        /// The value asked for.
        asked: u64,
        /// The largest accepted value.
        cap: u64,
    },
    /// The shell could not read; the number finds its own error again.
    #[error("the store failed (code {0})")]
    Store(u32),
    /// The caller broke the contract of a machine.
    #[error("misuse: {0}")]
    Misuse(&'static str),
    /// No repository or image of a known format is here.
    #[error("not a repository or image of a known format")]
    Unrecognised,
    /// Nothing exists at the given place.
    #[error("nothing is there")]
    Absent,
}

/// Checks on stored bytes, one variant each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Check {
    /// The repository config is not a valid INI file with the needed keys.
    #[error("the repository config is malformed")]
    Config,
    /// The repository config is gone, though its folders are there.
    #[error("the repository config is missing: an interrupted creation, or it was lost")]
    ConfigLost,
    /// An object does not start with its magic.
    #[error("object magic not found")]
    Magic,
    /// An object's header names another chunk than the one wanted.
    #[error("the object holds another chunk")]
    OtherChunk,
    /// Sizes in a header contradict each other or the bytes available.
    #[error("object sizes are inconsistent")]
    Sizes,
    /// Bytes end before the structure does.
    #[error("data ends too early")]
    Truncated,
    /// An envelope has the wrong type byte for the repository's suite.
    #[error("envelope type does not match the repository's cipher suite")]
    EnvelopeType,
    /// The authentication tag does not hold.
    #[error("authentication failed")]
    Tag,
    /// The chunk id is not the hash of the plaintext.
    #[error("content does not match its chunk id")]
    ChunkId,
    /// A store object's name is not the hash of its content.
    #[error("content does not match the object's name")]
    StoreHash,
    /// The checksum of a segment's entry does not hold.
    #[error("the checksum of the entry does not hold")]
    Crc,
    /// A segment holds bytes that are no entries.
    #[error("bytes belong to no readable entry")]
    Entry,
    /// No segment ends a transaction.
    #[error("no segment ends in a complete transaction")]
    NoCommit,
    /// The manifest is malformed.
    #[error("the manifest is malformed")]
    Manifest,
    /// Metadata that must be authentic is not shown to be.
    #[error("the metadata is not authentic: its authentication is wrong")]
    TamWrong,
    /// Metadata that must be authentic has no authentication.
    #[error("the metadata is not authentic: its authentication is absent")]
    TamAbsent,
    /// A repository shows itself unencrypted although a key for it, or a passphrase, is at hand.
    #[error(
        "the repository shows itself as unencrypted, yet there is a key or a passphrase for it, so it may be forged"
    )]
    Downgrade,
    /// The object is of another type than its use demands.
    #[error("object has the wrong type for its use")]
    ObjectType,
    /// An object's metadata map is malformed.
    #[error("object metadata is malformed")]
    Metadata,
    /// Decompression failed.
    #[error("decompression failed")]
    Inflate,
    /// Decompression gave another length than the authenticated metadata states.
    #[error("decompressed length differs from the recorded size")]
    Length,
    /// An index fragment is malformed.
    #[error("index fragment is malformed")]
    Index,
    /// Key material is malformed.
    #[error("key material is malformed")]
    Key,
    /// An opened key belongs to another repository.
    #[error("the key belongs to another repository")]
    KeyRepository,
    /// An archive's metadata map is malformed.
    #[error("archive metadata is malformed")]
    Archive,
    /// A list of metadata chunks is malformed.
    #[error("the list of metadata chunks is malformed")]
    IdList,
    /// An item is malformed.
    #[error("an item is malformed")]
    Item,
    /// The item stream ends inside an item.
    #[error("the item stream ends inside an item")]
    ItemTail,
    /// A superblock is malformed.
    #[error("the superblock is malformed: {0}")]
    Superblock(&'static str),
    /// The superblock's checksum does not hold.
    #[error("the checksum of the superblock does not hold")]
    SuperblockChecksum,
    /// An inode is malformed.
    #[error("the inode is malformed: {0}")]
    Inode(&'static str),
    /// A block of a directory is malformed.
    #[error("the directory is malformed: {0}")]
    Directory(&'static str),
    /// Extended attributes are malformed.
    #[error("the extended attributes are malformed: {0}")]
    Xattr(&'static str),
    /// What says where the content of a file lies is malformed.
    #[error("the map of the content is malformed: {0}")]
    Map(&'static str),
    /// The worker that held this unit died.
    #[error("the worker stopped unexpectedly")]
    Worker,
}

/// Things that are understood well enough to be named, and refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A repository version other than the supported ones.
    #[error("{format} version {version} is not supported ({supported})")]
    Version {
        /// What it is.
        format: &'static str,
        /// The version found.
        version: String,
        /// What would be supported.
        supported: &'static str,
    },
    /// A format that is recognised but cannot be read yet.
    #[error("this is a {0} repository, which this version cannot read yet")]
    Format(&'static str),
    /// An unknown combination of cipher and id hash.
    #[error("unsupported crypto suite {0}")]
    Suite(String),
    /// An unknown compression type.
    #[error("unknown compression type {0}")]
    Compression(u8),
    /// Features that only newer readers understand, by name or bit.
    #[error("the image needs {0}, which is unknown here")]
    ImageFeature(String),
    /// A file that holds a supported image in another wrapping.
    #[error("{0}")]
    Wrapped(&'static str),
    /// A known compression method that this build leaves out.
    #[error("{0} is not part of this build")]
    Codec(&'static str),
    /// Metadata that only newer versions understand.
    #[error("the repository needs the feature {0}, which is unknown here")]
    Feature(String),
    /// An unknown key wrapping.
    #[error("unsupported key wrapping {0}")]
    KeyWrap(String),
}

/// Ways in which a secret can be absent or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The repository has no key that could be tried.
    #[error("no key found for this repository")]
    NoKey,
    /// A passphrase is needed and none was given.
    #[error("a passphrase is needed")]
    NoPassphrase,
    /// No key opens with the passphrase: it is wrong, or the key is damaged.
    #[error("the passphrase opens none of the keys: it is wrong, or the key is damaged")]
    WrongPassphrase,
}

/// Where something is wrong, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Name of the store object, such as `packs/ab/ab12...`.
    pub object: Option<String>,
    /// Byte offset in that object.
    pub offset: Option<u64>,
    /// The chunk concerned.
    pub chunk: Option<Id>,
    /// Raw path of the archive entry concerned.
    pub entry: Option<Vec<u8>>,
}

/// The step of the work on a unit that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finding and reading the stored bytes.
    Fetch,
    /// Checking authenticity and decrypting.
    Open,
    /// Decompressing.
    Inflate,
    /// Comparing length and hash of the plaintext.
    Verify,
    /// The worker itself failed.
    Worker,
}

impl Stage {
    /// The stage as one lowercase word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Open => "open",
            Self::Inflate => "inflate",
            Self::Verify => "verify",
            Self::Worker => "worker",
        }
    }
}

/// An error of one unit, with the stage it happened at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The step that failed.
    pub stage: Stage,
    /// What failed and where.
    pub error: Error,
}

impl Error {
    /// An error without a place yet.
    pub fn new(kind: Kind) -> Self {
        Self(Box::new(Inner { kind, place: Place::default() }))
    }

    /// What went wrong.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Where.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Adds the store object, unless a deeper layer named one already.
    #[must_use]
    pub fn in_object(mut self, name: &str) -> Self {
        self.0.place.object.get_or_insert_with(|| name.into());
        self
    }

    /// Adds the offset, unless a deeper layer named one already.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.place.offset.get_or_insert(offset);
        self
    }

    /// Adds the chunk, unless a deeper layer named one already.
    #[must_use]
    pub fn of_chunk(mut self, id: Id) -> Self {
        self.0.place.chunk.get_or_insert(id);
        self
    }

    /// Adds the archive entry, unless a deeper layer named one already.
    #[must_use]
    pub fn of_entry(mut self, path: &[u8]) -> Self {
        self.0.place.entry.get_or_insert_with(|| path.to_vec());
        self
    }

    /// Makes this the fault of a unit.
    pub fn during(self, stage: Stage) -> Fault {
        Fault { stage, error: self }
    }

    /// True if the stored bytes themselves are wrong or gone, so another copy might be good.
    pub fn is_damage(&self) -> bool {
        matches!(self.kind(), Kind::Corrupt(_) | Kind::Missing(_) | Kind::OverLimit { .. })
    }
}

impl Fault {
    /// The fault of a chunk that is stored nowhere.
    pub fn nowhere(id: Id) -> Self {
        Error::new(Kind::Missing("the chunk")).of_chunk(id).during(Stage::Fetch)
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self::new(kind)
    }
}

impl From<Check> for Error {
    fn from(check: Check) -> Self {
        Self::new(Kind::Corrupt(check))
    }
}

impl From<Unsupported> for Error {
    fn from(what: Unsupported) -> Self {
        Self::new(Kind::Unsupported(what))
    }
}

impl From<Denied> for Error {
    fn from(why: Denied) -> Self {
        Self::new(Kind::Denied(why))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        if let Some(entry) = &place.entry {
            write!(f, "{}: ", entry.escape_ascii())?;
        }
        write!(f, "{}", self.kind())?;
        if let Some(id) = place.chunk {
            write!(f, ", chunk {id}")?;
        }
        match (&place.object, place.offset) {
            (Some(object), Some(offset)) => write!(f, ", in {object} at {offset}"),
            (Some(object), None) => write!(f, ", in {object}"),
            (None, Some(offset)) => write!(f, ", at {offset}"),
            (None, None) => Ok(()),
        }
    }
}

impl core::error::Error for Error {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (stage {})", self.error, self.stage.name())
    }
}

impl core::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_every_part() {
        let error = Error::from(Check::Tag).of_entry(b"a\nb").in_object("packs/aa/aabb").at(49);
        assert_eq!(alloc::format!("{error}"), "a\\nb: authentication failed, in packs/aa/aabb at 49");
        // The deepest layer knows best.
        assert_eq!(error.clone().at(7).place().offset, Some(49));
        assert_eq!(error.during(Stage::Open).stage.name(), "open");
    }
}
