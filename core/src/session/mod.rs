//! Sessions: finding the format of a source, and an archive by what the user typed.

use crate::base::{Id, Kind, Result};
use crate::formats::{FORMATS, Locked, OpenOptions};
use crate::objects::Archive;
use crate::platform::{Kit, Port};
use alloc::{boxed::Box, string::String, vec::Vec};

/// Recognises the source behind `port` and reads what is needed before a passphrase.
///
/// # Errors
/// `Unrecognised` if no format claims it, the refusal of the format that knows it, or I/O errors.
pub async fn open(port: &Port, kit: Kit, options: OpenOptions) -> Result<Box<dyn Locked>> {
    for format in FORMATS {
        if format.detect(port).await? {
            return format.open(port, kit, options).await;
        }
    }
    Err(Kind::Unrecognised.into())
}

/// How an archive is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveSpec {
    /// `latest`: the one with the latest time.
    Latest,
    /// `aid:HEXPREFIX`.
    Id(String),
    /// A name, which need not be unique.
    Name(String),
}

/// Why a spec does not lead to one archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoArchive {
    /// Nothing fits.
    Unknown,
    /// Several fit: these.
    Several(Vec<Id>),
    /// These cannot be read, and one of them may be the one that is meant.
    Unreadable(Vec<Id>),
}

impl ArchiveSpec {
    /// Parses a spec.
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix("aid:") {
            Some(prefix) => Self::Id(prefix.into()),
            None if text == "latest" => Self::Latest,
            None => Self::Name(text.into()),
        }
    }

    /// The one archive of a list, ordered by time, that this names. An archive that cannot be read may
    /// be the latest, and may have any name that the list does not give it: as long as it is there,
    /// another is not taken for it.
    ///
    /// # Errors
    /// [`NoArchive`] if none or several fit, or if that cannot be known.
    pub fn find<'a>(&self, archives: &'a [Archive]) -> Result<&'a Archive, NoArchive> {
        let fits = |archive: &&Archive| match self {
            Self::Latest => false,
            Self::Id(prefix) => !prefix.is_empty() && archive.id.has_prefix(prefix),
            Self::Name(name) => archive.state.as_ref().is_ok_and(|state| state.name == name.as_bytes()),
        };
        let may_fit = |archive: &&Archive| match (self, &archive.name) {
            (Self::Id(_), _) => false,
            (Self::Name(name), Some(known)) => known == name.as_bytes(),
            (Self::Latest | Self::Name(_), _) => true,
        };
        let unreadable = archives.iter().filter(|archive| archive.state.is_err()).filter(may_fit);
        let unreadable: Vec<Id> = unreadable.map(|archive| archive.id).collect();
        if !unreadable.is_empty() {
            return Err(NoArchive::Unreadable(unreadable));
        }
        if *self == Self::Latest {
            return archives.last().ok_or(NoArchive::Unknown);
        }
        let found: Vec<&Archive> = archives.iter().filter(fits).collect();
        match found.as_slice() {
            [] => Err(NoArchive::Unknown),
            [one] => Ok(one),
            several => Err(NoArchive::Several(several.iter().map(|archive| archive.id).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Check;
    use crate::objects::ArchiveState;

    fn archive(id: u8, name: &str, instant: i64) -> Archive {
        let state = ArchiveState { name: name.as_bytes().to_vec(), instant, ..ArchiveState::default() };
        Archive { id: Id([id; 32]), name: None, state: Ok(state), deleted: false }
    }

    #[test]
    fn names_are_not_unique() {
        let list = [archive(1, "docs", 1), archive(2, "docs", 2), archive(3, "home", 3)];
        let find = |text: &str| ArchiveSpec::parse(text).find(&list).map(|archive| archive.id);
        assert_eq!(find("home"), Ok(Id([3; 32])));
        assert_eq!(find("docs"), Err(NoArchive::Several(alloc::vec![Id([1; 32]), Id([2; 32])])));
        assert_eq!(find("aid:0202"), Ok(Id([2; 32])));
        assert_eq!(find("aid:"), Err(NoArchive::Unknown));
        assert_eq!(find("latest"), Ok(Id([3; 32])));
        assert_eq!(find("nope"), Err(NoArchive::Unknown));
    }

    #[test]
    fn another_archive_is_not_taken_for_one_that_cannot_be_read() {
        let broken = |name: Option<&str>| {
            let name = name.map(|name| name.as_bytes().to_vec());
            Archive { id: Id([9; 32]), name, state: Err(Check::Archive.into()), deleted: false }
        };
        let find = |text: &str, broken: Archive| {
            let list = [archive(1, "docs", 1), archive(3, "home", 3), broken];
            ArchiveSpec::parse(text).find(&list).map(|archive| archive.id)
        };
        let unknown = Err(NoArchive::Unreadable(alloc::vec![Id([9; 32])]));
        for text in ["latest", "home", "nope"] {
            assert_eq!(find(text, broken(None)), unknown, "{text}");
        }
        assert_eq!(find("aid:03", broken(None)), Ok(Id([3; 32])));
        // Where the list has names, only its own one is unclear.
        assert_eq!(find("home", broken(Some("other"))), Ok(Id([3; 32])));
        assert_eq!(find("other", broken(Some("other"))), unknown);
        assert_eq!(find("latest", broken(Some("other"))), unknown);
    }
}
