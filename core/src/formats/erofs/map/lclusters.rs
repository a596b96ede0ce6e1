//! From index entries, one per logical cluster, to extents (erofs.md 9.2).
//!
//! A forward scan needs only the heads and the block counts. The distances that entries also carry are
//! for random access; writers have saturated, wrapped and forgotten them, so they are not looked at.

use super::{Header, Pcluster, Start, Stretches};
use crate::base::{Check, Result};

/// What one index entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lcluster {
    /// An extent starts here.
    Head {
        /// How it is stored.
        kind: Kind,
        /// Bytes from the start of the lcluster.
        offset: u32,
        /// Block where its pcluster starts.
        block: u32,
        /// True if the pcluster holds more than the extent.
        partial: bool,
    },
    /// None does; the pcluster of the head just before has so many blocks, if that is said.
    Rest(Option<u16>),
}

/// How the extent of a head is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it is.
    Plain,
    /// By the first algorithm.
    One,
    /// By the second.
    Two,
}

impl Kind {
    /// From the two bits of an entry; `None` where no extent starts.
    pub(super) const fn of(bits: u64) -> Option<Self> {
        match bits & 3 {
            0 => Some(Self::Plain),
            1 => Some(Self::One),
            3 => Some(Self::Two),
            _ => None,
        }
    }
}

/// Turns the entries into stretches. `after` is the byte after the last entry, where an inline
/// pcluster lies; `high` says that a fragment's offset goes on in the last head's block.
pub(super) fn extents(
    stretches: &mut Stretches<'_>,
    header: &Header,
    entries: impl Iterator<Item = Result<Lcluster>>,
    after: u64,
    high: bool,
) -> Result<()> {
    let (image, size) = (stretches.image, stretches.inode.size);
    let lcluster = 1u64 << header.lcluster_bits(image);
    let block_size = image.superblock.block_size();
    let mut entries = entries.peekable();
    let mut start = 0u64;
    let mut last_block = 0;
    let mut ended = false;
    while let Some(entry) = entries.next() {
        let next = match entries.peek() {
            Some(Err(error)) => return Err(error.clone()),
            Some(Ok(next)) => Some(*next),
            None => None,
        };
        let (kind, offset, block, partial) = match entry? {
            Lcluster::Head { kind, offset, block, partial } => (kind, offset, block, partial),
            Lcluster::Rest(Some(_)) if !header.has(Header::BIG_1 | Header::BIG_2) => {
                return Err(Check::Map("a block count where pclusters have one block").into());
            }
            Lcluster::Rest(_) if start == 0 => return Err(Check::Map("the first entry is no head").into()),
            Lcluster::Rest(_) => {
                start += lcluster;
                continue;
            }
        };
        if u64::from(offset) >= lcluster || (start == 0 && offset != 0) {
            return Err(Check::Map("an extent starts outside its cluster").into());
        }
        let at = start + u64::from(offset);
        start += lcluster;
        if ended {
            return Err(Check::Map("an extent starts after the end").into());
        }
        if at == size && kind == Kind::Plain {
            ended = true;
            continue;
        }
        let flag = if kind == Kind::One { Header::BIG_1 } else { Header::BIG_2 };
        // A count that is missing is met as a pcluster without blocks, unless this is no pcluster at all.
        let blocks = match next {
            Some(_) if !header.has(flag) => 1,
            Some(Lcluster::Rest(blocks)) => blocks.unwrap_or(0).into(),
            Some(Lcluster::Head { .. }) | None => 1,
        };
        let algorithm = match kind {
            Kind::Plain => None,
            Kind::One => Some(header.algorithms & 15),
            Kind::Two => Some(header.algorithms >> 4),
        };
        last_block = block;
        stretches.begin(
            at,
            Start::Pcluster(Pcluster {
                algorithm,
                address: image.address(block.into())?,
                inline: false,
                stored: blocks * block_size,
                partial,
                interlaced: header.has(Header::INTERLACED),
            }),
        )?;
    }
    if header.has(Header::FRAGMENT) {
        let high = if high { u64::from(last_block) << 32 } else { 0 };
        return stretches.replace(|_| Ok(Start::Fragment(u64::from(header.low) | high)));
    }
    if header.has(Header::INLINE) && header.tail > 0 {
        return stretches.replace(|start| match start {
            Start::Pcluster(pcluster) => {
                let (stored, address) = (header.tail.into(), after);
                Ok(Start::Pcluster(Pcluster { address, stored, inline: true, ..pcluster }))
            }
            other => Ok(other),
        });
    }
    Ok(())
}
