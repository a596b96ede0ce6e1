//! Archive objects: metadata and the list of the item stream's chunks (borg1.md section 11).

use super::tam::Tam;
use crate::base::{Check, Error, Id, Result, Unsupported};
use crate::formats::common::msgpack::{Flaw, Reader};
use crate::formats::common::time::instant;
use crate::objects::ArchiveState;
use alloc::{format, string::String, vec::Vec};

/// The archive map version read here.
const VERSION: i64 = 1;

/// A parsed archive object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveMap {
    /// Its metadata; what leads to its entries is left to the caller.
    pub state: ArchiveState,
    /// The chunks of the item stream, in order.
    pub items: Vec<Id>,
    /// Its authentication, not judged yet.
    pub tam: Tam,
}

/// Parses an archive object's plaintext.
///
/// # Errors
/// `Archive` if malformed, `Unsupported` for another version.
pub fn parse(plain: &[u8]) -> Result<ArchiveMap> {
    let (map, version) = read(plain).map_err(|_| Error::from(Check::Archive))?;
    match version {
        Some(VERSION) => Ok(map),
        Some(other) => {
            let version = format!("{other}");
            Err(Unsupported::Version { format: "Borg archive", version, supported: "1" }.into())
        }
        None => Err(Check::Archive.into()),
    }
}

fn read(plain: &[u8]) -> Result<(ArchiveMap, Option<i64>), Flaw> {
    let mut reader = Reader::new(plain);
    let mut state = ArchiveState::default();
    let (mut version, mut items, mut tam) = (None, None, Tam::Absent);
    for _ in 0..reader.map()? {
        match reader.bytes()? {
            b"version" => version = Some(reader.int()?),
            b"name" => state.name = reader.bytes()?.to_vec(),
            b"items" => items = Some(reader.ids()?),
            b"time" => state.time = time(reader.bytes()?)?,
            b"time_end" => state.end = Some(time(reader.bytes()?)?),
            b"cmdline" => state.command_line = words(&mut reader)?,
            b"cwd" => state.cwd = Some(reader.bytes()?.to_vec()),
            b"hostname" => state.hostname = reader.bytes()?.to_vec(),
            b"username" => state.username = reader.bytes()?.to_vec(),
            b"comment" => state.comment = reader.bytes()?.to_vec(),
            b"size" => state.size = Some(reader.int()?),
            b"nfiles" => state.files = Some(reader.int()?),
            b"tam" if tam == Tam::Absent => tam = Tam::read(&mut reader)?,
            b"tam" => return Err(Flaw::Malformed),
            _ => reader.skip()?,
        }
    }
    if !reader.is_empty() {
        return Err(Flaw::Malformed);
    }
    state.instant = instant(&state.time).ok_or(Flaw::Malformed)?;
    state.start = Some(state.time.clone());
    Ok((ArchiveMap { state, items: items.ok_or(Flaw::Malformed)?, tam }, version))
}

/// A time as stored, with the offset that Borg 1.x leaves out: it is always UTC.
fn time(bytes: &[u8]) -> Result<String, Flaw> {
    let text = core::str::from_utf8(bytes).map_err(|_| Flaw::Malformed)?;
    let clock = text.split_once('T').map_or("", |(_, clock)| clock);
    let has_offset = clock.contains(['Z', '+', '-']);
    Ok(if has_offset { text.into() } else { format!("{text}+00:00") })
}

/// The words of a command, with blanks between them.
fn words(reader: &mut Reader<'_>) -> Result<Vec<u8>, Flaw> {
    let mut line = Vec::new();
    for at in 0..reader.array()? {
        if at > 0 {
            line.push(b' ');
        }
        line.extend_from_slice(reader.bytes()?);
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(version: u8, time: &[u8]) -> Vec<u8> {
        let mut map = b"\x85\xa7version".to_vec();
        map.push(version);
        map.extend(b"\xa4name\xa1\xff\xa7cmdline\x92\xa4borg\xa6create\xa4time");
        map.push(0xa0 | time.len() as u8);
        map.extend(time);
        map.extend(b"\xa5items\x91\xda\0\x20");
        map.extend([7; 32]);
        map
    }

    #[test]
    fn maps_of_version_1() {
        let parsed = parse(&map(1, b"2020-01-01T00:00:00")).unwrap();
        assert_eq!((parsed.items, parsed.tam), (alloc::vec![Id([7; 32])], Tam::Absent));
        let state = parsed.state;
        assert_eq!((&state.name[..], &state.command_line[..]), (&b"\xff"[..], &b"borg create"[..]));
        assert_eq!((state.time.as_str(), state.instant), ("2020-01-01T00:00:00+00:00", 1_577_836_800_000_000));
        let with_fraction = parse(&map(1, b"2020-01-01T00:00:00.25")).unwrap().state;
        assert_eq!(with_fraction.instant, 1_577_836_800_250_000);
    }

    #[test]
    fn others_are_refused() {
        assert!(matches!(
            parse(&map(2, b"2020-01-01T00:00:00")).unwrap_err().kind(),
            crate::base::Kind::Unsupported(_)
        ));
        assert_eq!(parse(&map(1, b"yesterday")), Err(Check::Archive.into()));
        let whole = map(1, b"2020-01-01T00:00:00");
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Err(Check::Archive.into()), "{cut}");
        }
        assert_eq!(parse(&[&whole[..], &[0]].concat()), Err(Check::Archive.into()));
        assert_eq!(parse(b"\x81\xa5items\xdd\xff\xff\xff\xff"), Err(Check::Archive.into()));
    }
}
