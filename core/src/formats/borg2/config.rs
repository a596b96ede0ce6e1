//! `config/config`: what the repository is, in plain and unauthenticated text (borg2.md section 3).

use super::suite::Suite;
use crate::base::{Check, Error, Id, Result, Unsupported};
use crate::formats::common::ini;

/// The one repository version that is read.
const VERSION: &str = "5";

/// The checked config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Repository id.
    pub id: Id,
    /// Crypto suite.
    pub suite: &'static Suite,
}

impl Config {
    /// Parses the file's bytes.
    ///
    /// # Errors
    /// `Config` if malformed, `Unsupported` for another version or an unknown suite.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let pairs = ini::section(bytes, "repository").ok_or(Check::Config)?;
        let value = |key| ini::value(&pairs, key);
        let version = value("version").ok_or(Check::Config)?;
        if version != VERSION {
            return Err(other_version(version));
        }
        let id = value("id").and_then(|id| Id::from_hex(id.as_bytes())).ok_or(Check::Config)?;
        match (value("encryption"), value("id_hash")) {
            (Some(encryption), Some(id_hash)) => match Suite::named(encryption, id_hash) {
                Some(suite) => Ok(Self { id, suite }),
                None => Err(Unsupported::Suite(alloc::format!("{encryption} with {id_hash}")).into()),
            },
            (None, None) => Err(Unsupported::Suite("none: the store has no key".into()).into()),
            _ => Err(Check::Config.into()),
        }
    }
}

/// The refusal of a repository of another version.
pub fn other_version(version: &str) -> Error {
    Unsupported::Version {
        format: "Borg 2 repository",
        version: version.into(),
        supported: "only version 5, written by 2.0.0b25",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    #[test]
    fn versions_and_suites() {
        let text = |version: &str, suite: &str| {
            alloc::format!("[repository]\nversion = {version}\nid = {}\n{suite}\n", Id([1; 32])).into_bytes()
        };
        let good = text("5", "encryption = aes256-ocb\nid_hash = sha256");
        assert_eq!(Config::parse(&good).unwrap().suite.type_byte, 0x10);
        let refused = |bytes: &[u8]| matches!(Config::parse(bytes).unwrap_err().kind(), Kind::Unsupported(_));
        assert!(refused(&text("6", "encryption = aes256-ocb\nid_hash = sha256")));
        assert!(refused(&text("5", "encryption = aes256-gcm\nid_hash = sha256")));
        assert!(refused(&text("5", "")));
        assert_eq!(Config::parse(&text("5", "id_hash = sha256")), Err(Check::Config.into()));
        assert_eq!(Config::parse(b""), Err(Check::Config.into()));
    }
}
