//! The chunk index in memory: one sorted table of places.

use crate::base::Id;
use crate::objects::Extent;
use alloc::vec::Vec;

/// One chunk's place. 44 bytes; a test pins it, since a large repository has millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Chunk id.
    pub id: Id,
    /// Number of the store object.
    pub object: u32,
    /// First byte in that object.
    pub offset: u32,
    /// Stored length.
    pub len: u32,
}

impl Slot {
    /// The place as an extent.
    pub const fn extent(&self) -> Extent {
        Extent { object: self.object, offset: self.offset as u64, len: self.len }
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

    /// Takes slots that are sorted by id already, each id once. Needs no memory beside them.
    pub fn of_sorted(mut slots: Vec<Slot>) -> Self {
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

    /// Every chunk with its place, in storage order.
    pub fn by_place(&self) -> Vec<(Id, Extent)> {
        let mut all: Vec<(Id, Extent)> = self.0.iter().map(|slot| (slot.id, slot.extent())).collect();
        all.sort_unstable_by_key(|(_, extent)| *extent);
        all
    }

    /// All slots, by id.
    pub fn slots(&self) -> &[Slot] {
        &self.0
    }
}

/// The places of `id` among slots that are sorted by id and may have it several times.
pub fn copies(slots: &[Slot], id: Id) -> impl Iterator<Item = Extent> + '_ {
    let from = slots.partition_point(|slot| slot.id < id);
    slots.get(from..).unwrap_or(&[]).iter().take_while(move |slot| slot.id == id).map(Slot::extent)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let slots = (0..count).map(|n| Slot { id: id(2 * n), object: n, offset: 0, len: 1 }).collect();
                let index = Index::new(slots);
                for n in 0..count {
                    assert_eq!(index.find(&id(2 * n)).map(|slot| slot.object), Some(n));
                    assert_eq!(index.find(&id(2 * n + 1)), None);
                }
                assert_eq!(index.find(&Id([0xff; 32])), None);
            }
        }
    }

    #[test]
    fn the_last_entry_of_an_id_counts_and_stays_small() {
        let slot = |id, object| Slot { id: Id([id; 32]), object, offset: 1, len: 2 };
        let index = Index::new(alloc::vec![slot(3, 0), slot(1, 1), slot(3, 2)]);
        assert_eq!(index.find(&Id([3; 32])).map(|slot| slot.object), Some(2));
        assert_eq!(index.find(&Id([2; 32])), None);
        assert_eq!((index.slots().len(), size_of::<Slot>()), (2, 44));
    }
}
