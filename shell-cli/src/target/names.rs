//! Names in one folder: which are accepted from an archive, and those of unfinished objects.

use super::warning::{Problem, Result};
use std::io::Write as _;

/// Passes names that are one plain component.
pub fn plain(name: &[u8]) -> Result<()> {
    let plain = !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    if plain { Ok(()) } else { Err(Problem::ClimbsOut) }
}

/// The name an object has until it is complete: `.packtrain-<process>-<serial>.tmp`, both hex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemporaryName {
    bytes: [u8; 40],
    len: u8,
}

impl TemporaryName {
    pub fn new(process: u32, serial: u64) -> Self {
        let mut bytes = [0; 40];
        let mut rest = &mut bytes[..];
        // 11 + 8 + 1 + 16 + 4 bytes at most: it always fits.
        let fits = write!(rest, ".packtrain-{process:x}-{serial:x}.tmp").is_ok();
        debug_assert!(fits);
        let len = 40 - rest.len();
        Self { bytes, len: len as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_fit_and_differ() {
        let long = TemporaryName::new(u32::MAX, u64::MAX);
        assert_eq!(long.as_bytes(), b".packtrain-ffffffff-ffffffffffffffff.tmp");
        assert_eq!(TemporaryName::new(16, 1).as_bytes(), b".packtrain-10-1.tmp");
    }

    #[test]
    fn one_plain_component() {
        for name in [&b"a"[..], b"...", b"a\\b", b"\xff\n", b".hidden", b" "] {
            assert_eq!(plain(name), Ok(()));
        }
        for name in [&b""[..], b".", b"..", b"/", b"a/", b"/a", b"a/../b", b"a\0", b"\0"] {
            assert_eq!(plain(name), Err(Problem::ClimbsOut));
        }
    }
}
