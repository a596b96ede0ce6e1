//! Fetching one metadata object at a time, from another copy where the first is damaged.

use crate::base::{Error, Id, Kind, Result};
use crate::formats::Source;
use crate::objects::{Role, Unit};
use crate::platform::{Content, Opener, Port, Scratch};
use alloc::vec::Vec;
use core::cell::RefCell;

/// Reads and opens one metadata object of `source`.
///
/// # Errors
/// The first damage if no copy is good; I/O errors.
pub async fn fetch(
    source: &dyn Source,
    scratch: &RefCell<Scratch>,
    port: &Port,
    id: Id,
    role: Role,
) -> Result<Vec<u8>> {
    let opener = source.opener();
    let mut failed = Vec::new();
    let mut first = None;
    while let Some(at) = source.relocate(port, id, &failed).await? {
        let name = opener.object_name(at.object);
        let error = match port.read(&name, at.offset, at.len.into()).await {
            Ok(mut stored) => {
                let unit = Unit { id, at, size: None, role };
                match open(&*opener, &mut scratch.borrow_mut(), &unit, &mut stored) {
                    Ok(plain) => return Ok(plain),
                    Err(error) => error.in_object(&name),
                }
            }
            Err(error) if matches!(error.kind(), Kind::Missing(_)) => error.of_chunk(id),
            Err(error) => return Err(error),
        };
        failed.push(at);
        first.get_or_insert(error);
    }
    Err(first.unwrap_or_else(|| Error::new(Kind::Missing("the chunk")).of_chunk(id)))
}

/// Opens one unit for good, whose stored bytes are `stored`.
///
/// # Errors
/// Those of [`Opener::open`].
pub fn open(opener: &dyn Opener, scratch: &mut Scratch, unit: &Unit, stored: &mut [u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    match opener.open(unit, stored, &mut plain, scratch) {
        Ok(Content::Plain(len)) => {
            plain.truncate(len);
            Ok(plain)
        }
        Ok(content) => Ok(content.bytes(stored, &[]).to_vec()),
        Err(fault) => Err(fault.error),
    }
}
