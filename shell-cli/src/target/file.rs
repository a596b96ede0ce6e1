//! Regular files, written under a temporary name and moved to their own when complete.
//!
//! Nobody ever sees a half-written file under its final name, and what had that name before stays
//! until the new one is complete. The usual small file costs five to seven system calls: open,
//! write, (owner,) (mode,) times, close, rename.

use super::attributes::{self, Made, Wanted};
use super::folder::{Folder, Identity, plain};
use super::object::Object;
use super::warning::{During, Problem, Result, Warning, What};
use super::{Shared, TemporaryName};
use core::sync::atomic::{AtomicU64, Ordering};
use packtrain_core::objects::entry::Entry;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;

/// The mode of a file until it is complete: closed to others.
const CLOSED: u32 = 0o600;

/// Whether a finished file still lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// Nothing is missing.
    Complete,
    /// Its flags are left for [`Folder::apply_flags`] once all names of its link group exist:
    /// an immutable file takes no further names.
    FlagsLeft,
}

/// A file being written. Dropped before [`NewFile::finish`] it vanishes.
#[derive(Debug)]
pub struct NewFile {
    fd: OwnedFd,
    temporary: Temporary,
    made: Made,
    wanted: Wanted,
    /// End of the furthest byte written, in bytes from the start.
    end: AtomicU64,
}

impl NewFile {
    /// Makes the file for `entry` in `folder`, still without its name.
    ///
    /// # Errors
    /// [`Problem::NoSpace`], or what the system refused.
    pub fn create(folder: &Arc<Folder>, entry: &Entry) -> Result<Self> {
        let shared = folder.shared();
        let wanted = Wanted::of(entry, shared);
        let gives = folder.gives();
        let inherits = folder.gives_acls();
        let mode = match gives {
            // It will be like that in the end, so making it like that saves a call.
            Some((uid, gid, true)) if !inherits && is_plain(entry, wanted, (uid, gid), shared) => {
                entry.mode
            }
            _ => CLOSED,
        };
        let (fd, temporary) = open(folder, mode)?;
        let (uid, gid) = match gives {
            Some((uid, gid, _)) => (uid, gid),
            None => {
                // The first file tells: setgid folders, mount options and network file systems
                // all have a say in what a new file gets.
                let stat = rustix::fs::fstat(&fd).during(What::Create)?;
                folder.learn(stat.st_uid, stat.st_gid, stat.st_mode & 0o7777 == CLOSED);
                (stat.st_uid, stat.st_gid)
            }
        };
        let made = Made { uid, gid, mode, inherits };
        Ok(Self { fd, temporary, made, wanted, end: AtomicU64::new(0) })
    }

    /// Writes `bytes` at `offset`. Several threads may write to one file at a time.
    ///
    /// With [`Policy::sparse`](super::Policy::sparse), a piece of nothing but zeros becomes a
    /// hole, so no range may be written twice.
    ///
    /// # Errors
    /// [`Problem::NoSpace`], or what the system refused.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let sparse = self.temporary.folder.shared().policy.sparse;
        if sparse && bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            match rustix::io::pwrite(&self.fd, rest, at) {
                Ok(0) => return Err(Problem::new(What::Write, Errno::IO)),
                Ok(written) => {
                    at = at.saturating_add(written as u64);
                    rest = rest.get(written..).unwrap_or(&[]);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Problem::new(What::Write, errno)),
            }
        }
        self.end.fetch_max(at, Ordering::Relaxed);
        Ok(())
    }

    /// Which object this is, for checking its hard links. One system call.
    pub fn identity(&self) -> Result<Identity> {
        Ok(Identity::of(&rustix::fs::fstat(&self.fd).during(What::Open)?))
    }

    /// Gives the file its length in bytes, its attributes and, as `name` in its folder, its place.
    /// What had that name is replaced in one step, unless it is a directory that is not empty.
    /// Refused attributes are added to `warnings`.
    ///
    /// Every write must have returned before; of an [`Arc`], `Arc::into_inner` tells the last
    /// holder. Flags are left for later if the entry belongs to a link group.
    ///
    /// # Errors
    /// [`Problem::Occupied`], [`Problem::ClimbsOut`], [`Problem::NoSpace`], or what the system
    /// refused, late write errors at closing included. The file is gone then, unless it was in
    /// place already.
    pub fn finish(
        self,
        name: &[u8],
        entry: &Entry,
        length: u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<Finished> {
        plain(name)?;
        let Self { fd, mut temporary, made, wanted, end } = self;
        let folder = Arc::clone(&temporary.folder);
        let shared = folder.shared();
        if end.into_inner() != length {
            rustix::fs::ftruncate(&fd, length).during(What::Length)?;
        }
        let object = Object::Open(fd.as_fd());
        attributes::apply(object, entry, wanted, made, shared, warnings);

        let unlock = attributes::wants_lock(entry, shared);
        let flags = attributes::wants_flags(entry, shared);
        if flags && entry.link_group.is_none() {
            // A file with flags may refuse to be moved, so it is moved first.
            temporary.place(name, unlock)?;
            attributes::apply_flags(object, entry, shared, warnings);
            close(fd)?;
            return Ok(Finished::Complete);
        }
        // Some file systems tell only now that a write failed.
        close(fd)?;
        temporary.place(name, unlock)?;
        Ok(if flags { Finished::FlagsLeft } else { Finished::Complete })
    }
}

/// True if a file made with the entry's mode and this owner needs no other attribute but times.
fn is_plain(entry: &Entry, wanted: Wanted, owner: (u32, u32), shared: &Shared) -> bool {
    wanted.is_met_by(owner.0, owner.1)
        && entry.mode & !0o777 == 0
        && entry.mode & shared.process.umask == 0
        && attributes::only_mode(entry, shared)
}

fn open(folder: &Arc<Folder>, mode: u32) -> Result<(OwnedFd, Temporary)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let name = folder.shared().temporary_name();
        let mode = Mode::from_raw_mode(mode);
        match rustix::fs::openat(folder.fd(), name.as_bytes(), flags, mode) {
            Ok(fd) => {
                let folder = Arc::clone(folder);
                return Ok((fd, Temporary { folder, name, placed: false }));
            }
            // Left by a run that was killed and had the same process number, or interrupted.
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(errno) => return Err(Problem::new(What::Create, errno)),
        }
    }
}

/// Closes for good; the error is the last chance to learn of a lost write.
fn close(fd: OwnedFd) -> Result<()> {
    match nix::unistd::close(fd) {
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(Problem::new(What::Close, Errno::from_raw_os_error(errno as i32))),
    }
}

/// The temporary name of a file, removed when dropped before the file is in place.
#[derive(Debug)]
struct Temporary {
    folder: Arc<Folder>,
    name: TemporaryName,
    placed: bool,
}

impl Temporary {
    fn place(&mut self, name: &[u8], unlock: bool) -> Result<()> {
        self.folder.put(self.name.as_bytes(), name, unlock)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            self.folder.discard(self.name.as_bytes());
        }
    }
}
