//! Borg's patterns: `fm:`, `sh:`, `re:`, `pp:`, `pf:`.
//!
//! A pattern is matched against the raw bytes of a stored path, which has no leading slash; a
//! leading slash in a pattern is dropped likewise. Globs match a directory with all that is below it.

use alloc::{string::String, vec::Vec};
use regex::bytes::{Regex, RegexBuilder};

/// Largest compiled pattern, bytes; a hostile pattern file must not take the memory.
const COMPILED_MAX: usize = 4 << 20;

/// A pattern's style, as its two-letter selector names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `fm:` shell glob whose `*` also crosses slashes.
    Fnmatch,
    /// `sh:` shell glob whose `*` stops at slashes; `**/` crosses them.
    Shell,
    /// `re:` regular expression, searched for anywhere in the path.
    Regex,
    /// `pp:` the path itself and everything below it.
    Prefix,
    /// `pf:` exactly this path.
    Full,
}

/// One compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    matcher: Matcher,
    text: String,
}

#[derive(Clone, Debug)]
enum Matcher {
    Prefix(Vec<u8>),
    Full(Vec<u8>),
    /// Searched in the path.
    Regex(Regex),
    /// Matched against the path with a slash at its end.
    Glob(Regex),
}

/// A pattern that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pattern '{pattern}' is not valid: {why}")]
pub struct BadPattern {
    /// The pattern as given.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// Compiles `text`, whose selector (such as `re:`) wins over `default`.
    ///
    /// # Errors
    /// [`BadPattern`] for an invalid regular expression or glob.
    pub fn parse(text: &str, default: Style) -> Result<Self, BadPattern> {
        let styles = [
            ("fm:", Style::Fnmatch),
            ("sh:", Style::Shell),
            ("re:", Style::Regex),
            ("pp:", Style::Prefix),
            ("pf:", Style::Full),
        ];
        let (style, body) = styles
            .iter()
            .find_map(|(selector, style)| text.strip_prefix(selector).map(|body| (*style, body)))
            .unwrap_or((default, text));
        let matcher = match style {
            Style::Prefix => Matcher::Prefix(trim(body).as_bytes().to_vec()),
            Style::Full => Matcher::Full(trim(body).as_bytes().to_vec()),
            Style::Regex => Matcher::Regex(compile(body, text)?),
            Style::Fnmatch | Style::Shell => Matcher::Glob(compile(&glob(body, style), text)?),
        };
        Ok(Self { matcher, text: text.into() })
    }

    /// True if the pattern matches `path`.
    pub fn matches(&self, path: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Prefix(prefix) => below(path, prefix),
            Matcher::Full(full) => path == full.as_slice(),
            Matcher::Regex(regex) => regex.is_match(path),
            Matcher::Glob(regex) => {
                let mut with_slash = Vec::with_capacity(path.len() + 1);
                with_slash.extend_from_slice(path);
                with_slash.push(b'/');
                regex.is_match(&with_slash)
            }
        }
    }

    /// The pattern as given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// True if `path` is `prefix` or lies below it. The empty prefix and `.` hold everything.
fn below(path: &[u8], prefix: &[u8]) -> bool {
    if prefix.is_empty() || prefix == b"." {
        return true;
    }
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn trim(body: &str) -> &str {
    let body = body.trim_start_matches('/');
    let body = body.strip_prefix("./").unwrap_or(body);
    body.trim_end_matches('/')
}

fn compile(source: &str, text: &str) -> Result<Regex, BadPattern> {
    RegexBuilder::new(source)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(COMPILED_MAX)
        .build()
        .map_err(|error| BadPattern { pattern: text.into(), why: alloc::format!("{error}").replace('\n', " ") })
}

/// Translates a glob to a regular expression over `path/`. With a slash at its end the glob
/// matches only what is below a directory, else the entry itself too.
fn glob(body: &str, style: Style) -> String {
    let only_below = body.ends_with('/');
    let bytes = trim(body).as_bytes();
    let mut out = String::from("^");
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'*' if style == Style::Fnmatch => out.push_str(".*"),
            b'*' if bytes.get(at..at + 2) == Some(b"*/") => {
                at += 2;
                out.push_str("(?:[^/]*/)*");
            }
            b'*' => out.push_str("[^/]*"),
            b'?' if style == Style::Fnmatch => out.push('.'),
            b'?' => out.push_str("[^/]"),
            b'[' => match class(bytes.get(at..).unwrap_or(&[])) {
                Some((class, used)) => {
                    out.push_str(&class);
                    at += used;
                }
                None => out.push_str("\\["),
            },
            byte => push_literal(&mut out, byte),
        }
    }
    out.push_str(if only_below { "/.+$" } else { "/.*$" });
    out
}

fn push_literal(out: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() {
        out.push(byte.into());
    } else {
        out.push_str(&alloc::format!("\\x{byte:02x}"));
    }
}

/// A bracket expression after its `[`, as a regular expression, and the bytes it takes.
fn class(bytes: &[u8]) -> Option<(String, usize)> {
    let negated = bytes.first() == Some(&b'!');
    let start = usize::from(negated);
    // A bracket directly after the opening one is a member.
    let end = bytes.iter().skip(start + 1).position(|&byte| byte == b']')? + start + 1;
    let mut out = String::from(if negated { "[^" } else { "[" });
    for (n, &byte) in bytes.get(start..end)?.iter().enumerate() {
        let inner = n > 0 && n + 1 < end - start;
        if byte == b'-' && inner { out.push('-') } else { push_literal(&mut out, byte) }
    }
    out.push(']');
    Some((out, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(pattern: &str, path: &[u8]) -> bool {
        Pattern::parse(pattern, Style::Fnmatch).unwrap().matches(path)
    }

    #[test]
    fn styles_as_borg_documents_them() {
        for (pattern, path, expected) in [
            ("*.o", &b"a/b/c.o"[..], true),
            ("fm:home/*/junk", b"home/u/v/junk/deep", true),
            ("sh:home/*/junk", b"home/u/v/junk", false),
            ("sh:home/*/junk", b"home/u/junk/deep", true),
            ("sh:home/**/*.txt", b"home/a.txt", true),
            ("sh:home/**/*.txt", b"home/x/y/a.txt", true),
            ("sh:**/.cache", b"a/.cache/b", true),
            ("home/u/", b"home/u", false),
            ("home/u/", b"home/u/x", true),
            ("/home/u", b"home/u", true),
            ("re:\\.tmp$", b"x/y.tmp", true),
            ("re:^y", b"x/y", false),
            ("pp:a/b", b"a/b/c", true),
            ("pp:a/b", b"a/bc", false),
            ("pf:a/b", b"a/b", true),
            ("pf:a/b", b"a/b/c", false),
            ("[!a-c]x", b"dx", true),
            ("[!a-c]x", b"bx", false),
            ("[]x]y", b"]y", true),
            ("a[b", b"a[b", true),
            ("?", b"\xff", true),
            ("*", b"new\nline", true),
        ] {
            assert_eq!(hits(pattern, path), expected, "{pattern} {}", path.escape_ascii());
        }
    }

    #[test]
    fn bad_patterns_are_named() {
        let error = Pattern::parse("re:(", Style::Fnmatch).unwrap_err();
        assert_eq!(error.pattern, "re:(");
    }
}
