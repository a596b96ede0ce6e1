//! The chunk index: fragments merged into one sorted table (borg2.md section 9).

use crate::base::{Check, Cursor, Id, Result};
use crate::objects::Extent;
use alloc::vec::Vec;

/// Length of one fragment entry: id 32, flags 4, size 4, pack id 32, offset 4, length 4.
const ENTRY_LEN: usize = 80;
/// Longest JSON block accepted in a fragment.
const JSON_MAX: usize = 65_536;

/// One chunk's place. 44 bytes; a test pins it, since a large repository has millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Chunk id.
    pub id: Id,
    /// Pack number.
    pub pack: u32,
    /// First byte in the pack.
    pub offset: u32,
    /// Stored length.
    pub len: u32,
}

impl Slot {
    /// The place as an extent.
    pub const fn extent(&self) -> Extent {
        Extent { object: self.pack, offset: self.offset as u64, len: self.len }
    }
}

/// Chunk ids and their places, sorted by id.
#[derive(Clone, Debug, Default)]
pub struct Index(Vec<Slot>);

impl Index {
    /// Sorts `slots`; of several with one id the last one counts.
    pub fn new(mut slots: Vec<Slot>) -> Self {
        slots.reverse();
        slots.sort_by_key(|slot| slot.id);
        slots.dedup_by_key(|slot| slot.id);
        slots.shrink_to_fit();
        Self(slots)
    }

    /// Where `id` is.
    ///
    /// Ids are hashes: where among all possible ids one lies tells about where it lies here. The
    /// stretch around that guess is widened until it holds the id, then searched.
    pub fn find(&self, id: &Id) -> Option<&Slot> {
        let len = self.0.len();
        let guess = ((u128::from(id.prefix()) * len as u128) >> 64) as usize;
        let mut reach = 16;
        let (low, high) = loop {
            let (low, high) = (guess.saturating_sub(reach), guess.saturating_add(reach).min(len));
            let starts_before = low == 0 || self.0.get(low).is_some_and(|slot| slot.id <= *id);
            let ends_after = high == len || self.0.get(high).is_some_and(|slot| slot.id > *id);
            if starts_before && ends_after {
                break (low, high);
            }
            reach = reach.saturating_mul(4);
        };
        let near = self.0.get(low..high)?;
        near.binary_search_by_key(id, |slot| slot.id).ok().and_then(|at| near.get(at))
    }

    /// All slots, by id.
    pub fn slots(&self) -> &[Slot] {
        &self.0
    }
}

/// Parses an opened fragment, a BORGHASH table, and hands each entry to `take` with its pack id.
///
/// # Errors
/// `Index` if magic, version, field list or lengths are not exactly those of borg2.md 9.2.
pub fn parse_fragment(table: &[u8], mut take: impl FnMut(Id, Id, u32, u32)) -> Result<()> {
    let mut cursor = Cursor::new(table);
    if cursor.take(8) != Some(b"BORGHASH") || cursor.u32_le() != Some(1) {
        return Err(Check::Index.into());
    }
    let json_len = cursor.u32_le().map_or(usize::MAX, |len| len as usize);
    let json = cursor.take(json_len).filter(|json| json.len() <= JSON_MAX).ok_or(Check::Index)?;
    let used = checked_header(json).ok_or(Check::Index)?;
    let (entries, tail) = cursor.rest().as_chunks::<ENTRY_LEN>();
    if !tail.is_empty() || entries.len() as u64 != used {
        return Err(Check::Index.into());
    }
    for entry in entries {
        let mut fields = Cursor::new(entry);
        let id = fields.array().ok_or(Check::Index)?;
        fields.take(8);
        let pack = fields.array().ok_or(Check::Index)?;
        let (Some(offset), Some(len)) = (fields.u32_le(), fields.u32_le()) else { return Err(Check::Index.into()) };
        take(Id(id), Id(pack), offset, len);
    }
    Ok(())
}

/// The value of `used` if the JSON names exactly the expected layout.
///
/// The block is authenticated and machine-written; what matters is that no other layout passes.
/// So blanks are dropped and each expected pair is looked for as text.
fn checked_header(json: &[u8]) -> Option<u64> {
    let json: Vec<u8> = json.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let json = core::str::from_utf8(&json).ok()?.strip_prefix('{')?.strip_suffix('}')?;
    let expected = [
        r#""key_size":32"#,
        r#""value_size":48"#,
        r#""byte_order":"little""#,
        r#""value_type_fields":["flags","size","pack_id","obj_offset","obj_size"]"#,
        r#""value_format":["I","I","32s","I","I"]"#,
    ];
    let present = |pair: &str| {
        json.find(pair).is_some_and(|at| {
            let before = json.get(..at).is_some_and(|front| front.is_empty() || front.ends_with(','));
            let after = json.get(at + pair.len()..).is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
            before && after
        })
    };
    if !expected.iter().all(|pair| present(pair)) {
        return None;
    }
    let (_, rest) = json.split_once(r#""used":"#)?;
    let digits = rest.split_once(',').map_or(rest, |(digits, _)| digits);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"key_size": 32, "value_size": 48, "byte_order": "little", "value_type_name": "ChunkIndexEntry", "value_type_fields": ["flags", "size", "pack_id", "obj_offset", "obj_size"], "value_format_name": "ChunkIndexEntryFormatT", "value_format_fields": ["flags", "size", "pack_id", "obj_offset", "obj_size"], "value_format": ["I", "I", "32s", "I", "I"], "capacity": 674, "used": 2}"#;

    fn table(json: &str, entries: usize) -> Vec<u8> {
        let mut table = b"BORGHASH\x01\0\0\0".to_vec();
        table.extend((json.len() as u32).to_le_bytes());
        table.extend(json.as_bytes());
        for n in 0..entries {
            table.extend([n as u8; 32]);
            table.extend([0, 0, 0, 1, 0, 0, 0, 0]);
            table.extend([0xaa; 32]);
            table.extend(100u32.to_le_bytes());
            table.extend(200u32.to_le_bytes());
        }
        table
    }

    #[test]
    fn entries_come_out() {
        let mut seen = Vec::new();
        parse_fragment(&table(JSON, 2), |id, pack, offset, len| seen.push((id, pack, offset, len))).unwrap();
        assert_eq!(seen, [(Id([0; 32]), Id([0xaa; 32]), 100, 200), (Id([1; 32]), Id([0xaa; 32]), 100, 200)]);
    }

    #[test]
    fn any_other_layout_is_refused() {
        let refused = |bytes: &[u8]| parse_fragment(bytes, |_, _, _, _| ()) == Err(Check::Index.into());
        assert!(refused(&table(JSON, 1)) && refused(&table(JSON, 3)));
        assert!(refused(&table(&JSON.replace("32,", "33,"), 2)));
        assert!(refused(&table(&JSON.replace("little", "big"), 2)));
        assert!(refused(&table(&JSON.replace("\"I\"]", "\"Q\"]"), 2)));
        let good = table(JSON, 2);
        for cut in 0..good.len() {
            assert!(refused(&good[..cut]), "{cut}");
        }
    }

    #[test]
    fn every_id_is_found_however_the_ids_are_spread() {
        // Evenly, all in one corner, and in two clusters.
        let spreads: [fn(u32) -> u32; 3] =
            [|n| n.wrapping_mul(0x9e37_79b9), |n| n, |n| if n % 2 == 0 { n } else { !n }];
        for spread in spreads {
            let id = |n: u32| {
                let mut id = [0; 32];
                id[..4].copy_from_slice(&spread(n).to_be_bytes());
                Id(id)
            };
            for count in [0, 1, 2, 33, 5000] {
                let slots = (0..count).map(|n| Slot { id: id(2 * n), pack: n, offset: 0, len: 1 }).collect();
                let index = Index::new(slots);
                for n in 0..count {
                    assert_eq!(index.find(&id(2 * n)).map(|slot| slot.pack), Some(n));
                    assert_eq!(index.find(&id(2 * n + 1)), None);
                }
                assert_eq!(index.find(&Id([0xff; 32])), None);
            }
        }
    }

    #[test]
    fn the_last_entry_of_an_id_counts_and_stays_small() {
        let slot = |id, pack| Slot { id: Id([id; 32]), pack, offset: 1, len: 2 };
        let index = Index::new(alloc::vec![slot(3, 0), slot(1, 1), slot(3, 2)]);
        assert_eq!(index.find(&Id([3; 32])).map(|slot| slot.pack), Some(2));
        assert_eq!(index.find(&Id([2; 32])), None);
        assert_eq!((index.slots().len(), size_of::<Slot>()), (2, 44));
    }
}
