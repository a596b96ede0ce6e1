//! Telling whether a name still stands for the object it stood for before.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, StatxFlags};

/// Which object a name stands for: device, inode number, type and, where the file system knows it,
/// time of birth, as the number of a removed file is soon given to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
    kind: u16,
    born: (i64, u32),
}

impl Identity {
    /// That of `name` in `folder` without following, or of `folder` itself if `name` is empty.
    pub(super) fn of(folder: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Self> {
        let mut flags = AtFlags::SYMLINK_NOFOLLOW;
        flags.set(AtFlags::EMPTY_PATH, name.is_empty());
        let wanted = StatxFlags::INO | StatxFlags::TYPE | StatxFlags::BTIME;
        let stat = rustix::fs::statx(folder, name, flags, wanted)?;
        let knows_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        Ok(Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            kind: stat.stx_mode & 0o170_000,
            born: if knows_birth { (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec) } else { (0, 0) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn names_of_one_object_and_of_others() {
        let place = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(place.path().join("a")).unwrap();
        std::fs::hard_link(place.path().join("a"), place.path().join("b")).unwrap();
        std::os::unix::fs::symlink("a", place.path().join("l")).unwrap();
        let folder = std::fs::File::open(place.path()).unwrap();
        let of = |name: &str| Identity::of(folder.as_fd(), name.as_bytes()).unwrap();
        assert_eq!(of("a"), of("b"));
        assert_eq!(of("a"), Identity::of(file.as_fd(), b"").unwrap());
        assert_ne!(of("a"), of("l"), "the link itself is meant");
        assert!(Identity::of(folder.as_fd(), b"c").is_err());
    }

    #[test]
    fn a_number_given_again_to_another_kind() {
        let place = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(place.path()).unwrap();
        std::fs::write(place.path().join("a"), "").unwrap();
        let before = Identity::of(folder.as_fd(), b"a").unwrap();
        std::fs::remove_file(place.path().join("a")).unwrap();
        std::os::unix::fs::symlink("x", place.path().join("a")).unwrap();
        assert_ne!(Identity::of(folder.as_fd(), b"a").unwrap(), before);
    }
}
