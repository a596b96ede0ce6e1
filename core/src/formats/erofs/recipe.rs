//! Recipes: what a worker must know to open a unit, packed into the chunk id.
//!
//! The format has no ids and no index: what refers to content says where it lies and how it is
//! packed. That itself is the id, so equal references are equal chunks, no table is needed, and
//! whoever has the id can open the unit.

use super::inode::Space;
use super::tables;
use crate::base::Id;
use crate::objects::{ChunkRef, Extent, Method};

/// How stored bytes become plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// They are the plaintext.
    Raw,
    /// They are one block that is rotated so that the plaintext starts at this byte of it (erofs.md 10.6).
    Rotated(u32),
    /// They are one stream of the algorithm with this number, which gives exactly the plaintext.
    Whole(u8),
    /// They are one stream of the algorithm with this number, which gives the plaintext and more.
    Front(u8),
}

/// Where the bytes of one pcluster, or of a piece of flat content, are and what they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The device, or the metabox.
    pub space: Space,
    /// Number of the device: 0 is the image.
    pub device: u16,
    /// First stored byte.
    pub address: u64,
    /// Stored bytes.
    pub stored: u32,
    /// Plaintext bytes.
    pub plain: u32,
    /// How.
    pub coding: Coding,
}

/// The id of chunks that are nothing but zeros, of any length.
pub const HOLE: Id = Id([0xff; 32]);

impl Recipe {
    /// The chunk id that says all of it.
    ///
    /// | bytes | hold, little-endian |
    /// |---|---|
    /// | 0..8 | address |
    /// | 8..12 | stored bytes |
    /// | 12..16 | plaintext bytes |
    /// | 16..20 | where a rotated block starts |
    /// | 20..22 | device |
    /// | 22 | 1 for the metabox |
    /// | 23 | 0 raw, 1 rotated, 16 + algorithm, 32 + algorithm for the front of a stream |
    /// | 24..32 | zeros |
    pub fn id(&self) -> Id {
        let (code, start) = match self.coding {
            Coding::Raw => (0, 0),
            Coding::Rotated(start) => (1, start),
            Coding::Whole(number) => (16 + (number & 15), 0),
            Coding::Front(number) => (32 + (number & 15), 0),
        };
        let [a, b, c, d, e, f, g, h] = self.address.to_le_bytes();
        let [i, j, k, l] = self.stored.to_le_bytes();
        let [m, n, o, p] = self.plain.to_le_bytes();
        let [q, r, s, t] = start.to_le_bytes();
        let [u, v] = self.device.to_le_bytes();
        let w = u8::from(self.space == Space::Metabox);
        Id([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, code, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// The recipe that an id is; `None` for [`HOLE`] and everything that is no recipe.
    pub fn of(id: &Id) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, code, rest @ ..] = id.0;
        let start = u32::from_le_bytes([q, r, s, t]);
        let coding = match code {
            0 => Coding::Raw,
            1 => Coding::Rotated(start),
            16..32 => Coding::Whole(code - 16),
            32..48 => Coding::Front(code - 32),
            _ => return None,
        };
        let space = match w {
            0 => Space::Image,
            1 => Space::Metabox,
            _ => return None,
        };
        (rest == [0; 8]).then_some(Self {
            space,
            device: u16::from_le_bytes([u, v]),
            address: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            stored: u32::from_le_bytes([i, j, k, l]),
            plain: u32::from_le_bytes([m, n, o, p]),
            coding,
        })
    }

    /// The whole chunk.
    pub fn chunk(&self) -> ChunkRef {
        ChunkRef::new(self.id(), self.plain)
    }

    /// What has to be read from a device. Of what lies in the metabox that is nothing: it is in memory.
    pub const fn extent(&self) -> Extent {
        match self.space {
            Space::Image => Extent { object: self.device as u32, offset: self.address, len: self.stored },
            Space::Metabox => Extent { object: 0, offset: 0, len: 0 },
        }
    }

    /// The compression method, where there is one.
    pub const fn method(&self) -> Option<Method> {
        match self.coding {
            Coding::Whole(number) | Coding::Front(number) => tables::method(number),
            Coding::Raw | Coding::Rotated(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_and_recipes_are_one(
            (address, stored, plain) in (any::<u64>(), any::<u32>(), any::<u32>()),
            device: u16,
            metabox: bool,
            coding in prop_oneof![
                Just(Coding::Raw),
                any::<u32>().prop_map(Coding::Rotated),
                (0u8..16).prop_map(Coding::Whole),
                (0u8..16).prop_map(Coding::Front),
            ],
        ) {
            let space = if metabox { Space::Metabox } else { Space::Image };
            let recipe = Recipe { space, device, address, stored, plain, coding };
            prop_assert_eq!(Recipe::of(&recipe.id()), Some(recipe));
            prop_assert_ne!(recipe.id(), HOLE);
        }
    }

    #[test]
    fn other_ids_are_no_recipes() {
        assert_eq!(Recipe::of(&HOLE), None);
        assert_eq!(Recipe::of(&Id([7; 32])), None);
    }
}
