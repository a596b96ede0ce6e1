//! The small dialect of INI files that Borg's repository config is written in.
//!
//! Python's configparser rules as far as they matter (borg2.md section 3): `#` and `;` start
//! comment lines, `=` or `:` separates, keys are case-insensitive, values trimmed, CRLF works, a line
//! that starts with whitespace continues the value before it (borg1.md 2.2), unknown sections and keys
//! are ignored, a key twice in a section is an error.

use alloc::{string::String, vec::Vec};

/// The keys (lowercase) and values of one section, or `None` if the text is malformed or lacks it.
pub fn section(text: &[u8], wanted: &str) -> Option<Vec<(String, String)>> {
    let text = core::str::from_utf8(text).ok()?;
    let mut pairs: Option<Vec<(String, String)>> = None;
    let mut inside = false;
    // A value that an indented line can continue.
    let mut open = false;
    for whole in text.lines() {
        let line = whole.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if open && whole.starts_with([' ', '\t']) {
            if let Some((_, value)) = pairs.as_mut().filter(|_| inside).and_then(|pairs| pairs.last_mut()) {
                value.push('\n');
                value.push_str(line);
            }
            continue;
        }
        open = false;
        if let Some(rest) = line.strip_prefix('[') {
            inside = rest.strip_suffix(']')? == wanted;
            if inside && pairs.is_some() {
                return None;
            }
            if inside {
                pairs = Some(Vec::new());
            }
            continue;
        }
        let (key, value) = line.split_once(['=', ':'])?;
        open = true;
        let key = key.trim().to_ascii_lowercase();
        if inside {
            let pairs = pairs.as_mut()?;
            if pairs.iter().any(|(known, _)| *known == key) {
                return None;
            }
            pairs.push((key, value.trim().into()));
        }
    }
    pairs
}

/// The value of `key` in a list of pairs.
pub fn value<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configparser_habits() {
        let text = b"# c\r\n; c\r\n[other]\r\nversion = 9\r\n[repository]\r\nVersion: 5\r\nid =  ab \r\n\r\n";
        let pairs = section(text, "repository").unwrap();
        assert_eq!(value(&pairs, "version"), Some("5"));
        assert_eq!(value(&pairs, "id"), Some("ab"));
        assert_eq!(value(&pairs, "x"), None);
    }

    #[test]
    fn indented_lines_continue_a_value() {
        let text = b"[x]\na = 1\n\t2=\n[repository]\n  id = ab\n\tcd==\n # c\n\tef\nversion = 1\n";
        let pairs = section(text, "repository").unwrap();
        assert_eq!((value(&pairs, "id"), value(&pairs, "version")), (Some("ab\ncd==\nef"), Some("1")));
    }

    #[test]
    fn doubled_or_broken_is_malformed() {
        assert_eq!(section(b"[repository]\nid=1\nID=2\n", "repository"), None);
        assert_eq!(section(b"[repository\nid=1\n", "repository"), None);
        assert_eq!(section(b"[repository]\nnonsense\n", "repository"), None);
        assert_eq!(section(b"[a]\nb=c\n", "repository"), None);
        assert_eq!(section(b"\xff[repository]\n", "repository"), None);
    }
}
