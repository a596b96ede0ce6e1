//! An interrupted extraction leaves nothing half-done.

use packtrain_tests::cases::{self, Case};
use packtrain_tests::command::{Call, Run, finished};
use packtrain_tests::folder::{self, Temp};
use packtrain_tests::repository::Copy;
use packtrain_tests::tree;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a run is tried that ended before it could be stopped.
const ATTEMPTS: usize = 20;

/// Starts an extraction, stops it when something is in its target, sends the signal, and lets it go on.
fn interrupted(case: &Case, copy: &Copy, archive: &str, options: &[&str], signal: Signal) -> (Temp, Run) {
    for _ in 0..ATTEMPTS {
        let temp = Temp::new();
        let out = temp.folder("out");
        let call = Call::new(["extract", "-C", "out", "-r"]).args([copy.path()]).args([archive]).args(options);
        let (mut child, _home) = call.opening(case).within(temp.path()).start();
        let pid = Pid::from_child(&child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while entries(&out) < 2 && child.try_wait().expect("its state").is_none() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let ended = child.try_wait().expect("its state").is_some();
        if !ended {
            // A stopped process cannot finish before it has the signal.
            let _ = kill_process(pid, Signal::STOP);
            let _ = kill_process(pid, signal);
            let _ = kill_process(pid, Signal::CONT);
        }
        let run = finished(child.wait_with_output().expect("it ends"));
        if !ended && run.code != 0 {
            return (temp, run);
        }
    }
    panic!("no run could be stopped in {ATTEMPTS} attempts");
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder)
        .map_or(0, |all| all.count() + std::fs::read_dir(folder.join("0")).map_or(0, Iterator::count))
}

#[test]
fn an_interrupted_extraction_leaves_nothing_half_done() {
    let many = cases::named("borg2/many-items");
    let big = cases::named("borg2/big-chunks");
    for (case, archive, options) in [
        (many, "many", &["-j", "1"][..]),
        (many, "many", &["-j", "8", "--memory", "64K"]),
        (big, "auto-lzma-9", &["-j", "1", "--no-sparse"]),
        (big, "zlib-9", &["-j", "2", "--no-sparse"]),
    ] {
        let copy = Copy::of(case);
        let expected = tree::kept(&case.archive(archive).file("expect").expect("a tree"));
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let (temp, run) = interrupted(case, &copy, archive, options, signal);
            assert_eq!(run.code, code, "{} {options:?}: {}", case.name, run.stderr);
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            let out = temp.path().join("out");
            let left: Vec<String> =
                folder::files(&out).into_iter().filter(|name| name.contains(".packtrain-")).collect();
            assert!(left.is_empty(), "unfinished files stay behind: {left:?}");
            let actual = tree::print(&out, &[]);
            assert!(actual.len() < expected.len() || case.name == "borg2/big-chunks", "it was not interrupted");
            for (path, entry) in actual.iter().filter(|(_, entry)| entry["type"] == "file") {
                let want = expected.get(path).unwrap_or_else(|| panic!("{path} is not in the archive"));
                for key in ["sha256", "size", "mode", "mtime_ns"] {
                    assert_eq!(entry[key], want[key], "{path}: {key}: a half file has its final name");
                }
            }
            // Going on completes it.
            let call = Call::new(["extract", "-C", "out", "--continue", "-r"]).args([copy.path()]).args([archive]);
            call.opening(case).within(temp.path()).run().expect(0);
            tree::assert_same(&expected, &tree::print(&out, &[]), "after --continue");
        }
    }
}
