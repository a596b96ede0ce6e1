//! Extent records: each with its place in bytes and its length (erofs.md 9.6).

use super::{EXTENTS, Header, Pcluster, Start, Stretches};
use crate::base::{Check, Result, bytes::Cursor, limits};
use crate::platform::Port;

/// Bits of a length.
const LENGTH: u32 = 0x1f_ffff;
/// The pcluster holds more than the extent.
const PARTIAL: u32 = 1 << 27;
/// Bytes of a table that are read at a time; a multiple of every record's length.
const SLAB: u64 = 64 << 10;

/// One record.
struct Record {
    /// Length in bytes, flags and algorithm.
    word: u32,
    /// First byte as stored.
    place: u64,
    /// First byte of the content.
    at: u64,
}

pub(super) async fn read(stretches: &mut Stretches<'_>, port: &Port, header: Header) -> Result<()> {
    stretches.words |= EXTENTS;
    let len = 4u64 << (header.advice >> 1 & 3);
    let lcluster = 1u64 << header.lcluster_bits(stretches.image);
    let count = if len <= 8 {
        stretches.inode.size.div_ceil(lcluster)
    } else {
        u64::from(header.low) | u64::from(header.algorithms) << 32 | u64::from(header.last) << 40
    };
    limits::within("number of extent records", count, limits::PIECES_MAX)?;
    let mut table = header.at.plus(8).aligned(len);
    let mut next_place = 0;
    if len == 4 {
        let bytes = stretches.image.read(port, table, 8).await?;
        next_place = Cursor::new(&bytes).u64_le().ok_or(Check::Truncated)?;
        table = table.plus(8);
    }
    let mut done = 0;
    while done < count {
        let step = (count - done).min(SLAB / len);
        let bytes = stretches.image.read(port, table.plus(done * len), step * len).await?;
        for (number, bytes) in (done..).zip(bytes.chunks_exact(len as usize)) {
            let record = parse(bytes, number * lcluster, &mut next_place).ok_or(Check::Truncated)?;
            if number == 0 && record.at != 0 {
                return Err(Check::Map("the first extent does not start at the beginning").into());
            }
            let start = if number + 1 == count && header.has(Header::FRAGMENT) {
                let high = if len >= 8 { record.place << 32 } else { 0 };
                Start::Fragment(u64::from(record.word) | high)
            } else {
                start(&record, header.has(Header::INTERLACED))
            };
            stretches.begin(record.at, start)?;
        }
        done += step;
    }
    Ok(())
}

fn parse(bytes: &[u8], implied: u64, next_place: &mut u64) -> Option<Record> {
    let mut cursor = Cursor::new(bytes);
    let word = cursor.u32_le()?;
    if bytes.len() == 4 {
        let place = *next_place;
        *next_place = place.checked_add((word & LENGTH).into())?;
        return Some(Record { word, place, at: implied });
    }
    let low = u64::from(cursor.u32_le()?);
    if bytes.len() == 8 {
        return Some(Record { word, place: low, at: implied });
    }
    let place = low | u64::from(cursor.u32_le()?) << 32;
    let start = u64::from(cursor.u32_le()?);
    let high = if bytes.len() == 32 { u64::from(cursor.u32_le()?) << 32 } else { 0 };
    Some(Record { word, place, at: start | high })
}

fn start(record: &Record, interlaced: bool) -> Start {
    let stored = record.word & LENGTH;
    if stored == 0 {
        return Start::Hole;
    }
    Start::Pcluster(Pcluster {
        algorithm: (record.word >> 28).checked_sub(1).map(|number| number as u8),
        address: record.place,
        inline: false,
        stored: stored.into(),
        partial: record.word & PARTIAL != 0,
        interlaced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of erofs.md 16.6.
    #[test]
    fn the_worked_example() {
        let words = |list: [u32; 4]| list.map(u32::to_le_bytes).concat();
        let record = parse(&words([0x1000, 0x2000, 0, 0x1000]), 0, &mut 0).unwrap();
        assert_eq!((record.place, record.at), (0x2000, 0x1000));
        let Start::Pcluster(raw) = start(&record, false) else { panic!("a hole") };
        assert_eq!((raw.algorithm, raw.stored, raw.partial), (None, 4096, false));
        let record = parse(&words([0x4000_0f9b, 0x1_2000, 0, 0x1_1000]), 0, &mut 0).unwrap();
        let Start::Pcluster(zstd) = start(&record, false) else { panic!("a hole") };
        assert_eq!((zstd.algorithm, zstd.stored, zstd.address), (Some(3), 3995, 0x1_2000));
    }

    #[test]
    fn short_records_follow_each_other() {
        let mut next = 1000;
        let places: alloc::vec::Vec<_> = [10u32, 0, 0x4000_0005, 7]
            .iter()
            .zip(0..)
            .map(|(word, at)| parse(&word.to_le_bytes(), at, &mut next).unwrap())
            .map(|record| (record.place, record.at))
            .collect();
        assert_eq!(places, [(1000, 0), (1010, 1), (1010, 2), (1015, 3)]);
        assert!(matches!(start(&Record { word: 0x4000_0000, place: 0, at: 0 }, false), Start::Hole));
    }
}
