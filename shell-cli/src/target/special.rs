//! Everything that is neither a regular file nor a directory: symbolic links, named pipes, sockets,
//! devices, and further names of objects that exist already.
//!
//! Each is made under its own name if that is free, and otherwise beside it and moved over what
//! is there. A directory is only replaced if it is empty.

use super::attributes::{self, Made, Wanted};
use super::folder::Folder;
use super::identity::Identity;
use super::names::plain;
use super::object::Object;
use super::warning::{During, Problem, Result, Warning, What};
use packtrain_core::objects::{Entry, EntryKind};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Makes the symbolic link, pipe, socket or device of `entry` as `name` in `folder`, with its attributes.
/// What is refused of those is added to `warnings`. A pipe or device cannot have flags: if the
/// entry wants some, that is a warning too.
///
/// # Errors
/// [`Problem::WrongKind`] for files and directories, [`Problem::Occupied`],
/// [`Problem::ClimbsOut`], [`Problem::NoSpace`], or what the system refused: devices are of class
/// 105 for everybody but root.
pub fn create(folder: &Folder, name: &[u8], entry: &Entry, warnings: &mut Vec<Warning>) -> Result<()> {
    plain(name)?;
    let (kind, number) = match entry.kind {
        EntryKind::Symlink(_) => (FileType::Symlink, 0),
        EntryKind::Fifo => (FileType::Fifo, 0),
        EntryKind::CharDevice(number) => (FileType::CharacterDevice, number),
        EntryKind::BlockDevice(number) => (FileType::BlockDevice, number),
        EntryKind::Socket => (FileType::Socket, 0),
        EntryKind::File(_) | EntryKind::Directory => return Err(Problem::WrongKind),
    };
    // The kernel would cut a larger number down to that of another device.
    if u32::try_from(number).is_err() {
        return Err(Problem::new(What::Create, Errno::INVAL));
    }
    place(folder, name, What::Create, |at| match &entry.kind {
        EntryKind::Symlink(aim) => rustix::fs::symlinkat(aim.as_slice(), folder.fd(), at),
        _ => rustix::fs::mknodat(folder.fd(), at, kind, Mode::from_raw_mode(0o600), number),
    })?;
    let wanted = Wanted::of(entry, folder.shared());
    match folder.gives() {
        Some((uid, gid, _)) if kind == FileType::Symlink && wanted.is_met_by(uid, gid) => {
            // Nothing but times: no need to ask what it is, nor to hold on to it.
            let made = Made { uid, gid, mode: 0, inherits: false };
            apply(Object::Link(folder.fd(), name), folder, entry, wanted, made, warnings);
        }
        _ => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(folder.fd(), name, flags, Mode::empty());
            let fd = fd.during(What::Open)?;
            let stat = rustix::fs::fstat(&fd).during(What::Open)?;
            if FileType::from_raw_mode(stat.st_mode) != kind || stat.st_rdev != number {
                // Exchanged by somebody in between: not ours to give away.
                return Err(Problem::new(What::Open, Errno::STALE));
            }
            let link = kind == FileType::Symlink;
            let object = if link { Object::PinnedLink(fd.as_fd()) } else { Object::Pinned(fd.as_fd()) };
            let (uid, gid, mode) = (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777);
            let made = Made { uid, gid, mode, inherits: folder.gives_acls() };
            apply(object, folder, entry, wanted, made, warnings);
        }
    }
    Ok(())
}

fn apply(object: Object<'_>, folder: &Folder, entry: &Entry, wanted: Wanted, made: Made, warnings: &mut Vec<Warning>) {
    let shared = folder.shared();
    attributes::apply(object, entry, wanted, made, shared, warnings);
    attributes::apply_flags(object, entry, shared, warnings);
}

/// Makes `name` in `folder` another name of `from_name` in `from`, which must be the object
/// `expected` if that is given. Links are not followed. Attributes are those of the object.
///
/// # Errors
/// [`Problem::CopyWanted`] if no link is possible but writing the content again would do,
/// [`Problem::UnsafeLink`] if another object has the source's name, [`Problem::Occupied`],
/// [`Problem::ClimbsOut`], [`Problem::NoSpace`], or what the system refused.
pub fn link(from: &Folder, from_name: &[u8], expected: Option<Identity>, folder: &Folder, name: &[u8]) -> Result<()> {
    plain(from_name)?;
    plain(name)?;
    let linked = place(folder, name, What::Link, |at| {
        rustix::fs::linkat(from.fd(), from_name, folder.fd(), at, AtFlags::empty())?;
        let Some(expected) = expected else {
            return Ok(());
        };
        // What has been linked is looked at, not what may be linked: nobody can come between.
        match Identity::of(folder.fd(), at) {
            Ok(found) if found == expected => Ok(()),
            other => {
                folder.discard(at);
                Err(other.err().unwrap_or(Errno::STALE))
            }
        }
    });
    match linked {
        Err(Problem::Failed { what: What::Link, errno }) => Err(match errno {
            Errno::STALE if expected.is_some() => Problem::UnsafeLink,
            // Access may be denied to the source's folder only, once it has its final mode.
            Errno::MLINK | Errno::PERM | Errno::ACCESS | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOENT => {
                Problem::CopyWanted(errno)
            }
            _ => Problem::Failed { what: What::Link, errno },
        }),
        other => other,
    }
}

/// Lets `make` make an object as `name`, or beside it and then moved over what is there.
fn place(folder: &Folder, name: &[u8], what: What, make: impl Fn(&[u8]) -> rustix::io::Result<()>) -> Result<()> {
    match make(name) {
        Err(Errno::EXIST) => {}
        other => return other.during(what),
    }
    let temporary = folder.shared().temporary_name();
    make(temporary.as_bytes()).during(what)?;
    let put = folder.put(temporary.as_bytes(), name, false);
    // Moving one name of an object onto another of the same does nothing at all, not even
    // remove the first, so it is removed here in any case.
    folder.discard(temporary.as_bytes());
    put
}

#[cfg(test)]
mod tests {
    use super::super::testing::{as_nobody, entry, file, is_root, names, put, target};
    use super::super::{Make, NewFile, Target};
    use super::*;
    use packtrain_core::objects::Time;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
    use std::path::Path;

    fn make(target: &Target, name: &str, kind: EntryKind, mode: u32) -> Result<Vec<Warning>> {
        let mut warnings = Vec::new();
        let entry = entry(name, kind, mode);
        create(target.root(), name.as_bytes(), &entry, &mut warnings)?;
        Ok(warnings)
    }

    #[test]
    fn every_kind_twice_and_over_everything() {
        let (place, target) = target();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let kinds = [
            EntryKind::Symlink(b"/no/such\xffplace".to_vec()),
            EntryKind::Fifo,
            EntryKind::CharDevice(0x0103),
            EntryKind::BlockDevice(0x0700),
            EntryKind::Socket,
        ];
        let path = place.path().join("x");
        for kind in kinds {
            let device = matches!(kind, EntryKind::CharDevice(_) | EntryKind::BlockDevice(_));
            if device && !is_root() {
                continue;
            }
            for before in ["nothing", "the same", "link", "directory", "file"] {
                match before {
                    "link" => {
                        std::fs::remove_file(&path).unwrap();
                        symlink(outside.path(), &path).unwrap();
                    }
                    "directory" => {
                        std::fs::remove_file(&path).unwrap();
                        std::fs::create_dir(&path).unwrap();
                    }
                    "file" => {
                        std::fs::remove_file(&path).unwrap();
                        std::fs::write(&path, "x").unwrap();
                    }
                    _ => {}
                }
                let made = make(&target, "x", kind.clone(), 0o640);
                if matches!(made, Err(Problem::Failed { errno: Errno::PERM, .. })) && device {
                    eprintln!("skipped: no devices here");
                    break;
                }
                assert_eq!(made.unwrap(), [], "over {before}");
                let meta = path.symlink_metadata().unwrap();
                assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_577_836_800, 123_456_789));
                match &kind {
                    EntryKind::Symlink(aim) => {
                        let read = std::fs::read_link(&path).unwrap();
                        assert_eq!(read.as_os_str().as_encoded_bytes(), aim);
                    }
                    EntryKind::Fifo => assert!(meta.file_type().is_fifo()),
                    EntryKind::Socket => assert!(meta.file_type().is_socket()),
                    EntryKind::CharDevice(number) => {
                        assert!(meta.file_type().is_char_device() && meta.rdev() == *number);
                    }
                    EntryKind::BlockDevice(number) => {
                        assert!(meta.file_type().is_block_device() && meta.rdev() == *number);
                    }
                    _ => {}
                }
                if !matches!(kind, EntryKind::Symlink(_)) {
                    assert_eq!(meta.mode() & 0o7777, 0o640);
                }
                assert_eq!(names(place.path()), ["x"]);
            }
            let _ = std::fs::remove_file(&path);
        }
        assert_eq!(outside.path().metadata().unwrap().len(), 0);
    }

    #[test]
    fn refused_kinds_names_and_numbers() {
        let (place, target) = target();
        let directory = make(&target, "x", EntryKind::Directory, 0o755);
        assert_eq!(directory.unwrap_err(), Problem::WrongKind);
        let climbing = make(&target, "../x", EntryKind::Fifo, 0o644);
        assert_eq!(climbing.unwrap_err(), Problem::ClimbsOut);
        assert!(make(&target, "x", EntryKind::CharDevice(1 << 32 | 0x0103), 0o644).is_err());
        std::fs::create_dir_all(place.path().join("full/x")).unwrap();
        assert_eq!(make(&target, "full", EntryKind::Fifo, 0).unwrap_err(), Problem::Occupied);
        assert_eq!(names(place.path()), ["full"]);
        let flags = Entry { flags: 0x2, ..entry("p", EntryKind::Fifo, 0o644) };
        let mut warnings = Vec::new();
        create(target.root(), b"p", &flags, &mut warnings).unwrap();
        assert_eq!(warnings, [Warning::refused(What::Flags, Errno::OPNOTSUPP)]);
    }

    #[test]
    fn links_have_owners_and_times_of_their_own() {
        let (place, target) = target();
        put(target.root(), "aim", &file("aim", 0o644), b"x").unwrap();
        let mut link = entry("l", EntryKind::Symlink(b"aim".to_vec()), 0o777);
        link.mtime = Some(Time { seconds: -1, nanos: 1 });
        if is_root() {
            link.uid = Some(12);
            link.xattrs = vec![(b"trusted.x".to_vec(), b"y".to_vec())];
        }
        let mut warnings = Vec::new();
        create(target.root(), b"l", &link, &mut warnings).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let meta = place.path().join("l").symlink_metadata().unwrap();
        assert_eq!((i64::from(meta.uid()), meta.mtime()), (link.uid.unwrap(), -1));
        let aim = place.path().join("aim").metadata().unwrap();
        assert_eq!((aim.mtime(), aim.uid()), (1_577_836_800, rustix::process::geteuid().as_raw()));
    }

    #[test]
    fn further_names_of_files_links_and_pipes() {
        let (place, target) = target();
        let root = target.root();
        let (other, _) = root.child(b"d", Make::Parent).unwrap();
        put(root, "f", &file("f", 0o644), b"x").unwrap();
        make(&target, "l", EntryKind::Symlink(b"f".to_vec()), 0o777).unwrap();
        make(&target, "p", EntryKind::Fifo, 0o644).unwrap();
        for name in ["f", "l", "p"] {
            let name = name.as_bytes();
            let identity = root.identity(name).unwrap();
            // The second time, both are the same object already.
            for _ in 0..2 {
                link(root, name, Some(identity), &other, name).unwrap();
                assert_eq!(other.identity(name).unwrap(), identity);
            }
        }
        assert_eq!(names(&place.path().join("d")), ["f", "l", "p"]);
        // A restored again file gets its links anew.
        put(root, "f", &file("f", 0o644), b"y").unwrap();
        link(root, b"f", None, &other, b"f").unwrap();
        assert_eq!(std::fs::read(place.path().join("d/f")).unwrap(), b"y");
        assert_eq!(names(&place.path().join("d")), ["f", "l", "p"]);
    }

    #[test]
    fn exchanged_and_missing_sources() {
        let (place, target) = target();
        let root = target.root();
        let entry = file("f", 0o644);
        let new = NewFile::create(root, &entry).unwrap();
        let identity = new.identity().unwrap();
        let _ = new.finish(b"f", &entry, 0, &mut Vec::new()).unwrap();
        std::fs::remove_file(place.path().join("f")).unwrap();
        let missing = link(root, b"f", Some(identity), root, b"g").unwrap_err();
        assert_eq!(missing, Problem::CopyWanted(Errno::NOENT));
        symlink("/etc/passwd", place.path().join("f")).unwrap();
        for _ in 0..2 {
            let unsafe_link = link(root, b"f", Some(identity), root, b"g").unwrap_err();
            assert_eq!((unsafe_link.clone(), unsafe_link.class().code()), (Problem::UnsafeLink, 110));
            assert_eq!(names(place.path()), ["f"]);
        }
        std::fs::create_dir(place.path().join("d")).unwrap();
        let directory = link(root, b"d", None, root, b"g").unwrap_err();
        assert_eq!(directory, Problem::CopyWanted(Errno::PERM));
    }

    #[test]
    fn other_file_systems_want_copies() {
        let (_place, target) = target();
        let memory = Path::new("/dev/shm");
        let Ok(elsewhere) = tempfile::tempdir_in(memory) else {
            return;
        };
        let far = Target::open(elsewhere.path(), target.policy().clone()).unwrap();
        put(far.root(), "f", &file("f", 0o644), b"x").unwrap();
        match link(far.root(), b"f", None, target.root(), b"f") {
            Ok(()) => eprintln!("skipped: the same file system"),
            Err(problem) => assert_eq!(problem, Problem::CopyWanted(Errno::XDEV)),
        }
    }

    #[test]
    fn devices_of_users_without_rights() {
        as_nobody(|| {
            let (place, target) = target();
            let problem = make(&target, "x", EntryKind::BlockDevice(0x0700), 0o640).unwrap_err();
            assert_eq!(problem.class().code(), 105);
            assert!(make(&target, "p", EntryKind::Fifo, 0o640).unwrap().is_empty());
            assert_eq!(names(place.path()), ["p"]);
        });
    }
}
