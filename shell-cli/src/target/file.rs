//! Regular files, written out of sight and given their name when complete.
//!
//! Nobody ever sees a half-written file under its final name, and what had that name before stays
//! until the new one is complete. The usual small file costs five to seven system calls: open,
//! write, (owner,) (mode,) times, name, close.

use super::Shared;
use super::attributes::{self, Made, Wanted};
use super::folder::Folder;
use super::identity::Identity;
use super::names::plain;
use super::object::Object;
use super::unfinished::{Unfinished, close};
use super::warning::{During, Problem, Result, Warning, What};
use core::sync::atomic::{AtomicU64, Ordering};
use packtrain_core::objects::Entry;
use rustix::fd::{AsFd, OwnedFd};
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
    unfinished: Unfinished,
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
            Some((uid, gid, true)) if !inherits && is_plain(entry, wanted, (uid, gid), shared) => entry.mode,
            _ => CLOSED,
        };
        let (fd, unfinished) = Unfinished::create(folder, mode)?;
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
        Ok(Self { fd, unfinished, made, wanted, end: AtomicU64::new(0) })
    }

    /// Writes `bytes` at `offset`. Several threads may write to one file at a time.
    ///
    /// With [`Policy::sparse`](super::Policy::sparse), a piece of nothing but zeros becomes a
    /// hole, so no range may be written twice.
    ///
    /// # Errors
    /// [`Problem::NoSpace`], or what the system refused.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let sparse = self.unfinished.folder().shared().policy.sparse;
        if sparse && is_zero(bytes) {
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

    /// Writes `len` zeros from `offset` on; where holes are wanted, that takes nothing.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write_zeros(&self, offset: u64, len: u64) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        if self.unfinished.folder().shared().policy.sparse {
            return Ok(());
        }
        let end = offset.saturating_add(len);
        (offset..end).step_by(ZEROS.len()).try_for_each(|at| {
            let len = ZEROS.len().min((end - at) as usize);
            self.write_at(at, ZEROS.get(..len).unwrap_or(&ZEROS))
        })
    }

    /// Which object this is, for checking its hard links. One system call.
    pub fn identity(&self) -> Result<Identity> {
        Identity::of(self.fd.as_fd(), b"").during(What::Open)
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
    pub fn finish(self, name: &[u8], entry: &Entry, length: u64, warnings: &mut Vec<Warning>) -> Result<Finished> {
        plain(name)?;
        let Self { fd, mut unfinished, made, wanted, end } = self;
        let folder = Arc::clone(unfinished.folder());
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
            unfinished.place(fd.as_fd(), name, unlock)?;
            attributes::apply_flags(object, entry, shared, warnings);
            close(fd)?;
            return Ok(Finished::Complete);
        }
        unfinished.close_and_place(fd, name, unlock)?;
        Ok(if flags { Finished::FlagsLeft } else { Finished::Complete })
    }
}

/// True for nothing but zeros. Whole pieces at a time, as the compiler makes vector code of that.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|piece| piece.iter().fold(0, |seen, byte| seen | byte) == 0)
}

/// True if a file made with the entry's mode and this owner needs no other attribute but times.
fn is_plain(entry: &Entry, wanted: Wanted, owner: (u32, u32), shared: &Shared) -> bool {
    wanted.is_met_by(owner.0, owner.1)
        && entry.mode & !0o777 == 0
        && entry.mode & shared.process.umask == 0
        && attributes::only_mode(entry, shared)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, file, has_flags, is_root, names, put, target, xattr};
    use super::super::{Make, Policy, special};
    use super::*;
    use packtrain_core::base::Id;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn every_mode_whether_made_with_it_or_not() {
        let (place, target) = target();
        for (at, mode) in [0o644, 0o644, 0o444, 0o600, 0, 0o777, 0o4755, 0o6711, 0o1666, 0o666].into_iter().enumerate()
        {
            let name = format!("f{at}");
            let warnings = put(target.root(), &name, &file(&name, mode), b"content").unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            let meta = place.path().join(&name).metadata().unwrap();
            assert_eq!(meta.mode() & 0o7777, mode, "{name}");
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_577_836_800, 123_456_789));
            assert_eq!(meta.len(), 7);
        }
        assert_eq!(names(place.path()).len(), 10, "no temporaries are left");
    }

    #[test]
    fn several_threads_write_one_file() {
        let (place, target) = target();
        let entry = file("f", 0o644);
        let new = Arc::new(NewFile::create(target.root(), &entry).unwrap());
        let ended = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (new, ended, entry) = (Arc::clone(&new), &ended, &entry);
                scope.spawn(move || {
                    for step in 0..8_u64 {
                        let offset = (step * 4 + u64::from(thread)) * 1000;
                        new.write_at(offset, &[thread; 1000]).unwrap();
                    }
                    if let Some(new) = Arc::into_inner(new) {
                        let _ = new.finish(b"f", entry, 32_000, &mut Vec::new()).unwrap();
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            drop(new);
        });
        // The main thread's own handle may have been the last; then nobody finished.
        if ended.into_inner() == 1 {
            let content = std::fs::read(place.path().join("f")).unwrap();
            assert_eq!(content.len(), 32_000);
            assert!(content.iter().enumerate().all(|(at, b)| usize::from(*b) == at / 1000 % 4));
        } else {
            assert!(names(place.path()).is_empty());
        }
    }

    #[test]
    fn holes_and_exact_lengths() {
        let (place, target) = testing::target_with(Policy { sparse: true, ..Policy::of_this_process() });
        std::fs::write(place.path().join("f"), vec![1; 3 << 20]).unwrap();
        let entry = file("f", 0o644);
        let new = NewFile::create(target.root(), &entry).unwrap();
        new.write_at(0, b"start").unwrap();
        new.write_at(5, &vec![0; 2 << 20]).unwrap();
        let _ = new.finish(b"f", &entry, 5 + (2 << 20), &mut Vec::new()).unwrap();
        let meta = place.path().join("f").metadata().unwrap();
        assert_eq!(meta.len(), 5 + (2 << 20));
        assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
        let content = std::fs::read(place.path().join("f")).unwrap();
        assert!(content.starts_with(b"start") && content[5..].iter().all(|byte| *byte == 0));
        // Nothing but a hole, and nothing at all.
        for length in [4096, 0] {
            let new = NewFile::create(target.root(), &entry).unwrap();
            let _ = new.finish(b"f", &entry, length, &mut Vec::new()).unwrap();
            assert_eq!(place.path().join("f").metadata().unwrap().len(), length);
        }
    }

    #[test]
    fn what_has_the_name_is_replaced_and_never_followed() {
        let (place, target) = target();
        let path = place.path().join("f");
        let keep = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(keep.path(), "keep").unwrap();
        symlink(keep.path(), &path).unwrap();
        for _ in 0..2 {
            put(target.root(), "f", &file("f", 0o644), b"new").unwrap();
            assert!(path.symlink_metadata().unwrap().is_file());
        }
        assert_eq!(std::fs::read(keep.path()).unwrap(), b"keep");

        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        put(target.root(), "f", &file("f", 0o644), b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");

        std::fs::create_dir_all(place.path().join("full/x")).unwrap();
        let problem = put(target.root(), "full", &file("full", 0o644), b"new").unwrap_err();
        assert_eq!(problem, Problem::Occupied);
        assert_eq!(names(place.path()), ["f", "full"]);
    }

    #[test]
    fn unfinished_files_vanish_and_old_temporaries_are_no_obstacle() {
        let (place, target) = target();
        let left = format!(".packtrain-{:x}-0.tmp", std::process::id());
        std::fs::write(place.path().join(&left), "").unwrap();
        let entry = file("f", 0o644);
        let new = NewFile::create(target.root(), &entry).unwrap();
        new.write_at(0, b"half").unwrap();
        assert_eq!(names(place.path()).len(), 2);
        drop(new);
        for hostile in [&b".."[..], b".", b"", b"a/b", b"/", b"a\0"] {
            let new = NewFile::create(target.root(), &entry).unwrap();
            let problem = new.finish(hostile, &entry, 0, &mut Vec::new()).unwrap_err();
            assert_eq!(problem, Problem::ClimbsOut);
        }
        assert_eq!(names(place.path()), [left]);
    }

    #[test]
    fn locked_files_are_restored_again() {
        let (place, target) = target();
        if !is_root() || !has_flags(place.path()) {
            return;
        }
        for flags in [0x2, 0x4, 0x7] {
            let entry = Entry { flags, ..file("f", 0o644) };
            for content in ["first", "second"] {
                let warnings = put(target.root(), "f", &entry, content.as_bytes()).unwrap();
                assert!(warnings.is_empty(), "{warnings:?}");
                let path = place.path().join("f");
                assert_eq!(std::fs::read(&path).unwrap(), content.as_bytes());
                assert!(std::fs::write(&path, "x").is_err(), "flags {flags:x} are set");
                assert_eq!(path.metadata().unwrap().mtime(), 1_577_836_800);
            }
        }
        // Without the wish for such flags, a locked file is somebody's decision.
        let problem = put(target.root(), "f", &file("f", 0o644), b"x").unwrap_err();
        assert_eq!(problem.class().code(), 105);
        assert_eq!(names(place.path()), ["f"]);
        put(target.root(), "f", &Entry { flags: 0x1002, ..file("f", 0o644) }, b"x").unwrap();
        attributes::unlock(Object::Open(std::fs::File::open(place.path().join("f")).unwrap().as_fd())).unwrap();
    }

    #[test]
    fn flags_of_linked_files_wait_for_the_links() {
        let (place, target) = target();
        let root = target.root();
        let entry = Entry { flags: 0x2, link_group: Some(Id([1; 32])), ..file("a", 0o644) };
        let new = NewFile::create(root, &entry).unwrap();
        let identity = new.identity().unwrap();
        let finished = new.finish(b"a", &entry, 0, &mut Vec::new()).unwrap();
        assert_eq!(finished, Finished::FlagsLeft);
        special::link(root, b"a", Some(identity), root, b"b").unwrap();
        if !is_root() || !has_flags(place.path()) {
            return;
        }
        let mut warnings = Vec::new();
        root.apply_flags(b"a", &entry, &mut warnings);
        assert!(warnings.is_empty(), "{warnings:?}");
        assert!(std::fs::write(place.path().join("b"), "x").is_err());
        let problem = special::link(root, b"a", Some(identity), root, b"c").unwrap_err();
        assert!(matches!(problem, Problem::CopyWanted(Errno::PERM)));
        let open = std::fs::File::open(place.path().join("b")).unwrap();
        attributes::unlock(Object::Open(open.as_fd())).unwrap();
    }

    #[test]
    fn folders_that_give_their_group_or_acl() {
        if !is_root() {
            return;
        }
        let (place, target) = target();
        let path = place.path().join("d");
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, None, Some(4242)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2777)).unwrap();
        let rules = ["-d", "-m", "u:5:rwx"];
        let acl = std::process::Command::new("setfacl").args(rules).arg(&path).status();
        let (folder, existed) = target.root().child(b"d", Make::Parent).unwrap();
        assert!(existed);
        let (inner, _) = folder.child(b"e", Make::Entry(&file("e", 0o755))).unwrap();
        for (folder, name) in [(&folder, "d/f"), (&folder, "d/g"), (&inner, "d/e/f")] {
            let base = name.rsplit('/').next().unwrap();
            let warnings = put(folder, base, &file(name, 0o664), b"").unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            let path = place.path().join(name);
            let meta = path.metadata().unwrap();
            assert_eq!((meta.gid(), meta.mode() & 0o7777), (0, 0o664), "{name}");
            assert_eq!(xattr(&path, "system.posix_acl_access"), None, "{name}");
        }
        if acl.is_ok_and(|status| status.success()) {
            assert!(xattr(&place.path().join("d/e"), "system.posix_acl_default").is_some());
            let directory = testing::entry("d/e", packtrain_core::objects::EntryKind::Directory, 0o755);
            inner.apply(&directory, &mut Vec::new()).unwrap();
            assert_eq!(xattr(&place.path().join("d/e"), "system.posix_acl_default"), None);
            assert_eq!(xattr(&place.path().join("d/e"), "system.posix_acl_access"), None);
        }
    }
}
