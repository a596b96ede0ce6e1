//! A digest of a whole folder: names, types, sizes, modes, owners, times and content.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// Everything that a program which only reads must leave as it is.
    Source,
    /// What a restored tree is: no inode numbers, no change times, no time of the top folder.
    Restored,
}

/// The digest of everything below `folder`.
///
/// # Panics
/// If something cannot be read.
pub fn take(folder: &Path, closeness: Closeness) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    look(folder, closeness, true, &mut hasher);
    hasher.finalize()
}

fn look(path: &Path, closeness: Closeness, top: bool, hasher: &mut blake3::Hasher) {
    let found = std::fs::symlink_metadata(path).expect("something to look at");
    let mut note = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    if !top {
        note(path.file_name().map_or(&[][..], |name| name.as_bytes()));
    }
    if !top || closeness == Closeness::Source {
        note(&found.mode().to_le_bytes());
        note(&found.uid().to_le_bytes());
        note(&found.gid().to_le_bytes());
        note(&found.mtime().to_le_bytes());
        note(&found.mtime_nsec().to_le_bytes());
        note(&found.rdev().to_le_bytes());
        note(&if found.is_dir() { 0 } else { found.nlink() }.to_le_bytes());
    }
    if closeness == Closeness::Source {
        note(&found.ino().to_le_bytes());
        note(&found.ctime().to_le_bytes());
        note(&found.ctime_nsec().to_le_bytes());
    }
    for name in attributes(path) {
        let mut value = vec![0; 64 << 10];
        let got = rustix::fs::lgetxattr(path, name.as_slice(), &mut value).expect("an attribute's value");
        note(&name);
        note(&value[..got]);
    }
    if found.is_symlink() {
        note(std::fs::read_link(path).expect("a link").as_os_str().as_bytes());
    } else if found.is_file() {
        note(&std::fs::read(path).expect("a file"));
    } else if found.is_dir() {
        let mut names: Vec<_> =
            std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        note(&(names.len() as u64).to_le_bytes());
        for name in names {
            look(&path.join(name), closeness, false, hasher);
        }
    }
}

fn attributes(path: &Path) -> Vec<Vec<u8>> {
    let mut list = vec![0; 64 << 10];
    let Ok(got) = rustix::fs::llistxattr(path, &mut list) else { return Vec::new() };
    list.truncate(got);
    let mut names: Vec<Vec<u8>> =
        list.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Temp;

    #[test]
    fn one_byte_or_one_mode_bit_changes_it() {
        let temp = Temp::new();
        let file = temp.path().join("f");
        std::fs::write(&file, b"abc").unwrap();
        for closeness in [Closeness::Source, Closeness::Restored] {
            let first = take(temp.path(), closeness);
            assert_eq!(first, take(temp.path(), closeness));
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let second = take(temp.path(), closeness);
            assert_ne!(first, second);
            std::fs::write(&file, b"abd").unwrap();
            assert_ne!(second, take(temp.path(), closeness));
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        }
    }
}
