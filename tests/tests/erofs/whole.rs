//! Whole images: the tree that comes out is the tree that went in.

use packtrain::store::LocalStore;
use packtrain_tests::command::{Call, Run};
use packtrain_tests::folder::{Eyes, Temp};
use packtrain_tests::images::{self, Image};
use packtrain_tests::inside::{Inside, settings};
use packtrain_tests::middlemen::Delaying;
use packtrain_tests::spread::spread;
use packtrain_tests::tree::{self, Tree};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

fn extract(image: &Image, options: &[&str]) -> (Tree, Run, String) {
    let temp = Temp::new();
    temp.folder("out");
    let call = Call::new(["extract"]).args(image.words()).args(["-C", "out", "--report", "report"]).args(options);
    let run = call.within(temp.path()).run();
    let report = std::fs::read_to_string(temp.path().join("report")).expect("a report");
    (tree::print(&temp.path().join("out"), &[]), run, report)
}

/// 0, or for a normal user the refusal of devices and foreign owners.
fn is_right(code: i32) -> bool {
    code == 0 || (!Eyes::here().root && [1, 105].contains(&code))
}

#[test]
fn every_image_is_restored_as_its_source_was() {
    spread(
        images::all(),
        |image| image.name.clone(),
        |image| {
            let before = std::fs::read(&image.place.path).expect("the image");
            let (tree, run, _) = extract(image, &[]);
            assert!(is_right(run.code), "exit code {}: {}", run.code, run.stderr);
            tree::assert_same(&image.expected(), &tree, &image.name);
            assert!(before == std::fs::read(&image.place.path).expect("the image"), "the source changed");
        },
    );
}

#[test]
fn nothing_depends_on_workers_readers_or_memory() {
    const SETTINGS: [[&str; 3]; 5] =
        [["2", "0", "48M"], ["3", "0", "1"], ["8", "3", "64K"], ["16", "1", "1M"], ["1", "0", "1"]];
    spread(
        images::all(),
        |image| image.name.clone(),
        |image| {
            let first = extract(image, &["-j", "1"]);
            for [jobs, readers, memory] in SETTINGS {
                let other = extract(image, &["-j", jobs, "--readers", readers, "--memory", memory]);
                let what = format!("-j {jobs} --readers {readers} --memory {memory}");
                tree::assert_same(&first.0, &other.0, &what);
                assert_eq!((first.1.code, &first.1.stderr), (other.1.code, &other.1.stderr), "{what}");
                assert_eq!(first.2, other.2, "the report: {what}");
            }
        },
    );
}

/// Up to 20 ms before each read.
#[test]
fn nothing_depends_on_the_time_that_reads_take() {
    let some = ["lz4-4k", "everything", "metabox-zstd", "zdir-fragments", "plain-b512"].map(images::named);
    spread(
        &some,
        |image| image.name.clone(),
        |image| {
            let store = LocalStore::at(image.place.clone()).expect("the image");
            let store = Arc::new(Delaying::new(store, Duration::from_millis(20), 7));
            let run = Inside { store, passphrase: "", settings: settings(3, 1, 1 << 20), report: None };
            let temp = Temp::new();
            let outcome = run.extract(&id(image), &[], temp.path());
            assert!(is_right(outcome.code.into()), "exit code {}", outcome.code);
            tree::assert_same(&image.expected(), &tree::print(temp.path(), &[]), &image.name);
        },
    );
}

/// The archive's id: the image's UUID, and zeros.
pub fn id(image: &Image) -> String {
    let facts = Call::new(["info", "--json"]).args(image.words()).run().expect(0);
    let facts: Value = serde_json::from_slice(&facts.stdout).expect("JSON");
    format!("{:0<64}", facts["source"]["uuid"].as_str().expect("a UUID").replace('-', ""))
}

#[test]
fn listings_have_every_entry() {
    spread(
        images::all(),
        |image| image.name.clone(),
        |image| {
            let run = Call::new(["list", "--json-lines"]).args(image.words()).run().expect(0);
            let entries =
                run.text().lines().map(|line| serde_json::from_str::<Map<String, Value>>(line).expect("JSON"));
            let mut expected = image.expected();
            let mut root = 0;
            for entry in entries {
                let path = tree::path_of(&entry);
                if path == "." {
                    root += 1;
                    continue;
                }
                let want = expected.remove(&path).unwrap_or_else(|| panic!("{path:?} is too much"));
                let kind = want["type"].as_str().expect("a type");
                let letter = match kind {
                    "file" => "-",
                    "symlink" => "l",
                    "fifo" => "p",
                    other => &other[..1],
                };
                assert_eq!(entry["type"], letter, "{path}");
                assert_eq!(entry.get("size"), want.get("size").filter(|_| kind == "file"), "{path}");
                assert_eq!(
                    (entry["uid"].clone(), entry["gid"].clone()),
                    (want["uid"].clone(), want["gid"].clone()),
                    "{path}"
                );
                if !want["mtime_ns"].is_null() {
                    assert_eq!(entry["mtime_ns"], want["mtime_ns"], "{path}");
                }
                assert_eq!(entry.get("rdev"), want.get("rdev"), "{path}");
            }
            assert_eq!((root, expected.len()), (1, 0), "not listed: {:?}", expected.keys());
        },
    );
}

#[test]
fn layouts_and_algorithms_are_shown() {
    for (image, words) in [
        ("plain", "inline"),
        ("chunk4k", "chunks"),
        ("lz4-4k", "compact lz4"),
        ("lz4-legacy", "full lz4"),
        ("lzma-64k", "compact lzma"),
        ("deflate-64k", "compact deflate"),
        ("zstd-64k", "compact zstd"),
        ("48bit-zstd-64k", "full zstd"),
    ] {
        let run =
            Call::new(["list", "--format", "{storage}{NL}"]).args(images::named(image).words()).args(["text"]).run();
        assert!(run.expect(0).text().starts_with(words), "{image}");
        let facts = Call::new(["info"]).args(images::named(image).words()).run().expect(0);
        for key in ["block_size", "features", "algorithms", "entries", "ratio"] {
            assert!(facts.text().lines().any(|line| line.starts_with(key)), "{image}: no {key}");
        }
    }
}

#[test]
fn content_can_be_written_out_and_packed() {
    spread(
        &["everything", "dedupe-lzma", "metabox", "blobdev"].map(images::named),
        |image| image.name.clone(),
        |image| {
            let plain =
                Call::new(["cat"]).args(images::named("plain").words()).args(["text", "sparse"]).run().expect(0);
            let ours = Call::new(["cat"]).args(image.words()).args(["text", "sparse"]).run().expect(0);
            assert!(ours.stdout == plain.stdout && plain.stdout.len() == 940_001, "{} bytes", ours.stdout.len());
            // GNU tar reads the stream back; the one socket is named and left out.
            let temp = Temp::new();
            let out = temp.folder("out");
            let words = image.words();
            let call = Call::new(["export-tar"]).args(&words[..1]).args(["all.tar"]).args(&words[1..]);
            let run = call.within(temp.path()).run().expect(113);
            assert!(
                run.stderr.contains("special/socket: not restored: a tar stream cannot hold a socket"),
                "{}",
                run.stderr
            );
            let tar = std::process::Command::new("tar")
                .args(["--xattrs", "--xattrs-include=*", "--numeric-owner", "-xpf", "../all.tar"])
                .current_dir(&out)
                .output()
                .expect("tar runs");
            assert!(!Eyes::here().root || tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
            let fields = ["mtime_ns", "xattrs", "mode", "uid", "gid", "flags"];
            let mut expected = tree::without(image.expected(), &fields);
            expected.remove("special/socket");
            tree::assert_same(&expected, &tree::without(tree::print(&out, &[]), &fields), &image.name);
        },
    );
}

#[test]
fn an_image_may_start_within_a_file() {
    let image = images::named("zstd-4k");
    let temp = Temp::new();
    let bytes = std::fs::read(&image.place.path).expect("the image");
    std::fs::write(temp.path().join("file"), [&[7; 12_345][..], &bytes].concat()).expect("a file");
    let call = Call::new(["extract", "file", "--offset", "12345", "-C", "out"]).within(temp.path());
    assert!(is_right(call.run().code));
    tree::assert_same(&image.expected(), &tree::print(&temp.path().join("out"), &[]), "with an offset");
    Call::new(["list", "file"]).within(temp.path()).run().expect(15);
}

#[test]
fn a_device_that_is_not_given_is_named() {
    let image = images::named("blobdev");
    let run = Call::new(["extract", "-n"]).args(&image.words()[..1]).run().expect(113);
    assert!(run.stderr.contains("device 1") && run.stderr.contains("is not given"), "{}", run.stderr);
    assert!(run.stderr.contains("text: bytes 0 to "), "{}", run.stderr);
    Call::new(["list"]).args(&image.words()[..1]).run().expect(0);
}

#[test]
fn both_ways_to_name_an_image() {
    let image = images::named("plain");
    let path = image.place.path.to_str().expect("UTF-8");
    let one = Call::new(["list", "--short", path, "links"]).run().expect(0);
    let two = Call::new(["list", "--short", "-r", path, "links"]).run().expect(0);
    assert_eq!(one.text(), two.text());
    assert_eq!(one.text().lines().count(), 6);
    let latest = Call::new(["list", "--short", &format!("{path}::latest"), "links"]).run().expect(0);
    assert_eq!(one.text(), latest.text());
    Call::new(["list", &format!("{path}::name")]).run().expect(31);
    Call::new(["extract", "--verify", path, "-C", "/nonexistent/x"]).run().expect(4);
}
