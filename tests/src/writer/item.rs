//! MessagePack values and archive items, right or as wrong as a test wants them.

use super::Id;

/// A MessagePack value. Maps keep the order they were given.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nil.
    Nil,
    /// An integer, in its smallest form.
    Int(i64),
    /// A `str` of any bytes, valid UTF-8 or not.
    Text(Vec<u8>),
    /// A `bin`.
    Blob(Vec<u8>),
    /// An array.
    List(Vec<Value>),
    /// A map with any keys.
    Map(Vec<(Value, Value)>),
    /// Bytes written as they are.
    Raw(Vec<u8>),
}

impl Value {
    /// A `str`.
    pub fn text(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }

    /// A map with `str` keys.
    pub fn map(pairs: Vec<(&str, Self)>) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (Self::text(key), value)).collect())
    }

    /// A timestamp in the smallest of its three forms (format note 12.3).
    pub fn time(seconds: i64, nanos: u32) -> Self {
        let mut out = Vec::new();
        match (u32::try_from(seconds), u64::try_from(seconds)) {
            (Ok(short), _) if nanos == 0 => {
                out.extend([0xd6, 0xff]);
                out.extend(short.to_be_bytes());
            }
            (_, Ok(middle)) if middle < 1 << 34 => {
                out.extend([0xd7, 0xff]);
                out.extend((u64::from(nanos) << 34 | middle).to_be_bytes());
            }
            _ => return Self::long_time(seconds, nanos),
        }
        Self::Raw(out)
    }

    /// A timestamp in the 96-bit form, the only one that reaches before 1970.
    pub fn long_time(seconds: i64, nanos: u32) -> Self {
        let mut out = vec![0xc7, 12, 0xff];
        out.extend(nanos.to_be_bytes());
        out.extend(seconds.to_be_bytes());
        Self::Raw(out)
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nil => out.push(0xc0),
            Self::Int(value) => int(out, *value),
            Self::Text(bytes) => {
                match bytes.len() {
                    len @ 0..32 => out.push(0xa0 | len as u8),
                    len @ 32..256 => out.extend([0xd9, len as u8]),
                    len => long(out, 0xda, 0xdb, len),
                }
                out.extend(bytes);
            }
            Self::Blob(bytes) => {
                match bytes.len() {
                    len @ 0..256 => out.extend([0xc4, len as u8]),
                    len => long(out, 0xc5, 0xc6, len),
                }
                out.extend(bytes);
            }
            Self::List(values) => {
                match values.len() {
                    len @ 0..16 => out.push(0x90 | len as u8),
                    len => long(out, 0xdc, 0xdd, len),
                }
                values.iter().for_each(|value| value.write(out));
            }
            Self::Map(pairs) => {
                match pairs.len() {
                    len @ 0..16 => out.push(0x80 | len as u8),
                    len => long(out, 0xde, 0xdf, len),
                }
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
            Self::Raw(bytes) => out.extend(bytes),
        }
    }
}

fn int(out: &mut Vec<u8>, value: i64) {
    match value {
        -32..=127 => out.push(value as u8),
        128..=0xff => out.extend([0xcc, value as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((value as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend((value as u64).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(value.to_be_bytes());
        }
    }
}

/// A length in two bytes after `short`, or in four after `wide`.
fn long(out: &mut Vec<u8>, short: u8, wide: u8, len: usize) {
    if let Ok(len) = u16::try_from(len) {
        out.push(short);
        out.extend(len.to_be_bytes());
    } else {
        out.push(wide);
        out.extend(u32::try_from(len).expect("test values are small").to_be_bytes());
    }
}

/// One archive entry as a map of any keys to any values.
#[derive(Clone, Debug)]
pub struct Item(Vec<(Vec<u8>, Value)>);

/// The time most test items have: 2020-01-01 00:00:00 and some nanoseconds.
pub const MTIME: (i64, u32) = (1_577_836_800, 123_456_789);

impl Item {
    /// An item with this path, mode and a modification time.
    pub fn new(path: &[u8], mode: i64) -> Self {
        Self(Vec::new())
            .with("path", Value::Text(path.to_vec()))
            .with("mode", Value::Int(mode))
            .with("mtime", Value::time(MTIME.0, MTIME.1))
    }

    /// A regular file with these chunks, mode 0644.
    pub fn file(path: &[u8], chunks: &[(Id, u32)]) -> Self {
        let size: i64 = chunks.iter().map(|(_, size)| i64::from(*size)).sum();
        Self::new(path, 0o100_644).with("chunks", chunk_list(chunks)).with("size", Value::Int(size))
    }

    /// A directory, mode 0755.
    pub fn folder(path: &[u8]) -> Self {
        Self::new(path, 0o040_755)
    }

    /// A symbolic link.
    pub fn link(path: &[u8], target: &[u8]) -> Self {
        Self::new(path, 0o120_777).with("target", Value::Text(target.to_vec()))
    }

    /// Sets a key, in place of one that is there.
    #[must_use]
    pub fn with(self, key: &str, value: Value) -> Self {
        self.with_key(key.as_bytes(), value)
    }

    /// Sets a key of any bytes.
    #[must_use]
    pub fn with_key(mut self, key: &[u8], value: Value) -> Self {
        self.0.retain(|(known, _)| known != key);
        self.0.push((key.to_vec(), value));
        self
    }

    /// Sets permission bits and type.
    #[must_use]
    pub fn mode(self, mode: i64) -> Self {
        self.with("mode", Value::Int(mode))
    }

    /// Makes it a member of a hard link group.
    #[must_use]
    pub fn group(self, id: u8) -> Self {
        self.with("hlid", Value::Blob(vec![id; 32]))
    }

    /// Takes a key away.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.0.retain(|(known, _)| known != key.as_bytes());
        self
    }

    /// The map, its keys sorted as Borg sorts them.
    pub fn encode(&self) -> Vec<u8> {
        let mut pairs = self.0.clone();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        Value::Map(pairs.into_iter().map(|(key, value)| (Value::Text(key), value)).collect()).encode()
    }
}

/// The value of `chunks`.
pub fn chunk_list(chunks: &[(Id, u32)]) -> Value {
    let pair = |(id, size): &(Id, u32)| Value::List(vec![Value::Blob(id.to_vec()), Value::Int((*size).into())]);
    Value::List(chunks.iter().map(pair).collect())
}
