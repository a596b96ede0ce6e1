//! The manifest: which archives there are (borg1.md section 9).

use super::tam::Tam;
use crate::base::{Check, Error, Id, Result, Unsupported, limits};
use crate::formats::common::msgpack::{Flaw, Reader};
use alloc::{format, string::String, vec::Vec};

/// First bytes of a plaintext that a newer format wraps once more.
const NEWER: &[u8] = &[0xc1; 4];
/// Longest archive name, bytes.
const NAME_MAX: usize = 4096;

/// An archive as the manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name, raw bytes; unique.
    pub name: Vec<u8>,
    /// The id of the archive object.
    pub id: Id,
}

/// The checked manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The archives, in no order.
    pub archives: Vec<Named>,
    /// When it was written, ISO 8601 as stored.
    pub timestamp: Option<String>,
}

impl Manifest {
    /// Parses the manifest's plaintext. Nothing in it is authentic before its authentication was judged.
    ///
    /// # Errors
    /// `Manifest` if malformed, `Unsupported` for another version or a feature that reading needs.
    pub fn parse(plain: &[u8]) -> Result<(Self, Tam)> {
        let refuse = |version: String| {
            Error::from(Unsupported::Version { format: "Borg manifest", version, supported: "1 and 2" })
        };
        if plain.starts_with(NEWER) {
            return Err(refuse("of a newer kind".into()));
        }
        let read = Read::of(plain).map_err(|_| Error::from(Check::Manifest))?;
        match read.version {
            Some(1 | 2) => {}
            Some(other) => return Err(refuse(format!("{other}"))),
            None => return Err(Check::Manifest.into()),
        }
        if let Some(feature) = read.features.first() {
            return Err(Unsupported::Feature(format!("'{}'", feature.escape_ascii())).into());
        }
        Ok((read.manifest, read.tam))
    }
}

struct Read {
    manifest: Manifest,
    version: Option<i64>,
    tam: Tam,
    /// Features that reading needs.
    features: Vec<Vec<u8>>,
}

impl Read {
    fn of(plain: &[u8]) -> Result<Self, Flaw> {
        let mut read = Self { manifest: Manifest::default(), version: None, tam: Tam::Absent, features: Vec::new() };
        let mut reader = Reader::new(plain);
        let mut archives = None;
        for _ in 0..reader.map()? {
            match reader.bytes()? {
                b"version" => read.version = Some(reader.int()?),
                b"archives" => archives = Some(named(&mut reader)?),
                b"timestamp" => read.manifest.timestamp = Some(String::from_utf8_lossy(reader.bytes()?).into_owned()),
                b"config" => read.features = features(&mut reader)?,
                b"tam" if read.tam == Tam::Absent => read.tam = Tam::read(&mut reader)?,
                b"tam" => return Err(Flaw::Malformed),
                _ => reader.skip()?,
            }
        }
        read.manifest.archives = archives.ok_or(Flaw::Malformed)?;
        if reader.is_empty() { Ok(read) } else { Err(Flaw::Malformed) }
    }
}

fn named(reader: &mut Reader<'_>) -> Result<Vec<Named>, Flaw> {
    let count = reader.map()?;
    if count > limits::ARCHIVES_MAX {
        return Err(Flaw::Malformed);
    }
    let mut list = Vec::with_capacity(count.min(4096));
    for _ in 0..count {
        let name = reader.bytes()?.to_vec();
        let mut id = None;
        for _ in 0..reader.map()? {
            match reader.bytes()? {
                b"id" => id = Some(reader.id()?),
                _ => reader.skip()?,
            }
        }
        if name.len() > NAME_MAX {
            return Err(Flaw::Malformed);
        }
        list.push(Named { name, id: id.ok_or(Flaw::Malformed)? });
    }
    Ok(list)
}

/// The features that `config` makes mandatory for reading.
fn features(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Flaw> {
    let mut found = Vec::new();
    for_key(reader, b"feature_flags", |reader| {
        for_key(reader, b"read", |reader| {
            for_key(reader, b"mandatory", |reader| {
                for _ in 0..reader.array()? {
                    found.push(reader.bytes()?.to_vec());
                }
                Ok(())
            })
        })
    })?;
    Ok(found)
}

/// Reads a map and hands the value of `wanted` to `take`.
fn for_key<'a>(
    reader: &mut Reader<'a>,
    wanted: &[u8],
    mut take: impl FnMut(&mut Reader<'a>) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    for _ in 0..reader.map()? {
        if reader.bytes()? == wanted { take(reader)? } else { reader.skip()? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::vectors;
    use super::*;
    use crate::base::Kind;

    #[test]
    fn the_vector_names_its_archive() {
        let plain = vectors::manifest();
        let (manifest, tam) = Manifest::parse(&plain).unwrap();
        assert_eq!(manifest.archives, [Named { name: b"v".to_vec(), id: vectors::archive_id() }]);
        assert_eq!(manifest.timestamp.as_deref(), Some("2020-01-02T03:04:05.000006"));
        assert!(matches!(tam, Tam::Present { .. }));
        for cut in 0..plain.len() {
            assert_eq!(Manifest::parse(&plain[..cut]), Err(Check::Manifest.into()), "{cut}");
        }
        assert_eq!(Manifest::parse(&[&plain[..], &[0]].concat()), Err(Check::Manifest.into()));
    }

    #[test]
    fn newer_ones_are_refused_by_name() {
        let map = |config: &[u8], version: u8| {
            [&b"\x83\xa7version"[..], &[version], b"\xa8archives\x80\xa6config", config].concat()
        };
        assert!(Manifest::parse(&map(b"\x80", 1)).is_ok() && Manifest::parse(&map(b"\x80", 2)).is_ok());
        let flags =
            |operation: &[u8]| [&b"\x81\xadfeature_flags\x81"[..], operation, b"\x81\xa9mandatory\x91\xa1x"].concat();
        assert!(Manifest::parse(&map(&flags(b"\xa5write"), 1)).is_ok());
        for refused in [map(b"\x80", 3), map(&flags(b"\xa4read"), 1), NEWER.to_vec()] {
            assert!(matches!(Manifest::parse(&refused).unwrap_err().kind(), Kind::Unsupported(_)));
        }
    }
}
