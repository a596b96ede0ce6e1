//! The map of rooms, as the documentation of each crate has it, holds for every import.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most lines of a source file.
const LINES_MAX: usize = 600;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Every Rust source file below a folder, with its content.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != "cases") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            found.push((path, text));
        }
    }
    found.sort();
    found
}

/// The rooms of a crate by their place in the table of its documentation: row after row, and in a
/// row from left to right.
fn table(lib: &str) -> BTreeMap<String, usize> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | ["));
    let mut rooms = BTreeMap::new();
    for row in rows {
        let names = row.split(" | ").next().expect("a first column");
        for part in names.split('`').skip(1).step_by(2) {
            let place = rooms.len();
            assert!(rooms.insert(part.to_owned(), place).is_none(), "{part} twice in the table");
        }
    }
    rooms
}

/// The public modules that a crate declares.
fn modules(lib: &str) -> Vec<String> {
    let names = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    names.map(Into::into).collect()
}

/// The code of a file without comments and without its unit tests.
fn code(text: &str) -> String {
    let body = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    body.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Every path below `crate::` that the code names, with braces taken apart one level.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(inner) = rest.strip_prefix('{') {
            let inner = &inner[..matching(inner)];
            let mut depth = 0;
            let parts = inner.split(|letter: char| {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                letter == ',' && depth == 0
            });
            found.extend(parts.map(str::trim).filter(|part| !part.is_empty()).map(path));
        } else {
            found.push(path(rest));
        }
    }
    found
}

/// Length up to the brace that closes the one before the text.
fn matching(text: &str) -> usize {
    let mut depth = 1;
    for (at, letter) in text.char_indices() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The path at the start of a text.
fn path(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || matches!(letter, '_' | ':')).collect()
}

/// The room of a file: its first component below `src`.
fn room_of(file: &Path, src: &Path) -> String {
    let below = file.strip_prefix(src).expect("below src");
    let first = below.components().next().expect("a component").as_os_str().to_str().expect("UTF-8");
    first.trim_end_matches(".rs").to_owned()
}

fn hold(name: &str) {
    let src = workspace().join(name).join("src");
    let lib = std::fs::read_to_string(src.join("lib.rs")).expect("lib.rs");
    let rooms = table(&lib);
    let mut declared = modules(&lib);
    declared.sort();
    assert_eq!(rooms.keys().cloned().collect::<Vec<_>>(), declared, "{name}: the table and the modules differ");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (file, text) in sources(&src) {
        let room = room_of(&file, &src);
        let Some(place) = rooms.get(&room) else { continue };
        for import in imports(&code(&text)) {
            let to = import.split("::").next().unwrap_or_default().to_owned();
            if to == room {
                continue;
            }
            checked += 1;
            match rooms.get(&to) {
                Some(other) if other < place => {}
                other => wrong
                    .push(format!("{}: crate::{import} ({room} is number {place}, {to} {other:?})", file.display())),
            }
        }
    }
    assert!(checked > 20, "{name}: only {checked} imports were found");
    assert!(wrong.is_empty(), "{name}: imports from below:\n{}", wrong.join("\n"));
}

#[test]
fn the_core_imports_only_from_above() {
    hold("core");
}

#[test]
fn the_shell_imports_only_from_above() {
    hold("shell-cli");
}

/// A format knows itself and what is common, and no other format.
#[test]
fn formats_do_not_know_each_other() {
    let formats = workspace().join("core/src/formats");
    let names: Vec<String> = std::fs::read_dir(&formats)
        .expect("the formats")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().is_dir() && entry.file_name() != "common")
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .collect();
    assert!(names.contains(&"borg2".to_owned()));
    for (file, text) in sources(&formats) {
        let own = room_of(&file, &formats);
        let code = code(&text);
        for other in names.iter().filter(|other| **other != own && own != "mod") {
            assert!(!code.contains(&format!("{other}::")), "{}: knows {other}", file.display());
        }
    }
}

/// The core is `no_std`, has no unsafe code, and says so to the compiler.
#[test]
fn the_core_is_bare() {
    let src = workspace().join("core/src");
    let lib = std::fs::read_to_string(src.join("lib.rs")).expect("lib.rs");
    assert!(lib.contains("#![no_std]") && lib.contains("#![forbid(unsafe_code)]"));
    for (file, text) in sources(&src) {
        let code = code(&text);
        for word in ["std::", "unsafe "] {
            let bare = code
                .match_indices(word)
                .all(|(at, _)| code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'));
            assert!(bare, "{}: {word}", file.display());
        }
    }
    let manifest = std::fs::read_to_string(workspace().join("core/Cargo.toml")).expect("the manifest");
    let features = manifest.split("[features]").nth(1).and_then(|rest| rest.split("\n[").next()).expect("features");
    assert!(!features.lines().any(|line| line.trim_start().starts_with("std")), "a feature std");
}

/// Files stay short, and none is called after nothing in particular.
#[test]
fn files_are_short_and_named() {
    let mut count = 0;
    for part in ["core", "shell-cli", "shell-wasm", "tests", "benches"] {
        let manifest = std::fs::read_to_string(workspace().join(part).join("Cargo.toml")).expect("a manifest");
        for word in ["utils", "manager"] {
            let names = manifest.lines().filter(|line| line.starts_with("name ="));
            assert!(!names.clone().any(|line| line.contains(word)), "{part}");
        }
        for (file, text) in sources(&workspace().join(part)) {
            count += 1;
            let lines = text.lines().count();
            assert!(lines <= LINES_MAX, "{}: {lines} lines", file.display());
            let name = file.file_stem().and_then(|name| name.to_str()).expect("UTF-8");
            assert!(!["utils", "util", "manager", "helpers", "misc"].contains(&name), "{}", file.display());
            assert!(text.starts_with("//!") || name == "main", "{}: says not what it holds", file.display());
        }
    }
    assert!(count > 60, "only {count} files");
}

/// The reader of imports itself: it sees what it must see.
#[test]
fn imports_are_found() {
    let text = "use crate::a::{b, c};\nuse crate::{d, e::{f, g}, h::i};\n// crate::no\nlet x = crate::j::k();\n\n#[cfg(test)]\nmod tests { use crate::z; }";
    assert_eq!(imports(&code(text)), ["a::", "d", "e::", "h::i", "j::k"]);
    let lib = "//! | [`a`], [`b`](mod@b) | x |\n//! | [`c`] | y `z` |\npub mod a;";
    assert_eq!(table(lib), [("a".to_owned(), 0), ("b".to_owned(), 1), ("c".to_owned(), 2)].into());
}
