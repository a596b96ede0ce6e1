//! Selection: which entries of an archive are wanted, and under which path.

use super::pattern::{BadPattern, Pattern, Style};
use alloc::{string::String, vec::Vec};
use core::cell::Cell;

/// What a matching rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Include,
    Exclude,
}

/// The choice of entries. The first rule that matches decides; an entry no rule matches is wanted
/// unless include paths were given.
#[derive(Debug, Default)]
pub struct Selection {
    includes: Vec<Include>,
    rules: Vec<(Pattern, Verdict)>,
    strip: usize,
}

#[derive(Debug)]
struct Include {
    pattern: Pattern,
    used: Cell<bool>,
}

impl Selection {
    /// Everything, with `strip` leading path components removed.
    pub fn new(strip: usize) -> Self {
        Self { strip, ..Self::default() }
    }

    /// Adds a path to include, a prefix unless it has a selector.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn include(&mut self, path: &str) -> Result<(), BadPattern> {
        let pattern = Pattern::parse(path, Style::Prefix)?;
        self.includes.push(Include { pattern, used: Cell::new(false) });
        Ok(())
    }

    /// Adds an exclude pattern, `fm:` unless it has a selector.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn exclude(&mut self, pattern: &str) -> Result<(), BadPattern> {
        self.rules.push((Pattern::parse(pattern, Style::Fnmatch)?, Verdict::Exclude));
        Ok(())
    }

    /// Adds one line of a pattern list: `+ PATTERN` includes, `- PATTERN` and `! PATTERN` exclude,
    /// `P STYLE` changes the default style (given and kept in `style`), `R PATH` adds an include
    /// path; blank lines and `#` comments do nothing.
    ///
    /// # Errors
    /// [`BadPattern`], also for an unknown command.
    pub fn rule(&mut self, line: &str, style: &mut Style) -> Result<(), BadPattern> {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let bad = |why: &str| BadPattern { pattern: line.into(), why: why.into() };
        let mut letters = line.chars();
        let command = letters.next();
        let rest = letters.as_str().trim_start();
        if rest.is_empty() {
            return Err(bad("a command letter and a pattern are needed"));
        }
        match command {
            Some('+') => self.rules.push((Pattern::parse(rest, *style)?, Verdict::Include)),
            Some('-' | '!') => self.rules.push((Pattern::parse(rest, *style)?, Verdict::Exclude)),
            Some('R' | 'r') => self.include(rest)?,
            Some('P' | 'p') => {
                *style = match rest.trim() {
                    "fm" => Style::Fnmatch,
                    "sh" => Style::Shell,
                    "re" => Style::Regex,
                    "pp" => Style::Prefix,
                    "pf" => Style::Full,
                    _ => return Err(bad("the style is one of fm, sh, re, pp, pf")),
                }
            }
            _ => return Err(bad("a line starts with +, -, !, P or R")),
        }
        Ok(())
    }

    /// True if the entry at `path` is wanted.
    pub fn wants(&self, path: &[u8]) -> bool {
        if !self.includes.is_empty() {
            let mut any = false;
            for include in &self.includes {
                // No early end: each include path that matches anything counts as used.
                if include.pattern.matches(path) {
                    include.used.set(true);
                    any = true;
                }
            }
            if !any {
                return false;
            }
        }
        self.rules
            .iter()
            .find(|(pattern, _)| pattern.matches(path))
            .is_none_or(|(_, verdict)| *verdict == Verdict::Include)
    }

    /// The path to restore to, or `None` if all its components are stripped away.
    pub fn target<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        if self.strip == 0 {
            return Some(path);
        }
        let (at, _) = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').nth(self.strip - 1)?;
        path.get(at + 1..).filter(|rest| !rest.is_empty())
    }

    /// Include paths that matched nothing so far.
    pub fn unused(&self) -> Vec<String> {
        self.includes
            .iter()
            .filter(|include| !include.used.get())
            .map(|include| include.pattern.text().into())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_decides() {
        let mut selection = Selection::new(0);
        let mut style = Style::Shell;
        for line in ["# comment", "", "+ a/keep", "- a", "P re", "! x$"] {
            selection.rule(line, &mut style).unwrap();
        }
        assert!(selection.wants(b"a/keep/1") && selection.wants(b"b"));
        assert!(!selection.wants(b"a/1") && !selection.wants(b"b/x"));
        assert!(selection.rule("* x", &mut style).is_err() && selection.rule("+", &mut style).is_err());
    }

    #[test]
    fn include_paths_that_match_nothing_are_told() {
        let mut selection = Selection::new(0);
        selection.include("a/b").unwrap();
        selection.include("zz").unwrap();
        selection.exclude("*.o").unwrap();
        assert!(selection.wants(b"a/b/c") && !selection.wants(b"a/b/c.o") && !selection.wants(b"q"));
        assert_eq!(selection.unused(), ["zz"]);
    }

    #[test]
    fn stripping() {
        let selection = Selection::new(2);
        assert_eq!(selection.target(b"a/b/c/d"), Some(&b"c/d"[..]));
        assert_eq!(selection.target(b"a/b"), None);
        assert_eq!(Selection::new(0).target(b"a"), Some(&b"a"[..]));
    }
}
