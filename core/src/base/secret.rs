//! Bytes that are wiped when dropped and never printed.

use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroizing;

/// Secret bytes: a passphrase, a derived key, unwrapped key material.
///
/// Zeroed on drop. `Debug` shows the length only; there is no `Display`.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes ownership of `bytes`; the allocation itself is wiped on drop.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for the primitive that needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// True for the empty secret, such as an empty passphrase.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_content() {
        assert_eq!(alloc::format!("{:?}", Secret::new(b"hunter2".to_vec())), "Secret(7 bytes)");
    }
}
