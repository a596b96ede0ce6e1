//! Rows about how a run ends: readers that go away, full disks, size limits, signals.

use crate::{noise, source, unfinished};
use packtrain_tests::command::{Call, Run, binary, finished};
use packtrain_tests::folder::Temp;
use packtrain_tests::writer::stage::in_time;
use packtrain_tests::writer::{Item, Stage, Writer};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn row_47_a_reader_that_goes_away() {
    let mut writer = Writer::default();
    let items: Vec<Item> =
        (0..10_000).map(|at| Item::folder(format!("a-folder-with-a-long-name-{at}").as_bytes())).collect();
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    for words in [vec!["list"], vec!["list", "--json-lines"]] {
        let words = words.into_iter().map(String::from).chain([source(&stage)]);
        let (mut child, _home) = Call::new(words).env("PACKTRAIN_PASSPHRASE", "").start();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        // Its stdout is closed now.
        let run = in_time(|| finished(child.wait_with_output().unwrap()));
        assert_eq!(run.stderr, "", "nothing is to be said");
        assert_ne!(run.code, 101, "a panic");
    }
}

/// A file system of 8 MiB, or nothing where mounting is refused.
struct Small(Temp);

impl Small {
    fn mount() -> Option<Self> {
        let temp = Temp::new();
        let path = temp.folder("small");
        let flags = rustix::mount::MountFlags::empty();
        match rustix::mount::mount("tmpfs", &path, "tmpfs", flags, Some(c"size=8M")) {
            Ok(()) => Some(Self(temp)),
            Err(error) => {
                // Straight to the descriptor: the print macros are captured in passing tests.
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "\n*** NOT TESTED: a full disk (row 64): mounting is refused here: {error}\n"
                );
                None
            }
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("small")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn row_64_a_full_disk_ends_the_run() {
    let mut writer = Writer::default();
    let big = noise(1, 24 << 20);
    let mut items = vec![Item::file(b"big", &writer.content(&big, 1 << 20))];
    items.extend((0..200).map(|at| writer.file(&format!("small{at}"), &noise(at + 2, 100_000))));
    items.rotate_left(20);
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    for (jobs, memory) in [("1", "1"), ("1", "64M"), ("8", "1"), ("8", "64M")] {
        let Some(small) = Small::mount() else { return };
        let path = small.path();
        let words = ["extract", &source(&stage), "-C", path.to_str().unwrap(), "-j", jobs, "--memory", memory];
        // Made first: it may have to be built.
        let call = Call::new(words).env("PACKTRAIN_PASSPHRASE", "");
        let started = Instant::now();
        let run = in_time(|| call.run()).expect(106);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?} with {words:?}", started.elapsed());
        assert!(
            run.stderr.contains("No space left on device") && run.stderr.contains("entries restored"),
            "{}",
            run.stderr
        );
        assert_eq!(unfinished(&path), [""; 0]);
        // What has its name is whole.
        for name in packtrain_tests::folder::files(&path) {
            let at: u64 = name.strip_prefix("small").expect("the big one cannot be there").parse().unwrap();
            assert!(std::fs::read(path.join(&name)).unwrap() == noise(at + 2, 100_000), "{name}");
        }
    }
}

/// Runs the command under a limit on the size of files, bytes.
fn limited(limit: u64, words: &[&str]) -> Run {
    let temp = Temp::new();
    let mut command = Command::new("prlimit");
    command.arg(format!("--fsize={limit}")).arg("--").arg(binary()).args(words);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", temp.path())
        .env("PACKTRAIN_PASSPHRASE", "")
        .stdin(Stdio::null());
    in_time(|| finished(command.output().expect("prlimit runs")))
}

#[test]
fn row_70_a_file_that_may_not_be_written_is_one_file() {
    let mut writer = Writer::default();
    let items: Vec<Item> = [("a", 3000), ("b", 10_000), ("c", 3000), ("d", 3 << 20), ("e", 4096), ("f", 4097)]
        .into_iter()
        .map(|(name, size)| writer.file(name, &noise(size as u64, size)))
        .collect();
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    for jobs in ["1", "8"] {
        let target = stage.target();
        let run = limited(4096, &["extract", &source(&stage), "-C", target.to_str().unwrap(), "-j", jobs]).expect(106);
        assert_eq!(packtrain_tests::folder::files(&target), ["a", "c", "e"], "{}", run.stderr);
        for name in ["b", "d", "f"] {
            assert!(run.stderr.contains(&format!("packtrain: {name}: ")), "{name} is named: {}", run.stderr);
        }
        assert!(std::fs::read(target.join("c")).unwrap() == noise(3000, 3000));
    }
}

/// An archive that takes long enough to be interrupted: restoring it writes 200 MB.
fn long() -> Stage {
    let mut writer = Writer::default();
    let chunks = writer.content(&noise(1, 2 << 20), 1 << 19);
    let items: Vec<Item> = (0..100).map(|at| Item::file(format!("f{at}").as_bytes(), &chunks)).collect();
    writer.archive("t", &items);
    Stage::of(&mut writer)
}

#[test]
fn row_72_signals_end_a_run_in_order() {
    let stage = long();
    let mut interrupted = 0;
    let signals = [(2, 1, 130), (2, 2, 130), (15, 1, 143)];
    for (signal, times, code) in signals {
        for jobs in ["1", "8"] {
            let target = stage.target();
            let words = ["extract", &source(&stage), "-C", target.to_str().unwrap(), "-j", jobs];
            let (child, _home) = Call::new(words).env("PACKTRAIN_PASSPHRASE", "").start();
            // Wait until some files are done.
            while std::fs::read_dir(&target).unwrap().count() < 12 {
                std::thread::sleep(Duration::from_micros(200));
            }
            let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
            for _ in 0..times {
                let number = if signal == 2 { rustix::process::Signal::INT } else { rustix::process::Signal::TERM };
                // It may be gone already; then its code tells.
                let _ = rustix::process::kill_process(pid, number);
            }
            let run = in_time(|| finished(child.wait_with_output().unwrap()));
            if run.code == 0 {
                continue; // It was quicker than the signal.
            }
            interrupted += 1;
            assert_eq!(run.code, code, "{}", run.stderr);
            // A second signal ends it at once, so a temporary file may stay; never a partial one under its name.
            if times == 1 {
                assert!(run.stderr.contains("cancelled") && run.stderr.contains("entries restored"), "{}", run.stderr);
                assert_eq!(unfinished(&target), [""; 0]);
            }
            let whole = noise(1, 2 << 20);
            for name in packtrain_tests::folder::files(&target).iter().filter(|name| name.starts_with('f')) {
                assert!(std::fs::read(target.join(name)).unwrap() == whole, "{name} is not whole");
            }
            packtrain_tests::folder::remove(&target);
        }
    }
    assert!(interrupted > 3, "only {interrupted} of 6 runs were slow enough to be interrupted");
}

#[test]
fn row_72_an_interrupted_check_does_not_claim_success() {
    let mut writer = Writer::default();
    let items = [Item::file(b"f", &writer.content(&noise(1, 64 << 20), 1 << 18))];
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    let root = stage.repository();
    let words = ["check", "--verify-data", root.to_str().unwrap(), "-j", "1"];
    let (child, _home) = Call::new(words).env("PACKTRAIN_PASSPHRASE", "").start();
    std::thread::sleep(Duration::from_millis(60));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let run = in_time(|| finished(child.wait_with_output().unwrap()));
    assert!(matches!(run.code, 0 | 130), "{}: {}", run.code, run.stderr);
    if run.code == 130 {
        assert!(!run.stderr.contains("256 chunks verified, 0 damaged"), "{}", run.stderr);
    }
}
