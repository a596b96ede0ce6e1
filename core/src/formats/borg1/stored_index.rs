//! The index as the writer left it, used only where it proves current and whole (borg1.md 4).
//!
//! It has no lengths. An object is taken to reach to the next live one, or to the end of its segment;
//! whoever opens it goes by the length in the entry itself.

use super::entry::{HEADER_LEN, MAGIC as SEGMENT_MAGIC};
use super::segments::Segments;
use crate::base::{Cursor, Id, Kind, Result, limits};
use crate::crypto::Xxh64;
use crate::formats::common::index::Slot;
use crate::formats::common::msgpack::{Flaw, Reader};
use crate::platform::Port;
use alloc::{format, string::String, vec::Vec};

const MAGIC: &[u8; 8] = b"BORG_IDX";
const HEADER: usize = 18;
const BUCKET: usize = 40;
/// Buckets read at a time: about 1 MiB.
const RUN: u64 = 26_214;
/// Segment numbers that mark empty and deleted buckets.
const EMPTY: u32 = 0xffff_ffff;
const DELETED: u32 = 0xffff_fffe;
/// Largest integrity file and JSON text in it, bytes (borg1.md 16).
const INTEGRITY_MAX: u64 = 65_536;

/// Reads the index of the last transaction; why it is not used comes back inside.
///
/// # Errors
/// I/O errors.
pub async fn load(port: &Port, segments: &Segments) -> Result<Result<Vec<Slot>, &'static str>> {
    let name = format!("index.{}", segments.transaction());
    let Some(Some(size)) = port.stat(&name).await? else { return Ok(Err("it is missing")) };
    let expected = expected_digest(port, segments.transaction()).await?;
    let mut slots = match read(port, &name, size, expected, segments).await {
        Ok(Ok(slots)) => slots,
        Err(error) if matches!(error.kind(), Kind::Missing(_)) => return Ok(Err("it vanished")),
        other => return other,
    };
    slots.sort_unstable_by_key(|slot| (slot.object, slot.offset));
    if let Err(why) = measure(port, segments, &mut slots).await? {
        return Ok(Err(why));
    }
    slots.sort_unstable_by_key(|slot| slot.id);
    let doubled = slots.array_windows().any(|[a, b]| a.id == b.id);
    Ok(if doubled { Err("it has an id twice") } else { Ok(slots) })
}

async fn read(
    port: &Port,
    name: &str,
    size: u64,
    expected: Option<u64>,
    segments: &Segments,
) -> Result<Result<Vec<Slot>, &'static str>> {
    let header = port.read(name, 0, HEADER as u64).await?;
    let Some((entries, buckets)) = checked_header(&header) else { return Ok(Err("its header is malformed")) };
    if size != HEADER as u64 + BUCKET as u64 * u64::from(buckets) || entries > buckets {
        return Ok(Err("its length differs from what its header says"));
    }
    let mut digest = Digest::new(name, &header);
    let mut slots: Vec<Slot> = Vec::new();
    let mut at = 0;
    while at < u64::from(buckets) {
        let wanted = RUN.min(u64::from(buckets) - at) * BUCKET as u64;
        let bytes = port.read(name, HEADER as u64 + at * BUCKET as u64, wanted).await?;
        digest.0.update(&bytes);
        let (run, tail) = bytes.as_chunks::<BUCKET>();
        if bytes.len() as u64 != wanted || !tail.is_empty() {
            return Ok(Err("it ends early"));
        }
        for bucket in run {
            let mut fields = Cursor::new(bucket);
            let (Some(id), Some(segment), Some(offset)) = (fields.array(), fields.u32_le(), fields.u32_le()) else {
                return Ok(Err("it ends early"));
            };
            if segment == EMPTY || segment == DELETED {
                continue;
            }
            let Some(object) = segments.object(segment) else { return Ok(Err("it names a segment that is not there")) };
            if slots.len() == slots.capacity() {
                // By what was really read, never by what the header promises.
                slots.reserve_exact((slots.len() / 4 + 1024).min(entries as usize + 1));
            }
            slots.push(Slot { id: Id(id), object, offset, len: 0 });
        }
        at += RUN;
    }
    if slots.len() != entries as usize {
        return Ok(Err("its number of entries differs from what its header says"));
    }
    if expected.is_some_and(|expected| expected != digest.finish(size)) {
        return Ok(Err("its checksum does not hold"));
    }
    Ok(Ok(slots))
}

/// Numbers of entries and buckets, if the header is one.
fn checked_header(header: &[u8]) -> Option<(u32, u32)> {
    let mut cursor = Cursor::new(header);
    let magic: [u8; 8] = cursor.array()?;
    let (entries, buckets) = (cursor.u32_le()?, cursor.u32_le()?);
    let sizes: [u8; 2] = cursor.array()?;
    (&magic == MAGIC && sizes == [32, 8] && (1..=i32::MAX as u32).contains(&buckets)).then_some((entries, buckets))
}

/// Gives each slot, in the order of places, the length up to the next one.
async fn measure(port: &Port, segments: &Segments, slots: &mut [Slot]) -> Result<Result<(), &'static str>> {
    let mut end = 0u64;
    let mut after: Option<Slot> = None;
    for slot in slots.iter_mut().rev() {
        if after.is_none_or(|after| after.object != slot.object) {
            let name = segments.name(slot.object);
            end = match port.stat(&name).await? {
                Some(Some(size)) => size,
                _ => return Ok(Err("a segment that it names vanished")),
            };
        }
        let room = end.saturating_sub(slot.offset.into());
        if (slot.offset as usize) < SEGMENT_MAGIC.len() || room < HEADER_LEN as u64 {
            return Ok(Err("it names places where no object can be"));
        }
        slot.len = room.min(limits::ENTRY_MAX.into()) as u32;
        end = slot.offset.into();
        after = Some(*slot);
    }
    Ok(Ok(()))
}

/// XXH64 over an index as the writer computes it (borg1.md 4.3): the name, the parts, and after each
/// part its name and length.
struct Digest(Xxh64);

impl Digest {
    fn new(name: &str, header: &[u8]) -> Self {
        let mut hash = Xxh64::new();
        for text in [&format!("{:>10}", name.len()), name] {
            hash.update(text.as_bytes());
        }
        hash.update(header);
        for text in [&format!("{:>10}", "HashHeader".len()), "HashHeader", &format!("{HEADER}")] {
            hash.update(text.as_bytes());
        }
        Self(hash)
    }

    fn finish(mut self, size: u64) -> u64 {
        for text in [&format!("{:>10}", "final".len()), "final", &format!("{size}")] {
            self.0.update(text.as_bytes());
        }
        self.0.finish()
    }
}

/// The digest that the integrity file has for the index, if there is one that is understood.
async fn expected_digest(port: &Port, transaction: u32) -> Result<Option<u64>> {
    let name = format!("integrity.{transaction}");
    match port.load(&name, "integrity file size", INTEGRITY_MAX).await {
        Ok(bytes) => Ok(final_digest(&bytes).ok().flatten()),
        Err(error) if matches!(error.kind(), Kind::Store(_)) => Err(error),
        Err(_) => Ok(None),
    }
}

fn final_digest(bytes: &[u8]) -> Result<Option<u64>, Flaw> {
    let mut reader = Reader::new(bytes);
    let (mut version, mut json) = (None, None);
    for _ in 0..reader.map()? {
        match reader.bytes()? {
            b"version" => version = Some(reader.int::<u32>()?),
            b"index" => json = Some(reader.bytes()?),
            _ => reader.skip()?,
        }
    }
    // Machine-written: blanks are dropped and the one pair is looked for as text.
    let json = json.filter(|_| version == Some(2)).and_then(|json| core::str::from_utf8(json).ok());
    let text: String = json.unwrap_or_default().split_ascii_whitespace().collect();
    if !text.contains(r#""algorithm":"XXH64""#) {
        return Ok(None);
    }
    let hex = text.split_once(r#""final":""#).and_then(|(_, rest)| rest.split_once('"')).map(|(hex, _)| hex);
    Ok(hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()))
}

#[cfg(test)]
mod tests {
    use super::super::entry::COMMIT;
    use super::super::store::MemoryStore;
    use super::super::vectors::sealed;
    use super::*;

    fn index(slots: &[(u8, u32, u32)], empty: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((slots.len() as u32).to_le_bytes());
        bytes.extend(((slots.len() + empty) as u32).to_le_bytes());
        bytes.extend([32, 8]);
        for n in 0..empty {
            bytes.extend([n as u8; 32]);
            bytes.extend(if n % 2 == 0 { EMPTY } else { DELETED }.to_le_bytes());
            bytes.extend([0; 4]);
        }
        for (id, segment, offset) in slots {
            bytes.extend([*id; 32]);
            bytes.extend(segment.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
        bytes
    }

    fn store(index: &[u8]) -> MemoryStore {
        let mut store = MemoryStore::default();
        let put = |id: u8| sealed(0, &[&[id; 32][..], b"\x02\0\0object"].concat());
        store.put("data/0/3", &[&SEGMENT_MAGIC[..], &put(1), &put(2), &put(3)].concat());
        store.put("data/0/5", &[&SEGMENT_MAGIC[..], &put(0), COMMIT].concat());
        store.put("index.5", index);
        store
    }

    fn loaded(store: &MemoryStore) -> Result<Vec<Slot>, &'static str> {
        store.drive(|port| async move {
            let segments = Segments::committed(port, 1000, &mut Vec::new()).await.unwrap();
            load(port, &segments).await.unwrap()
        })
    }

    #[test]
    fn lengths_reach_to_the_next_live_object() {
        let slots = loaded(&store(&index(&[(3, 3, 108), (1, 3, 8), (0, 5, 8)], 4))).unwrap();
        let place = |slot: &Slot| (slot.id.0[0], slot.object, slot.offset, slot.len);
        assert_eq!(slots.iter().map(place).collect::<Vec<_>>(), [(0, 1, 8, 59), (1, 0, 8, 100), (3, 0, 108, 50)]);
    }

    #[test]
    fn what_does_not_prove_itself_is_not_used() {
        let good = index(&[(3, 3, 108), (1, 3, 8), (0, 5, 8)], 4);
        for bad in [
            index(&[(1, 4, 8)], 0),
            index(&[(1, 3, 7)], 0),
            index(&[(1, 3, 150)], 0),
            index(&[(1, 3, 8), (2, 3, 8)], 0),
            index(&[(1, 3, 8), (1, 3, 58)], 0),
            [&good[..], &[0]].concat(),
            good[..good.len() - 40].to_vec(),
            good[..10].to_vec(),
            Vec::new(),
        ] {
            assert!(loaded(&store(&bad)).is_err(), "{} bytes", bad.len());
        }
        let mut wrong = good.clone();
        wrong[8] = 2;
        assert_eq!(loaded(&store(&wrong)), Err("its number of entries differs from what its header says"));
        let mut store = store(&good);
        store.0.remove("index.5");
        store.put("index.4", &good);
        assert_eq!(loaded(&store), Err("it is missing"));
    }

    #[test]
    fn checksums_of_the_vectors() {
        let mut header = MAGIC.to_vec();
        header.extend([0, 0, 0, 0, 7, 4, 0, 0, 32, 8]);
        assert_eq!(Digest::new("index.5", &header).0.finish(), 0xa43e_957d_40f8_eac9);
        // One that is there must hold.
        let good = index(&[(1, 3, 8)], 2);
        let mut digest = Digest::new("index.5", &good[..18]);
        digest.0.update(&good[18..]);
        let right = digest.finish(good.len() as u64);
        for (digest, used) in [(right, true), (right ^ 1, false)] {
            let json =
                format!(r#"{{"algorithm": "XXH64", "digests": {{"HashHeader": "00", "final": "{digest:016x}"}}}}"#);
            let mut integrity = alloc::vec![0x82];
            integrity.extend(b"\xa7version\x02\xa5index\xda\0");
            integrity.push(json.len() as u8);
            integrity.extend(json.as_bytes());
            let mut store = store(&good);
            store.put("integrity.5", &integrity);
            assert_eq!(loaded(&store).is_ok(), used);
            // Another version is no check at all.
            integrity[9] = 1;
            store.put("integrity.5", &integrity);
            assert!(loaded(&store).is_ok());
        }
    }
}
