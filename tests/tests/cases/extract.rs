//! Extracted trees equal what borg extracted, and nothing depends on workers, readers or memory.

use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::command::Call;
use packtrain_tests::folder::Temp;
use packtrain_tests::repository::Copy;
use packtrain_tests::snapshot::{self, Closeness};
use packtrain_tests::spread::spread;
use packtrain_tests::tree::{self, Tree};
use serde_json::{Value, json};
use std::path::Path;

/// Every case's repository, opened with its real key, at its default settings.
#[test]
fn every_archive_is_restored_as_borg_restores_it() {
    spread(
        &cases::restorable(),
        |case| case.name.clone(),
        |case| {
            let before = snapshot::take(&case.folder, Closeness::Source);
            for archive in &case.archives {
                let temp = Temp::new();
                temp.folder("out");
                let run = Call::new(["extract", "-r"]).args([case.repo()]).args([archive.spec().as_str(), "-C", "out"]);
                let run = run.opening(case).within(temp.path()).run();
                assert_eq!((run.code, run.stdout.len()), (0, 0), "{}: {}", archive.name, run.stderr);
                compare(case, archive, &temp.path().join("out"));
            }
            assert_eq!(before, snapshot::take(&case.folder, Closeness::Source), "the source changed");
        },
    );
}

fn compare(case: &Case, archive: &Archive, out: &Path) {
    let actual = tree::print(out, &archive.tree_options());
    tree::assert_same(&right(case, archive), &actual, &archive.name);
}

/// What is right: what borg wrote, except for the three archives where it is known to be wrong.
fn right(case: &Case, archive: &Archive) -> Tree {
    let borg = || tree::kept(&archive.file("expect").expect("an expected tree"));
    match (case.name.as_str(), archive.name.as_str()) {
        ("borg2/flags-linked", "linked") => {
            // Flags set after all links are made restore the source: three names each.
            let mut tree = borg();
            for kind in ["append", "immutable"] {
                let first = format!("1/{kind}");
                let mut entry = tree.remove(&first).expect("the first name");
                entry.insert("hlgroup".into(), first.into());
                for folder in ["1", "2", "3"] {
                    let path = format!("{folder}/{kind}");
                    entry.insert("path".into(), path.as_str().into());
                    tree.insert(path, entry.clone());
                }
            }
            tree
        }
        ("borg2/import-tar", "pax") => {
            // The ACL is written with commas: set it, the attribute and the time.
            let mut tree = borg();
            let right = facts("acl-comma", archive);
            tree.get_mut("acl-comma").expect("the file").extend(right);
            tree
        }
        ("borg2/import-tar", "acl-named") => {
            let plain = |path: &str, size: u64| {
                let hash = sha256_of(archive, path);
                json!({"path": path, "type": "file", "mode": "644", "uid": 0, "gid": 0, "mtime_ns": 1_600_000_000_000_000_000u64,
                    "flags": 0, "size": size, "sha256": hash})
            };
            let mut acl = plain("acl", 4);
            acl.as_object_mut().expect("a map").extend(facts("acl", archive));
            let lines: Vec<String> =
                [plain("before", 7), acl, plain("after", 6)].iter().map(Value::to_string).collect();
            tree::parse(&lines.join("\n"))
        }
        _ => borg(),
    }
}

/// What the two files have whose ACLs borg cannot set, by hand from their raw items.
fn facts(path: &str, archive: &Archive) -> serde_json::Map<String, Value> {
    let raw = archive.lines("raw_items");
    let item = raw.iter().find(|item| item["path"] == path).expect("the raw item");
    let entries: &[(u16, u16, u32)] = match path {
        // user::rw- user:daemon:rw- group::r-- group:54322:r-- mask::rw- other::---
        "acl" => &[(1, 6, u32::MAX), (2, 6, 1), (4, 4, u32::MAX), (8, 4, 54322), (16, 6, u32::MAX), (32, 0, u32::MAX)],
        // user::rw-,group::rw-,mask::r--,other::---
        _ => &[(1, 6, u32::MAX), (4, 6, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)],
    };
    let mut value = vec![2u8, 0, 0, 0];
    for (tag, rights, id) in entries {
        value.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let mut attributes = serde_json::Map::new();
    attributes.insert("system.posix_acl_access".into(), packtrain::messages::base64(&value).into());
    for (name, text) in item.get("xattrs").and_then(Value::as_object).into_iter().flatten() {
        if name.starts_with("user.") {
            attributes
                .insert(name.clone(), packtrain::messages::base64(text.as_str().unwrap_or_default().as_bytes()).into());
        }
    }
    // An ACL's mask is what the group bits of the mode show.
    let mask = u64::from(entries.iter().find(|(tag, ..)| *tag == 16).expect("a mask").1);
    let mode = item["mode"].as_u64().unwrap_or_default() & 0o7700 | mask << 3;
    let mut facts = serde_json::Map::new();
    facts.insert("xattrs".into(), attributes.into());
    facts.insert("mode".into(), format!("{mode:o}").into());
    facts.insert("mtime_ns".into(), item["mtime"].clone());
    facts
}

/// Content that borg lists the digest of.
fn sha256_of(archive: &Archive, path: &str) -> String {
    let items = archive.lines("items");
    let item = items.iter().find(|item| item["path"] == path).expect("the item");
    item["sha256"].as_str().expect("a digest").into()
}

/// Workers, readers, bytes of memory.
type Setting = (u32, u32, &'static str);

/// The archives that go through every setting: big and small chunks, repeated and zero ones, links,
/// attributes, many files, several packs.
const THOROUGH: [&str; 12] = [
    "borg2/big-chunks",
    "borg2/codec-mixed",
    "borg2/flags-linked",
    "borg2/index-gone",
    "borg2/many-chunks",
    "borg2/many-items",
    "borg2/packs-small",
    "borg2/roots",
    "borg2/sample",
    "borg2/sparse",
    "borg2/types",
    "borg2/xattrs",
];

/// Every setting for the first two archives of a thorough case, a few for all others.
fn settings(case: &Case, archive: usize) -> Vec<Setting> {
    if archive > 1 || !THOROUGH.contains(&case.name.as_str()) {
        return vec![(1, 0, "1"), (8, 0, "48M"), (8, 3, "64K")];
    }
    let memory = ["1", "4K", "64K", "1M", "64M"];
    let readers = [0, 1, 3];
    let mut all = Vec::new();
    for (row, jobs) in [1, 2, 3, 8, 16].into_iter().enumerate() {
        for (column, memory) in memory.into_iter().enumerate() {
            all.push((jobs, readers[(row + column) % 3], memory));
        }
    }
    all
}

/// The same tree, report, messages and exit code whatever the setting.
#[test]
fn nothing_depends_on_workers_readers_or_memory() {
    spread(
        &cases::restorable(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            let before = snapshot::take(&copy.path(), Closeness::Source);
            for (at, archive) in case.archives.iter().enumerate() {
                let mut first = one(case, archive, &copy, (1, 0, "48M"));
                // Folders without an item have the time of their making.
                for path in archive.texts("mtime_free") {
                    first.0.get_mut(&path).expect("a folder").insert("mtime_ns".into(), Value::Null);
                }
                for setting in settings(case, at) {
                    let other = one(case, archive, &copy, setting);
                    let what = format!("{} {setting:?}", archive.name);
                    tree::assert_same(&first.0, &other.0, &what);
                    assert_eq!(first.1, other.1, "the report: {what}");
                    assert_eq!((first.2, &first.3), (other.2, &other.3), "code and messages: {what}");
                }
            }
            assert_eq!(before, snapshot::take(&copy.path(), Closeness::Source), "the source changed");
        },
    );
}

/// Tree, report, exit code and messages of one run.
fn one(case: &Case, archive: &Archive, copy: &Copy, (jobs, readers, memory): Setting) -> (Tree, String, i32, String) {
    let temp = Temp::new();
    temp.folder("out");
    let run = Call::new(["extract", "-C", "out", "--stats", "--report", "report", "-j", &jobs.to_string()])
        .args(["--readers", &readers.to_string(), "--memory", memory, "-r"])
        .args([copy.path()])
        .args([archive.spec()])
        .opening(case)
        .within(temp.path())
        .run();
    let report = std::fs::read_to_string(temp.path().join("report")).expect("a report");
    (tree::print(&temp.path().join("out"), &[]), report, run.code, run.stderr)
}

/// Holes are left where borg leaves them, and none with `--no-sparse`.
#[test]
fn holes_are_restored() {
    let case = cases::named("borg2/sparse");
    let copy = Copy::of(case);
    for archive in &case.archives {
        let temp = Temp::new();
        let extract = |folder: &str, option: &[&str]| {
            temp.folder(folder);
            let call =
                Call::new(["extract", "-C", folder, "-r"]).args([copy.path()]).args([archive.spec()]).args(option);
            call.opening(case).within(temp.path()).run().expect(0);
            tree::print(&temp.path().join(folder), &["--sparse".into()])
        };
        let holes = extract("holes", &[]);
        let full = extract("full", &["--no-sparse"]);
        let borg = tree::kept(&archive.file("expect_sparse").expect("a tree of extract --sparse"));
        tree::assert_same(
            &tree::without(borg.clone(), &["allocated"]),
            &tree::without(holes.clone(), &["allocated"]),
            &archive.name,
        );
        tree::assert_same(
            &tree::without(holes.clone(), &["allocated"]),
            &tree::without(full.clone(), &["allocated"]),
            "--no-sparse",
        );
        let number = |tree: &Tree, path: &str, key: &str| tree[path].get(key).and_then(Value::as_u64);
        for path in borg.keys() {
            let Some(allocated) = number(&borg, path, "allocated") else { continue };
            assert!(number(&holes, path, "allocated") <= Some(allocated), "{path}: more than borg's {allocated} bytes");
            let size = number(&full, path, "size").expect("a size");
            assert!(number(&full, path, "allocated") >= Some(size), "{path}: holes although --no-sparse");
        }
    }
}
