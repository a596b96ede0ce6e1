//! What is not opened, with the reason and the exit code.

use packtrain_tests::cases;
use packtrain_tests::command::Call;
use packtrain_tests::snapshot::{self, Closeness};
use std::collections::BTreeMap;

/// Exit code, and words that tell the reason.
const REASONS: [(&str, i32, &[&str]); 22] = [
    ("forged-archive", 90, &["forged"]),
    ("forged-manifest", 90, &["forged"]),
    ("manifest-lost", 90, &["manifest", "missing"]),
    ("refused-attic", 2, &["Attic"]),
    ("refused-attic-key", 44, &["no key"]),
    ("refused-authenticated-blake2-no-key", 44, &["no key"]),
    ("refused-authenticated-no-key", 44, &["no key"]),
    ("refused-feature", 2, &["feature"]),
    ("refused-future-manifest", 2, &["manifest"]),
    ("refused-key-algorithm", 2, &["key wrapping"]),
    ("refused-key-cut", 90, &["key material"]),
    ("refused-key-empty", 44, &["key"]),
    ("refused-key-gone", 44, &["no key"]),
    ("refused-keyfile-cut", 90, &["key material"]),
    ("refused-manifest-no-tam", 90, &["not authentic", "absent", "--not-authenticated"]),
    ("refused-manifest-tam-type", 90, &["not authentic", "absent", "--not-authenticated"]),
    ("refused-manifest-tam-wrong", 90, &["not authentic", "wrong", "--not-authenticated"]),
    ("refused-manifest-version", 2, &["version 3"]),
    ("refused-no-commit", 90, &["commit"]),
    ("refused-no-config", 15, &["not a repository"]),
    ("refused-version-2", 2, &["version 2"]),
    ("refused-wrong-passphrase", 52, &["passphrase"]),
];

#[test]
fn each_is_refused_for_its_reason() {
    let refused: Vec<_> = cases::of_format("borg1").into_iter().filter(|case| case.refused().is_some()).collect();
    let table: BTreeMap<String, _> =
        REASONS.iter().map(|(name, code, words)| (format!("borg1/{name}"), (*code, words))).collect();
    assert_eq!(refused.iter().map(|case| &case.name).collect::<Vec<_>>(), table.keys().collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for case in refused {
        let before = snapshot::take(&case.folder, Closeness::Source);
        let (code, words) = table[&case.name];
        for command in ["list", "check"] {
            let run = Call::new([command, "-r"]).args([case.repo()]).opening(case).run();
            let told = words.iter().all(|word| run.stderr.contains(word));
            // A check goes on with what is stored, list or no list.
            let code = if command == "check" && case.name == "borg1/manifest-lost" { 113 } else { code };
            if run.code != code || !told || !run.stdout.is_empty() {
                wrong.push(format!("{} {command}: {} {}", case.name, run.code, run.stderr));
            }
        }
        assert_eq!(before, snapshot::take(&case.folder, Closeness::Source), "the source changed");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
