//! `extract --verify`: what was restored is read back, and what differs is found.

use core::sync::atomic::AtomicBool;
use packtrain::extract::readback::read_back;
use packtrain::messages::{Messages, Wishes};
use packtrain::opened::Opened;
use packtrain::store::LocalStore;
use packtrain::target::{Policy, Target};
use packtrain_core::base::Secret;
use packtrain_core::formats::Which;
use packtrain_core::plan::select::Selection;
use packtrain_tests::cases;
use packtrain_tests::command::Call;
use packtrain_tests::folder::{self, Temp};
use packtrain_tests::inside::settings;
use packtrain_tests::repository::Copy;
use packtrain_tests::spread::spread;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

#[test]
fn what_is_restored_reads_back() {
    spread(
        &cases::restorable(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            for archive in &case.archives {
                let temp = Temp::new();
                let call = Call::new(["extract", "--verify", "-r"]).args([copy.path()]).args([archive.spec()]);
                let run = call.opening(case).within(&temp.folder("out")).run().expect(0);
                assert!(run.stderr.contains("read back and compared"), "{}", run.stderr);
            }
        },
    );
}

/// One byte of one file changed, one file longer, one shorter, one gone: each is found, and nothing else.
#[test]
fn what_differs_is_found() {
    let case = cases::named("borg2/many-chunks");
    let copy = Copy::of(case);
    let temp = Temp::new();
    let out = temp.folder("out");
    let archive = &case.archives[0];
    Call::new(["extract", "-r"]).args([copy.path()]).args([archive.spec()]).opening(case).within(&out).run().expect(0);
    let files: Vec<String> = folder::files(&out).into_iter().filter(|name| size(&out.join(name)) > 1000).collect();
    assert!(!files.is_empty());
    let findings = |jobs: usize| found(case.passphrase().as_str(), &copy.path(), &archive.id, &out, jobs);
    assert_eq!(findings(1), Vec::<(String, u64)>::new());
    let victim = out.join(&files[0]);
    let whole = std::fs::read(&victim).expect("a file");
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&victim, &bytes).expect("a change");
        for jobs in [1, 3] {
            let found = findings(jobs);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].0.as_str(), found[0].1), (files[0].as_str(), 113));
        }
    }
    for (bytes, code) in [(Some([&whole[..], b"x"].concat()), 113), (Some(whole[1..].to_vec()), 113), (None, 107)] {
        match bytes {
            Some(bytes) => std::fs::write(&victim, bytes).expect("a change"),
            None => std::fs::remove_file(&victim).expect("a file"),
        }
        let mut found = findings(2);
        found.dedup();
        assert_eq!(found, [(files[0].clone(), code)]);
    }
}

fn size(path: &Path) -> u64 {
    path.symlink_metadata().expect("a file").len()
}

/// Paths and codes of what reading back reports.
fn found(passphrase: &str, repo: &Path, archive: &str, out: &Path, jobs: usize) -> Vec<(String, u64)> {
    let temp = Temp::new();
    let report = temp.path().join("report");
    let file = std::io::BufWriter::new(std::fs::File::create(&report).expect("a report"));
    let mut messages = Messages::new(Wishes { report: Some(file), ..Wishes::default() });
    let store = Arc::new(LocalStore::open(repo).expect("a repository"));
    let opened = Opened::with_passphrase(store, &Secret::new(passphrase.as_bytes().to_vec())).expect("it opens");
    let archives = opened.drive(opened.source.archives(&opened.port, Which::Live)).expect("archives");
    let state =
        archives.iter().find(|known| known.id.to_hex() == archive).expect("it").state.clone().expect("readable");
    let target = Target::open(out, Policy::of_this_process()).expect("a target");
    let all = Selection::new(0);
    let nothing = HashSet::new();
    let on = settings(jobs, 0, 1 << 20);
    read_back(&opened, &state, &all, &target, &nothing, &on, &mut messages, &AtomicBool::new(false)).expect("a run");
    messages.finish("compared", None);
    let lines = std::fs::read_to_string(report).expect("a report");
    lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|line| line["type"] == "warning")
        .map(|line| (line["path"].as_str().unwrap_or_default().to_owned(), line["code"].as_u64().unwrap_or(0)))
        .collect()
}
