//! Content that is not compressed: one run, a run with its tail beside the inode, or chunks.

use super::super::inode::{Layout, Space};
use super::super::recipe::{Coding, Recipe};
use super::Stretches;
use crate::base::{Check, Result, bytes::Cursor};
use crate::platform::Port;

/// Bytes of a chunk table that are read at a time.
const SLAB: u64 = 64 << 10;

/// Plain and inline layouts (erofs.md 5.1, 5.2).
pub(super) fn run(stretches: &mut Stretches<'_>) -> Result<()> {
    let inode = stretches.inode;
    let block = stretches.image.superblock.block_size();
    let tail = match inode.layout {
        Layout::Inline => inode.size - (inode.size.div_ceil(block) - 1) * block,
        _ => 0,
    };
    let len = inode.size - tail;
    match inode.start_block() {
        _ if len == 0 => {}
        None => stretches.hole(len)?,
        Some(start) => {
            let (device, address) = stretches.image.resolve(0, stretches.image.address(start)?)?;
            stretches.stored(device, address, len)?;
        }
    }
    if tail == 0 {
        return Ok(());
    }
    let at = inode.end();
    if at.offset % block + tail > block {
        return Err(Check::Map("the inline tail crosses a block").into());
    }
    match at.space {
        Space::Image => stretches.stored(0, at.offset, tail),
        Space::Metabox => {
            let (stored, plain) = (tail as u32, tail as u32);
            let recipe = Recipe { space: at.space, device: 0, address: at.offset, stored, plain, coding: Coding::Raw };
            stretches.push(recipe.chunk())
        }
    }
}

/// The layout of chunks (erofs.md 5.3).
pub(super) async fn chunks(stretches: &mut Stretches<'_>, port: &Port) -> Result<()> {
    let (image, inode) = (stretches.image, stretches.inode);
    let format = inode.word & 0xffff;
    if format >> 7 != 0 {
        return Err(Check::Map("unknown bits in the chunk format").into());
    }
    // 16 bits of block size and 31 of these are less than 64.
    let chunk = image.superblock.block_size() << (format & 31);
    let (indexed, wide) = (format & 0x20 != 0, format & 0x40 != 0);
    let entry = if indexed { 8 } else { 4 };
    let mask = (image.devices.len() as u64 + 1).next_power_of_two() - 1;
    let table = inode.end().aligned(entry);
    let count = inode.size.div_ceil(chunk);
    // The table has to be there as a whole, so its length bounds the work.
    let end = count.checked_mul(entry).and_then(|len| table.offset.checked_add(len));
    let room = if table.space == Space::Metabox { image.metabox.len() as u64 } else { image.len };
    if end.is_none_or(|end| end > room) {
        return Err(image.outside(table));
    }
    let mut done = 0;
    while done < count {
        let step = (count - done).min(SLAB / entry);
        let bytes = image.read(port, table.plus(done * entry), step * entry).await?;
        let mut cursor = Cursor::new(&bytes);
        for number in done..done + step {
            let (device, block) = if indexed {
                let fields = (cursor.u16_le(), cursor.u16_le(), cursor.u32_le());
                let (Some(high), Some(device), Some(low)) = fields else { return Err(image.outside(table)) };
                let (block, all) = match wide {
                    true => (u64::from(low) | u64::from(high) << 32, (1 << 48) - 1),
                    false => (low.into(), u32::MAX.into()),
                };
                ((u64::from(device) & mask) as u16, Some(block).filter(|block| *block != all))
            } else {
                let block = cursor.u32_le().ok_or_else(|| image.outside(table))?;
                (0, Some(block.into()).filter(|_| block != u32::MAX))
            };
            let len = chunk.min(inode.size - number * chunk);
            match block {
                None => stretches.hole(len)?,
                Some(block) => {
                    let (device, address) = image.resolve(device, image.address(block)?)?;
                    stretches.stored(device, address, len)?;
                }
            }
        }
        done += step;
    }
    Ok(())
}
