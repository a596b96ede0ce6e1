//! A writer of small Borg 1.x repositories without encryption, for what no case holds (borg1.md 3, 6, 9 to 12).

use crate::writer::Value;
use packtrain_core::crypto::{crc32, sha256};

/// The archives' only time.
const TIME: &str = "2026-01-02T03:04:05.000000";

/// A repository in the making: one segment, then one that ends the transaction.
#[derive(Clone, Debug)]
pub struct LogWriter {
    segment: Vec<u8>,
    archives: Vec<(Value, Value)>,
}

impl Default for LogWriter {
    fn default() -> Self {
        Self { segment: b"BORG_SEG".to_vec(), archives: Vec::new() }
    }
}

impl LogWriter {
    /// Stores `plain` uncompressed, and returns its id.
    pub fn put(&mut self, plain: &[u8]) -> [u8; 32] {
        let id = sha256(&[plain]);
        self.put_as(id, plain);
        id
    }

    fn put_as(&mut self, id: [u8; 32], plain: &[u8]) {
        let body = [&id[..], &[2, 0, 0], plain].concat();
        self.segment.extend(entry(0, &body));
    }

    /// An archive whose item stream is `stream`, cut into pieces of `size` bytes; `lost` of them are not stored.
    pub fn archive(&mut self, name: &str, stream: &[u8], size: usize, lost: Option<usize>) {
        let pieces = stream.chunks(size.max(1)).enumerate();
        let ids = pieces.map(|(at, piece)| if lost == Some(at) { sha256(&[piece]) } else { self.put(piece) });
        let items = ids.collect::<Vec<_>>().iter().map(|id| Value::Blob(id.to_vec())).collect();
        let map = Value::map(vec![
            ("version", Value::Int(1)),
            ("name", Value::text(name)),
            ("items", Value::List(items)),
            ("cmdline", Value::List(Vec::new())),
            ("time", Value::text(TIME)),
            ("hostname", Value::text("host")),
            ("username", Value::text("user")),
        ]);
        let id = self.put(&map.encode());
        let known = Value::map(vec![("id", Value::Blob(id.to_vec())), ("time", Value::text(TIME))]);
        self.archives.push((Value::text(name), known));
    }

    /// All files of the repository.
    pub fn files(mut self) -> Vec<(String, Vec<u8>)> {
        let manifest = Value::map(vec![
            ("version", Value::Int(1)),
            ("archives", Value::Map(std::mem::take(&mut self.archives))),
            ("timestamp", Value::text(TIME)),
            ("config", Value::Map(Vec::new())),
        ]);
        self.put_as([0; 32], &manifest.encode());
        let id = "a0".repeat(32);
        let config = format!(
            "[repository]\nversion = 1\nsegments_per_dir = 1000\nmax_segment_size = 524288000\nappend_only = 0\nid = {id}\n"
        );
        let end = [b"BORG_SEG".to_vec(), entry(2, b"")].concat();
        vec![("config".into(), config.into_bytes()), ("data/0/0".into(), self.segment), ("data/0/1".into(), end)]
    }
}

/// An entry with a checksum that holds.
fn entry(tag: u8, body: &[u8]) -> Vec<u8> {
    let size = (9 + body.len()) as u32;
    let covered = [&size.to_le_bytes()[..], &[tag], body].concat();
    [&crc32(&covered).to_le_bytes()[..], &covered].concat()
}
