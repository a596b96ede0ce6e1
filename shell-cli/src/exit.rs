//! Exit codes: one number per kind of failure, the same in reports and logs.

use packtrain_core::base::{Check, Denied, Error, Fault, Kind};
use std::collections::BTreeSet;

/// Success.
pub const OK: u8 = 0;
/// Warnings of several kinds.
pub const MIXED: u8 = 1;
/// Any error without a number of its own.
pub const ERROR: u8 = 2;
/// Cancelled.
pub const CANCELLED: u8 = 3;
/// The command line is wrong.
pub const USAGE: u8 = 4;
/// No such repository.
pub const NO_REPOSITORY: u8 = 13;
/// Not a repository.
pub const NOT_A_REPOSITORY: u8 = 15;
/// No such archive.
pub const NO_ARCHIVE: u8 = 31;
/// No key for the repository.
pub const NO_KEY_FILE: u8 = 42;
/// No key in the repository.
pub const NO_REPO_KEY: u8 = 44;
/// No passphrase was given.
pub const NO_PASSPHRASE: u8 = 50;
/// The passphrase is wrong.
pub const WRONG_PASSPHRASE: u8 = 52;
/// Integrity error; could not go on.
pub const INTEGRITY: u8 = 90;
/// Warning: an include pattern matched nothing.
pub const PATTERN_UNUSED: u8 = 101;
/// Warning: an attribute or entry was refused by the system for another reason than below.
pub const SYSTEM: u8 = 104;
/// Warning: permission refused.
pub const PERMISSION: u8 = 105;
/// Warning: I/O error on an entry.
pub const IO: u8 = 106;
/// Warning: a stored path climbs out of the target.
pub const CLIMBS_OUT: u8 = 109;
/// Warning: damaged data, named, the rest restored.
pub const DAMAGED: u8 = 113;

/// The table that `packtrain help exit-codes` prints.
pub const TABLE: &str = "\
  0  success
  1  warnings of several kinds
  2  error
  3  cancelled
  4  wrong usage
 13  no such repository
 15  not a repository
 31  no such archive, or a name that fits several
 42  no key file for this repository
 44  no key in the repository
 50  a passphrase is needed and none was given
 52  wrong passphrase (or a damaged key: the format cannot tell them apart)
 90  integrity error, could not go on
101  warning: an include path matched nothing
104  warning: the system refused something
105  warning: permission refused on an entry or an attribute
106  warning: I/O error on an entry
107  warning: something vanished
108  warning: a parent folder is a symbolic link
109  warning: a path climbs out of the target
110  warning: unsafe hard link source
113  warning: damaged data; it is named and the rest was restored
128+N  ended by signal N
";

/// A failure that ends the run, with its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// One line: what, where, and what to do.
    pub message: String,
}

/// Result with a [`Failure`].
pub type Result<T, E = Failure> = core::result::Result<T, E>;

impl Failure {
    /// A failure with this code and message.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A mistake on the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::Unrecognised => NOT_A_REPOSITORY,
            Kind::Absent => NO_REPOSITORY,
            Kind::Denied(Denied::NoKey) => NO_REPO_KEY,
            Kind::Denied(Denied::NoPassphrase) => NO_PASSPHRASE,
            Kind::Denied(Denied::WrongPassphrase) => WRONG_PASSPHRASE,
            Kind::Corrupt(_) | Kind::Missing(_) | Kind::OverLimit { .. } => INTEGRITY,
            _ => ERROR,
        };
        Self::new(code, describe(&error))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(ERROR, error.to_string())
    }
}

/// The error as one line, with the system's own words where the store failed.
pub fn describe(error: &Error) -> String {
    match error.kind() {
        Kind::Store(code) => {
            let system = std::io::Error::from_raw_os_error(*code as i32);
            let place = error.place().object.as_deref().map(|name| format!(", in {name}")).unwrap_or_default();
            format!("reading failed: {system}{place}")
        }
        Kind::Corrupt(Check::TamAbsent | Check::TamWrong) => {
            format!("{error}; --not-authenticated reads it all the same")
        }
        Kind::Corrupt(Check::Downgrade) => {
            format!("{error}; if it was made without encryption, leave passphrase and key file away")
        }
        Kind::Corrupt(Check::SuperblockChecksum) => format!("{error}; --ignore-checksum reads it all the same"),
        Kind::Missing("the manifest") => format!("{error}; --lost looks for archives without it"),
        _ => error.to_string(),
    }
}

/// The fault as one line, with its stage.
pub fn describe_fault(fault: &Fault) -> String {
    format!("{} (stage {})", describe(&fault.error), fault.stage.name())
}

/// Codes of warnings met during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codes(BTreeSet<u8>);

impl Codes {
    /// Notes a warning.
    pub fn add(&mut self, code: u8) {
        self.0.insert(code);
    }

    /// The exit code: 0 without warnings, the code itself for one kind, 1 for several.
    pub fn exit(&self) -> u8 {
        let mut codes = self.0.iter();
        match (codes.next(), codes.next()) {
            (None, _) => OK,
            (Some(one), None) => *one,
            _ => MIXED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_kinds_are_mixed() {
        let mut codes = Codes::default();
        assert_eq!(codes.exit(), OK);
        codes.add(DAMAGED);
        codes.add(DAMAGED);
        assert_eq!(codes.exit(), DAMAGED);
        codes.add(PERMISSION);
        assert_eq!(codes.exit(), MIXED);
    }
}
