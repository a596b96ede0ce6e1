//! Formats: one folder each, behind four traits, found through one registry.
//!
//! A [`Format`] recognises a source and opens it; what comes back is [`Locked`] until a
//! passphrase opens its key; then it is a [`Source`] with archives, and each archive a
//! [`Catalog`] of entries. A new format is one folder, one feature and one line in [`FORMATS`].

#[cfg(feature = "borg1")]
pub mod borg1;
#[cfg(feature = "borg2")]
pub mod borg2;
pub mod common;
#[cfg(feature = "erofs")]
pub mod erofs;

use crate::base::{Id, Result, Secret};
use crate::objects::{Archive, ArchiveState, ChunkRef, Entry, Extent, Fact, Notice, Refusal};
use crate::platform::{Kit, Opener, Pending, Port};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

/// Every format of this build, in the order of detection.
pub const FORMATS: &[&dyn Format] = &[
    #[cfg(feature = "borg1")]
    &borg1::Borg1,
    #[cfg(feature = "borg2")]
    &borg2::Borg2,
    #[cfg(feature = "erofs")]
    &erofs::Erofs,
];

/// What may be read beyond what is safe or usual. The default is neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Read also what should be authentic and cannot be shown to be: metadata whose authentication is
    /// absent or wrong, and plaintext of a repository whose key is missing. Each such thing is a
    /// serious [`Notice`].
    pub not_authenticated: bool,
    /// Read an image whose superblock does not have its checksum.
    pub ignore_checksum: bool,
    /// Show the parts of files whose backup was interrupted as files of their own.
    pub parts: bool,
}

/// Which archives are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are there.
    Live,
    /// Those marked as deleted.
    Deleted,
    /// Those that interrupted runs left behind.
    Checkpoints,
    /// Those that no list names any more, found by looking through all that is stored.
    Lost,
}

/// A kind of source that can be recognised and opened.
pub trait Format: Sync {
    /// Its name, such as `Borg 2`.
    fn name(&self) -> &'static str;

    /// True if the source is of this format.
    ///
    /// # Errors
    /// `Unsupported` or `Corrupt` if it clearly belongs to this format's family but cannot be
    /// read: the error names what it is.
    fn detect<'a>(&self, port: &'a Port) -> Pending<'a, Result<bool>>;

    /// Reads what is needed before a passphrase.
    ///
    /// # Errors
    /// As [`detect`](Self::detect), and I/O errors.
    fn open<'a>(&self, port: &'a Port, kit: Kit, options: OpenOptions) -> Pending<'a, Result<Box<dyn Locked>>>;
}

/// A source whose key is not open yet.
pub trait Locked {
    /// The repository's id, by which key files are matched.
    fn repository(&self) -> Id;

    /// Adds a key file of this machine as a candidate, to be tried before the repository's own
    /// keys. False if the file is not a key of this repository.
    fn offer_key(&mut self, bytes: &[u8]) -> bool;

    /// Number of keys that a passphrase could open.
    fn keys(&self) -> usize;

    /// True if the source can be opened without any key, so no passphrase need be asked for.
    fn is_plain(&self) -> bool {
        false
    }

    /// Opens a key with `passphrase`, then the index. Keys are tried in order; the first that opens wins.
    ///
    /// # Errors
    /// `Denied(NoKey)` or `Denied(WrongPassphrase)`; `Corrupt` if every key is malformed.
    fn unlock<'a>(&'a self, port: &'a Port, passphrase: &'a Secret) -> Pending<'a, Result<Box<dyn Source>>>;
}

/// An opened source.
pub trait Source {
    /// True for an image: one tree, which is its only archive and has no name.
    fn is_image(&self) -> bool {
        false
    }

    /// Facts for `info`, in order.
    fn facts(&self) -> Vec<Fact>;

    /// Findings made so far that have not been taken yet.
    fn take_notices(&self) -> Vec<Notice>;

    /// The archives of this kind in order of time.
    ///
    /// An archive whose metadata cannot be read is listed with its error.
    ///
    /// # Errors
    /// I/O errors of the listing itself.
    fn archives<'a>(&'a self, port: &'a Port, which: Which) -> Pending<'a, Result<Vec<Archive>>>;

    /// The entries of one archive.
    fn catalog<'a>(&'a self, archive: &ArchiveState) -> Box<dyn Catalog + 'a>;

    /// Where the chunk is stored according to the index. The extent may be longer than what is stored
    /// there where only a bound is known.
    fn locate(&self, chunk: &ChunkRef) -> Option<Extent>;

    /// Another place where the chunk is stored, after those of `failed` turned out damaged, or any place
    /// if the index does not know the chunk. Reads the store itself once if need be.
    ///
    /// # Errors
    /// I/O errors.
    fn relocate<'a>(&'a self, port: &'a Port, id: Id, failed: &'a [Extent]) -> Pending<'a, Result<Option<Extent>>>;

    /// True if the chunk is known to be all zeros without reading it.
    fn is_zeros(&self, chunk: &ChunkRef, at: Option<Extent>) -> bool;

    /// Every indexed chunk with its place, in storage order.
    fn indexed(&self) -> Vec<(Id, Extent)>;

    /// Every stored object whose bytes can be checked without a key, with what checks them.
    fn stored_objects(&self) -> StoredObjects<'_>;

    /// What workers open units with.
    fn opener(&self) -> Arc<dyn Opener>;
}

/// Names of stored objects with their audits, made one at a time.
pub type StoredObjects<'a> = Box<dyn Iterator<Item = (String, Box<dyn Audit>)> + 'a>;

/// Checks the bytes of one stored object, piece by piece, wherever a shell likes.
pub trait Audit: Send {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The verdict, once all bytes were taken: a remark on damage that concerns nothing in use, if any.
    ///
    /// # Errors
    /// The first damage of what is in use.
    fn finish(self: Box<Self>) -> Result<Option<String>>;
}

/// What a catalog yields next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// An entry.
    Entry(Box<Entry>),
    /// An item that must not be restored, with the raw path and the reason.
    Refused {
        /// Raw path as stored.
        path: Vec<u8>,
        /// Why.
        why: Refusal,
    },
    /// Entries are lost here, because metadata is damaged; more may follow.
    Gap(crate::base::Error),
}

/// The entries of an archive, one at a time, in constant memory.
pub trait Catalog {
    /// The next entry, or `None` at the end.
    ///
    /// # Errors
    /// Only I/O errors; damage is a [`Listed::Gap`].
    fn next<'a>(&'a mut self, port: &'a Port) -> Pending<'a, Result<Option<Listed>>>;
}
