//! Walking packs without an index, and finding the next object after damage (borg2.md 8.1, 8.2).

use super::envelope::Sessions;
use super::object::{HEADER_LEN, Header, MAGIC, ObjectOpener};
use crate::base::{Id, Result, limits};
use crate::platform::Port;
use alloc::vec::Vec;

/// Bytes read at a time while hopping from header to header. Small objects then cost one read
/// for many; large ones are hopped over.
const WINDOW: u64 = 64 << 10;
/// Bytes read at a time while searching for the next object.
const SEARCH: u64 = 1 << 20;

/// One object found, or a stretch that holds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object whose metadata opened.
    Object {
        /// Its chunk id.
        id: Id,
        /// Its first byte.
        offset: u64,
        /// Its length.
        len: u32,
    },
    /// Bytes that belong to no object.
    Gap {
        /// First byte.
        offset: u64,
        /// Length.
        len: u64,
    },
}

/// Walks the pack `name` of `size` bytes. Every header must prove itself by its metadata slot,
/// since a wrong length parses fine and leads into payload bytes.
///
/// # Errors
/// I/O errors. Damage is a [`Found::Gap`].
pub async fn walk(
    port: &Port,
    opener: &ObjectOpener,
    sessions: &mut Sessions,
    name: &str,
    size: u64,
) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut window = Window { name, start: 0, bytes: Vec::new() };
    let mut at = 0;
    while at < size {
        if let Some((id, len)) = prove(port, opener, sessions, &mut window, at, size).await? {
            found.push(Found::Object { id, offset: at, len });
            at += u64::from(len);
            continue;
        }
        let resumed = search(port, opener, sessions, &mut window, at + 1, size).await?;
        found.push(Found::Gap { offset: at, len: resumed - at });
        at = resumed;
    }
    Ok(found)
}

/// The object at `at`, if its header and metadata slot hold and it ends within the pack.
async fn prove(
    port: &Port,
    opener: &ObjectOpener,
    sessions: &mut Sessions,
    window: &mut Window<'_>,
    at: u64,
    size: u64,
) -> Result<Option<(Id, u32)>> {
    let Ok(header) = Header::parse(window.read(port, at, HEADER_LEN as u64, WINDOW).await?) else { return Ok(None) };
    if at + header.total() > size {
        return Ok(None);
    }
    let front_len = HEADER_LEN as u64 + u64::from(header.meta_len);
    let mut front = window.read(port, at, front_len, WINDOW).await?.to_vec();
    Ok(match opener.metadata(&mut front, sessions) {
        Ok((header, _)) => u32::try_from(header.total()).ok().map(|len| (header.id, len)),
        Err(_) => None,
    })
}

/// The next place from `at` on where an object proves itself, or the end of the pack.
async fn search(
    port: &Port,
    opener: &ObjectOpener,
    sessions: &mut Sessions,
    window: &mut Window<'_>,
    mut at: u64,
    size: u64,
) -> Result<u64> {
    while at < size {
        let bytes = window.read(port, at, MAGIC.len() as u64, SEARCH).await?;
        // The window may hold more than asked for; search all of it at once.
        let hit = bytes.windows(MAGIC.len()).position(|candidate| candidate == MAGIC);
        let Some(hit) = hit else {
            at += (bytes.len().max(MAGIC.len()) - MAGIC.len() + 1) as u64;
            continue;
        };
        at += hit as u64;
        if prove(port, opener, sessions, window, at, size).await?.is_some() {
            return Ok(at);
        }
        at += 1;
    }
    Ok(size)
}

/// The part of a pack read last.
struct Window<'a> {
    name: &'a str,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// At least `need` bytes from `at` (fewer at the end of the pack), all that the window holds.
    async fn read(&mut self, port: &Port, at: u64, need: u64, ahead: u64) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if at < self.start || at + need > end {
            let len = ahead.max(need).min(u64::from(limits::OBJECT_MAX));
            self.bytes = port.read(self.name, at, len).await?;
            self.start = at;
        }
        Ok(usize::try_from(at - self.start).ok().and_then(|from| self.bytes.get(from..)).unwrap_or(&[]))
    }
}
