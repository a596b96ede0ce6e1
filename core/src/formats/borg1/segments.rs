//! Segments: numbered files that make up the log, up to the last complete transaction
//! (borg1.md 2.1, 3.4).

use super::audit::SegmentAudit;
use super::entry::{ATTIC_MAGIC, COMMIT, MAGIC};
use crate::base::{Check, Kind, Result, Unsupported, limits};
use crate::formats::Audit;
use crate::objects::Notice;
use crate::platform::Port;
use alloc::{format, string::String, vec::Vec};

/// Bytes read at a time.
const RUN: u64 = 1 << 20;
/// Largest segment number (borg1.md 3.1).
const NUMBER_MAX: u32 = 4_294_966_271;

/// The committed segments by number; a segment's object number is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    numbers: Vec<u32>,
    per_dir: u32,
}

impl Segments {
    /// Lists the segments that are there and drops those of an incomplete transaction.
    ///
    /// # Errors
    /// `NoCommit` if no transaction is complete, `Unsupported` for a repository of Borg's predecessor, and I/O
    /// errors.
    pub async fn committed(port: &Port, per_dir: u32, notices: &mut Vec<Notice>) -> Result<Self> {
        let mut segments = Self { numbers: list(port, per_dir, notices).await?, per_dir };
        let newest = segments.numbers.len();
        while let Some(number) = segments.numbers.last() {
            let name = segments.name_of(*number);
            match ends_transaction(port, &name, notices).await {
                Ok(true) => {
                    let left = newest - segments.numbers.len();
                    if left > 0 {
                        let text = format!("{left} segments after {name} belong to no complete transaction; ignored");
                        notices.push(Notice { serious: false, text });
                    }
                    return Ok(segments);
                }
                Ok(false) => {
                    segments.numbers.pop();
                }
                Err(error) => return Err(error.in_object(&name)),
            }
        }
        Err(Check::NoCommit.into())
    }

    /// The number of the last segment, which is that of the transaction.
    pub fn transaction(&self) -> u32 {
        self.numbers.last().copied().unwrap_or(0)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.numbers.len()
    }

    /// True if there are none, which an opened repository never shows.
    pub const fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Object numbers with store names, in order.
    pub fn names(&self) -> impl Iterator<Item = (u32, String)> + '_ {
        (0u32..).zip(self.numbers.iter().map(|number| self.name_of(*number)))
    }

    /// Store name of object number `object`.
    pub fn name(&self, object: u32) -> String {
        self.numbers.get(object as usize).map(|number| self.name_of(*number)).unwrap_or_default()
    }

    /// The object number of segment `number`.
    pub fn object(&self, number: u32) -> Option<u32> {
        self.numbers.binary_search(&number).ok().and_then(|at| u32::try_from(at).ok())
    }

    fn name_of(&self, number: u32) -> String {
        format!("data/{}/{number}", number / self.per_dir.max(1))
    }
}

/// The numbers of all segments, sorted. Only names in canonical form in their own folder count.
async fn list(port: &Port, per_dir: u32, notices: &mut Vec<Notice>) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for folder in port.list("data").await?.iter().filter_map(|name| decimal(name)) {
        for name in port.list(&format!("data/{folder}")).await? {
            let Some(number) = decimal(&name).filter(|number| *number <= NUMBER_MAX) else { continue };
            if number / per_dir.max(1) == folder {
                limits::within("number of segments", numbers.len() as u64 + 1, limits::SEGMENTS_MAX as u64)?;
                numbers.push(number);
            } else {
                let text = format!("data/{folder}/{number} is in the wrong folder; ignored");
                notices.push(Notice { serious: false, text });
            }
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A plain decimal number without leading zeros.
fn decimal(name: &str) -> Option<u32> {
    let plain = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    name.parse().ok().filter(|_| plain)
}

/// True if the segment ends a transaction (borg1.md 3.4). One that seems to and does not is noted.
async fn ends_transaction(port: &Port, name: &str, notices: &mut Vec<Notice>) -> Result<bool> {
    let Some(Some(size)) = port.stat(name).await? else { return Ok(false) };
    let read = |offset: u64, len: usize| async move {
        match port.read(name, offset, len as u64).await {
            Err(error) if matches!(error.kind(), Kind::Missing(_)) => Ok(Vec::new()),
            other => other,
        }
    };
    if read(0, MAGIC.len()).await? == ATTIC_MAGIC {
        return Err(Unsupported::Format("Attic").into());
    }
    let end = COMMIT.len() as u64;
    if size < MAGIC.len() as u64 + end || read(size - end, COMMIT.len()).await? != COMMIT {
        return Ok(false);
    }
    let mut audit = SegmentAudit::default();
    let mut offset = 0;
    loop {
        let bytes = read(offset, RUN as usize).await?;
        if bytes.is_empty() {
            break;
        }
        offset += bytes.len() as u64;
        audit.update(&bytes);
    }
    if let Err(error) = audit.verdict() {
        let text = format!("{}: its transaction does not count", error.in_object(name));
        notices.push(Notice { serious: true, text });
    }
    Ok(audit.is_committed())
}

#[cfg(test)]
mod tests {
    use super::super::store::MemoryStore;
    use super::super::vectors::sealed;
    use super::*;

    fn segment(entries: &[&[u8]]) -> Vec<u8> {
        [&MAGIC[..], &entries.concat()].concat()
    }

    #[test]
    fn the_last_whole_transaction_counts() {
        let put = sealed(0, &[1; 60]);
        let whole = segment(&[&put, COMMIT]);
        let mut torn = segment(&[&put, COMMIT]);
        torn[20] ^= 1;
        let mut store = MemoryStore::default();
        for (number, bytes) in [
            (3, &whole),
            (1000, &segment(&[COMMIT])),
            (1001, &segment(&[&put, COMMIT, &put, COMMIT])),
            (1002, &segment(&[&put])),
            (1003, &torn),
            (1004, &segment(&[COMMIT, b"abc"])),
            (1005, &Vec::new()),
        ] {
            store.put(&format!("data/{}/{number}", number / 1000), bytes);
        }
        for strange in ["data/0/1007", "data/0/.nfs1", "data/0/04", "data/foo", "data/1/1006.tmp"] {
            store.put(strange, &whole);
        }
        let mut notices = Vec::new();
        let segments = store.drive(|port| Segments::committed(port, 1000, &mut notices)).unwrap();
        assert_eq!(segments.names().map(|(_, name)| name).collect::<Vec<_>>(), ["data/0/3", "data/1/1000"]);
        assert_eq!((segments.transaction(), segments.object(1000), segments.object(4)), (1000, Some(1), None));
        let texts: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("data/0/1007 is in the wrong folder")));
        assert!(texts.iter().any(|text| text.contains("data/1/1003")));
        assert!(notices.iter().filter(|notice| notice.serious).count() == 1);
    }

    #[test]
    fn without_a_transaction_there_is_nothing() {
        let mut store = MemoryStore::default();
        let committed = |store: &MemoryStore| {
            let mut notices = Vec::new();
            store.drive(|port| Segments::committed(port, 1000, &mut notices)).map(drop)
        };
        assert_eq!(committed(&store), Err(Check::NoCommit.into()));
        store.put("data/0/0", &[ATTIC_MAGIC, &COMMIT[..]].concat());
        assert!(matches!(committed(&store).unwrap_err().kind(), Kind::Unsupported(_)));
    }
}
