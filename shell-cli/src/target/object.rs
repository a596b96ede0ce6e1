//! One object at the target and the calls that set one attribute of it.
//!
//! Files and directories are reached by an open handle, so nobody can exchange them in between.
//! Pipes and devices must not be opened (opening may block or act on hardware), so they are
//! pinned by a handle that allows nothing but naming them. So are symbolic links that are to
//! change hands; for mere times, which nobody gains by, they are reached by name.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Gid, IFlags, Mode, Stat, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// An object whose attributes can be set.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// A file or directory, opened for reading or writing.
    Open(BorrowedFd<'a>),
    /// Anything but a symbolic link, opened as a mere path.
    Pinned(BorrowedFd<'a>),
    /// A symbolic link, opened as a mere path.
    PinnedLink(BorrowedFd<'a>),
    /// A symbolic link, by its folder and name.
    Link(BorrowedFd<'a>, &'a [u8]),
}

impl Object<'_> {
    /// True for symbolic links.
    pub fn is_link(&self) -> bool {
        matches!(self, Self::PinnedLink(_) | Self::Link(..))
    }

    /// Type, mode, owner and times as they are now.
    pub fn stat(&self) -> Result<Stat> {
        match *self {
            Self::Open(fd) | Self::Pinned(fd) | Self::PinnedLink(fd) => rustix::fs::fstat(fd),
            Self::Link(folder, name) => rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Sets the given ones of owner and group.
    pub fn set_owner(&self, user: Option<u32>, group: Option<u32>) -> Result<()> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        match *self {
            Self::Open(fd) => rustix::fs::fchown(fd, user, group),
            Self::Pinned(fd) | Self::PinnedLink(fd) => rustix::fs::chownat(fd, c"", user, group, AtFlags::EMPTY_PATH),
            Self::Link(folder, name) => rustix::fs::chownat(folder, name, user, group, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Sets the permission bits, 0 to 0o7777. Links have none: that is no error.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode);
        match *self {
            Self::Open(fd) => rustix::fs::fchmod(fd, mode),
            Self::Pinned(fd) => rustix::fs::chmodat(CWD, magic(fd), mode, AtFlags::empty()),
            Self::PinnedLink(_) | Self::Link(..) => Ok(()),
        }
    }

    /// Sets one extended attribute.
    pub fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        let flags = XattrFlags::empty();
        match *self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Self::Pinned(fd) | Self::PinnedLink(fd) => rustix::fs::setxattr(magic(fd), name, value, flags),
            Self::Link(folder, link) => rustix::fs::lsetxattr(magic_child(folder, link), name, value, flags),
        }
    }

    /// Removes one extended attribute. Its absence is no error.
    pub fn remove_xattr(&self, name: &str) -> Result<()> {
        let removed = match *self {
            Self::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Pinned(fd) | Self::PinnedLink(fd) => rustix::fs::removexattr(magic(fd), name),
            Self::Link(folder, link) => rustix::fs::lremovexattr(magic_child(folder, link), name),
        };
        match removed {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    }

    /// True if the object has this extended attribute.
    pub fn has_xattr(&self, name: &str) -> bool {
        let mut nothing = [0_u8; 0];
        let found = match *self {
            Self::Open(fd) => rustix::fs::fgetxattr(fd, name, &mut nothing[..]),
            Self::Pinned(fd) | Self::PinnedLink(fd) => rustix::fs::getxattr(magic(fd), name, &mut nothing[..]),
            Self::Link(folder, link) => rustix::fs::lgetxattr(magic_child(folder, link), name, &mut nothing[..]),
        };
        // An empty buffer asks for the length only.
        found.is_ok()
    }

    /// Sets access and modification time.
    pub fn set_times(&self, times: &Timestamps) -> Result<()> {
        match *self {
            Self::Open(fd) => rustix::fs::futimens(fd, times),
            Self::Pinned(fd) | Self::PinnedLink(fd) => rustix::fs::utimensat(fd, c"", times, AtFlags::EMPTY_PATH),
            Self::Link(folder, name) => rustix::fs::utimensat(folder, name, times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// Adds and removes file flags, keeping all others. Only opened objects have flags.
    pub fn change_flags(&self, add: IFlags, remove: IFlags) -> Result<()> {
        let Self::Open(fd) = *self else {
            return Err(Errno::OPNOTSUPP);
        };
        let old = rustix::fs::ioctl_getflags(fd)?;
        // On the plain numbers: negating the flags type would drop the bits it has no name for,
        // and dropping one of those makes ext4 convert the file to another layout.
        let new = IFlags::from_bits_retain((old.bits() | add.bits()) & !remove.bits());
        if new == old { Ok(()) } else { rustix::fs::ioctl_setflags(fd, new) }
    }
}

/// A path that leads to exactly the object behind a handle.
fn magic(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A path that leads to `name` in exactly the folder behind a handle.
fn magic_child(folder: BorrowedFd<'_>, name: &[u8]) -> std::path::PathBuf {
    std::path::Path::new(&magic(folder)).join(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{OFlags, Timespec};
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_pinned_pipe_takes_all_attributes() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let fd = rustix::fs::open(&pipe, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        let object = Object::Pinned(fd.as_fd());
        object.set_mode(0o641).unwrap();
        let time = Timespec { tv_sec: -5, tv_nsec: 7 };
        object.set_times(&Timestamps { last_access: time, last_modification: time }).unwrap();
        let stat = object.stat().unwrap();
        assert_eq!(stat.st_mode & 0o7777, 0o641);
        assert_eq!((stat.st_mtime, stat.st_mtime_nsec), (-5, 7));
        assert_eq!(object.change_flags(IFlags::NODUMP, IFlags::empty()), Err(Errno::OPNOTSUPP));
        if rustix::process::geteuid().is_root() {
            object.set_owner(Some(12), Some(13)).unwrap();
            object.set_xattr(b"trusted.x", b"").unwrap();
            assert!(object.has_xattr("trusted.x"));
            object.remove_xattr("trusted.x").unwrap();
            object.remove_xattr("trusted.x").unwrap();
            let meta = pipe.symlink_metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (12, 13));
        }
    }

    #[test]
    fn flags_without_a_name_are_kept() {
        let file = tempfile::tempfile().unwrap();
        let Ok(before) = rustix::fs::ioctl_getflags(&file) else {
            eprintln!("skipped: no file flags here");
            return;
        };
        let object = Object::Open(file.as_fd());
        object.change_flags(IFlags::NODUMP, IFlags::empty()).unwrap();
        let with = rustix::fs::ioctl_getflags(&file).unwrap();
        assert_eq!(with.bits(), before.bits() | IFlags::NODUMP.bits());
        object.change_flags(IFlags::empty(), IFlags::NODUMP).unwrap();
        assert_eq!(rustix::fs::ioctl_getflags(&file).unwrap().bits(), before.bits());
    }

    #[test]
    fn what_a_link_points_to_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let aim = place.path().join("aim");
        std::fs::write(&aim, "x").unwrap();
        symlink("aim", place.path().join("link")).unwrap();
        let folder = rustix::fs::open(place.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let pin = rustix::fs::openat(&folder, "link", flags, Mode::empty()).unwrap();
        for link in [Object::Link(folder.as_fd(), b"link"), Object::PinnedLink(pin.as_fd())] {
            only_the_link_changes(link, &aim);
        }
    }

    fn only_the_link_changes(link: Object<'_>, aim: &std::path::Path) {
        let before = aim.metadata().unwrap();
        link.set_mode(0).unwrap();
        let time = Timespec { tv_sec: 5, tv_nsec: 0 };
        link.set_times(&Timestamps { last_access: time, last_modification: time }).unwrap();
        assert_eq!(link.stat().unwrap().st_mtime, 5);
        if rustix::process::geteuid().is_root() {
            link.set_owner(Some(12), None).unwrap();
            link.set_xattr(b"trusted.x", b"y").unwrap();
            assert!(link.has_xattr("trusted.x"));
            assert!(rustix::fs::getxattr(aim, "trusted.x", &mut [0_u8; 9][..]).is_err());
            link.remove_xattr("trusted.x").unwrap();
            assert!(!link.has_xattr("trusted.x"));
        }
        let after = aim.metadata().unwrap();
        assert_eq!((before.mtime(), before.uid()), (after.mtime(), after.uid()));
        assert_eq!(before.mode(), after.mode());
    }
}
