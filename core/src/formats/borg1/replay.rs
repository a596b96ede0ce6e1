//! Replaying the log: from entries in order to the places of live objects (borg1.md 3.5).

use super::segments::Segments;
use super::walk::{Found, Walk};
use crate::base::{Id, Result};
use crate::formats::common::index::Slot;
use crate::objects::Notice;
use crate::platform::Port;
use alloc::{format, vec::Vec};

/// Entries beyond twice the live ones that wait before superseded ones are dropped.
const SLACK: usize = 1 << 16;

/// Collects entries in the order of the log. Holds at most about twice as many as are live.
#[derive(Default)]
pub struct Replay {
    /// Entries; a removal has no length.
    slots: Vec<Slot>,
    /// How many were left when superseded ones were dropped last.
    live: usize,
}

impl Replay {
    /// An object was stored, or with length 0 removed.
    pub fn take(&mut self, slot: Slot) {
        if self.slots.len() >= self.live.saturating_mul(2).saturating_add(SLACK) {
            self.settle();
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len() / 4 + 1024);
        }
        self.slots.push(slot);
    }

    /// Drops all but the last entry of each id, in place. What an earlier entry did is over then, so
    /// a removal need not be kept either.
    fn settle(&mut self) {
        self.slots
            .sort_unstable_by(|a, b| a.id.cmp(&b.id).then_with(|| (b.object, b.offset).cmp(&(a.object, a.offset))));
        self.slots.dedup_by_key(|slot| slot.id);
        self.slots.retain(|slot| slot.len > 0);
        self.live = self.slots.len();
    }

    /// The live objects, by id.
    pub fn finish(mut self) -> Vec<Slot> {
        self.settle();
        self.slots
    }
}

/// Walks all segments. Salvage does not count here.
///
/// # Errors
/// I/O errors, and `Missing` if a segment vanished.
pub async fn replay(port: &Port, segments: &Segments, notices: &mut Vec<Notice>) -> Result<Vec<Slot>> {
    let mut replay = Replay::default();
    for_each(port, segments, |object, name, found| match found {
        Found::Put { id, offset, len, salvage: false } => replay.take(Slot { id, object, offset, len }),
        Found::Delete { id, offset, salvage: false } => replay.take(Slot { id, object, offset, len: 0 }),
        Found::Gap { offset, len } => {
            let text = format!("{name}: {len} bytes at {offset} belong to no readable entry");
            notices.push(Notice { serious: true, text });
        }
        Found::Put { .. } | Found::Delete { .. } => {}
    })
    .await?;
    Ok(replay.finish())
}

/// Everything stored that is not live, by id: superseded, removed, and salvaged objects. None of them
/// is to be believed before it opens under its id.
///
/// # Errors
/// I/O errors.
pub async fn leftovers(port: &Port, segments: &Segments, is_live: impl Fn(&Slot) -> bool) -> Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for_each(port, segments, |object, _, found| {
        if let Found::Put { id, offset, len, .. } = found {
            let slot = Slot { id, object, offset, len };
            // No manifest but the live one counts.
            if id != MANIFEST && !is_live(&slot) {
                slots.push(slot);
            }
        }
    })
    .await?;
    slots.sort_unstable_by_key(|slot| slot.id);
    Ok(slots)
}

/// The id of the manifest.
pub const MANIFEST: Id = Id([0; 32]);

async fn for_each(port: &Port, segments: &Segments, mut visit: impl FnMut(u32, &str, Found)) -> Result<()> {
    for (object, name) in segments.names() {
        let Some(Some(size)) = port.stat(&name).await? else {
            return Err(crate::base::Error::new(crate::base::Kind::Missing("the segment")).in_object(&name));
        };
        let mut walk = Walk::new(port, &name, size);
        while let Some(found) = walk.next().await? {
            visit(object, &name, found);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::entry::{COMMIT, MAGIC};
    use super::super::store::MemoryStore;
    use super::super::vectors::sealed;
    use super::*;
    use alloc::string::String;

    /// A store from a note such as `P1 P2|D1 P1|C`: PUTs and DELETEs of ids, COMMITs, segments.
    fn store(shape: &str) -> MemoryStore {
        let mut store = MemoryStore::default();
        for (number, entries) in shape.split('|').enumerate() {
            let mut bytes = MAGIC.to_vec();
            for entry in entries.split(' ').filter(|entry| !entry.is_empty()) {
                let id = [entry[1..].parse().unwrap_or(0u8); 32];
                match &entry[..1] {
                    "P" => bytes.extend(sealed(0, &[&id[..], b"\x02\0\0object"].concat())),
                    "D" => bytes.extend(sealed(1, &id)),
                    "C" => bytes.extend_from_slice(COMMIT),
                    // An entry with a wrong tag.
                    _ => bytes.extend(
                        [sealed(0, &[9; 60])]
                            .map(|mut entry| {
                                entry[8] = 9;
                                entry
                            })
                            .concat(),
                    ),
                }
            }
            store.put(&format!("data/0/{number}"), if entries == "0" { b"" } else { &bytes });
        }
        store
    }

    /// Live ids with the segment each is in.
    fn live(shape: &str) -> String {
        let store = store(shape);
        let slots = store.drive(|port| async move {
            let segments = Segments::committed(port, 1000, &mut Vec::new()).await.unwrap();
            replay(port, &segments, &mut Vec::new()).await.unwrap()
        });
        let text: Vec<String> = slots.iter().map(|slot| format!("{}@{}", slot.id.0[0], slot.object)).collect();
        text.join(" ")
    }

    #[test]
    fn shapes_seen_in_practice() {
        // borg1.md 3.8, by writer: 1.0, 1.1, 1.2 and later.
        assert_eq!(live("P1 P2|P3 D1 D2 P0|P4 C"), "0@1 3@1 4@2");
        assert_eq!(live("P1 P0|C|P2 D0 P0|C"), "0@2 1@0 2@2");
        assert_eq!(live("P1 P0|C|P2|D0|P0|C"), "0@4 1@0 2@2");
        assert_eq!(live("P1 P2 P0|C|D1|C|P2 C|D0|P0|C"), "0@6 2@4");
        // A crash while compacting: the same key twice without a removal between.
        assert_eq!(live("P1 P0|C|P1 C"), "0@0 1@2");
        // An uncommitted tail, an empty segment, removals of what is not there.
        assert_eq!(live("P1 P0|C|D1 P0 P2"), "0@0 1@0");
        assert_eq!(live("P1 P0|0|D7|C"), "0@0 1@0");
        // A transaction that was taken up again does not count.
        assert_eq!(live("P1 C|P2 C P3 C"), "1@0");
    }

    #[test]
    fn salvage_overrides_nothing() {
        // After the damage: a removal, another manifest, an object known nowhere else.
        assert_eq!(live("P1 P0|P2 X D1 P0 P3|C"), "0@0 1@0 2@1");
        let store = store("P1 P0|P2 X D1 P0 P3|D2|C");
        let (left, notices) = store.drive(|port| async move {
            let mut notices = Vec::new();
            let segments = Segments::committed(port, 1000, &mut notices).await.unwrap();
            let live = replay(port, &segments, &mut notices).await.unwrap();
            (leftovers(port, &segments, |slot| live.contains(slot)).await.unwrap(), notices)
        });
        assert_eq!(left.iter().map(|slot| slot.id.0[0]).collect::<Vec<_>>(), [2, 3]);
        assert!(matches!(&notices[..], [Notice { serious: true, text }] if text.starts_with("data/0/1: ")));
    }

    #[test]
    fn superseded_entries_are_dropped_on_the_way() {
        let mut replay = Replay::default();
        let slot = |id: u32, offset: u32, len: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&id.to_be_bytes());
            Slot { id: Id(bytes), object: 0, offset, len }
        };
        for n in 0..1_000_000u32 {
            replay.take(slot(n % 1000, 2 * n, 50));
            if n % 3 == 0 {
                replay.take(slot(n % 1000, 2 * n + 1, 0));
            }
            assert!(replay.slots.len() <= 2000 + SLACK);
        }
        let live = replay.finish();
        // The last round ended with n = 999,999; a third of it was removed again.
        assert_eq!(live.len(), 666);
        assert!(live.iter().all(|slot| slot.offset >= 2 * 999_000 && slot.len == 50));
    }
}
