//! `config`: what the repository is, in plain and unauthenticated text (borg1.md 2.2).

use crate::base::{Check, Error, Id, Result, Unsupported};
use crate::formats::common::{ini, keyfile};
use alloc::vec::Vec;

/// The checked config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Repository id.
    pub id: Id,
    /// Segments in one folder, at least 1.
    pub segments_per_dir: u32,
    /// The sealed key, where the repository holds it: its bytes, or that they are no base64.
    pub key: Option<Result<Vec<u8>>>,
}

impl Config {
    /// Parses the file's bytes.
    ///
    /// # Errors
    /// `Config` if malformed, `Unsupported` for another version.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let pairs = ini::section(bytes, "repository").ok_or(Check::Config)?;
        let value = |key| ini::value(&pairs, key);
        match value("version").map(str::parse::<u32>) {
            Some(Ok(1)) => {}
            Some(Ok(version)) => return Err(other_version(version)),
            _ => return Err(Check::Config.into()),
        }
        let id = value("id").and_then(|id| Id::from_hex(id.as_bytes())).ok_or(Check::Config)?;
        let segments_per_dir = value("segments_per_dir")
            .and_then(|count| count.parse().ok())
            .filter(|count| (1..=i32::MAX as u32).contains(count))
            .ok_or(Check::Config)?;
        let key = value("key").filter(|key| !key.is_empty()).map(keyfile::decode);
        Ok(Self { id, segments_per_dir, key })
    }
}

/// The refusal of a repository of another version.
fn other_version(version: u32) -> Error {
    let supported = "only version 1, written by 1.x; version 2 was a pre-release of Borg 2";
    Unsupported::Version { format: "Borg repository", version: alloc::format!("{version}"), supported }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;
    use alloc::string::String;

    fn text(version: &str, more: &str) -> String {
        alloc::format!("[repository]\nversion = {version}\nsegments_per_dir = 1000\nid = {}\n{more}", Id([1; 32]))
    }

    #[test]
    fn the_key_may_be_wrapped() {
        let config = Config::parse(text("1", "key = aGVs\n\tbG8=\n").as_bytes()).unwrap();
        assert_eq!((config.segments_per_dir, config.key), (1000, Some(Ok(b"hello".to_vec()))));
        let config = Config::parse(text("1", "key = aGVsbG8=\n").as_bytes()).unwrap();
        assert_eq!(config.key, Some(Ok(b"hello".to_vec())));
        assert_eq!(Config::parse(text("1", "key =\n").as_bytes()).unwrap().key, None);
        assert_eq!(Config::parse(text("1", "key = ???\n").as_bytes()).unwrap().key, Some(Err(Check::Key.into())));
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let error = Config::parse(text("2", "").as_bytes()).unwrap_err();
        assert!(matches!(error.kind(), Kind::Unsupported(_)));
        assert!(alloc::format!("{error}").starts_with("Borg repository version 2 is not supported"));
        for bad in ["x", "", "-1"] {
            assert_eq!(Config::parse(text(bad, "").as_bytes()), Err(Check::Config.into()));
        }
        let none = text("1", "").replace("1000", "0");
        assert_eq!(Config::parse(none.as_bytes()), Err(Check::Config.into()));
        assert_eq!(Config::parse(b"[repository]\nversion = 1\nsegments_per_dir = 1\n"), Err(Check::Config.into()));
    }
}
