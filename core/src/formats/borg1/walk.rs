//! Walking a segment from entry to entry, and finding the next one after damage (borg1.md 3.5, 3.6).
//!
//! A walk hops over objects, so their checksums stay unverified until somebody opens them. What it
//! finds after damage is salvage: content of files can look just like entries.

use super::entry::{self, FRONT_LEN, Front, HEADER_LEN, MAGIC, Tag};
use crate::base::{Id, Result, limits};
use crate::platform::Port;
use alloc::vec::Vec;

/// Bytes read at a time where entries are small.
const RUN: u64 = 1 << 20;
/// Bytes read at a time where they are large and hopped over.
const HOP: u64 = 4096;
/// Bytes whose checksum a search may compute in vain, beside four times the segment: without a
/// bound, bytes in which an entry could start anywhere would cost the square of their number.
const SEARCH_BYTES: u64 = 256 << 20;
/// Shortest object: a type byte and a compression type.
const OBJECT_MIN: usize = 3;

/// One thing found in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object.
    Put {
        /// Its chunk id.
        id: Id,
        /// First byte of the entry.
        offset: u32,
        /// Length of the entry.
        len: u32,
        /// True after damage: it counts only if the object opens under its id.
        salvage: bool,
    },
    /// A removal.
    Delete {
        /// The chunk id.
        id: Id,
        /// First byte of the entry.
        offset: u32,
        /// True after damage: it must not count.
        salvage: bool,
    },
    /// Bytes that belong to no entry.
    Gap {
        /// First byte.
        offset: u64,
        /// Length.
        len: u64,
    },
}

/// A walk through one segment. Holds one run of bytes, and after damage one entry more.
pub struct Walk<'a> {
    port: &'a Port,
    name: &'a str,
    size: u64,
    at: u64,
    /// The entry before `at`, whose checksum nobody looked at.
    before: Option<(u64, Front)>,
    salvage: bool,
    /// Bytes that searches may still spend.
    budget: u64,
    /// The bytes read last, and where they start.
    window: Vec<u8>,
    start: u64,
    ahead: u64,
}

impl<'a> Walk<'a> {
    /// A walk through the segment `name` of `size` bytes.
    pub fn new(port: &'a Port, name: &'a str, size: u64) -> Self {
        // An index has four bytes for an offset; nothing beyond them can be named.
        let size = size.min(u32::MAX.into());
        let budget = size.saturating_mul(4).saturating_add(SEARCH_BYTES);
        Self { port, name, size, at: 0, before: None, salvage: false, budget, window: Vec::new(), start: 0, ahead: HOP }
    }

    /// The next thing, or `None` at the end.
    ///
    /// # Errors
    /// I/O errors, and `Missing` if the segment vanished.
    pub async fn next(&mut self) -> Result<Option<Found>> {
        if self.at == 0 && self.size > 0 && self.read(0, MAGIC.len()).await?.starts_with(MAGIC) {
            self.at = MAGIC.len() as u64;
        }
        while self.at < self.size {
            let at = self.at;
            let Some((front, id)) = self.entry(at).await? else {
                let offset = self.damaged(at).await?;
                self.salvage = true;
                self.before = None;
                self.at = self.search(offset + 1).await?;
                return Ok(Some(Found::Gap { offset, len: self.at - offset }));
            };
            self.before = Some((at, front));
            self.at += u64::from(front.size);
            let (Ok(offset), salvage) = (u32::try_from(at), self.salvage) else { break };
            match front.tag {
                Tag::Put => return Ok(Some(Found::Put { id, offset, len: front.size, salvage })),
                Tag::Delete => return Ok(Some(Found::Delete { id, offset, salvage })),
                Tag::Commit => {}
            }
        }
        Ok(None)
    }

    /// The entry at `at` with its key, if one is there. After damage its checksum must hold.
    async fn entry(&mut self, at: u64) -> Result<Option<(Front, Id)>> {
        let salvage = self.salvage;
        let left = self.size - at;
        let bytes = self.read(at, HEADER_LEN).await?;
        let Some(front) = Front::parse(bytes).filter(|front| u64::from(front.size) <= left) else { return Ok(None) };
        let id = entry::key(bytes).unwrap_or(Id([0; 32]));
        // A removal is all there, so it costs nothing to know whether it holds.
        if front.tag == Tag::Delete || (front.tag == Tag::Put && salvage) {
            let whole = self.read(at, front.size as usize).await?;
            if !whole.get(..front.size as usize).is_some_and(|whole| entry::holds(&front, whole)) {
                return Ok(None);
            }
        }
        Ok(Some((front, id)))
    }

    /// Where the damage starts that shows at `at`: in the entry before, if its length led astray.
    async fn damaged(&mut self, at: u64) -> Result<u64> {
        let Some((start, front)) = self.before.filter(|_| !self.salvage) else { return Ok(at) };
        let whole = self.read(start, front.size as usize).await?;
        let holds = whole.get(..front.size as usize).is_some_and(|whole| entry::holds(&front, whole));
        Ok(if holds { at } else { start })
    }

    /// The next place from `at` on where an entry's checksum holds, or the end of the segment.
    async fn search(&mut self, mut at: u64) -> Result<u64> {
        while at < self.size {
            let len = (RUN + u64::from(limits::ENTRY_MAX)).min(self.size - at);
            let bytes = self.port.read(self.name, at, len).await?;
            let run = bytes.len().min(RUN as usize);
            if run == 0 {
                break;
            }
            for place in 0..run {
                let rest = bytes.get(place..).unwrap_or(&[]);
                let Some(front) = Front::parse(rest).filter(|front| is_plausible(front, rest)) else { continue };
                let Some(candidate) = rest.get(..front.size as usize) else { continue };
                if self.budget < u64::from(front.size) {
                    return Ok(self.size);
                }
                self.budget -= u64::from(front.size);
                if entry::holds(&front, candidate) {
                    return Ok(at + place as u64);
                }
            }
            at += run as u64;
        }
        Ok(self.size)
    }

    /// At least `need` bytes from `at`, fewer at the end of the segment.
    async fn read(&mut self, at: u64, need: usize) -> Result<&[u8]> {
        let end = self.start + self.window.len() as u64;
        if at < self.start || at + need as u64 > end {
            // Neighbours are read in growing runs, what lies far apart in small ones.
            self.ahead = if at <= end + self.ahead { (self.ahead * 2).min(RUN) } else { HOP };
            let len = self.ahead.max(need as u64).min(self.size - at);
            self.window = self.port.read(self.name, at, len).await?;
            self.start = at;
        }
        Ok(usize::try_from(at - self.start).ok().and_then(|from| self.window.get(from..)).unwrap_or(&[]))
    }
}

/// What must fit beside the front for a checksum to be worth computing.
fn is_plausible(front: &Front, bytes: &[u8]) -> bool {
    front.tag != Tag::Put
        || (front.size as usize >= HEADER_LEN + OBJECT_MIN && bytes.get(HEADER_LEN).is_some_and(|kind| *kind < 8))
}

const _: () = assert!(FRONT_LEN < HEADER_LEN);

#[cfg(test)]
mod tests {
    use super::super::entry::COMMIT;
    use super::super::store::MemoryStore;
    use super::super::vectors::sealed;
    use super::*;

    fn put(id: u8, object: &[u8]) -> Vec<u8> {
        sealed(0, &[&[id; 32][..], object].concat())
    }

    fn walk(bytes: &[u8]) -> Vec<Found> {
        let mut store = MemoryStore::default();
        store.put("data/0/1", bytes);
        store.drive(|port| async move {
            let mut walk = Walk::new(port, "data/0/1", bytes.len() as u64);
            let mut all = Vec::new();
            while let Some(found) = walk.next().await.unwrap() {
                all.push(found);
            }
            all
        })
    }

    fn ids(found: &[Found]) -> Vec<(u8, bool)> {
        let id = |found: &Found| match found {
            Found::Put { id, salvage, .. } => Some((id.0[0], *salvage)),
            _ => None,
        };
        found.iter().filter_map(id).collect()
    }

    fn segment(entries: &[&[u8]]) -> Vec<u8> {
        [&MAGIC[..], &entries.concat()].concat()
    }

    #[test]
    fn entries_come_in_order() {
        let large = alloc::vec![5; 3 << 20];
        let bytes =
            segment(&[&put(1, b"\x02\0\0abc"), &put(2, &large), COMMIT, &sealed(1, &[1; 32]), &put(3, b"\x02\0\0")]);
        let found = walk(&bytes);
        assert_eq!(found.len(), 4);
        assert_eq!(found[0], Found::Put { id: Id([1; 32]), offset: 8, len: 47, salvage: false });
        let after = 55 + (3 << 20) + 41 + 9;
        assert_eq!(found[2], Found::Delete { id: Id([1; 32]), offset: after, salvage: false });
        assert_eq!(found[3], Found::Put { id: Id([3; 32]), offset: after + 41, len: 44, salvage: false });
        assert_eq!(walk(b""), []);
        assert_eq!(walk(MAGIC), []);
    }

    #[test]
    fn what_follows_damage_is_salvage() {
        let bytes =
            segment(&[&put(1, b"\x02\0\0a"), &put(2, b"\x02\0\0b"), &put(3, b"\x02\0\0c"), &sealed(1, &[3; 32])]);
        // The tag, then the size, of the second entry.
        for (at, value) in [(53 + 8, 7), (53 + 4, 46), (53 + 7, 9)] {
            let mut other = bytes.clone();
            other[at] = value;
            let found = walk(&other);
            assert_eq!(ids(&found)[0], (1, false), "{at}");
            assert_eq!(*ids(&found).last().unwrap(), (3, true), "{at}");
            assert!(matches!(found.last(), Some(Found::Delete { salvage: true, .. })));
            assert!(found.iter().any(|found| matches!(found, Found::Gap { .. })));
        }
        // Another first byte: nothing of the segment is trusted.
        let mut other = bytes;
        other[0] = b'X';
        assert_eq!(ids(&walk(&other)), [(1, true), (2, true), (3, true)]);
    }

    #[test]
    fn a_cut_segment_ends_in_a_gap() {
        let bytes = segment(&[&put(1, b"\x02\0\0a"), &put(2, b"\x02\0\0bcdef")]);
        for cut in 54..bytes.len() {
            let found = walk(&bytes[..cut]);
            assert_eq!(ids(&found), [(1, false)]);
            assert_eq!(found[1], Found::Gap { offset: 53, len: cut as u64 - 53 }, "{cut}");
        }
    }

    #[test]
    fn content_that_imitates_entries_is_not_trusted() {
        // Content holds a whole entry; the length of the entry around it is damaged.
        let inner = [put(0, b"\x02\0\0forged"), sealed(1, &[1; 32])].concat();
        let mut bytes = segment(&[&put(1, b"\x02\0\0a"), &put(2, &[b"\x02\0\0", &inner[..]].concat())]);
        assert_eq!(ids(&walk(&bytes)), [(1, false), (2, false)]);
        bytes[53 + 6] = 0xff;
        assert_eq!(ids(&walk(&bytes)), [(1, false), (0, true)]);
        // A length that leads right behind the imitation: what was hopped over is found, as salvage.
        bytes[53 + 4..53 + 8].copy_from_slice(&60u32.to_le_bytes());
        assert_eq!(ids(&walk(&bytes)), [(1, false), (2, false), (0, true)]);
    }
}
