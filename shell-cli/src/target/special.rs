//! Everything that is neither a regular file nor a directory: symbolic links, named pipes,
//! devices, and further names of objects that exist already.
//!
//! Each is made under its own name if that is free, and otherwise beside it and moved over what
//! is there. A directory is only replaced if it is empty.

use super::attributes::{self, Made, Wanted};
use super::folder::{Folder, Identity, plain};
use super::object::Object;
use super::warning::{During, Problem, Result, Warning, What};
use packtrain_core::objects::entry::{Entry, EntryKind};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Makes the symbolic link, pipe or device of `entry` as `name` in `folder`, with its attributes.
/// What is refused of those is added to `warnings`. A pipe or device cannot have flags: if the
/// entry wants some, that is a warning too.
///
/// # Errors
/// [`Problem::WrongKind`] for files and directories, [`Problem::Occupied`],
/// [`Problem::ClimbsOut`], [`Problem::NoSpace`], or what the system refused: devices are of class
/// 105 for everybody but root.
pub fn create(
    folder: &Folder,
    name: &[u8],
    entry: &Entry,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    plain(name)?;
    match &entry.kind {
        EntryKind::Symlink(aim) => {
            place(folder, name, What::Create, |at| {
                rustix::fs::symlinkat(aim.as_slice(), folder.fd(), at)
            })?;
            apply(Object::Link(folder.fd(), name), folder, entry, warnings)
        }
        EntryKind::Fifo => node(folder, name, entry, FileType::Fifo, 0, warnings),
        EntryKind::CharDevice(number) => {
            node(folder, name, entry, FileType::CharacterDevice, *number, warnings)
        }
        EntryKind::BlockDevice(number) => {
            node(folder, name, entry, FileType::BlockDevice, *number, warnings)
        }
        EntryKind::File(_) | EntryKind::Directory => Err(Problem::WrongKind),
    }
}

fn node(
    folder: &Folder,
    name: &[u8],
    entry: &Entry,
    kind: FileType,
    number: u64,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    // The kernel would cut a larger number down to that of another device.
    if u32::try_from(number).is_err() {
        return Err(Problem::new(What::Create, Errno::INVAL));
    }
    place(folder, name, What::Create, |at| {
        rustix::fs::mknodat(folder.fd(), at, kind, Mode::from_raw_mode(0o600), number)
    })?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder.fd(), name, flags, Mode::empty()).during(What::Open)?;
    let stat = rustix::fs::fstat(&fd).during(What::Open)?;
    if FileType::from_raw_mode(stat.st_mode) != kind || stat.st_rdev != number {
        // Exchanged by somebody in between: not ours to give away.
        return Err(Problem::new(What::Open, Errno::STALE));
    }
    apply(Object::Pinned(fd.as_fd()), folder, entry, warnings)
}

fn apply(
    object: Object<'_>,
    folder: &Folder,
    entry: &Entry,
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    let shared = folder.shared();
    let made = match (object, folder.gives()) {
        // A link has no mode, so if the owner is known, there is nothing to ask.
        (Object::Link(..), Some((uid, gid, _))) => Made { uid, gid, mode: 0, inherits: false },
        _ => {
            let stat = object.stat().during(What::Open)?;
            let (uid, gid, mode) = (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777);
            Made { uid, gid, mode, inherits: folder.gives_acls() }
        }
    };
    attributes::apply(object, entry, Wanted::of(entry, shared), made, shared, warnings);
    attributes::apply_flags(object, entry, shared, warnings);
    Ok(())
}

/// Makes `name` in `folder` another name of `from_name` in `from`, which must be the object
/// `expected` if that is given. Links are not followed. Attributes are those of the object.
///
/// # Errors
/// [`Problem::CopyWanted`] if no link is possible but writing the content again would do,
/// [`Problem::UnsafeLink`] if another object has the source's name, [`Problem::Occupied`],
/// [`Problem::ClimbsOut`], [`Problem::NoSpace`], or what the system refused.
pub fn link(
    from: &Folder,
    from_name: &[u8],
    expected: Option<Identity>,
    folder: &Folder,
    name: &[u8],
) -> Result<()> {
    plain(from_name)?;
    plain(name)?;
    let linked = place(folder, name, What::Link, |at| {
        rustix::fs::linkat(from.fd(), from_name, folder.fd(), at, AtFlags::empty())?;
        // What has been linked is looked at, not what may be linked: nobody can come between.
        let stat = rustix::fs::statat(folder.fd(), at, AtFlags::SYMLINK_NOFOLLOW)?;
        if expected.is_some_and(|expected| expected != Identity::of(&stat)) {
            folder.discard(at);
            return Err(Errno::STALE);
        }
        Ok(())
    });
    match linked {
        Err(Problem::Failed { what: What::Link, errno }) => Err(match errno {
            Errno::STALE if expected.is_some() => Problem::UnsafeLink,
            Errno::MLINK | Errno::PERM | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOENT => {
                Problem::CopyWanted(errno)
            }
            _ => Problem::Failed { what: What::Link, errno },
        }),
        other => other,
    }
}

/// Lets `make` make an object as `name`, or beside it and then moved over what is there.
fn place(
    folder: &Folder,
    name: &[u8],
    what: What,
    make: impl Fn(&[u8]) -> rustix::io::Result<()>,
) -> Result<()> {
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
