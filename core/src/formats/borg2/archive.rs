//! Archive pointers and the archive map (borg2.md 11.1, 11.2).

use crate::base::{Check, Error, Id, Result, Unsupported};
use crate::formats::common::msgpack::{Flaw, Reader};
use crate::formats::common::time::instant;
use crate::objects::ArchiveState;
use alloc::{string::String, vec::Vec};

/// The archive map version read here.
const VERSION: u32 = 2;

/// Parses an archive object's plaintext.
///
/// # Errors
/// `Archive` if malformed, `Unsupported` for another version.
pub fn parse(bytes: &[u8]) -> Result<ArchiveState> {
    let (state, version) = read(bytes).map_err(|_| Error::from(Check::Archive))?;
    match version {
        Some(VERSION) => Ok(state),
        Some(other) => {
            Err(Unsupported::Version { format: "Borg archive", version: alloc::format!("{other}"), supported: "2" }
                .into())
        }
        None => Err(Check::Archive.into()),
    }
}

fn read(bytes: &[u8]) -> Result<(ArchiveState, Option<u32>), Flaw> {
    let mut reader = Reader::new(bytes);
    let mut state = ArchiveState::default();
    let mut version = None;
    let mut roots = None;
    for _ in 0..reader.map()? {
        let key = reader.bytes()?;
        match key {
            b"version" => version = Some(reader.int()?),
            b"name" => state.name = reader.bytes()?.to_vec(),
            b"item_ptrs" => roots = Some(reader.ids()?),
            b"time" => state.time = text(reader.bytes()?)?,
            b"start" => state.start = Some(text(reader.bytes()?)?),
            b"end" => state.end = Some(text(reader.bytes()?)?),
            b"command_line" => state.command_line = reader.bytes()?.to_vec(),
            b"cwd" => state.cwd = Some(reader.bytes()?.to_vec()),
            b"hostname" => state.hostname = reader.bytes()?.to_vec(),
            b"username" => state.username = reader.bytes()?.to_vec(),
            b"comment" => state.comment = reader.bytes()?.to_vec(),
            b"tags" => {
                let count = reader.array()?;
                state.tags = (0..count).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect::<Result<_, _>>()?;
            }
            b"size" => state.size = optional_int(&mut reader)?,
            b"nfiles" => state.files = optional_int(&mut reader)?,
            _ => reader.skip()?,
        }
    }
    state.roots = roots.ok_or(Flaw::Malformed)?;
    state.instant = instant(&state.time).ok_or(Flaw::Malformed)?;
    Ok((state, version))
}

fn optional_int(reader: &mut Reader<'_>) -> Result<Option<u64>, Flaw> {
    if reader.nil() { Ok(None) } else { reader.int().map(Some) }
}

fn text(bytes: &[u8]) -> Result<String, Flaw> {
    core::str::from_utf8(bytes).map(Into::into).map_err(|_| Flaw::Malformed)
}

/// Parses the plaintext of a `C` object: one array of ids, nothing after it (borg2.md 11.3).
///
/// # Errors
/// `IdList`.
pub fn parse_list(bytes: &[u8]) -> Result<Vec<Id>> {
    let mut reader = Reader::new(bytes);
    match reader.ids() {
        Ok(ids) if reader.is_empty() => Ok(ids),
        _ => Err(Check::IdList.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_exact() {
        let mut list = alloc::vec![0x91, 0xc4, 32];
        list.extend([5; 32]);
        assert_eq!(parse_list(&list).unwrap(), [Id([5; 32])]);
        list.push(0);
        assert_eq!(parse_list(&list), Err(Check::IdList.into()));
        assert_eq!(parse_list(&[0xdd, 0xff, 0xff, 0xff, 0xff]), Err(Check::IdList.into()));
    }
}
