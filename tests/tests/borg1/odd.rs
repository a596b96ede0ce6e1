//! Items that borg itself would not write, from other versions, other tools, or an enemy.

use super::{expected, extract};
use packtrain_tests::cases::{self, Archive};
use packtrain_tests::command::Run;
use packtrain_tests::folder::Temp;
use packtrain_tests::tree::{self, Tree};

fn odd(name: &str) -> (Run, Tree, Temp, &'static Archive) {
    let case = cases::named("borg1/odd-items");
    let archive = case.special.iter().find(|archive| archive.name == name).expect("an archive");
    let (run, tree, temp) = extract(case, archive, &[]);
    (run, tree, temp, archive)
}

/// Those that are restored as if nothing was odd.
#[test]
fn odd_but_fine() {
    for name in
        ["time-negative", "xattr-nil", "key-unknown", "source-of-source", "size-absent", "zero-stream", "no-items"]
    {
        let (run, ours, _temp, archive) = odd(name);
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        tree::assert_same(&expected(archive), &ours, name);
    }
    let (run, ours, ..) = odd("key-not-utf8");
    assert!(run.code == 0 && !ours.is_empty(), "{}", run.stderr);
    let (run, ours, ..) = odd("path-twice");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!ours.is_empty());
}

/// Sizes that contradict the chunks: the chunks count, both numbers are told.
#[test]
fn sizes_that_lie() {
    for name in ["size-plus-1", "size-minus-1"] {
        let (run, ours, _temp, archive) = odd(name);
        assert_eq!(run.code, 113, "{name}: {}", run.stderr);
        tree::assert_same(&expected(archive), &ours, name);
        let told = |number: &str| run.stderr.split(|letter: char| !letter.is_ascii_digit()).any(|word| word == number);
        let other = if name == "size-plus-1" { "6" } else { "4" };
        assert!(told("5") && told(other), "{}", run.stderr);
    }
    // A chunk of another length than its entry says is damage of that chunk.
    let (run, ours, ..) = odd("chunk-size-wrong");
    assert_eq!(run.code, 113, "{}", run.stderr);
    assert!(ours.contains_key("g"));
}

/// A time beyond what can be set is clamped, with a warning.
#[test]
fn times_beyond_all_bounds() {
    let (run, ours, ..) = odd("time-big");
    assert!(![0, 90].contains(&run.code), "{}: {}", run.code, run.stderr);
    assert!(run.stderr.contains("time"), "{}", run.stderr);
    assert!(ours.contains_key("f"));
}

/// Paths and links that lead out never do; the rest is exact.
#[test]
fn nothing_leaves_the_target() {
    for (name, codes) in [
        ("link-escape", &[108, 1][..]),
        ("dot-dot", &[109]),
        ("absolute", &[0, 109]),
        ("socket", &[113]),
        ("no-rdev", &[0]),
    ] {
        let (run, ours, temp, _) = odd(name);
        assert!(codes.contains(&run.code), "{name}: {}: {}", run.code, run.stderr);
        assert!(ours.contains_key("g"), "{name}: {ours:?}");
        let left: Vec<_> =
            std::fs::read_dir(temp.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["out"], "{name}");
    }
    let case = cases::named("borg1/stdin");
    for archive in case.special.iter().filter(|archive| archive.json.contains_key("escapes")) {
        let (run, ours, _temp) = extract(case, archive, &[]);
        assert_eq!((run.code, ours.len()), (109, 0), "{}: {ours:?}", run.stderr);
        assert!(!std::path::Path::new("/tmp/packtrain-pwn").exists());
    }
}

/// A further name without its first, and a stream that ends too early.
#[test]
fn what_is_missing_is_told() {
    let (run, ours, ..) = odd("no-source");
    assert_eq!(run.code, 113, "{}", run.stderr);
    assert!(run.stderr.contains("a/second") && run.stderr.contains("a/first"), "{}", run.stderr);
    assert!(ours.contains_key("g"));
    let (run, ours, ..) = odd("stream-cut");
    assert_eq!(run.code, 113, "{}", run.stderr);
    assert!(ours.contains_key("f"));
    let (run, ..) = odd("owner-negative");
    assert!([0, 1, 104, 105].contains(&run.code), "{}: {}", run.code, run.stderr);
}
