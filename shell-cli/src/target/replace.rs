//! Moving what is finished to its name, over what has that name already.

use super::attributes;
use super::folder::Folder;
use super::object::Object;
use super::warning::{During, Problem, Result, What};
use rustix::fd::AsFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;

impl Folder {
    /// Moves `temporary` to `name` in one step, replacing anything but a directory that is not
    /// empty. With `unlock`, an existing file's flags are no obstacle.
    pub(super) fn put(&self, temporary: &[u8], name: &[u8], unlock: bool) -> Result<()> {
        let rename = || rustix::fs::renameat(self.fd(), temporary, self.fd(), name);
        match rename() {
            Ok(()) => Ok(()),
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                match rustix::fs::unlinkat(self.fd(), name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => rename().during(What::Replace),
                    Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Problem::Occupied),
                    Err(errno) => Err(Problem::new(What::Replace, errno)),
                }
            }
            Err(errno @ Errno::PERM) if unlock => {
                let fd = self.open_file(name).map_err(|_| Problem::new(What::Replace, errno))?;
                attributes::unlock(Object::Open(fd.as_fd())).during(What::Replace)?;
                rename().during(What::Replace)
            }
            Err(errno) => Err(Problem::new(What::Replace, errno)),
        }
    }

    /// Removes a temporary. Nothing can be done if that fails, and it is harmless.
    pub(super) fn discard(&self, temporary: &[u8]) {
        let _ = rustix::fs::unlinkat(self.fd(), temporary, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{names, target};
    use super::*;

    #[test]
    fn over_nothing_a_file_and_directories() {
        let (place, target) = target();
        let root = target.root();
        let put = |name: &str| {
            std::fs::write(place.path().join("t"), name).unwrap();
            root.put(b"t", name.as_bytes(), false)
        };
        std::fs::create_dir(place.path().join("empty")).unwrap();
        std::fs::create_dir_all(place.path().join("full/x")).unwrap();
        for name in ["new", "new", "empty"] {
            assert_eq!(put(name), Ok(()));
            assert_eq!(std::fs::read(place.path().join(name)).unwrap(), name.as_bytes());
        }
        assert_eq!(put("full"), Err(Problem::Occupied));
        root.discard(b"t");
        root.discard(b"t");
        assert_eq!(names(place.path()), ["empty", "full", "new"]);
    }
}
