//! Extraction by a normal user: content and own mode bits, and one line for each kind of refusal.

use packtrain_tests::cases;
use packtrain_tests::command::Call;
use packtrain_tests::folder::{Eyes, Temp, say};
use packtrain_tests::repository::Copy;
use packtrain_tests::spread::spread;
use packtrain_tests::tree::{self, Tree};
use serde_json::Value;

/// Number of the user and group that own nothing.
const NOBODY: u32 = 65534;

/// What a normal user can restore of a tree: no owners, devices, privileged attributes or flags;
/// setuid and setgid bits are not given to another owner.
fn own(tree: Tree) -> Tree {
    let mut tree = tree::without(tree, &["uid", "gid", "flags", "hlgroup"]);
    tree.retain(|_, entry| !matches!(entry.get("type").and_then(Value::as_str), Some("char" | "block")));
    for entry in tree.values_mut() {
        let mode = entry
            .get("mode")
            .and_then(Value::as_str)
            .and_then(|mode| u32::from_str_radix(mode, 8).ok())
            .unwrap_or_default();
        entry.insert("mode".into(), format!("{:o}", mode & 0o777).into());
        if let Some(Value::Object(attributes)) = entry.get_mut("xattrs") {
            attributes.retain(|name, _| name.starts_with("user.") || name.starts_with("system."));
            if attributes.is_empty() {
                entry.remove("xattrs");
            }
        }
    }
    tree
}

/// What is refused to a normal user, and for how many entries.
fn refused(case: &str) -> &'static [(&'static str, u32)] {
    match case {
        "borg2/types" => &[("setuid or setgid bit not restored", 3), ("attribute trusted.on-link not restored", 1)],
        "borg2/xattrs" => &[
            ("attribute security.capability not restored", 1),
            ("attribute trusted.on-dir not restored", 1),
            ("attribute trusted.on-fifo not restored", 1),
            ("attribute trusted.on-link not restored", 1),
            ("attribute trusted.t not restored", 1),
        ],
        "borg2/flags" => &[("flags not restored", 5), ("setuid or setgid bit not restored", 1)],
        "borg2/flags-linked" => &[("flags not restored", 2)],
        _ => &[],
    }
}

#[test]
fn a_normal_user_gets_content_and_mode_bits() {
    if !Eyes::here().root {
        say("not root: extraction by another user is NOT tested; every other test here runs as a normal user");
        return;
    }
    // The privileged things: owners, devices, flags, trusted attributes, closed folders.
    let names = [
        "borg2/types",
        "borg2/xattrs",
        "borg2/acls",
        "borg2/flags",
        "borg2/flags-linked",
        "borg2/sample",
        "borg2/suite-aes256-ocb-blake3",
        "borg2/names",
    ];
    let chosen: Vec<_> = names.into_iter().map(cases::named).collect();
    spread(
        &chosen,
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            let archive = &case.archives[0];
            let runs: Vec<_> = ["1", "8"]
                .into_iter()
                .map(|jobs| {
                    let temp = Temp::new();
                    let target = temp.folder("out");
                    std::os::unix::fs::chown(&target, Some(NOBODY), Some(NOBODY)).expect("root can");
                    let call = Call::as_nobody(["extract", "-C", "out", "-j", jobs, "-r"])
                        .args([copy.path()])
                        .args([archive.spec()]);
                    let run = call.opening(case).within(temp.path()).run();
                    (tree::print(&target, &[]), run)
                })
                .collect();
            let (actual, run) = &runs[0];
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            let mut borg = tree::kept(&archive.file("expect").expect("an expected tree"));
            if case.name == "borg2/flags-linked" {
                borg.retain(|path, _| actual.contains_key(path));
            }
            let mut mine = own(actual.clone());
            if case.name == "borg2/flags-linked" {
                mine.retain(|path, _| borg.contains_key(path));
            }
            tree::assert_same(&own(borg.clone()), &mine, "content and modes");
            assert!(actual.values().all(|entry| entry["uid"] == NOBODY), "everything is the user's own");
            assert_eq!(run.code, 105, "{}", run.stderr);
            assert_eq!(run.stderr.matches("owner not restored").count(), 1, "one line: {}", run.stderr);
            // One line for each kind of refusal, whatever the number of entries.
            for (kind, entries) in refused(&case.name) {
                let lines: Vec<&str> = run.stderr.lines().filter(|line| line.contains(kind)).collect();
                let [line] = lines[..] else { panic!("{kind}: {lines:?}") };
                assert!(*entries == 1 || line.contains(&format!("{entries} entries: ")), "{entries}: {line}");
            }
            // What could not be made at all is named one by one.
            for (path, _) in borg
                .iter()
                .filter(|(_, entry)| matches!(entry.get("type").and_then(Value::as_str), Some("char" | "block")))
            {
                assert!(run.stderr.contains(&format!("packtrain: {path}: creation: ")), "{path}: {}", run.stderr);
            }
            assert_eq!((&run.stderr, run.code), (&runs[1].1.stderr, runs[1].1.code), "the same at -j 8");
            tree::assert_same(actual, &runs[1].0, "the same at -j 8");
        },
    );
}
