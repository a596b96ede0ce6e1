//! Files that are not in place yet: without any name where that is possible, else under a temporary one.
//!
//! A file without a name takes a fifth less time to make, as its folder changes once and not three
//! times, and nothing of it is left if the process is killed. Not every file system has such files,
//! and not every user may give them a name, so the first file of a run tries it out.

use super::folder::Folder;
use super::names::TemporaryName;
use super::warning::{During, Problem, Result, What};
use core::sync::atomic::{AtomicU8, Ordering};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;

/// Whether files without a name can be had here. Learnt once for all folders of a target.
#[derive(Debug, Default)]
pub(super) struct Nameless(AtomicU8);

/// 0 before it was tried.
const POSSIBLE: u8 = 1;
const IMPOSSIBLE: u8 = 2;

impl Nameless {
    /// Every file gets a temporary name.
    #[cfg(test)]
    pub fn forbid(&self) {
        self.0.store(IMPOSSIBLE, Ordering::Relaxed);
    }
}

/// The place of a file that is not complete. Dropped before the file is in place, it leaves nothing.
#[derive(Debug)]
pub(super) struct Unfinished {
    folder: Arc<Folder>,
    /// Its name until then; `None` if it has none.
    temporary: Option<TemporaryName>,
}

impl Unfinished {
    /// Makes a file in `folder`, open for writing.
    ///
    /// # Errors
    /// [`Problem::NoSpace`], or what the system refused.
    pub fn create(folder: &Arc<Folder>, mode: u32) -> Result<(OwnedFd, Self)> {
        let mode = Mode::from_raw_mode(mode);
        let nameless = &folder.shared().nameless.0;
        let mut known = nameless.load(Ordering::Relaxed);
        while known != IMPOSSIBLE {
            let made = match rustix::fs::openat(folder.fd(), c".", OFlags::TMPFILE | HOW, mode) {
                Ok(fd) if known == POSSIBLE => return Ok((fd, Self { folder: Arc::clone(folder), temporary: None })),
                Ok(fd) => Self::try_out(folder, &fd).map(|unfinished| (fd, unfinished)),
                Err(Errno::INTR) => continue,
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => None,
                Err(errno) => return Err(Problem::new(What::Create, errno)),
            };
            known = if made.is_some() { POSSIBLE } else { IMPOSSIBLE };
            nameless.store(known, Ordering::Relaxed);
            if let Some(made) = made {
                return Ok(made);
            }
        }
        loop {
            let name = folder.shared().temporary_name();
            match rustix::fs::openat(folder.fd(), name.as_bytes(), OFlags::CREATE | OFlags::EXCL | HOW, mode) {
                Ok(fd) => return Ok((fd, Self { folder: Arc::clone(folder), temporary: Some(name) })),
                // Left by a run that was killed and had the same process number, or interrupted.
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(errno) => return Err(Problem::new(What::Create, errno)),
            }
        }
    }

    /// Gives the first file a temporary name at once, so that nothing is lost if that is impossible.
    fn try_out(folder: &Arc<Folder>, fd: &OwnedFd) -> Option<Self> {
        let name = folder.shared().temporary_name();
        link(fd.as_fd(), folder, name.as_bytes()).ok()?;
        Some(Self { folder: Arc::clone(folder), temporary: Some(name) })
    }

    /// The folder it will be in.
    pub fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Gives the file, open as `fd`, its name, over what has that name already.
    ///
    /// # Errors
    /// [`Problem::Occupied`], or what the system refused.
    pub fn place(&mut self, fd: BorrowedFd<'_>, name: &[u8], unlock: bool) -> Result<()> {
        let temporary = match self.temporary {
            Some(temporary) => temporary,
            None => match link(fd, &self.folder, name) {
                Ok(()) => return Ok(()),
                // Something is there: it takes a name of its own to be moved over it.
                Err(Errno::EXIST) => {
                    let temporary = self.folder.shared().temporary_name();
                    link(fd, &self.folder, temporary.as_bytes()).during(What::Replace)?;
                    *self.temporary.insert(temporary)
                }
                Err(errno) => return Err(Problem::new(What::Replace, errno)),
            },
        };
        self.folder.put(temporary.as_bytes(), name, unlock)?;
        self.temporary = None;
        Ok(())
    }

    /// Closes the file and gives it its name.
    ///
    /// # Errors
    /// As [`place`](Self::place), and late write errors. Some file systems tell only at closing that a
    /// write failed, so a file that has a temporary name is closed first.
    pub fn close_and_place(mut self, fd: OwnedFd, name: &[u8], unlock: bool) -> Result<()> {
        let Some(temporary) = self.temporary else {
            self.place(fd.as_fd(), name, unlock)?;
            return close(fd);
        };
        close(fd)?;
        self.folder.put(temporary.as_bytes(), name, unlock)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            self.folder.discard(temporary.as_bytes());
        }
    }
}

const HOW: OFlags = OFlags::WRONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn link(fd: BorrowedFd<'_>, folder: &Folder, name: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::linkat(fd, c"", folder.fd(), name, AtFlags::EMPTY_PATH)
}

/// Closes for good; the error is the last chance to learn of a lost write.
///
/// # Errors
/// [`Problem::NoSpace`], or what the system refused.
pub(super) fn close(fd: OwnedFd) -> Result<()> {
    match nix::unistd::close(fd) {
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(Problem::new(What::Close, Errno::from_raw_os_error(errno as i32))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{file, names, put, target};
    use super::super::{NewFile, Target};
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Runs `test` with files that have no name, if they can be had here, and with temporary names.
    fn both_ways(test: impl Fn(&Path, &Target)) {
        for forbid in [false, true] {
            let (place, target) = target();
            if forbid {
                target.root().shared().nameless.forbid();
            }
            test(place.path(), &target);
        }
    }

    #[test]
    fn files_take_their_place_over_anything() {
        both_ways(|place, target| {
            for name in ["first", "new", "file", "link", "empty"] {
                match name {
                    "file" => std::fs::write(place.join(name), "old").unwrap(),
                    "link" => symlink("/no/such/place", place.join(name)).unwrap(),
                    "empty" => std::fs::create_dir(place.join(name)).unwrap(),
                    _ => {}
                }
                for content in ["once", "twice"] {
                    put(target.root(), name, &file(name, 0o644), content.as_bytes()).unwrap();
                    assert_eq!(std::fs::read(place.join(name)).unwrap(), content.as_bytes());
                }
            }
            std::fs::create_dir_all(place.join("full/x")).unwrap();
            let occupied = put(target.root(), "full", &file("full", 0o644), b"x");
            assert_eq!(occupied, Err(Problem::Occupied));
            assert_eq!(names(place), ["empty", "file", "first", "full", "link", "new"]);
        });
    }

    #[test]
    fn nothing_is_seen_before_and_nothing_is_left() {
        both_ways(|place, target| {
            put(target.root(), "first", &file("first", 0o644), b"x").unwrap();
            let new = NewFile::create(target.root(), &file("f", 0o644)).unwrap();
            new.write_at(0, b"half").unwrap();
            let possible = target.root().shared().nameless.0.load(Ordering::Relaxed) == POSSIBLE;
            assert_eq!(names(place).len(), if possible { 1 } else { 2 });
            drop(new);
            assert_eq!(names(place), ["first"]);
        });
    }
}
