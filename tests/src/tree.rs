//! What `tools/tree.py` says of a folder, and how two such trees differ.

use crate::folder::Eyes;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Entries by path; a path that is not UTF-8 is `base64:` and its base64.
pub type Tree = BTreeMap<String, Map<String, Value>>;

/// The interpreter itself, so that no wrapper script starts each time.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let run = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let out = run.expect("python3 is needed: the tool that looks at trees is not ours").stdout;
        String::from_utf8(out).expect("a path").trim().into()
    })
}

/// What `tree.py` prints of `folder`.
///
/// # Panics
/// If it fails.
pub fn print(folder: &Path, options: &[String]) -> Tree {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/tree.py");
    let run =
        Command::new(python()).args(["-S", "-E"]).arg(tool).args(options).arg(folder).output().expect("python3 runs");
    assert!(run.status.success(), "tree.py: {}", String::from_utf8_lossy(&run.stderr));
    parse(core::str::from_utf8(&run.stdout).expect("ASCII"))
}

/// A tree from the file where it was kept.
///
/// # Panics
/// If it cannot be read.
pub fn kept(file: &Path) -> Tree {
    parse(&std::fs::read_to_string(file).expect("an expected tree"))
}

/// A tree from lines of JSON.
///
/// # Panics
/// If they are not what `tree.py` prints.
pub fn parse(lines: &str) -> Tree {
    let mut tree = Tree::new();
    for line in lines.lines() {
        let entry = from_python(line);
        assert!(tree.insert(path_of(&entry), entry).is_none(), "one path twice");
    }
    tree
}

/// A line of Python's JSON, which writes a byte that is no UTF-8 as half a surrogate pair. JSON here
/// refuses that, so such a half becomes the text of its own escape.
///
/// # Panics
/// If the line is no map.
pub fn from_python(line: &str) -> Map<String, Value> {
    let mut text = String::with_capacity(line.len());
    let mut pair = false;
    for (at, part) in line.split("\\ud").enumerate() {
        let half = part.starts_with(['c', 'd', 'e', 'f']);
        let lone = at > 0 && half && !pair;
        if at > 0 {
            text.push_str(if lone { "\\\\ud" } else { "\\ud" });
        }
        text.push_str(part);
        // The first half of a pair is d800 to dbff, and nothing stands between it and the second.
        pair = at > 0 && !half && part.len() == 3;
    }
    serde_json::from_str(&text).expect("a line of JSON")
}

/// The path of an entry, as [`Tree`] has it.
///
/// # Panics
/// If it has none.
pub fn path_of(entry: &Map<String, Value>) -> String {
    // `path_b64` comes first: listings have a lossy `path` beside it.
    match (entry.get("path_b64").and_then(Value::as_str), entry.get("path").and_then(Value::as_str)) {
        (Some(base64), _) => format!("base64:{base64}"),
        (None, Some(path)) => path.into(),
        (None, None) => panic!("an entry without a path"),
    }
}

/// Fields that a way of restoring cannot carry, left out of a comparison on both sides.
pub fn without(mut tree: Tree, fields: &[&str]) -> Tree {
    for entry in tree.values_mut() {
        for field in fields {
            entry.remove(*field);
        }
    }
    tree
}

/// Everything in which `actual` differs from `expected`, one line each; empty if they are equal.
/// What is null in `expected`, and what cannot be seen here, is not compared.
pub fn differences(expected: &Tree, actual: &Tree, eyes: Eyes) -> Vec<String> {
    let mut found = Vec::new();
    let expected = reduced(expected, eyes);
    let actual = reduced(actual, eyes);
    for (path, want) in &expected {
        let Some(have) = actual.get(path) else {
            found.push(format!("{path:?} is missing"));
            continue;
        };
        let keys: std::collections::BTreeSet<&String> = want.keys().chain(have.keys()).collect();
        for key in keys {
            match (want.get(key), have.get(key)) {
                (Some(Value::Null), _) => {}
                (want, have) if want == have => {}
                (want, have) => found.push(format!("{path:?} {key}: expected {}, is {}", show(want), show(have))),
            }
        }
    }
    found
        .extend(actual.keys().filter(|path| !expected.contains_key(*path)).map(|path| format!("{path:?} is too much")));
    found
}

fn show(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".into(), Value::to_string)
}

/// The part of a tree that can be restored and seen here.
fn reduced(tree: &Tree, eyes: Eyes) -> Tree {
    let mut tree = tree.clone();
    if !eyes.root {
        tree.retain(|_, entry| !matches!(entry.get("type").and_then(Value::as_str), Some("char" | "block")));
    }
    for entry in tree.values_mut() {
        if !eyes.root {
            entry.remove("uid");
            entry.remove("gid");
            let mode = entry.get("mode").and_then(Value::as_str).and_then(|mode| u32::from_str_radix(mode, 8).ok());
            entry.insert("mode".into(), format!("{:o}", mode.unwrap_or_default() & 0o777).into());
        }
        if !eyes.flags {
            entry.remove("flags");
        }
        if let Some(Value::Object(attributes)) = entry.get_mut("xattrs") {
            attributes.retain(|name, _| match name.split('.').next() {
                Some("user") => eyes.attributes,
                Some("system") => eyes.acls,
                _ => eyes.root && eyes.attributes,
            });
            if attributes.is_empty() {
                entry.remove("xattrs");
            }
        }
    }
    tree
}

/// Panics with every difference between the two.
///
/// # Panics
/// If they differ.
#[track_caller]
pub fn assert_same(expected: &Tree, actual: &Tree, what: &str) {
    let differences = differences(expected, actual, Eyes::here());
    assert!(differences.is_empty(), "{what}:\n    {}", differences.join("\n    "));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Eyes = Eyes { root: true, attributes: true, acls: true, flags: true };

    #[test]
    fn halves_of_surrogates_are_text() {
        let entry = from_python(r#"{"a": "\ud83d\ude00", "b\udcff": 1, "c": "\udc80\udc81\ud83d\udc80"}"#);
        let keys: Vec<&str> = entry.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a", r"b\udcff", "c"]);
        assert_eq!((entry["a"].as_str(), entry["c"].as_str()), (Some("\u{1f600}"), Some("\\udc80\\udc81\u{1f480}")));
    }

    #[test]
    fn every_difference_is_found() {
        let want =
            parse("{\"path\":\"a\",\"mode\":\"644\",\"uid\":1}\n{\"path\":\"b\",\"mtime_ns\":null}\n{\"path\":\"c\"}");
        let have =
            parse("{\"path\":\"a\",\"mode\":\"4644\",\"uid\":2}\n{\"path\":\"b\",\"mtime_ns\":5}\n{\"path\":\"d\"}");
        assert_eq!(differences(&want, &have, ALL).len(), 4);
        assert_eq!(differences(&want, &have, Eyes { root: false, ..ALL }).len(), 2);
        assert!(differences(&want, &want, ALL).is_empty());
    }
}
