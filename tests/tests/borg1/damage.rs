//! Damaged segments and repaired repositories.

use super::{expected, extract};
use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::command::Call;
use packtrain_tests::spread::spread;
use packtrain_tests::tree;
use serde_json::Value;
use std::path::Path;

/// Path and byte ranges of what cannot be right in an archive.
fn damage(case: &Case, archive: &Archive) -> Vec<(String, Vec<(usize, usize)>)> {
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let list = case.json.get("damage").and_then(Value::as_array).expect("a list");
    list.iter()
        .filter(|entry| entry["archive"] == archive.name.as_str())
        .map(|entry| {
            let ranges = entry["ranges"].as_array().expect("ranges");
            let ranges = ranges.iter().map(|range| (number(&range[0]), number(&range[1]))).collect();
            (entry["path"].as_str().expect("a path").to_owned(), ranges)
        })
        .collect()
}

/// What is damaged is zeros and named with its range; everything else is exact.
#[test]
fn the_rest_of_a_damaged_repository_is_exact() {
    let cases: Vec<_> = cases::of_format("borg1").into_iter().filter(|case| case.json.contains_key("damage")).collect();
    assert!(cases.len() >= 12, "{}", cases.len());
    spread(
        &cases,
        |case| case.name.clone(),
        |case| {
            for archive in case.archives.iter().chain(&case.special) {
                let damage = damage(case, archive);
                let healed = archive.file("healed_expect");
                for options in [&["-j", "1"][..], &["-j", "8", "--memory", "1"]] {
                    let (run, mut ours, temp) = extract(case, archive, options);
                    if let Some(healed) = &healed {
                        // The lost chunks came back: the ids of before lead to the whole content.
                        tree::assert_same(&tree::kept(healed), &ours, &archive.name);
                        continue;
                    }
                    let mut right = expected(archive);
                    if run.code == 0 {
                        // All of it was found elsewhere, and proved itself.
                        tree::assert_same(&right, &ours, &archive.name);
                        assert!(damage.is_empty() || run.stderr.contains("data/0/2"), "{}", run.stderr);
                        continue;
                    }
                    assert_eq!(run.code, 113, "{}: {}", archive.name, run.stderr);
                    assert!(!damage.is_empty(), "{}: {}", archive.name, run.stderr);
                    for (path, ranges) in &damage {
                        assert_zeros(&temp.path().join("out").join(path), ranges);
                        assert!(run.stderr.contains(path), "{path} is not named: {}", run.stderr);
                        for tree in [&mut ours, &mut right] {
                            tree.get_mut(path).expect("the damaged file").remove("sha256");
                        }
                    }
                    tree::assert_same(&right, &ours, &archive.name);
                }
            }
        },
    );
}

fn assert_zeros(file: &Path, ranges: &[(usize, usize)]) {
    let bytes = std::fs::read(file).expect("a restored file");
    for (from, to) in ranges {
        assert!(bytes[*from..*to].iter().all(|byte| *byte == 0), "{}: {from} to {to}", file.display());
        assert!(*from == 0 || bytes[..*from].iter().any(|byte| *byte != 0), "{}: before", file.display());
        assert!(*to == bytes.len() || bytes[*to..].iter().any(|byte| *byte != 0), "{}: after", file.display());
    }
}

/// A check finds it, with the segment or the files it concerns.
#[test]
fn checks_find_it() {
    for case in cases::of_format("borg1").into_iter().filter(|case| case.json.contains_key("damage")) {
        let run = Call::new(["check", "--verify-data", "-r"]).args([case.repo()]).opening(case).run();
        if case.name == "borg1/repaired-came-back" {
            assert_eq!(run.code, 0, "{}", run.stderr);
            continue;
        }
        assert_eq!(run.code, 113, "{}: {}", case.name, run.stderr);
        for archive in case.archives.iter().chain(&case.special) {
            for (path, _) in damage(case, archive) {
                assert!(run.stderr.contains(&path), "{}: {path} in {}", case.name, run.stderr);
            }
        }
    }
}

/// Damage in what nothing uses any more hinders nobody, and is told as such by a check.
#[test]
fn dead_damage_hinders_nobody() {
    for name in ["borg1/damaged-dead", "borg1/damaged-dead-no-index"] {
        let case = cases::named(name);
        for archive in &case.archives {
            let (run, ours, _temp) = extract(case, archive, &[]);
            assert_eq!(run.code, 0, "{name}: {}", run.stderr);
            tree::assert_same(&expected(archive), &ours, &archive.name);
        }
        let run = Call::new(["check", "--verify-data", "-r"]).args([case.repo()]).opening(case).run().expect(0);
        for place in ["data/0/0: 1 damaged", "data/0/9: 2 damaged"] {
            assert!(run.stderr.contains(place), "{}", run.stderr);
        }
    }
}

/// What is lost of the list of entries is told; no other archive suffers.
#[test]
fn lost_entries_are_told() {
    let case = cases::named("borg1/damaged-meta-chunk");
    for archive in &case.special {
        let (run, ..) = extract(case, archive, &[]);
        assert_eq!(run.code, 113, "{}", run.stderr);
        assert!(run.stderr.contains("entries of the archive are lost"), "{}", run.stderr);
    }
    for archive in &case.archives {
        let (run, ours, _temp) = extract(case, archive, &[]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        tree::assert_same(&expected(archive), &ours, &archive.name);
    }
}
