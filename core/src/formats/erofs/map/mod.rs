//! Maps: which stored bytes make up the content of an inode (erofs.md 5, 9, 11.1).
//!
//! Every layout comes down to stretches in order, from the first byte of the content to the last:
//! a hole, stored bytes, a pcluster, or a part of the packed inode.

mod compact;
mod extents;
mod flat;
mod full;
mod lclusters;

use super::image::Image;
use super::inode::{Inode, Layout, Space, Spot};
use super::recipe::{Coding, HOLE, Recipe};
use super::tables;
use crate::base::{Check, Result, bytes::Cursor, limits};
use crate::objects::{ChunkRef, Storage};
use crate::platform::Port;
use alloc::vec::Vec;

/// Longest unit that bytes stored as they are form; longer runs are split, so that several workers
/// share them.
const RAW_UNIT: u64 = 1 << 20;
/// Longest hole that one chunk stands for.
const HOLE_UNIT: u64 = 1 << 30;

/// The content of an inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// Its chunks, in order.
    pub chunks: Vec<ChunkRef>,
    /// Layout, algorithms and the like.
    pub storage: Storage,
}

/// Content of which parts are wanted: the packed inode's, which other files have parts of, and that
/// of directories.
#[derive(Clone, Debug, Default)]
pub struct Content {
    chunks: Vec<ChunkRef>,
    /// Where each chunk ends.
    ends: Vec<u64>,
}

impl Content {
    /// The content that these chunks make up.
    pub fn new(chunks: Vec<ChunkRef>) -> Self {
        let mut end = 0;
        let ends = chunks.iter().map(|chunk| {
            end += u64::from(chunk.size);
            end
        });
        Self { ends: ends.collect(), chunks }
    }

    /// Bytes of content.
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunks, cut to the bytes `from` to `from + len`; `None` if there are not so many bytes.
    pub fn part(&self, from: u64, len: u64) -> Option<Vec<ChunkRef>> {
        let to = from.checked_add(len).filter(|to| *to <= self.len())?;
        let first = self.ends.partition_point(|end| *end <= from);
        let mut parts = Vec::new();
        for (chunk, end) in self.chunks.iter().zip(&self.ends).skip(first) {
            let start = end - u64::from(chunk.size);
            if start >= to {
                break;
            }
            let (cut, kept) = (from.saturating_sub(start), to.min(*end) - from.max(start));
            parts.push(ChunkRef { skip: chunk.skip + cut as u32, size: kept as u32, ..*chunk });
        }
        Some(parts)
    }
}

/// Reads the map of `inode`, a file, directory or symbolic link; `packed` is what its fragments are in.
///
/// # Errors
/// `Map` damage, `OverLimit`, I/O errors.
pub async fn map(image: &Image, port: &Port, packed: Option<&Content>, inode: &Inode) -> Result<Map> {
    let mut stretches = Stretches { image, packed, inode, map: Map::default(), pending: None, run: None, words: 0 };
    if inode.size > 0 {
        match inode.layout {
            Layout::Plain | Layout::Inline => flat::run(&mut stretches)?,
            Layout::Chunks => flat::chunks(&mut stretches, port).await?,
            Layout::Full | Layout::Compact => compressed(&mut stretches, port).await?,
        }
        stretches.finish()?;
    }
    let layout = match inode.layout {
        Layout::Plain => PLAIN,
        Layout::Inline => INLINE,
        Layout::Chunks => CHUNKS,
        Layout::Full => FULL,
        Layout::Compact => COMPACT,
    };
    let storage = Storage { words: &WORDS, chosen: layout | stretches.words };
    Ok(Map { storage, ..stretches.map })
}

/// Words about a map, by bit.
const WORDS: [&str; 13] = [
    "plain", "inline", "chunks", "full", "compact", "lz4", "lzma", "deflate", "zstd", "extents", "ztail", "fragment",
    "holes",
];
const PLAIN: u32 = 1;
const INLINE: u32 = 1 << 1;
const CHUNKS: u32 = 1 << 2;
const FULL: u32 = 1 << 3;
const COMPACT: u32 = 1 << 4;
/// The algorithms' numbers count from here.
const ALGORITHM: u32 = 1 << 5;
const EXTENTS: u32 = 1 << 9;
const TAIL: u32 = 1 << 10;
const FRAGMENT: u32 = 1 << 11;
const HOLES: u32 = 1 << 12;

/// The header that both compressed layouts have (erofs.md 9.1).
#[derive(Clone, Copy, Debug)]
struct Header {
    /// Where it is.
    at: Spot,
    /// The low part of the fragment's offset, or the count of extent records.
    low: u32,
    /// Length of the inline pcluster.
    tail: u16,
    advice: u16,
    /// Algorithms of both heads, or bits 32 to 39 of the count.
    algorithms: u8,
    /// Size of lclusters, or bits 40 to 47 of the count.
    last: u8,
}

impl Header {
    const EXTENTS: u16 = 0x01;
    const PACKED_2B: u16 = 0x01;
    const BIG_1: u16 = 0x02;
    const BIG_2: u16 = 0x04;
    const INLINE: u16 = 0x08;
    const INTERLACED: u16 = 0x10;
    const FRAGMENT: u16 = 0x20;

    const fn has(&self, advice: u16) -> bool {
        self.advice & advice != 0
    }

    /// Base 2 logarithm of the lcluster size.
    const fn lcluster_bits(&self, image: &Image) -> u32 {
        image.superblock.block_bits as u32 + (self.last & 15) as u32
    }
}

async fn compressed(stretches: &mut Stretches<'_>, port: &Port) -> Result<()> {
    let at = stretches.inode.end().aligned(8);
    let bytes = stretches.image.read(port, at, 8).await?;
    let mut cursor = Cursor::new(&bytes);
    let all = cursor.u64_le().ok_or(Check::Truncated)?;
    if all >> 63 == 1 {
        return stretches.begin(0, Start::Fragment(all & !(1 << 63)));
    }
    let mut cursor = Cursor::new(&bytes);
    let fields = (cursor.u32_le(), cursor.u16_le(), cursor.u8(), cursor.u8());
    let (Some(low), Some(advice), Some(algorithms), Some(last)) = fields else {
        return Err(Check::Truncated.into());
    };
    let header = Header { at, low, tail: (low >> 16) as u16, advice, algorithms, last };
    match stretches.inode.layout {
        Layout::Full if header.has(Header::EXTENTS) => extents::read(stretches, port, header).await,
        Layout::Full => full::read(stretches, port, header).await,
        _ => compact::read(stretches, port, header).await,
    }
}

/// What one stretch of content comes from.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Nothing: it is zeros.
    Hole,
    /// The packed inode, from this byte of its content on.
    Fragment(u64),
    /// A pcluster.
    Pcluster(Pcluster),
}

/// A pcluster as the indexes name it.
#[derive(Clone, Copy, Debug)]
struct Pcluster {
    /// Number of its algorithm; `None` if it is stored as it is.
    algorithm: Option<u8>,
    /// First byte: of the common address space of all devices, or a place beside the inode.
    address: u64,
    /// True for a place beside the inode.
    inline: bool,
    /// Bytes.
    stored: u64,
    /// True if it holds more than this stretch.
    partial: bool,
    /// True if blocks that are stored as they are may be rotated.
    interlaced: bool,
}

/// Collects the stretches of one inode, in order.
struct Stretches<'a> {
    image: &'a Image,
    packed: Option<&'a Content>,
    inode: &'a Inode,
    map: Map,
    /// The stretch whose end is not known yet: its first byte of the content.
    pending: Option<(u64, Start)>,
    /// Raw bytes or a hole that may go on.
    run: Option<Run>,
    words: u32,
}

/// Bytes that lie side by side, or a hole.
#[derive(Clone, Copy)]
struct Run {
    /// Device and address; `None` for a hole.
    at: Option<(u16, u64)>,
    len: u64,
}

impl Stretches<'_> {
    /// The stretch before ends here, and this one begins.
    fn begin(&mut self, at: u64, start: Start) -> Result<()> {
        if at >= self.inode.size {
            return Err(Check::Map("an extent starts after the end").into());
        }
        self.close(at)?;
        self.pending = Some((at, start));
        Ok(())
    }

    /// The stretch that was begun last comes from elsewhere.
    fn replace(&mut self, change: impl FnOnce(Start) -> Result<Start>) -> Result<()> {
        if let Some((_, start)) = &mut self.pending {
            *start = change(*start)?;
        }
        Ok(())
    }

    /// The content ends here.
    fn finish(&mut self) -> Result<()> {
        self.close(self.inode.size)?;
        self.flush()
    }

    fn close(&mut self, end: u64) -> Result<()> {
        let Some((at, start)) = self.pending.take() else {
            return match end {
                0 => Ok(()),
                // Flat content comes as runs.
                _ if self.run.is_some() || !self.map.chunks.is_empty() => Ok(()),
                _ => Err(Check::Map("the first extent does not start at the beginning").into()),
            };
        };
        let len = end.checked_sub(at).filter(|len| *len > 0).ok_or(Check::Map("extents are out of order"))?;
        match start {
            Start::Hole => self.hole(len),
            Start::Fragment(from) => {
                self.words |= FRAGMENT;
                let packed = self.packed.ok_or(Check::Map("a fragment where there is no packed inode"))?;
                let parts = packed.part(from, len).ok_or(Check::Map("a fragment lies outside the packed inode"))?;
                parts.into_iter().try_for_each(|part| self.push(part))
            }
            Start::Pcluster(pcluster) => self.pcluster(at, len, pcluster),
        }
    }

    fn pcluster(&mut self, at: u64, len: u64, pcluster: Pcluster) -> Result<()> {
        let Pcluster { algorithm, address, inline, stored, partial, interlaced } = pcluster;
        limits::within("size of a pcluster", stored, limits::PCLUSTER_MAX.into())?;
        limits::within("content of a pcluster", len, limits::PCLUSTER_PLAIN_MAX.into())?;
        if stored == 0 {
            return Err(Check::Map("a pcluster has no blocks").into());
        }
        let block = self.image.superblock.block_size();
        let (space, device, address) = if inline {
            if address % block + stored > block {
                return Err(Check::Map("an inline pcluster crosses a block").into());
            }
            (self.inode.end().space, 0, address)
        } else {
            let (device, address) = self.image.resolve(0, address)?;
            (Space::Image, device, address)
        };
        let coding = match algorithm {
            Some(number) if !self.image.algorithms.has(number) || tables::method(number).is_none() => {
                return Err(Check::Map("a pcluster has an algorithm that the image does not").into());
            }
            Some(number) => {
                self.words |= ALGORITHM << number;
                // Of old images nobody knows where a stream ends within its pcluster.
                let open_end = !self.image.superblock.is_zero_padded() && !inline;
                if partial || open_end { Coding::Front(number) } else { Coding::Whole(number) }
            }
            None if len > stored => return Err(Check::Map("an extent is longer than what is stored of it").into()),
            None if interlaced && !inline && stored % block == 0 && address % block == 0 => {
                if stored != block {
                    return Err(Check::Map("an interlaced pcluster is longer than a block").into());
                }
                Coding::Rotated((at % block) as u32)
            }
            None if space == Space::Image => {
                self.stored(device, address, len)?;
                return Ok(());
            }
            None => Coding::Raw,
        };
        if inline {
            self.words |= TAIL;
        }
        let stored = if coding == Coding::Raw { len } else { stored };
        // Both are below their limits, which fit.
        let (stored, plain) = (stored as u32, len as u32);
        self.push(Recipe { space, device, address, stored, plain, coding }.chunk())
    }

    /// The content goes on with bytes that are stored as they are.
    fn stored(&mut self, device: u16, address: u64, len: u64) -> Result<()> {
        address.checked_add(len).ok_or(Check::Map("a block is out of range"))?;
        match &mut self.run {
            Some(Run { at: Some((known, start)), len: so_far }) if *known == device && *start + *so_far == address => {
                *so_far += len;
                Ok(())
            }
            _ => {
                self.flush()?;
                self.run = Some(Run { at: Some((device, address)), len });
                Ok(())
            }
        }
    }

    /// The content goes on with zeros.
    fn hole(&mut self, len: u64) -> Result<()> {
        self.words |= HOLES;
        if let Some(Run { at: None, len: so_far }) = &mut self.run {
            *so_far += len;
            return Ok(());
        }
        self.flush()?;
        self.run = Some(Run { at: None, len });
        Ok(())
    }

    /// Ends a run of bytes or zeros.
    fn flush(&mut self) -> Result<()> {
        let Some(Run { at, len }) = self.run.take() else { return Ok(()) };
        let unit = if at.is_some() { RAW_UNIT } else { HOLE_UNIT };
        let mut done = 0;
        while done < len {
            let size = unit.min(len - done) as u32;
            let chunk = match at {
                Some((device, address)) => {
                    let (space, address, coding) = (Space::Image, address + done, Coding::Raw);
                    Recipe { space, device, address, stored: size, plain: size, coding }.chunk()
                }
                None => ChunkRef::new(HOLE, size),
            };
            self.add(chunk)?;
            done += u64::from(size);
        }
        Ok(())
    }

    fn push(&mut self, chunk: ChunkRef) -> Result<()> {
        self.flush()?;
        self.add(chunk)
    }

    fn add(&mut self, chunk: ChunkRef) -> Result<()> {
        limits::within("pieces of a file", self.map.chunks.len() as u64 + 1, limits::PIECES_MAX)?;
        self.map.chunks.push(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Id;

    #[test]
    fn parts_of_the_packed_inode() {
        let chunk = |n: u8, size| ChunkRef::new(Id([n; 32]), size);
        let packed = Content::new(alloc::vec![chunk(1, 10), chunk(2, 5), chunk(3, 20)]);
        let part = |from, len| {
            let list = packed.part(from, len)?;
            Some(list.iter().map(|part| (part.id.0[0], part.skip, part.size)).collect::<Vec<_>>())
        };
        assert_eq!(part(0, 10), Some(alloc::vec![(1, 0, 10)]));
        assert_eq!(part(9, 8), Some(alloc::vec![(1, 9, 1), (2, 0, 5), (3, 0, 2)]));
        assert_eq!(part(34, 1), Some(alloc::vec![(3, 19, 1)]));
        assert_eq!(part(11, 2), Some(alloc::vec![(2, 1, 2)]));
        assert_eq!(part(34, 2), None);
        assert_eq!(part(u64::MAX, 2), None);
    }
}
