//! What a source says of itself: archives, facts for `info`, notices.

use crate::base::{Error, Id};
use alloc::{string::String, vec::Vec};

/// An archive as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Its identifier.
    pub id: Id,
    /// The name that the list of archives itself has for it, in formats whose list has names.
    pub name: Option<Vec<u8>>,
    /// Its metadata, or why that cannot be read.
    pub state: Result<ArchiveState, Error>,
    /// True for a soft-deleted archive, listed only on request.
    pub deleted: bool,
}

impl Archive {
    /// What archives are sorted by: time, then id; what cannot be read comes last.
    pub fn order(&self) -> (i64, Id) {
        (self.state.as_ref().map_or(i64::MAX, |state| state.instant), self.id)
    }
}

/// An archive's metadata. Texts are raw bytes as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveState {
    /// Name; not unique.
    pub name: Vec<u8>,
    /// Nominal time, ISO 8601 as stored.
    pub time: String,
    /// `time` as microseconds since 1970, for ordering.
    pub instant: i64,
    /// Start of the run, ISO 8601.
    pub start: Option<String>,
    /// End of the run, ISO 8601.
    pub end: Option<String>,
    /// The command that made it.
    pub command_line: Vec<u8>,
    /// Working directory of that command.
    pub cwd: Option<Vec<u8>>,
    /// Host name.
    pub hostname: Vec<u8>,
    /// User name.
    pub username: Vec<u8>,
    /// Comment, possibly empty.
    pub comment: Vec<u8>,
    /// Tags.
    pub tags: Vec<Vec<u8>>,
    /// Size as noted by the writer, informational.
    pub size: Option<u64>,
    /// Number of file entries as noted by the writer, informational.
    pub files: Option<u64>,
    /// Top-level metadata units, in order.
    pub roots: Vec<Id>,
}

/// One line of `info`: a name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Stable machine-readable name, such as `encryption`.
    pub key: &'static str,
    /// The value.
    pub value: String,
}

/// A finding that does not stop the work: it is shown once, as a warning where `serious`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// True if the finding is damage or a risk, and so must change the exit code of `check`.
    pub serious: bool,
    /// One line.
    pub text: String,
}
