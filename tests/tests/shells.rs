//! Packtrain as a library between stores that delay and record: order and reads.

use packtrain::store::LocalStore;
use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::folder::Temp;
use packtrain_tests::inside::{Inside, settings};
use packtrain_tests::middlemen::{Delaying, Reads, Recording};
use packtrain_tests::repository::{Copy, Object};
use packtrain_tests::spread::spread;
use packtrain_tests::tree;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn store(copy: &Copy) -> LocalStore {
    LocalStore::open(&copy.path()).expect("a copy")
}

/// Tree, report and exit code are the same with 0 to 20 ms of delay per read.
#[test]
fn delays_change_nothing() {
    let mut all = Vec::new();
    let names = ["borg2/many-chunks", "borg2/packs-small", "borg2/types", "borg2/sample", "borg2/codec-mixed"];
    for case in names.into_iter().filter_map(cases::restorable_named) {
        for (seed, (jobs, readers)) in [(1, 0), (2, 0), (3, 1), (8, 0), (8, 3), (16, 1)].into_iter().enumerate() {
            all.push((case, seed as u64, jobs, readers));
        }
    }
    spread(
        &all,
        |(case, seed, jobs, readers)| format!("{} seed {seed} -j {jobs} --readers {readers}", case.name),
        |(case, seed, jobs, readers)| {
            let copy = Copy::of(case);
            let archive = case.archives.last().expect("an archive");
            let expected = tree::kept(&archive.file("expect").expect("a tree"));
            let mut outcomes = Vec::new();
            for delayed in [false, true] {
                let temp = Temp::new();
                let (out, report) = (temp.folder("out"), temp.path().join("report"));
                let store: Arc<dyn packtrain::store::Store> = match delayed {
                    true => Arc::new(Delaying::new(store(&copy), Duration::from_millis(20), *seed)),
                    false => Arc::new(store(&copy)),
                };
                let settings = if delayed { settings(*jobs, *readers, 1 << 20) } else { settings(1, 0, 48 << 20) };
                let run = Inside { store, passphrase: "test", settings, report: Some(&report) };
                let outcome = run.extract(&archive.id, &[], &out);
                assert_eq!(outcome.code, 0);
                assert!(outcome.report.lines().count() > expected.len(), "a report of every entry");
                tree::assert_same(
                    &expected,
                    &tree::print(&out, &archive.tree_options()),
                    if delayed { "delayed" } else { "straight" },
                );
                outcomes.push(outcome);
            }
            assert_eq!(outcomes[0], outcomes[1]);
        },
    );
}

/// Extracts those paths and returns what was read on the way.
fn recorded(case: &Case, copy: &Copy, archive: &Archive, paths: &[&str], jobs: usize) -> Reads {
    let (store, reads) = Recording::new(store(copy));
    let run = Inside {
        store: Arc::new(store),
        passphrase: &case.passphrase(),
        settings: settings(jobs, 0, 48 << 20),
        report: None,
    };
    let temp = Temp::new();
    assert_eq!(run.extract(&archive.id, paths, temp.path()).code, 0);
    core::mem::take(&mut *reads.lock().expect("no panic here"))
}

fn ids(item: &serde_json::Map<String, Value>) -> Vec<String> {
    let chunks = item.get("chunks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    chunks.iter().filter_map(|chunk| chunk[0].as_str()).map(|id| id.trim_start_matches('\u{7f}').to_owned()).collect()
}

/// How many reads touch any byte of an object.
fn touches(reads: &Reads, object: &Object) -> usize {
    let (from, to) = (object.offset as u64, (object.offset + object.len()) as u64);
    let of_pack = reads.get(&object.pack).map_or(&[][..], Vec::as_slice);
    of_pack.iter().filter(|(offset, len)| *offset < to && offset + len > from).count()
}

/// Chunks that files of an archive consist of, and the objects that are not content of anything.
fn parts(case: &Case, copy: &Copy) -> (BTreeSet<String>, Vec<Object>) {
    let known = case.archives.iter().all(|archive| archive.file("raw_items").is_some());
    let is_content: Box<dyn Fn(&Object) -> bool> = if known {
        let ids: BTreeSet<String> =
            case.archives.iter().flat_map(|archive| archive.lines("raw_items")).flat_map(|item| ids(&item)).collect();
        Box::new(move |object| ids.contains(&object.id))
    } else {
        // One case has too many items to keep them raw; its files are tiny, its metadata is not.
        assert_eq!(case.name, "borg2/many-items");
        Box::new(|object| {
            object.data < 1000
                && case
                    .archives
                    .iter()
                    .all(|archive| archive.id != object.id && !archive.texts("item_ptrs").contains(&object.id))
        })
    };
    let (content, metadata): (Vec<Object>, Vec<Object>) =
        copy.objects().into_iter().partition(|object| is_content(object));
    (content.into_iter().map(|object| object.id).collect(), metadata)
}

/// Chunks of zeros are known by their id: they are restored without being fetched.
#[test]
fn zeros_are_never_fetched() {
    let case = cases::named("borg2/sparse");
    let copy = Copy::of(case);
    for archive in &case.archives {
        // Borg lists the digest of each file: those of only zeros have only chunks of zeros.
        let raw = archive.lines("raw_items");
        let mut zeros = BTreeSet::new();
        for (item, raw) in archive.lines("items").iter().zip(&raw) {
            let size = item["size"].as_u64().unwrap_or_default();
            if item["type"] == "-"
                && size > 0
                && item["blake3"] == blake3::hash(&vec![0; size as usize]).to_hex().as_str()
            {
                // Large ones in whole blocks, as holes are; looking at others would cost more than reading them.
                let chunks = raw["chunks"].as_array().expect("a list");
                let large = chunks
                    .iter()
                    .filter(|chunk| chunk[1].as_u64().is_some_and(|size| size >= 64 << 10 && size % 4096 == 0));
                zeros.extend(
                    large.filter_map(|chunk| chunk[0].as_str()).map(|id| id.trim_start_matches('\u{7f}').to_owned()),
                );
            }
        }
        assert!(!zeros.is_empty(), "{}: no file of zeros", archive.name);
        let objects: Vec<Object> = copy.objects().into_iter().filter(|object| zeros.contains(&object.id)).collect();
        assert!(!objects.is_empty());
        // Nobody misses them: with all of them damaged, everything is restored.
        let damaged = Copy::of(case);
        for object in &objects {
            damaged.flip(&object.pack, object.payload(), 1);
        }
        let temp = Temp::new();
        let run = Inside {
            store: Arc::new(store(&damaged)),
            passphrase: "test",
            settings: settings(2, 0, 1 << 20),
            report: None,
        };
        assert_eq!(run.extract(&archive.id, &[], temp.path()).code, 0);
        tree::assert_same(
            &tree::kept(&archive.file("expect").expect("a tree")),
            &tree::print(temp.path(), &[]),
            "without zeros",
        );
        for jobs in [1, 8] {
            let reads = recorded(case, &copy, archive, &[], jobs);
            for object in &objects {
                // A read may go across a small gap, but none begins or ends in zeros.
                let (from, to) = (object.offset as u64, (object.offset + object.len()) as u64);
                let of_pack = reads.get(&object.pack).map_or(&[][..], Vec::as_slice);
                let within = |at: u64| from <= at && at < to;
                let aimed =
                    of_pack.iter().any(|(offset, len)| *len > 0 && (within(*offset) || within(offset + len - 1)));
                assert!(!aimed, "{}: {object:?} was fetched", archive.name);
            }
        }
    }
}

/// One file of an archive: its chunks and the metadata are read, and hardly more.
#[test]
fn one_file_reads_what_it_needs() {
    let case = cases::named("borg2/codec-none");
    let copy = Copy::of(case);
    let archive = &case.archives[0];
    let (_, metadata) = parts(case, &copy);
    let objects = copy.objects();
    let all: u64 = objects.iter().map(|object| object.len() as u64).sum();
    let mut files: Vec<_> = archive.lines("raw_items").into_iter().filter(|item| !ids(item).is_empty()).collect();
    files.sort_by_key(|item| ids(item).len());
    let file = &files[0];
    let needed: BTreeSet<String> = ids(file).into_iter().chain(metadata.into_iter().map(|object| object.id)).collect();
    let least: u64 =
        objects.iter().filter(|object| needed.contains(&object.id)).map(|object| object.len() as u64).sum();
    for jobs in [1, 8] {
        let reads = recorded(case, &copy, archive, &[file["path"].as_str().expect("a path")], jobs);
        let packs: u64 = reads
            .iter()
            .filter(|(name, _)| name.starts_with("packs/"))
            .flat_map(|(_, reads)| reads)
            .map(|(_, len)| len)
            .sum();
        assert!(
            packs >= least && packs <= least + least / 8 + 4096 && packs < all / 2,
            "{packs} bytes read, {least} needed, {all} in all"
        );
    }
}

/// Each metadata object is read once in a run, whatever the number of workers.
#[test]
fn metadata_is_read_once() {
    for name in ["borg2/sample", "borg2/many-items", "borg2/many-chunks", "borg2/index-multi"] {
        let case = cases::named(name);
        let copy = Copy::of(case);
        let (_, metadata) = parts(case, &copy);
        let archive = case.archives.last().expect("an archive");
        let lists = archive.texts("item_ptrs");
        for jobs in [1, 8] {
            let reads = recorded(case, &copy, archive, &[], jobs);
            for object in &metadata {
                let count = touches(&reads, object);
                assert!(count <= 1, "{name}: {object:?} was read {count} times");
                if object.id == archive.id || lists.contains(&object.id) {
                    assert_eq!(count, 1, "{name}: {object:?}");
                }
            }
            let others = |folder: &str| {
                reads.iter().filter(|(name, _)| name.starts_with(folder)).map(|(_, reads)| reads.len()).max()
            };
            assert!(others("index/") <= Some(1) && others("keys/") <= Some(1), "{name}: {reads:?}");
        }
    }
}

/// Neighbouring chunks of a pack come in one read.
#[test]
fn neighbours_are_read_together() {
    let case = cases::named("borg2/many-chunks");
    let copy = Copy::of(case);
    let archive = case.archive("fixed");
    let listed: Vec<String> = archive.lines("raw_items").iter().flat_map(ids).collect();
    let distinct: BTreeSet<&String> = listed.iter().collect();
    let (content, _) = parts(case, &copy);
    let objects: Vec<Object> = copy.objects().into_iter().filter(|object| content.contains(&object.id)).collect();
    for jobs in [1, 8] {
        let reads = recorded(case, &copy, archive, &[], jobs);
        let mut fetching = BTreeSet::new();
        for object in objects.iter().filter(|object| distinct.contains(&object.id)) {
            let (from, to) = (object.offset as u64, (object.offset + object.len()) as u64);
            let of_pack = reads.get(&object.pack).map_or(&[][..], Vec::as_slice);
            fetching.extend(
                of_pack
                    .iter()
                    .filter(|(offset, len)| *offset <= from && offset + len >= to)
                    .map(|read| (object.pack.clone(), *read)),
            );
        }
        assert!(distinct.len() > 50 && listed.len() > 2 * distinct.len(), "{} of {}", distinct.len(), listed.len());
        assert!(
            fetching.len() * 8 <= distinct.len(),
            "-j {jobs}: {} reads for {} chunks",
            fetching.len(),
            distinct.len()
        );
    }
}
