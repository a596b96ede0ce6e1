//! Parts of an archive: later names of hard links alone, holes, nothing but streams.

use super::{expected, extract};
use packtrain_tests::cases;
use packtrain_tests::command::Call;
use packtrain_tests::folder::Temp;
use packtrain_tests::tree;
use serde_json::Value;

/// Later names of files and pipes, chosen without their first: the first chosen one is restored from
/// the chunks of the first of all, and the others are linked to it.
#[test]
fn later_names_alone() {
    let case = cases::named("borg1/hard-links");
    let mut seen = 0;
    for archive in &case.archives {
        for chosen in archive.json.get("selected").and_then(Value::as_array).into_iter().flatten() {
            let texts = |key: &str| -> Vec<String> {
                let list = chosen.get(key).and_then(Value::as_array).into_iter().flatten();
                list.filter_map(Value::as_str).map(Into::into).collect()
            };
            let paths = texts("paths");
            let mut right = tree::kept(&case.folder.join(chosen["expect"].as_str().expect("a path")));
            for jobs in ["1", "8"] {
                let mut options = vec!["-j", jobs];
                options.extend(paths.iter().map(String::as_str));
                let (run, mut ours, _temp) = extract(case, archive, &options);
                assert_eq!(run.code, 0, "{paths:?}: {}", run.stderr);
                for path in texts("mtime_free") {
                    for tree in [&mut ours, &mut right] {
                        // Parents that were not chosen: closed, and as old as their making.
                        let folder = tree.get_mut(&path).expect("a folder");
                        folder.retain(|key, _| matches!(key.as_str(), "path" | "type"));
                    }
                }
                tree::assert_same(&right, &ours, &format!("{paths:?} -j {jobs}"));
            }
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

/// Streams make nothing on disk, whatever the archive holds.
#[test]
fn streams_make_nothing() {
    let case = cases::named("borg1/types");
    let temp = Temp::new();
    let call = Call::new(["extract", "--stdout", "-r"]).args([case.repo()]).args([case.archives[0].spec()]);
    let run = call.opening(case).within(&temp.folder("empty")).run().expect(0);
    assert!(!run.stdout.is_empty());
    assert_eq!(std::fs::read_dir(temp.path().join("empty")).expect("a folder").count(), 0);
}

/// A hole of 256 MiB is one chunk repeated: it becomes a hole, and the rest is exact.
#[test]
fn holes_stay_holes() {
    let case = cases::named("borg1/sparse");
    for archive in &case.archives {
        let (run, ours, temp) = extract(case, archive, &[]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        tree::assert_same(&expected(archive), &ours, &archive.name);
        let sparse = tree::print(&temp.path().join("out"), &["--sparse".into()]);
        let number = |entry: &serde_json::Map<String, Value>, key: &str| entry.get(key).and_then(Value::as_u64);
        for (path, entry) in &sparse {
            let (Some(size), Some(allocated)) = (number(entry, "size"), number(entry, "allocated")) else { continue };
            assert!(size < 64 << 20 || allocated < size / 4, "{path}: {allocated} of {size} bytes");
        }
    }
}
