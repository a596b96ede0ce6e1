//! Open directories below the target.
//!
//! A [`Folder`] is a handle, so whatever happens to the names above it, it stays the directory it
//! was. Worker threads share it and make files relative to it.

use super::Shared;
use super::acl;
use super::attributes::{self, Made, Wanted};
use super::identity::Identity;
use super::names::plain;
use super::object::Object;
use super::warning::{During, Problem, Result, Warning, What};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use packtrain_core::objects::Entry;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::path::Arg;
use std::path::Path;
use std::sync::Arc;

/// How to come by a child folder.
#[derive(Clone, Copy, Debug)]
pub enum Make<'a> {
    /// As a mere parent: made with default rights if missing; anything there that is no directory
    /// is refused.
    Parent,
    /// As this entry, whose attributes [`Folder::apply`] sets later: made closed to others if
    /// missing, opened up for writing if there; anything there that is no directory is removed.
    Entry(&'a Entry),
}

/// Times of a directory, kept while something is added to it.
#[derive(Clone, Debug)]
pub struct SavedTimes(Timestamps);

/// An open directory at or below the target.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: Box<[u8]>,
    shared: Arc<Shared>,
    /// The handle allows no more than reaching children, as the directory is not readable.
    pinned: bool,
    /// Made by this run in a folder with a default ACL.
    inherits: bool,
    /// Whether new children get an ACL from here.
    default_acl: AtomicBool,
    /// Owner and group that new files get here, user in the upper half; or [`UNKNOWN`].
    gives: AtomicU64,
    /// Whether new files here get exactly the mode they are made with.
    keeps_modes: AtomicBool,
}

/// No object can have this owner and group.
const UNKNOWN: u64 = u64::MAX;

/// How directories are opened.
const ENTER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

impl Folder {
    /// Opens the target itself; only here symbolic links are followed.
    pub(super) fn root(path: &Path, shared: Arc<Shared>) -> Result<Self> {
        match open_directory(CWD, path, ENTER) {
            Ok((fd, pinned)) => Ok(Self::existing(fd, pinned, Box::default(), shared)),
            Err(Errno::NOTDIR) => Err(Problem::ParentIsFile),
            Err(errno) => Err(Problem::new(What::Open, errno)),
        }
    }

    fn existing(fd: OwnedFd, pinned: bool, path: Box<[u8]>, shared: Arc<Shared>) -> Self {
        let mut folder = Self::with(fd, pinned, path, shared);
        let has_default = folder.object().has_xattr(acl::DEFAULT);
        folder.default_acl = AtomicBool::new(has_default);
        folder
    }

    fn with(fd: OwnedFd, pinned: bool, path: Box<[u8]>, shared: Arc<Shared>) -> Self {
        Self {
            fd,
            path,
            shared,
            pinned,
            inherits: false,
            default_acl: AtomicBool::new(false),
            gives: AtomicU64::new(UNKNOWN),
            keeps_modes: AtomicBool::new(false),
        }
    }

    /// Path relative to the target, empty for the target itself. For messages only.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The child folder `name`, and whether it was there before.
    ///
    /// # Errors
    /// [`Problem::ClimbsOut`] for a name that is not one plain component,
    /// [`Problem::ParentIsLink`] and [`Problem::ParentIsFile`] for what is in the way of
    /// [`Make::Parent`], or what the system refused.
    pub fn child(&self, name: &[u8], make: Make<'_>) -> Result<(Arc<Self>, bool)> {
        plain(name)?;
        // Another process may put things there between two of the calls, so: a few tries.
        let mut last = Errno::NOTDIR;
        for _ in 0..4 {
            match self.try_child(name, make)? {
                Ok((folder, existed)) => return Ok((Arc::new(folder), existed)),
                Err(errno) => last = errno,
            }
        }
        Err(Problem::new(What::Open, last))
    }

    fn try_child(&self, name: &[u8], make: Make<'_>) -> Result<Result<(Self, bool), Errno>> {
        // Most parents exist, as their entries came before; most entries do not exist yet.
        if let Make::Parent = make {
            match self.enter(name) {
                Ok((fd, pinned)) => return Ok(Ok((self.found(fd, pinned, name), true))),
                Err(Errno::NOENT) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => return self.in_the_way(name).map(Err),
                Err(errno) => return Err(Problem::new(What::Open, errno)),
            }
        }
        // Closed to others: an entry's rights come later, those of a mere parent are unknown.
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => {
                let (fd, pinned) = self.enter(name).during(What::Open)?;
                let mut folder = Self::with(fd, pinned, self.path_of(name), self.shared.clone());
                let inherits = self.default_acl.load(Ordering::Relaxed);
                folder.inherits = inherits;
                folder.default_acl = AtomicBool::new(inherits);
                return Ok(Ok((folder, false)));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(Problem::new(What::Create, errno)),
        }
        let Make::Entry(entry) = make else {
            return Ok(Err(Errno::EXIST));
        };
        match self.open_up(name, entry) {
            Ok((fd, pinned)) => Ok(Ok((self.found(fd, pinned, name), true))),
            Err(errno @ Errno::NOENT) => Ok(Err(errno)),
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) => {
                match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => Ok(Err(errno)),
                    Err(errno) => Err(Problem::new(What::Replace, errno)),
                }
            }
            Err(errno) => Err(Problem::new(What::Open, errno)),
        }
    }

    /// Opens a child without following; the flag says that it is not readable.
    fn enter(&self, name: &[u8]) -> rustix::io::Result<(OwnedFd, bool)> {
        open_directory(self.fd.as_fd(), name, ENTER.union(OFlags::NOFOLLOW))
    }

    /// Enters an existing child that is to be filled and then gets the attributes of `entry`:
    /// an earlier restore of the same entry may have made it read-only or immutable.
    fn open_up(&self, name: &[u8], entry: &Entry) -> rustix::io::Result<(OwnedFd, bool)> {
        let (mut fd, mut pinned) = self.enter(name)?;
        if attributes::wants_lock(entry, &self.shared) && !pinned {
            // If it stays locked, what is made in it fails and says so.
            let _ = attributes::unlock(Object::Open(fd.as_fd()));
        }
        let uid = self.shared.process.uid;
        if uid != 0 {
            let stat = rustix::fs::fstat(&fd)?;
            if stat.st_uid == uid && stat.st_mode & 0o700 != 0o700 {
                Object::Pinned(fd.as_fd()).set_mode(stat.st_mode & 0o7777 | 0o700)?;
                if pinned {
                    fd = rustix::fs::openat(&fd, c".", ENTER | OFlags::NOFOLLOW, Mode::empty())?;
                    pinned = false;
                }
            }
        }
        Ok((fd, pinned))
    }

    fn found(&self, fd: OwnedFd, pinned: bool, name: &[u8]) -> Self {
        Self::existing(fd, pinned, self.path_of(name), self.shared.clone())
    }

    /// What is in the way of a parent, as the problem it is; an error to try again after if it
    /// went away meanwhile.
    fn in_the_way(&self, name: &[u8]) -> Result<Errno> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => Err(Problem::ParentIsLink),
                FileType::Directory => Ok(Errno::NOTDIR),
                _ => Err(Problem::ParentIsFile),
            },
            Err(Errno::NOENT) => Ok(Errno::NOENT),
            Err(errno) => Err(Problem::new(What::Open, errno)),
        }
    }

    fn path_of(&self, name: &[u8]) -> Box<[u8]> {
        if self.path.is_empty() { name.into() } else { [&self.path, name].join(&b'/').into() }
    }

    /// Sets the attributes of `entry` on this directory, flags last. Call it once everything
    /// below is complete. What is refused is added to `warnings`.
    ///
    /// # Errors
    /// What the system refused when asked for the directory's present state.
    pub fn apply(&self, entry: &Entry, warnings: &mut Vec<Warning>) -> Result<()> {
        let object = self.object();
        let stat = object.stat().during(What::Open)?;
        let (uid, gid, mode) = (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777);
        let made = Made { uid, gid, mode, inherits: self.inherits };
        let wanted = Wanted::of(entry, &self.shared);
        attributes::apply(object, entry, wanted, made, &self.shared, warnings);
        attributes::apply_flags(object, entry, &self.shared, warnings);
        // Group, setgid bit and default ACL decide what new files get: learn it anew.
        self.gives.store(UNKNOWN, Ordering::Release);
        if self.shared.policy.acls {
            if !entry.acl.default.is_empty() {
                self.default_acl.store(true, Ordering::Relaxed);
            } else if self.inherits {
                self.default_acl.store(false, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// This directory's times, to be put back by [`Folder::put_times_back`] after something was
    /// added to it when its attributes were set already.
    pub fn times(&self) -> Result<SavedTimes> {
        let stat = rustix::fs::fstat(&self.fd).during(What::Times)?;
        let time = |seconds, nanos| Timespec { tv_sec: seconds, tv_nsec: nanos as _ };
        Ok(SavedTimes(Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        }))
    }

    /// Sets the times that [`Folder::times`] gave.
    pub fn put_times_back(&self, times: &SavedTimes) -> Result<()> {
        self.object().set_times(&times.0).during(What::Times)
    }

    /// Which object is at `name` here; of a symbolic link, the link itself.
    pub fn identity(&self, name: &[u8]) -> Result<Identity> {
        plain(name)?;
        Identity::of(self.fd.as_fd(), name).during(What::Open)
    }

    /// Sets the flags of `entry` on the file `name` here, where [`super::NewFile::finish`] left
    /// them for later. What is refused is added to `warnings`.
    pub fn apply_flags(&self, name: &[u8], entry: &Entry, warnings: &mut Vec<Warning>) {
        if !attributes::wants_flags(entry, &self.shared) {
            return;
        }
        match self.open_file(name) {
            Ok(fd) => {
                let object = Object::Open(fd.as_fd());
                attributes::apply_flags(object, entry, &self.shared, warnings);
            }
            Err(errno) => warnings.push(Warning::refused(What::Flags, errno)),
        }
    }

    /// Opens a file or directory for its attributes. Nothing is followed, and a pipe or device
    /// put in its place does not block.
    pub(super) fn open_file(&self, name: &[u8]) -> rustix::io::Result<OwnedFd> {
        if plain(name).is_err() {
            return Err(Errno::INVAL);
        }
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::empty())
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn object(&self) -> Object<'_> {
        if self.pinned { Object::Pinned(self.fd.as_fd()) } else { Object::Open(self.fd.as_fd()) }
    }

    pub(super) fn gives_acls(&self) -> bool {
        self.default_acl.load(Ordering::Relaxed)
    }

    /// Owner and group of new files here, and whether they keep the mode they are made with;
    /// once [`Folder::learn`] was told.
    pub(super) fn gives(&self) -> Option<(u32, u32, bool)> {
        let gives = self.gives.load(Ordering::Acquire);
        let keeps = self.keeps_modes.load(Ordering::Relaxed);
        (gives != UNKNOWN).then_some(((gives >> 32) as u32, gives as u32, keeps))
    }

    /// Remembers what a new file got here.
    pub(super) fn learn(&self, uid: u32, gid: u32, keeps_modes: bool) {
        self.keeps_modes.store(keeps_modes, Ordering::Relaxed);
        self.gives.store(u64::from(uid) << 32 | u64::from(gid), Ordering::Release);
    }
}

/// Opens a directory for its attributes, or, if it is not readable, for reaching its children.
fn open_directory(at: BorrowedFd<'_>, path: impl Arg + Copy, how: OFlags) -> rustix::io::Result<(OwnedFd, bool)> {
    match rustix::fs::openat(at, path, how, Mode::empty()) {
        Err(Errno::ACCESS) => Ok((rustix::fs::openat(at, path, how | OFlags::PATH, Mode::empty())?, true)),
        other => Ok((other?, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, as_nobody, entry, file, names, put, target};
    use super::super::{Class, Target};
    use super::*;
    use packtrain_core::objects::{EntryKind, Time};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn directory(path: &str, mode: u32) -> Entry {
        entry(path, EntryKind::Directory, mode)
    }

    #[test]
    fn made_closed_and_opened_by_their_entry() {
        let (place, target) = target();
        let d = directory("d", 0o755);
        let (folder, existed) = target.root().child(b"d", Make::Entry(&d)).unwrap();
        assert!(!existed);
        let path = place.path().join("d");
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        let (inner, _) = folder.child(b"e", Make::Parent).unwrap();
        assert_eq!(inner.path(), b"d/e");
        put(&inner, "f", &file("d/e/f", 0o644), b"x").unwrap();
        folder.apply(&d, &mut Vec::new()).unwrap();
        let meta = path.metadata().unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o755, 1_577_836_800));

        let (again, existed) = target.root().child(b"d", Make::Entry(&d)).unwrap();
        assert!(existed);
        let times = again.times().unwrap();
        put(&again, "late", &file("d/late", 0o644), b"x").unwrap();
        assert_ne!(path.metadata().unwrap().mtime(), 1_577_836_800);
        again.put_times_back(&times).unwrap();
        let meta = path.metadata().unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_577_836_800, 123_456_789));
        assert_eq!(names(&path), ["e", "late"]);
    }

    #[test]
    fn links_and_files_are_no_parents() {
        let (place, target) = target();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), place.path().join("evil")).unwrap();
        symlink("nowhere", place.path().join("dangling")).unwrap();
        symlink(".", place.path().join("inside")).unwrap();
        std::fs::write(place.path().join("file"), "x").unwrap();
        for name in ["evil", "dangling", "inside"] {
            let problem = target.root().child(name.as_bytes(), Make::Parent).unwrap_err();
            assert_eq!((problem.clone(), problem.class().code()), (Problem::ParentIsLink, 108));
        }
        assert_eq!(target.folder(b"evil/deep").unwrap_err(), Problem::ParentIsLink);
        assert_eq!(target.folder(b"file").unwrap_err(), Problem::ParentIsFile);
        for name in [&b".."[..], b".", b"", b"a/b", b"a\0b"] {
            let problem = target.root().child(name, Make::Parent).unwrap_err();
            assert_eq!(problem.class(), Class::ClimbsOut);
        }
        // A directory's own entry takes the place of whatever is no directory.
        for name in ["evil", "file", "dangling"] {
            let d = directory(name, 0o755);
            let (folder, existed) = target.root().child(name.as_bytes(), Make::Entry(&d)).unwrap();
            assert!(!existed);
            put(&folder, "f", &file("f", 0o644), b"x").unwrap();
            assert!(place.path().join(name).symlink_metadata().unwrap().is_dir());
        }
        assert!(names(outside.path()).is_empty());
    }

    #[test]
    fn a_folder_exchanged_for_a_link_is_not_followed() {
        let (place, target) = target();
        let outside = tempfile::tempdir().unwrap();
        let (folder, _) = target.root().child(b"d", Make::Parent).unwrap();
        std::fs::rename(place.path().join("d"), place.path().join("moved")).unwrap();
        symlink(outside.path(), place.path().join("d")).unwrap();
        put(&folder, "f", &file("d/f", 0o644), b"x").unwrap();
        assert!(names(outside.path()).is_empty());
        assert_eq!(names(&place.path().join("moved")), ["f"]);
    }

    #[test]
    fn read_only_directories_of_users_twice() {
        as_nobody(|| {
            let (place, target) = target();
            let d = directory("d", 0o555);
            let e = directory("d/e", 0o111);
            for _ in 0..2 {
                let (folder, _) = target.root().child(b"d", Make::Entry(&d)).unwrap();
                let (inner, _) = folder.child(b"e", Make::Entry(&e)).unwrap();
                put(&inner, "f", &file("d/e/f", 0o444), b"x").unwrap();
                let mut warnings = Vec::new();
                inner.apply(&e, &mut warnings).unwrap();
                folder.apply(&d, &mut warnings).unwrap();
                assert!(warnings.is_empty(), "{warnings:?}");
                let mode = |path: &str| place.path().join(path).metadata().unwrap().mode() & 0o7777;
                assert_eq!((mode("d"), mode("d/e"), mode("d/e/f")), (0o555, 0o111, 0o444));
                assert_eq!(place.path().join("d").metadata().unwrap().mtime(), 1_577_836_800);
            }
            // As a mere parent it stays as it is: what is made in it fails, and says so.
            let folder = target.folder(b"d").unwrap();
            let problem = put(&folder, "g", &file("d/g", 0o644), b"x").unwrap_err();
            assert_eq!(problem.class().code(), 105);
            for path in ["d", "d/e"] {
                let open = std::fs::Permissions::from_mode(0o700);
                std::fs::set_permissions(place.path().join(path), open).unwrap();
            }
        });
    }

    #[test]
    fn parents_that_cannot_be_read() {
        as_nobody(|| {
            let (place, target) = target();
            let path = place.path().join("d");
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o311)).unwrap();
            let (folder, existed) = target.root().child(b"d", Make::Parent).unwrap();
            assert!(existed && folder.pinned);
            let times = folder.times().unwrap();
            put(&folder, "f", &file("d/f", 0o644), b"x").unwrap();
            folder.put_times_back(&times).unwrap();
            let mut warnings = Vec::new();
            folder.apply(&directory("d", 0o755), &mut warnings).unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            assert_eq!(names(&path), ["f"]);
        });
    }

    #[test]
    fn the_target_itself_takes_an_entry() {
        let (place, target) = target();
        let mut root = directory(".", 0o751);
        root.mtime = Some(Time { seconds: -1, nanos: 500_000_000 });
        target.root().apply(&root, &mut Vec::new()).unwrap();
        let meta = place.path().metadata().unwrap();
        assert_eq!(meta.mode() & 0o7777, 0o751);
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (-1, 500_000_000));
    }

    #[test]
    fn locked_directories_are_filled_again() {
        let (place, target): (_, Target) = target();
        if !testing::is_root() || !testing::has_flags(place.path()) {
            return;
        }
        for flags in [0x2, 0x4] {
            let d = Entry { flags, ..directory("d", 0o755) };
            for _ in 0..2 {
                let (folder, _) = target.root().child(b"d", Make::Entry(&d)).unwrap();
                put(&folder, "f", &file("d/f", 0o644), b"x").unwrap();
                let mut warnings = Vec::new();
                folder.apply(&d, &mut warnings).unwrap();
                assert!(warnings.is_empty(), "{warnings:?}");
                assert!(std::fs::remove_file(place.path().join("d/f")).is_err());
            }
            target.root().child(b"d", Make::Entry(&d)).unwrap();
        }
    }
}
