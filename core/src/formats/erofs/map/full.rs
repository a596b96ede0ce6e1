//! Full indexes: eight bytes for each logical cluster (erofs.md 9.3).

use super::lclusters::{Kind, Lcluster, extents};
use super::{Header, Stretches};
use crate::base::{Check, Result, bytes::Cursor, limits};
use crate::platform::Port;

/// Bytes of an entry.
const ENTRY: u64 = 8;
/// Bytes between the start of the header and the first entry.
const BEFORE: u64 = 16;
/// In a distance: it is a block count instead.
const BLOCK_COUNT: u16 = 0x800;

pub(super) async fn read(stretches: &mut Stretches<'_>, port: &Port, header: Header) -> Result<()> {
    let count = stretches.inode.size.div_ceil(1 << header.lcluster_bits(stretches.image));
    limits::within("number of index entries", count, limits::PIECES_MAX)?;
    let table = header.at.plus(BEFORE);
    let bytes = stretches.image.read(port, table, count * ENTRY).await?;
    let entries = bytes.as_chunks::<{ ENTRY as usize }>().0.iter().map(|entry| parse(entry));
    extents(stretches, &header, entries, table.plus(count * ENTRY).offset, true)
}

fn parse(entry: &[u8]) -> Result<Lcluster> {
    let mut cursor = Cursor::new(entry);
    let fields = (cursor.u16_le(), cursor.u16_le(), cursor.u16_le(), cursor.u16_le());
    let (Some(advice), Some(offset), Some(low), Some(high)) = fields else { return Err(Check::Truncated.into()) };
    Ok(match Kind::of(advice.into()) {
        Some(kind) => Lcluster::Head {
            kind,
            offset: offset.into(),
            block: u32::from(low) | u32::from(high) << 16,
            partial: advice >> 15 == 1,
        },
        None if low & BLOCK_COUNT != 0 => Lcluster::Rest(Some(low & (BLOCK_COUNT - 1))),
        None => Lcluster::Rest(None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of erofs.md 16.3.
    #[test]
    fn the_worked_example() {
        let head = |offset, block| Lcluster::Head { kind: Kind::One, offset, block, partial: false };
        for (bytes, entry) in [
            ([1, 0, 0, 0, 1, 0, 0, 0], head(0, 1)),
            ([1, 0, 0xf2, 0x0f, 2, 0, 0, 0], head(4082, 2)),
            ([2, 0, 0xf2, 0x0f, 1, 0, 2, 0], Lcluster::Rest(None)),
            ([2, 0, 0, 0, 4, 8, 1, 0], Lcluster::Rest(Some(4))),
            (
                [0, 0x80, 0x7a, 0x0a, 0x0b, 0, 1, 0],
                Lcluster::Head { kind: Kind::Plain, offset: 2682, block: 0x1_000b, partial: true },
            ),
        ] {
            assert_eq!(parse(&bytes).unwrap(), entry);
        }
    }
}
