//! Which archives there are, and which one is meant.

use crate::args::{Common, NEED_ARCHIVE, Words};
use crate::exit::{self, Failure, Result, describe};
use crate::opened::Opened;
use packtrain_core::formats::Which;
use packtrain_core::objects::{Archive, ArchiveState};
use packtrain_core::session::{ArchiveSpec, NoArchive};

/// The archives of a source, with those that `common` asks for besides, in order.
///
/// # Errors
/// I/O errors, and a list that cannot be read.
pub fn archives(opened: &Opened, common: &Common) -> Result<Vec<Archive>> {
    let list = |which| opened.drive(opened.source.archives(&opened.port, which));
    let mut archives = match list(Which::Live) {
        // What is lost can be looked for where the list itself is.
        Err(error) if common.lost && error.is_damage() => Vec::new(),
        other => other?,
    };
    let more = [
        (common.deleted, Which::Deleted),
        (common.consider_checkpoints, Which::Checkpoints),
        (common.lost, Which::Lost),
    ];
    for (_, which) in more.into_iter().filter(|(wanted, _)| *wanted) {
        archives.extend(list(which)?);
    }
    archives.sort_by_key(Archive::order);
    Ok(archives)
}

/// The archive that `name` stands for.
///
/// # Errors
/// 31 if there is none or several, 90 if that cannot be known.
pub fn find<'a>(archives: &'a [Archive], name: &str) -> Result<&'a Archive> {
    ArchiveSpec::parse(name).find(archives).map_err(|why| {
        let text = match why {
            NoArchive::Unknown => format!("no archive fits '{name}'; 'packtrain list SOURCE' shows them"),
            NoArchive::Several(ids) => {
                let mut text = format!("'{name}' fits {} archives; choose one by aid:", ids.len());
                for archive in archives.iter().filter(|archive| ids.contains(&archive.id)) {
                    let time = archive.state.as_ref().map_or("", |state| state.time.as_str());
                    text.push_str(&format!("\n  aid:{:.12}  {time}", archive.id.to_hex()));
                }
                text
            }
            NoArchive::Unreadable(ids) => {
                let list: Vec<String> = ids.iter().map(|id| format!("aid:{:.12}", id.to_hex())).collect();
                let mut text = format!("an archive that cannot be read may be '{name}': {}", list.join(", "));
                if let Some(readable) = archives.iter().rfind(|archive| archive.state.is_ok()) {
                    let time = readable.state.as_ref().map_or("", |state| state.time.as_str());
                    text.push_str(&format!("; of the others the latest is aid:{:.12}  {time}", readable.id.to_hex()));
                }
                return Failure::new(exit::INTEGRITY, text);
            }
        };
        Failure::new(exit::NO_ARCHIVE, text)
    })
}

/// The archive that the words name, or the only one of an image; `None` if they name none.
///
/// # Errors
/// As [`find`].
pub fn meant<'a>(opened: &Opened, words: &Words, archives: &'a [Archive]) -> Result<Option<&'a Archive>> {
    match (&words.archive, archives) {
        (Some(name), _) => find(archives, name).map(Some),
        (None, [only]) if opened.source.is_image() => Ok(Some(only)),
        (None, _) => Ok(None),
    }
}

/// The readable archive that the words mean.
///
/// # Errors
/// As [`find`]; usage if an archive should be named; 90 if it cannot be read.
pub fn choose(opened: &Opened, words: &Words, common: &Common) -> Result<ArchiveState> {
    let archives = archives(opened, common)?;
    let archive = meant(opened, words, &archives)?.ok_or_else(|| Failure::usage(NEED_ARCHIVE))?;
    state(archive).cloned()
}

/// What is known of an archive.
///
/// # Errors
/// 90 if it cannot be read.
pub fn state(archive: &Archive) -> Result<&ArchiveState> {
    archive.state.as_ref().map_err(|error| {
        Failure::new(exit::INTEGRITY, format!("archive {} cannot be read: {}", archive.id, describe(error)))
    })
}
