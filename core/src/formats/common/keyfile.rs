//! The text form of a key: a line `BORG_KEY` with the repository's id, then base64 lines
//! (borg1.md 7.2, borg2.md section 5).

use crate::base::{Check, Denied, Error, Id, Kind, Result};
use alloc::{string::String, vec::Vec};
use base64ct::{Base64, Encoding};
use zeroize::Zeroize;

/// True if `text` is a key of the repository `id`: it starts with `BORG_KEY` and that id.
pub fn belongs_to(text: &[u8], id: &Id) -> bool {
    text.trim_ascii_start()
        .strip_prefix(b"BORG_KEY ")
        .and_then(|rest| rest.get(..64))
        .and_then(Id::from_hex)
        .is_some_and(|named| named == *id)
}

/// The bytes behind the first line of a key's text form.
///
/// # Errors
/// `Key` if there is no second line, or what follows is no base64.
pub fn sealed(text: &[u8]) -> Result<Vec<u8>> {
    let text = core::str::from_utf8(text).map_err(|_| Check::Key)?;
    let (_, base64) = text.trim().split_once('\n').ok_or(Check::Key)?;
    decode(base64)
}

/// Decodes base64 that may be wrapped into lines.
///
/// # Errors
/// `Key` if it is no base64.
pub fn decode(base64: &str) -> Result<Vec<u8>> {
    let mut joined: String = base64.split_ascii_whitespace().collect();
    let decoded = Base64::decode_vec(&joined).map_err(|_| Error::from(Check::Key));
    joined.zeroize();
    decoded
}

/// The first key that opens, each candidate opened only when it is its turn. A damaged one is stepped over.
///
/// # Errors
/// Why none opened: a key that was well-formed enough to refuse the passphrase tells most, then the
/// last failure; `none` without any candidate.
pub fn first_that_opens<T>(candidates: impl Iterator<Item = Result<T>>, none: Error) -> Result<T> {
    let mut failure = none;
    for opened in candidates {
        match opened {
            Err(error) if matches!(failure.kind(), Kind::Denied(Denied::WrongPassphrase)) => drop(error),
            Err(error) => failure = error,
            opened => return opened,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_repository() {
        let id = Id([0xab; 32]);
        let text = alloc::format!("BORG_KEY {id}\r\naGVs\r\nbG8=\r\n");
        assert!(belongs_to(text.as_bytes(), &id) && !belongs_to(text.as_bytes(), &Id([0xac; 32])));
        assert!(!belongs_to(b"BORG_KEY ab\n", &id) && !belongs_to(b"", &id));
        assert_eq!(sealed(text.as_bytes()).unwrap(), b"hello");
        assert_eq!(sealed(b"BORG_KEY"), Err(Check::Key.into()));
        assert_eq!(sealed(b"BORG_KEY x\n?"), Err(Check::Key.into()));
        assert_eq!(sealed(b"BORG_KEY x\n\xff"), Err(Check::Key.into()));
    }
}
