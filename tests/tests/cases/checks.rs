//! `check` on what is healthy, and what is refused.

use packtrain_tests::cases::{self, Case};
use packtrain_tests::command::{Call, Run};
use packtrain_tests::folder::Temp;
use packtrain_tests::repository::Copy;
use packtrain_tests::snapshot::{self, Closeness};
use packtrain_tests::spread::spread;

fn check(case: &Case, repo: &std::path::Path, arguments: &[&str]) -> Run {
    Call::new(["check", "-r"]).args([repo]).args(arguments).opening(case).run()
}

/// What `check` finds in cases that are not whole: exit code, and words of the finding.
fn finding(case: &str) -> Option<&'static str> {
    match case {
        "borg2/pointer-lost" => Some("cannot be read"),
        "borg2/index-gone" | "borg2/index-marker" => Some("index"),
        "borg1/index-bucket-gone" => Some("not in the index"),
        _ => None,
    }
}

/// Nothing is found in healthy repositories, whatever the depth and the number of workers.
#[test]
fn healthy_repositories_are_found_healthy() {
    // What is special about archives of Borg 1.x is a finding; `borg1.rs` looks at those.
    let healthy = |case: &&Case| case.special.iter().all(|archive| archive.json.contains_key("hidden"));
    spread(
        &cases::readable().into_iter().filter(healthy).collect::<Vec<_>>(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            let before = snapshot::take(&copy.path(), Closeness::Source);
            for depth in
                [&["-j", "1"][..], &["--verify-data", "-j", "1"], &["--verify-data", "-j", "8", "--memory", "1"]]
            {
                let run = check(case, &copy.path(), depth);
                match finding(&case.name) {
                    None => assert_eq!(run.code, 0, "{depth:?}: {}", run.stderr),
                    Some(words) => {
                        assert_eq!(run.code, 113, "{depth:?}: {}", run.stderr);
                        assert!(run.stderr.contains(words), "{}", run.stderr);
                    }
                }
                if depth[0] == "--verify-data" && case.name != "borg2/pointer-lost" {
                    assert!(run.stderr.contains("chunks verified, 0 damaged"), "{}", run.stderr);
                }
            }
            assert_eq!(before, snapshot::take(&copy.path(), Closeness::Source), "the source changed");
        },
    );
}

/// One archive alone, a sample, and the two halves of a check.
#[test]
fn parts_of_a_check() {
    let case = cases::named("borg2/index-multi");
    let copy = Copy::of(case);
    let count = |run: &Run| -> u64 {
        let line = run.stderr.lines().find(|line| line.contains("chunks verified")).expect("a count").to_owned();
        line.split(' ').find_map(|word| word.parse().ok()).expect("a number")
    };
    let one = check(case, &copy.path(), &["run-3", "--verify-data"]).expect(0);
    let without_archives = check(case, &copy.path(), &["run-3", "--verify-data", "--repository-only"]).expect(0);
    assert!(count(&one) > 0 && count(&one) == count(&without_archives));
    check(case, &copy.path(), &["--repository-only"]).expect(0);
    let whole = check(case, &copy.path(), &["--archives-only", "--verify-data"]).expect(0);
    let sample = check(case, &copy.path(), &["--archives-only", "--verify-data", "--sample", "10%"]).expect(0);
    assert!(count(&sample) < count(&whole), "{} of {}", count(&sample), count(&whole));
    check(case, &copy.path(), &["--repository-only", "--archives-only"]).expect(4);
}

/// What is refused is named, and nothing is written.
#[test]
fn other_formats_are_refused_by_name() {
    let refused: Vec<_> = cases::of_format("borg2").into_iter().filter(|case| case.refused().is_some()).collect();
    assert_eq!(refused.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["borg2/old-beta"]);
    for case in refused {
        let before = snapshot::take(&case.folder, Closeness::Source);
        for command in ["list", "info", "check"] {
            let run = Call::new([command, "-r"]).args([case.repo()]).opening(case).run().expect(2);
            assert!(["version 4", "beta"].iter().all(|word| run.stderr.contains(word)), "{}", run.stderr);
            assert!(run.stdout.is_empty());
        }
        let temp = Temp::new();
        let run = Call::new(["extract", "-r"])
            .args([case.repo()])
            .args(["latest", "-C"])
            .args([temp.path()])
            .opening(case)
            .run();
        assert_eq!((run.expect(2).stdout.len(), std::fs::read_dir(temp.path()).expect("a folder").count()), (0, 0));
        assert_eq!(before, snapshot::take(&case.folder, Closeness::Source), "the source changed");
    }
}

/// Every passphrase of every key, from every place where a key can be.
#[test]
fn every_key_opens() {
    for case in cases::readable().into_iter().filter(|case| case.name.starts_with("borg2/key-")) {
        for passphrase in case.passphrases() {
            let call =
                Call::new(["list", "-r"]).args([case.repo()]).opening(case).env("PACKTRAIN_PASSPHRASE", &passphrase);
            assert!(call.run().expect(0).text().contains("archive"), "{}: {passphrase:?}", case.name);
            let wrong = Call::new(["list", "-r"])
                .args([case.repo()])
                .opening(case)
                .env("PACKTRAIN_PASSPHRASE", format!("{passphrase}x"));
            assert!(wrong.run().expect(52).stdout.is_empty(), "{}", case.name);
        }
    }
    // The same key as a file and in the repository: each opens it alone.
    let case = cases::named("borg2/key-both");
    Call::new(["list", "-r"]).args([case.repo()]).env("BORG_PASSPHRASE", "test").run().expect(0);
    let bare = Temp::new();
    packtrain_tests::folder::copy(&case.repo(), &bare.path().join("repo"));
    packtrain_tests::folder::remove(&bare.path().join("repo/keys"));
    Call::new(["list", "-r"]).args([bare.path().join("repo")]).opening(case).run().expect(0);
    Call::new(["list", "-r"]).args([bare.path().join("repo")]).env("BORG_PASSPHRASE", "test").run().expect(44);
}
