//! Compact indexes: packs of 2 entries in 8 bytes, or 16 in 32 (erofs.md 9.4).

use super::lclusters::{Kind, Lcluster, extents};
use super::{Header, Stretches};
use crate::base::{Check, Result, limits};
use crate::platform::Port;
use alloc::vec::Vec;

/// Bytes between the start of the header and the first pack.
const BEFORE: u64 = 8;
/// In an entry's low bits: they are a block count.
const BLOCK_COUNT: u64 = 0x800;

/// One of the two forms of a pack.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// Entries in it.
    slots: usize,
    /// Its bytes.
    len: usize,
    /// Bits of an entry.
    width: usize,
}

const SMALL: Form = Form { slots: 2, len: 8, width: 16 };
const LARGE: Form = Form { slots: 16, len: 32, width: 14 };

pub(super) async fn read(stretches: &mut Stretches<'_>, port: &Port, header: Header) -> Result<()> {
    let bits = header.lcluster_bits(stretches.image);
    let packed = header.has(Header::PACKED_2B);
    if bits > if packed { 12 } else { 14 } {
        return Err(Check::Map("clusters are too large for compact indexes").into());
    }
    let big = header.has(Header::BIG_1);
    if big != header.has(Header::BIG_2) {
        return Err(Check::Map("only one head of compact indexes has big pclusters").into());
    }
    let count = stretches.inode.size.div_ceil(1 << bits);
    limits::within("number of index entries", count, limits::PIECES_MAX)?;
    let count = count as usize;
    let table = header.at.plus(BEFORE);
    // Small packs up to the next border of 32 bytes, then large ones, then small ones again.
    let first = ((32 - table.offset % 32) / 4 % 8) as usize;
    let large = if packed && first < count { (count - first) / LARGE.slots } else { 0 };
    let packs = |entries: usize| entries.div_ceil(SMALL.slots) * SMALL.len;
    let len = if large == 0 {
        packs(count)
    } else {
        packs(first) + large * LARGE.len + packs(count - first - large * LARGE.slots)
    };
    let bytes = stretches.image.read(port, table, len as u64).await?;
    let mut slots = Vec::with_capacity(count + 1);
    let mut rest = bytes.as_slice();
    while slots.len() < count {
        let in_large = large > 0 && (first..first + large * LARGE.slots).contains(&slots.len());
        let form = if in_large { LARGE } else { SMALL };
        let (pack, after) = rest.split_at_checked(form.len).ok_or(Check::Truncated)?;
        rest = after;
        unpack(pack, form, bits, big, &mut slots);
    }
    slots.truncate(count);
    extents(stretches, &header, slots.into_iter().map(Ok), table.plus(len as u64).offset, false)
}

/// Takes one pack apart.
fn unpack(pack: &[u8], form: Form, lcluster_bits: u32, big: bool, slots: &mut Vec<Lcluster>) {
    let bit = |at: usize| pack.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
    let number = |from: usize, bits: usize| (0..bits).fold(0, |value, at| value | u64::from(bit(from + at)) << at);
    let low_bits = lcluster_bits.max(12);
    let base = number(8 * (form.len - 4), 32) as u32;
    // Blocks of the pack's earlier slots.
    let mut before = if big { 0 } else { 1 };
    let counted = |slot: usize| {
        let value = number(slot * form.width, form.width);
        let low = value & ((1 << low_bits) - 1);
        (Kind::of(value >> low_bits), low, low & BLOCK_COUNT != 0)
    };
    for slot in 0..form.slots {
        let (kind, low, is_count) = counted(slot);
        slots.push(match kind {
            Some(kind) => {
                let head =
                    Lcluster::Head { kind, offset: low as u32, block: base.wrapping_add(before), partial: false };
                let next = (slot + 1 < form.slots).then(|| counted(slot + 1));
                let said = big && next.is_some_and(|(kind, _, is_count)| kind.is_none() && is_count);
                before = before.wrapping_add(if said { 0 } else { 1 });
                head
            }
            None if is_count => {
                let blocks = (low & (BLOCK_COUNT - 1)) as u16;
                if big {
                    before = before.wrapping_add(blocks.into());
                }
                Lcluster::Rest(Some(blocks))
            }
            None => Lcluster::Rest(None),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(text: u64, bits: u32, big: bool) -> Vec<Lcluster> {
        let mut slots = Vec::new();
        unpack(&text.to_be_bytes(), SMALL, bits, big, &mut slots);
        slots
    }

    const fn head(kind: Kind, offset: u32, block: u32) -> Lcluster {
        Lcluster::Head { kind, offset, block, partial: false }
    }

    /// Packs of erofs.md 16.2.
    #[test]
    fn the_worked_example() {
        let (one, rest) = (Kind::One, Lcluster::Rest(None));
        assert_eq!(small(0x0010_f21f_0000_0000, 12, false), [head(one, 0, 1), head(one, 4082, 2)]);
        assert_eq!(small(0x0120_0120_0200_0000, 12, false), [rest, rest]);
        assert_eq!(small(0x9010_e51f_0200_0000, 12, false), [head(one, 144, 3), head(one, 4069, 4)]);
        assert_eq!(small(0x0120_790a_0a00_0000, 12, false), [rest, head(Kind::Plain, 2681, 11)]);
    }

    /// Packs of erofs.md 16.4.
    #[test]
    fn the_worked_example_with_big_pclusters() {
        let (one, count) = (Kind::One, |blocks| Lcluster::Rest(Some(blocks)));
        assert_eq!(small(0x0010_0428_0100_0000, 12, true), [head(one, 0, 1), count(4)]);
        assert_eq!(small(0x841c_0428_0500_0000, 12, true), [head(one, 3204, 5), count(4)]);
        assert_eq!(small(0x0220_680c_0b00_0000, 12, true), [Lcluster::Rest(None), head(Kind::Plain, 3176, 11)]);
        // A count whose head is in the pack before goes before the next head here.
        assert_eq!(small(0x0428_0010_0500_0000, 12, true), [count(4), head(one, 0, 9)]);
    }

    #[test]
    fn sixteen_slots_of_fourteen_bits() {
        let mut pack = [0u8; 32];
        // Slot 15: type 1, offset 5: bits 210 to 223.
        let value = (1u32 << 12 | 5) << 2;
        pack[26..28].copy_from_slice(&(value as u16).to_le_bytes());
        pack[28] = 7;
        let mut slots = Vec::new();
        unpack(&pack, LARGE, 12, false, &mut slots);
        assert_eq!(slots.len(), 16);
        // Fifteen heads before it, each of one block.
        assert_eq!(slots[15], head(Kind::One, 5, 7 + 1 + 15));
    }
}
