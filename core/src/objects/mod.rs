//! The model that all formats share: units of work, entries, archives, what a source says of itself.
//!
//! Formats translate their on-disk records into these values; everything above works on them
//! and never sees a format's own types.

pub mod entry;
pub mod source;
pub mod unit;

pub use entry::{Acl, ChunkRef, Entry, EntryKind, Refusal, Storage, Time};
pub use source::{Archive, ArchiveState, Fact, Notice};
pub use unit::{Extent, Load, Method, Role, Unit};
