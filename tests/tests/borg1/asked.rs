//! Archives and files that are there only for those who ask.

use super::{expected, extract};
use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::command::{Call, Run};
use packtrain_tests::tree;
use serde_json::Value;

fn list(case: &Case, options: &[&str]) -> Run {
    Call::new(["list", "--json-lines", "-r"]).args([case.repo()]).args(options).opening(case).run()
}

fn ids(run: &Run) -> Vec<String> {
    let lines = run.text().lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| line["id"].as_str().expect("an id").to_owned()).collect()
}

fn with(case: &'static Case, key: &str) -> Vec<&'static Archive> {
    case.special.iter().filter(|archive| archive.json.contains_key(key)).collect()
}

#[test]
fn checkpoints_are_hidden() {
    for name in ["borg1/checkpoint", "borg1/checkpoint-tree", "borg1/archive-names"] {
        let case = cases::named(name);
        let (usual, all) = (ids(&list(case, &[]).expect(0)), ids(&list(case, &["--consider-checkpoints"]).expect(0)));
        let hidden = with(case, "hidden");
        assert!(!hidden.is_empty());
        for archive in hidden {
            assert!(!usual.contains(&archive.id) && all.contains(&archive.id), "{name}: {}", archive.name);
            let (run, ours, _temp) = extract(case, archive, &["--consider-checkpoints"]);
            assert_eq!(run.code, 0, "{}", run.stderr);
            tree::assert_same(&expected(archive), &ours, &archive.name);
        }
        assert_eq!(usual.len(), case.archives.len());
    }
}

#[test]
fn part_files_are_hidden() {
    for name in ["borg1/checkpoint", "borg1/checkpoint-tree", "borg1/part-files"] {
        let case = cases::named(name);
        let archives = case.archives.iter().chain(&case.special).filter_map(|archive| {
            let path = archive.json.get("with_parts")?.get("expect")?.as_str()?;
            Some((archive, case.folder.join(path)))
        });
        let mut seen = 0;
        for (archive, with_parts) in archives {
            let (run, ours, _temp) = extract(case, archive, &["--consider-checkpoints"]);
            assert_eq!(run.code, 0, "{}", run.stderr);
            tree::assert_same(&expected(archive), &ours, &archive.name);
            let (run, ours, _temp) = extract(case, archive, &["--consider-checkpoints", "--consider-part-files"]);
            assert_eq!(run.code, 0, "{}", run.stderr);
            tree::assert_same(&tree::kept(&with_parts), &ours, &archive.name);
            seen += 1;
        }
        assert!(seen > 0, "{name}");
    }
}

/// An archive whose authentication is absent or wrong is refused, and read on request, marked so.
#[test]
fn archives_that_are_not_authentic_must_be_asked_for() {
    let mut seen = 0;
    for name in ["borg1/archive-tam", "borg1/by-1.1-stale-tam"] {
        let case = cases::named(name);
        for archive in &case.special {
            let refused = archive.texts("").is_empty() && archive.json.contains_key("refused");
            let run = Call::new(["extract", "-n", "-r"]).args([case.repo()]).args([archive.spec()]);
            let run = run.opening(case).run();
            assert_eq!(run.code, 90, "{}: {}", archive.name, run.stderr);
            assert!(run.stderr.contains("--not-authenticated"), "{}", run.stderr);
            if refused && archive.file("expect").is_none() {
                continue;
            }
            let (run, ours, _temp) = extract(case, archive, &["--not-authenticated"]);
            assert!(run.stderr.contains("not authenticated"), "{}", run.stderr);
            tree::assert_same(&expected(archive), &ours, &archive.name);
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

/// Without a manifest nothing is listed; on request the archives are found by looking through everything.
#[test]
fn lost_archives_are_found() {
    let case = cases::named("borg1/manifest-lost");
    let run = list(case, &[]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("manifest") && run.stderr.contains("--lost"), "{}", run.stderr);
    let run = list(case, &["--lost"]);
    let found = ids(&run);
    for archive in case.archives.iter().chain(&case.special) {
        assert!(found.contains(&archive.id), "{}", archive.name);
        let (run, ours, _temp) = extract(case, archive, &["--lost"]);
        assert!([0, 113].contains(&run.code), "{}", run.stderr);
        tree::assert_same(&expected(archive), &ours, &archive.name);
    }
    // One that the manifest never named.
    let case = cases::named("borg1/archive-unlisted");
    let (usual, lost) = (ids(&list(case, &[])), ids(&list(case, &["--lost"])));
    assert_eq!(lost.len(), usual.len() + case.texts("unlisted").len());
}

/// The authenticated modes are plain text: readable without a key, but only on request.
#[test]
fn authenticated_modes_without_the_key() {
    for name in ["borg1/refused-authenticated-no-key", "borg1/refused-authenticated-blake2-no-key"] {
        let case = cases::named(name);
        assert_eq!(list(case, &[]).code, 44, "{name}");
        for archive in case.archives.iter().chain(&case.special) {
            let (run, ours, _temp) = extract(case, archive, &["--not-authenticated"]);
            assert!(run.stderr.contains("not authenticated"), "{}", run.stderr);
            tree::assert_same(&expected(archive), &ours, &archive.name);
        }
    }
}
