//! What the tests of this room share.

use super::*;
use packtrain_core::objects::{Acl, Entry, EntryKind, Time};

/// A target in a new temporary directory with the policy of this process.
pub(crate) fn target() -> (tempfile::TempDir, Target) {
    target_with(Policy::of_this_process())
}

/// A target in a new temporary directory.
pub(crate) fn target_with(policy: Policy) -> (tempfile::TempDir, Target) {
    let place = tempfile::tempdir().unwrap();
    let target = Target::open(place.path(), policy).unwrap();
    (place, target)
}

/// An entry owned by whoever runs the tests, last changed in 2020.
pub(crate) fn entry(path: &str, kind: EntryKind, mode: u32) -> Entry {
    Entry {
        path: path.as_bytes().to_vec(),
        kind,
        mode,
        uid: Some(i64::from(rustix::process::geteuid().as_raw())),
        gid: Some(i64::from(rustix::process::getegid().as_raw())),
        user: None,
        group: None,
        mtime: Some(Time { seconds: 1_577_836_800, nanos: 123_456_789 }),
        atime: None,
        ctime: None,
        birthtime: None,
        size: None,
        link_group: None,
        inode: None,
        xattrs: Vec::new(),
        acl: Acl::default(),
        flags: 0,
        digests: Vec::new(),
        storage: Default::default(),
    }
}

/// A regular file's entry.
pub(crate) fn file(path: &str, mode: u32) -> Entry {
    entry(path, EntryKind::File(Some(Vec::new())), mode)
}

/// Restores `content` as `name` in `folder`.
pub(crate) fn put(folder: &Arc<Folder>, name: &str, entry: &Entry, content: &[u8]) -> Result<Vec<Warning>> {
    let mut warnings = Vec::new();
    let file = NewFile::create(folder, entry)?;
    file.write_at(0, content)?;
    let _ = file.finish(name.as_bytes(), entry, content.len() as u64, &mut warnings)?;
    Ok(warnings)
}

/// True if the tests run as root; says so where a test is skipped for that.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

/// Runs `body` as a user without rights, who also belongs to group 4242 if the tests run as
/// root. Linux keeps credentials per thread, so only the new thread is affected.
pub(crate) fn as_nobody(body: impl FnOnce() + Send) {
    use rustix::thread::{Gid, Uid, set_thread_gid, set_thread_groups, set_thread_uid};
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                set_thread_groups(&[Gid::from_raw(4242)]).unwrap();
                set_thread_gid(Gid::from_raw(65_534)).unwrap();
                set_thread_uid(Uid::from_raw(65_534)).unwrap();
            }
            body();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The names in a directory, sorted.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// One extended attribute of what `path` leads to.
pub(crate) fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = [0; 1024];
    let len = rustix::fs::getxattr(path, name, &mut buffer[..]).ok()?;
    Some(buffer[..len].to_vec())
}

/// True if flags can be set on files below `path`; says so where a test is skipped for that.
pub(crate) fn has_flags(path: &Path) -> bool {
    let probe = std::fs::File::create(path.join("probe")).unwrap();
    let flags = rustix::fs::IFlags::IMMUTABLE;
    let object = object::Object::Open(rustix::fd::AsFd::as_fd(&probe));
    let works = object.change_flags(flags, rustix::fs::IFlags::empty()).is_ok();
    let _ = attributes::unlock(object);
    std::fs::remove_file(path.join("probe")).unwrap();
    if !works {
        eprintln!("skipped: no file flags here");
    }
    works
}
