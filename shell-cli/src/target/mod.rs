//! The target: the room that writes the file system.
//!
//! Everything below the target directory is reached component by component through open
//! directory handles, and no symbolic link is ever followed on the way, so nothing outside can
//! be touched however hostile an archive is or whatever is at the target already.
//!
//! | file | holds |
//! |---|---|
//! | [`folder`] | open directories, making and entering children, their attributes |
//! | [`file`](mod@file) | regular files, written beside their final name and moved onto it |
//! | [`special`] | symbolic links, pipes, devices, hard links |
//! | [`attributes`] | owner, attributes, mode, ACLs, times, flags, in the order that works |
//! | [`existing`] | what is at a name already |
//! | [`identity`] | telling whether a name still stands for the same object |
//! | `names` | which names are accepted, and temporary ones |
//! | `unfinished` | files that have no name yet, or a temporary one |
//! | `replace` | moving what is finished to its name |
//! | [`object`] | the system calls for one attribute, by handle or by name |
//! | [`acl`] | ACL text to the kernel's bytes |
//! | [`owners`] | names to numbers |
//! | [`warning`] | what went wrong, with its exit code |
//!
//! All types are `Send + Sync`. Nothing here blocks on another thread.

pub mod acl;
pub mod attributes;
pub mod existing;
pub mod file;
pub mod folder;
pub mod identity;
mod names;
pub mod object;
pub mod owners;
mod replace;
pub mod special;
mod unfinished;
pub mod warning;

#[cfg(test)]
pub(crate) mod testing;

pub use file::{Finished, NewFile};
pub use folder::{Folder, Make, SavedTimes};
pub use identity::Identity;
pub use warning::{Class, Problem, Result, Warning, What, Why};

use core::sync::atomic::{AtomicU64, Ordering};
use names::TemporaryName;
use owners::Owners;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;
use unfinished::Nameless;

/// Which attributes to restore, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Use the archived numbers of owners and in ACLs, and never look at names.
    pub numeric_ids: bool,
    /// Set owner and group. Without it, objects belong to whoever runs this, and the group is
    /// set only where the archived owner is that user and belongs to the archived group.
    pub owners: bool,
    /// Set POSIX ACLs, and remove inherited ones from what the archive has without ACL.
    pub acls: bool,
    /// Set extended attributes.
    pub xattrs: bool,
    /// Set file flags (no dump, immutable, append only).
    pub flags: bool,
    /// Leave holes where a written piece is all zeros.
    pub sparse: bool,
}

impl Policy {
    /// Everything this process has the right to restore: owners only as root. No holes.
    pub fn of_this_process() -> Self {
        Self {
            numeric_ids: false,
            owners: rustix::process::geteuid().is_root(),
            acls: true,
            xattrs: true,
            flags: true,
            sparse: false,
        }
    }
}

/// What this process is, looked up once.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Process number.
    id: u32,
    /// Effective user.
    uid: u32,
    /// Effective and supplementary groups.
    groups: Vec<u32>,
    /// The file creation mask, or all bits where it cannot be known.
    umask: u32,
}

impl Process {
    fn current() -> Self {
        let mut groups = vec![rustix::process::getegid().as_raw()];
        groups.extend(rustix::process::getgroups().unwrap_or_default().into_iter().map(|gid| gid.as_raw()));
        let uid = rustix::process::geteuid().as_raw();
        Self { id: std::process::id(), uid, groups, umask: current_umask() }
    }
}

/// The file creation mask, read without changing it: the system call that tells it also sets it,
/// for all threads. Where it cannot be read, all bits, so that no mode is taken for granted.
fn current_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o777)
}

/// What all folders of one target share.
#[derive(Debug)]
pub(crate) struct Shared {
    policy: Policy,
    process: Process,
    owners: Owners,
    serial: AtomicU64,
    nameless: Nameless,
}

impl Shared {
    /// A name no other object of this run has.
    fn temporary_name(&self) -> TemporaryName {
        TemporaryName::new(self.process.id, self.serial.fetch_add(1, Ordering::Relaxed))
    }
}

/// The directory that a run restores into.
#[derive(Debug)]
pub struct Target {
    root: Arc<Folder>,
}

impl Target {
    /// Opens the directory at `path`, made if missing (its parent must exist). Here alone
    /// symbolic links are followed: the path is the user's, not the archive's.
    ///
    /// # Errors
    /// [`Problem::ParentIsFile`] if something else is there, or what the system refused.
    pub fn open(path: &Path, policy: Policy) -> Result<Self> {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            // An existing directory on a read-only system is told apart below.
            Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) if path.is_dir() => {}
            Err(errno) => return Err(Problem::new(What::Create, errno)),
        }
        let shared = Arc::new(Shared {
            process: Process::current(),
            owners: Owners::new(policy.numeric_ids),
            policy,
            serial: AtomicU64::new(0),
            nameless: Nameless::default(),
        });
        Ok(Self { root: Arc::new(Folder::root(path, shared)?) })
    }

    /// The target directory itself.
    pub fn root(&self) -> &Arc<Folder> {
        &self.root
    }

    /// What is restored.
    pub fn policy(&self) -> &Policy {
        &self.root.shared().policy
    }

    /// Brings everything written to the target's file system to its device.
    ///
    /// # Errors
    /// What the system refused; a write that failed late is among that.
    pub fn flush(&self) -> Result<()> {
        rustix::fs::syncfs(self.root.fd()).map_err(|errno| Problem::new(What::Write, errno))
    }

    /// Opens the file at the relative `path` for reading. No link is followed on the way.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open_file(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(self.root.fd(), path, flags, Mode::empty(), resolve)
    }

    /// The folder at the relative `path` (`/` separated; empty or `.` for the root), with missing
    /// ones made as plain directories.
    ///
    /// # Errors
    /// Those of [`Folder::child`].
    pub fn folder(&self, path: &[u8]) -> Result<Arc<Folder>> {
        let mut folder = Arc::clone(&self.root);
        if !path.is_empty() && path != b"." {
            for name in path.split(|byte| *byte == b'/') {
                folder = folder.child(name, Make::Parent)?.0;
            }
        }
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_made_but_not_its_parents() {
        let place = tempfile::tempdir().unwrap();
        let policy = Policy::of_this_process();
        let target = Target::open(&place.path().join("new"), policy.clone()).unwrap();
        assert!(target.policy().xattrs);
        assert!(place.path().join("new").is_dir());
        let missing = Target::open(&place.path().join("a/b"), policy.clone()).unwrap_err();
        assert_eq!(missing.class(), Class::NotFound);
        std::fs::write(place.path().join("file"), "").unwrap();
        let file = Target::open(&place.path().join("file"), policy).unwrap_err();
        assert_eq!(file, Problem::ParentIsFile);
    }

    #[test]
    fn folders_by_path() {
        let (place, target) = testing::target();
        assert_eq!(target.folder(b"a/b/c").unwrap().path(), b"a/b/c");
        assert!(place.path().join("a/b/c").is_dir());
        assert_eq!(target.folder(b".").unwrap().path(), b"");
        for hostile in [&b"a/../.."[..], b"/etc", b"a//b", b"a/./b", b"a/b\0"] {
            assert_eq!(target.folder(hostile).unwrap_err(), Problem::ClimbsOut);
        }
    }

    #[test]
    fn the_mask_is_read_and_not_changed() {
        let mask = current_umask();
        assert!(mask <= 0o777);
        assert_eq!(current_umask(), mask);
    }

    #[test]
    fn everything_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Target>();
        shared::<Folder>();
        shared::<NewFile>();
    }
}
