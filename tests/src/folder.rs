//! Temporary folders: made below `TMPDIR`, removed even where files are immutable, and tried out
//! once for what they can hold.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A temporary folder that is gone when this is dropped.
#[derive(Debug)]
pub struct Temp(Option<tempfile::TempDir>);

impl Temp {
    /// A new, empty folder, open to everybody so that a normal user can be let in.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new() -> Self {
        let made = tempfile::Builder::new().prefix("packtrain-tests-").tempdir().expect("a temporary folder");
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(made.path(), open).expect("its mode");
        Self(Some(made))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), tempfile::TempDir::path)
    }

    /// A new, empty folder in it.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir(&path).expect("a folder");
        path
    }

    /// Removes what is at `name` in it.
    pub fn clear(&self, name: &str) {
        remove(&self.path().join(name));
    }
}

impl Default for Temp {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take() {
            remove(&folder.keep());
        }
    }
}

/// Removes a folder, immutable and append-only files and closed folders included.
///
/// # Panics
/// If something stays behind.
pub fn remove(path: &Path) {
    if !path.exists() || std::fs::remove_dir_all(path).is_ok() {
        return;
    }
    let quiet = |program: &str, arguments: &[&str]| {
        let _ = Command::new(program).args(arguments).arg(path).stderr(Stdio::null()).status();
    };
    quiet("chattr", &["-R", "-f", "-i", "-a"]);
    quiet("chmod", &["-R", "u+rwX"]);
    if let Err(error) = std::fs::remove_dir_all(path) {
        assert!(std::thread::panicking() || !path.exists(), "{}: {error}", path.display());
    }
}

/// Copies a folder with everything in it; attributes do not matter.
///
/// # Panics
/// If it cannot.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder to copy") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

/// Every file below `folder`, as sorted paths relative to it.
///
/// # Panics
/// If it cannot be read.
pub fn files(folder: &Path) -> Vec<String> {
    fn walk(top: &Path, below: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(top.join(below)).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = below.join(entry.file_name());
            if entry.file_type().expect("its type").is_dir() {
                walk(top, &path, found);
            } else {
                found.push(path.to_str().expect("a name in UTF-8").to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, Path::new(""), &mut found);
    found.sort();
    found
}

/// Says that less is compared. Straight to the descriptor: the print macros are captured in passing tests.
pub fn say(what: &str) {
    // Nobody is left to be told if even this cannot be written.
    let _ = writeln!(std::io::stderr().lock(), "\n*** COMPARING LESS: {what}\n");
}

/// What can be restored and compared here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eyes {
    /// Root: owners, devices, `trusted.*` and `security.*`, flags, setuid bits.
    pub root: bool,
    /// The temporary folder takes `user.*` attributes.
    pub attributes: bool,
    /// ... and ACLs.
    pub acls: bool,
    /// ... and chattr flags.
    pub flags: bool,
}

impl Eyes {
    /// What is so here. Tried out once; what is missing is said on stderr, past the test's capture.
    pub fn here() -> Self {
        static EYES: OnceLock<Eyes> = OnceLock::new();
        *EYES.get_or_init(Self::look)
    }

    fn look() -> Self {
        let temp = Temp::new();
        let probe = temp.path().join("probe");
        std::fs::write(&probe, b"").expect("a file");
        let works = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).arg(&probe).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let root = rustix::process::geteuid().is_root();
        let set = |name: &std::ffi::CStr, value: &[u8]| {
            rustix::fs::setxattr(&probe, name, value, rustix::fs::XattrFlags::empty()).is_ok()
        };
        // Version 2 of the kernel's form: user::rw, user:1:r, group::r, mask::r, other::r.
        let mut acl = vec![2, 0, 0, 0];
        for (tag, rights, id) in
            [(1u16, 6u16, u32::MAX), (2, 4, 1), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)]
        {
            acl.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
        }
        let eyes = Self {
            root,
            attributes: set(c"user.packtrain", b"x"),
            acls: set(c"system.posix_acl_access", &acl),
            flags: root && works("chattr", &["+a"]) && works("chattr", &["-a"]),
        };
        for (there, what) in [
            (
                eyes.root,
                "not root: owners, devices, trusted.* and security.* attributes, flags and setuid bits are NOT compared",
            ),
            (eyes.attributes, "the temporary folder takes no user.* attributes: they are NOT compared (set TMPDIR)"),
            (eyes.acls, "the temporary folder takes no ACLs: they are NOT compared (set TMPDIR)"),
            (eyes.flags, "the temporary folder takes no chattr flags: they are NOT compared (set TMPDIR)"),
        ] {
            if !there {
                say(what);
            }
        }
        eyes
    }
}
