//! Archives that no manifest names, found by looking at every stored object (`list --lost`).

use super::archive;
use super::replay::MANIFEST;
use super::repository::Repository;
use crate::base::{Check, Id, Kind, Result};
use crate::formats::common::index::Slot;
use crate::objects::{Archive, Role, Unit};
use crate::platform::Port;
use alloc::vec::Vec;

/// Bytes read at a time, unless a single object is larger.
const RUN: u64 = 4 << 20;

/// Opens everything stored, live or not, and keeps what is an archive and not in `known`.
///
/// # Errors
/// I/O errors.
pub async fn find(repository: &Repository, port: &Port, known: &[Id]) -> Result<Vec<Archive>> {
    let leftovers = repository.leftovers(port).await?;
    let mut slots: Vec<Slot> = repository.log().index.slots().iter().chain(leftovers.iter()).copied().collect();
    slots.retain(|slot| slot.id != MANIFEST);
    slots.sort_unstable_by_key(|slot| (slot.object, slot.offset));
    let mut archives: Vec<Archive> = Vec::new();
    let mut rest = slots.as_slice();
    while let Some(first) = rest.first() {
        let fits = |slot: &Slot| slot.object == first.object && slot.extent().end() <= u64::from(first.offset) + RUN;
        let count = rest.iter().take_while(|slot| fits(slot)).count().max(1);
        let (run, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        rest = later;
        let end = run.iter().map(|slot| slot.extent().end()).max().unwrap_or(0);
        let name = repository.log().segments.name(first.object);
        let bytes = match port.read(&name, first.offset.into(), end - u64::from(first.offset)).await {
            Err(error) if matches!(error.kind(), Kind::Missing(_)) => continue,
            other => other?,
        };
        for slot in run {
            if known.contains(&slot.id) || archives.iter().any(|archive| archive.id == slot.id) {
                continue;
            }
            archives.extend(look(repository, slot, &bytes, first.offset));
        }
    }
    archives.sort_by_key(Archive::order);
    Ok(archives)
}

/// The object of `slot` as an archive, if it opens and is one. `bytes` start at `start`.
fn look(repository: &Repository, slot: &Slot, bytes: &[u8], start: u32) -> Option<Archive> {
    let from = (slot.offset - start) as usize;
    let to = bytes.len().min(from.saturating_add(slot.len as usize));
    let mut stored = bytes.get(from..to)?.to_vec();
    let unit = Unit { id: slot.id, at: slot.extent(), size: None, role: Role::Archive };
    let plain = repository.open_unit(&unit, &mut stored).ok()?;
    let map = archive::parse(&plain).ok()?;
    let state = repository.state(slot.id, map, &plain);
    // Any file may hold what looks like an archive: without authentication it is none.
    let is_content = |check: &Kind| matches!(check, Kind::Corrupt(Check::TamAbsent));
    if state.as_ref().is_err_and(|error| is_content(error.kind())) {
        return None;
    }
    Some(Archive { id: slot.id, name: None, state, deleted: false })
}
