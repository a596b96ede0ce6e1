//! Content as a stream: the bytes of files in the order of the archive, and tar through GNU tar.

use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::command::Call;
use packtrain_tests::folder::{self, Eyes, Temp};
use packtrain_tests::repository::Copy;
use packtrain_tests::spread::spread;
use packtrain_tests::tree::{self, path_of};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The files of an archive one after the other, from an extracted tree that `tree.py` compares elsewhere.
fn concatenated(case: &Case, archive: &Archive, copy: &Copy) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let temp = Temp::new();
    Call::new(["extract", "-C", ".", "-r"])
        .args([copy.path()])
        .args([archive.spec()])
        .opening(case)
        .within(temp.path())
        .run()
        .expect(0);
    let mut bytes = Vec::new();
    for item in archive.lines("items").iter().filter(|item| item["type"] == "-") {
        let path = match item.get("path_b64").and_then(Value::as_str) {
            Some(base64) => <base64ct::Base64 as base64ct::Encoding>::decode_vec(base64).expect("base64"),
            None => item["path"].as_str().expect("a path").as_bytes().to_vec(),
        };
        let file = std::fs::read(temp.path().join(std::ffi::OsStr::from_bytes(&path))).expect("an extracted file");
        // What was extracted is what borg saw: it lists the digest of each file (in all cases but one).
        if let Some(digest) = item.get("blake3") {
            assert_eq!(digest, blake3::hash(&file).to_hex().as_str(), "{}", path_of(item));
        }
        bytes.extend(file);
    }
    bytes
}

/// `extract --stdout` and `cat` write every file's bytes, hard links too, in order.
#[test]
fn streams_are_the_files_one_after_the_other() {
    spread(
        &cases::restorable(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            // Of some cases of Borg 1.x there is no list, or one that names not all bytes.
            let named = |archive: &&Archive| {
                archive.file("items").is_some_and(|_| {
                    case.format() == "borg2" || archive.lines("items").iter().all(|item| !path_of(item).contains('?'))
                })
            };
            for archive in case.archives.iter().filter(named) {
                let want = concatenated(case, archive, &copy);
                for (jobs, memory) in [("1", "1"), ("8", "64K"), ("3", "64M")] {
                    let call = Call::new(["extract", "--stdout", "-j", jobs, "--memory", memory, "-r"])
                        .args([copy.path()])
                        .args([archive.spec()]);
                    let run = call.opening(case).run().expect(0);
                    assert!(
                        run.stdout == want,
                        "{} -j {jobs} --memory {memory}: {} of {} bytes",
                        archive.name,
                        run.stdout.len(),
                        want.len()
                    );
                }
                if !want.is_empty() {
                    // Every path below every first component.
                    let call = Call::new(["cat", "-r"]).args([copy.path()]).args([archive.spec().as_str(), "re:.*"]);
                    assert!(call.opening(case).run().expect(0).stdout == want, "{}: cat", archive.name);
                }
            }
        },
    );
}

/// Named files in the order of the archive, whatever the order of the names.
#[test]
fn cat_writes_the_named_files() {
    let case = cases::named("borg2/sample");
    let (copy, archive) = (Copy::of(case), &case.archives[1]);
    let files: Vec<_> = archive.lines("items").into_iter().filter(|item| item["type"] == "-").collect();
    for item in &files {
        let path = item["path"].as_str().expect("a path");
        let run =
            Call::new(["cat", "-r"]).args([copy.path()]).args([&archive.spec(), path]).opening(case).run().expect(0);
        assert_eq!(item["blake3"], blake3::hash(&run.stdout).to_hex().as_str(), "{path}");
    }
    let two = [files[1]["path"].as_str().expect("a path"), files[0]["path"].as_str().expect("a path")];
    let run = Call::new(["cat", "-r"])
        .args([copy.path()])
        .args([archive.spec().as_str(), two[0], two[1]])
        .opening(case)
        .run()
        .expect(0);
    let total = [&files[0], &files[1]].map(|item| item["size"].as_u64().expect("a size")).iter().sum::<u64>();
    assert_eq!(run.stdout.len() as u64, total);
    assert_eq!(
        blake3::hash(&run.stdout[..files[0]["size"].as_u64().expect("a size") as usize]).to_hex().as_str(),
        files[0]["blake3"].as_str().expect("a digest")
    );
}

/// Real GNU tar makes the expected tree of what `export-tar` writes.
#[test]
fn tar_streams_become_the_same_tree() {
    let able = Command::new("tar").arg("--help").output().expect("GNU tar is needed");
    let help = String::from_utf8_lossy(&able.stdout).into_owned();
    let all = help.contains("--xattrs-include") && help.contains("--acls");
    assert!(help.contains("GNU") || all, "this needs GNU tar");
    let mut eyes = Eyes::here();
    if !all {
        folder::say("this tar knows no attributes or ACLs");
        (eyes.attributes, eyes.acls) = (false, false);
    }
    spread(
        &cases::restorable(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            for archive in case.archives.iter().filter(|archive| !archive.borg_is_wrong()) {
                let temp = Temp::new();
                let export = |file: &str, jobs: &str| {
                    let call =
                        Call::new(["export-tar", "-j", jobs, "-r"]).args([copy.path()]).args([&archive.spec(), file]);
                    call.opening(case).within(temp.path()).run().expect(0)
                };
                export("one.tar", "1");
                let tar = std::fs::read(temp.path().join("one.tar")).expect("a tar file");
                assert!(export("-", "8").stdout == tar, "{}: the stream differs at -j 8", archive.name);
                unpack(&temp, all);
                // Tar streams have no flags; times and modes of folders without an entry are tar's own.
                let borg = tree::without(tree::kept(&archive.file("expect").expect("an expected tree")), &["flags"]);
                let actual = tree::without(tree::print(&temp.path().join("out"), &[]), &["flags", "atime_ns"]);
                let found = tree::differences(&tree::without(borg, &["atime_ns"]), &actual, eyes);
                assert!(found.is_empty(), "{}:\n    {}", archive.name, found.join("\n    "));
            }
        },
    );
}

fn unpack(temp: &Temp, all: bool) {
    temp.folder("out");
    let options = if all { "--xattrs --xattrs-include='*' --acls" } else { "" };
    let script = format!("umask 077; exec tar {options} -xpf ../one.tar");
    let run = Command::new("sh").args(["-c", &script]).current_dir(temp.path().join("out")).output().expect("sh runs");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "tar: {text}");
}

/// A tar file that is there already is not written over, and a stripped one has shorter paths.
#[test]
fn tar_files_are_made_anew_and_stripped() {
    let case = cases::named("borg2/types");
    let copy = Copy::of(case);
    let temp = Temp::new();
    std::fs::write(temp.path().join("there.tar"), b"mine").expect("a file");
    let export = |arguments: &[&str]| {
        let call = Call::new(["export-tar", "-r"]).args([copy.path()]).args([&case.archives[0].spec()]).args(arguments);
        call.opening(case).within(temp.path()).run()
    };
    export(&["there.tar"]).expect(2);
    assert_eq!(std::fs::read(temp.path().join("there.tar")).expect("a file"), b"mine");
    export(&["new.tar", "closed", "--strip-components", "1"]).expect(0);
    assert_eq!(names(&temp.path().join("new.tar")), ["deeper/", "deeper/inside", "inside"]);
}

fn names(tar: &Path) -> Vec<String> {
    let run = Command::new("tar").arg("-tf").arg(tar).stdin(Stdio::null()).output().expect("tar runs");
    assert!(run.status.success());
    String::from_utf8(run.stdout).expect("UTF-8").lines().map(Into::into).collect()
}
