//! The modes of a repository, chosen by the type byte of its manifest (borg1.md 6.1).

/// Hash family of chunk ids, MACs and key lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// SHA-256 without any key.
    Plain,
    /// HMAC-SHA-256 under keys of 32 bytes.
    Hmac,
    /// BLAKE2b-256 after keys of 128 bytes.
    Blake2b,
}

impl Family {
    /// Length of the MAC and id keys in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Hmac => 32,
            Self::Blake2b => 128,
        }
    }
}

/// One row of the table of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// First byte of every object.
    pub type_byte: u8,
    /// The name by which a repository of this mode is made.
    pub name: &'static str,
    /// True if objects are encrypted, and so have a MAC.
    pub encrypted: bool,
    /// Hash family.
    pub family: Family,
}

/// The type byte of the old passphrase mode: once migrated, it is as good as repokey's.
pub const PASSPHRASE: u8 = 1;
/// The type byte of repositories without any key.
pub const PLAIN: u8 = 2;

const MODES: [Mode; 7] = [
    row(0, "keyfile", true, Family::Hmac),
    row(PLAIN, "none", false, Family::Plain),
    row(3, "repokey", true, Family::Hmac),
    row(4, "keyfile-blake2", true, Family::Blake2b),
    row(5, "repokey-blake2", true, Family::Blake2b),
    row(6, "authenticated-blake2", false, Family::Blake2b),
    row(7, "authenticated", false, Family::Hmac),
];

const fn row(type_byte: u8, name: &'static str, encrypted: bool, family: Family) -> Mode {
    Mode { type_byte, name, encrypted, family }
}

impl Mode {
    /// The mode of a repository whose manifest has this type byte.
    pub fn of(type_byte: u8) -> Option<&'static Self> {
        let type_byte = if type_byte == PASSPHRASE { 3 } else { type_byte };
        MODES.iter().find(|mode| mode.type_byte == type_byte)
    }

    /// True if an object of a repository of this mode may have this type byte.
    pub fn accepts(&self, type_byte: u8) -> bool {
        type_byte == self.type_byte || (self.type_byte == 3 && type_byte == PASSPHRASE)
    }

    /// True if there is no key.
    pub fn is_plain(&self) -> bool {
        self.family == Family::Plain
    }

    /// Name of the id hash.
    pub const fn id_hash(&self) -> &'static str {
        match self.family {
            Family::Plain => "sha256",
            Family::Hmac => "hmac-sha256",
            Family::Blake2b => "blake2b",
        }
    }

    /// Bytes of an object before its payload: the type byte, and MAC and IV where it is encrypted.
    pub const fn overhead(&self) -> usize {
        if self.encrypted { 41 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_are_modes() {
        for byte in 0..=255 {
            let mode = Mode::of(byte);
            assert_eq!(mode.is_some(), byte < 8, "{byte}");
            assert!(mode.is_none_or(|mode| mode.accepts(byte)));
        }
        assert_eq!((Mode::of(6).unwrap().name, Mode::of(7).unwrap().name), ("authenticated-blake2", "authenticated"));
        assert!(!Mode::of(5).unwrap().accepts(1) && Mode::of(1).unwrap().accepts(3));
    }
}
