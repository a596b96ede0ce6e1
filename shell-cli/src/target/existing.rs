//! What is at a name already, for the policies that leave some of it alone.

use super::folder::Folder;
use super::warning::{During, Result, What};
use rustix::fs::AtFlags;
use rustix::io::Errno;

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Modification time: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Length in bytes.
    pub len: u64,
}

/// What is at `name` in `folder`, without following a link; `None` for nothing.
///
/// # Errors
/// What the system refused.
pub fn look(folder: &Folder, name: &[u8]) -> Result<Option<Existing>> {
    match rustix::fs::statat(folder.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        other => {
            let stat = other.during(What::Open)?;
            Ok(Some(Existing { mtime: (stat.st_mtime, stat.st_mtime_nsec as u32), len: stat.st_size as u64 }))
        }
    }
}
