//! A written repository on disk, and extractions of it that must all end alike.
//!
//! Beside the target stands a sentinel folder that hostile archives point at. Every extraction
//! here checks that neither it nor the repository changed, that no temporary file stayed, and
//! that the run ended in time.

use super::{Item, Writer, hex};
use crate::folder::Temp;
use crate::inside::{Inside, settings};
use crate::snapshot::{self, Closeness};
use packtrain::line::Settings;
use packtrain::store::{LocalStore, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Longest time that a run may take; a run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The usual bound on memory, bytes.
const MEMORY: u64 = 48 << 20;

/// A repository, a sentinel, and room for targets.
pub struct Stage {
    temp: Arc<Temp>,
    /// The newest archive, in hex.
    pub archive: String,
    runs: AtomicUsize,
}

/// The archive `hostile` of the items that `make` writes and a last one, `last`.
pub fn hostile(make: impl FnOnce(&mut Writer) -> Vec<Item>) -> Stage {
    let mut writer = Writer::default();
    let mut items = make(&mut writer);
    items.push(writer.file("last", b"the last one\n"));
    writer.archive("hostile", &items);
    Stage::of(&mut writer)
}

/// Extracts such an archive; `last` must come out whole whatever went before.
///
/// # Panics
/// If it does not, or as [`Stage::extract`].
pub fn extract_hostile(make: impl FnOnce(&mut Writer) -> Vec<Item>) -> Ran {
    let ran = hostile(make).extract();
    assert_eq!(ran.read("last"), b"the last one\n", "{}", ran.report);
    ran
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit code.
    pub code: u8,
    /// The report, line by line as it was written.
    pub report: String,
    /// What became of each entry, by path.
    pub statuses: BTreeMap<String, String>,
    /// Warnings about entries: code, path, text.
    pub warnings: Vec<(u64, String, String)>,
    /// Where the files are.
    pub target: PathBuf,
    /// What it is in, kept until this is dropped.
    _temp: Arc<Temp>,
}

impl Stage {
    /// Saves what `writer` holds.
    ///
    /// # Panics
    /// If it cannot be saved.
    pub fn of(writer: &mut Writer) -> Self {
        let temp = Temp::new();
        writer.save(&temp.path().join("repository")).expect("the repository can be written");
        let outside = temp.folder("outside");
        std::fs::write(outside.join("keep"), b"keep this\n").expect("a sentinel");
        std::fs::create_dir(outside.join("folder")).expect("a sentinel");
        let archive = writer.archives.last().map(|id| hex(id)).unwrap_or_default();
        Self { temp: Arc::new(temp), archive, runs: AtomicUsize::new(0) }
    }

    /// The repository.
    pub fn repository(&self) -> PathBuf {
        self.temp.path().join("repository")
    }

    /// The sentinel folder: `keep`, a file, and `folder`, empty.
    pub fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }

    /// A fresh, empty target.
    pub fn target(&self) -> PathBuf {
        self.temp.folder(&format!("target-{}", self.runs.fetch_add(1, Ordering::Relaxed)))
    }

    /// Extracts with one worker, with several, with readers, and in hardly any memory. All must
    /// end alike; the first comes back.
    ///
    /// # Panics
    /// If they do not, or if anything outside changed.
    pub fn extract(&self) -> Ran {
        self.extract_onto(&[], |_| ())
    }

    /// As [`extract`](Self::extract), for these paths only, after `prepare` was done to each target.
    ///
    /// # Panics
    /// As [`extract`](Self::extract).
    pub fn extract_onto(&self, paths: &[&str], prepare: impl Fn(&Path)) -> Ran {
        let run = |settings| {
            let target = self.target();
            prepare(&target);
            self.run(settings, paths, &target)
        };
        let first = run(settings(1, 0, MEMORY));
        let tree = snapshot::take(&first.target, Closeness::Restored);
        for (jobs, readers, memory) in [(2, 0, MEMORY), (8, 0, MEMORY), (2, 1, MEMORY), (1, 0, 1), (3, 0, 1)] {
            let other = run(settings(jobs, readers, memory));
            let how = format!("with {jobs} workers, {readers} readers and {memory} bytes");
            assert_eq!((first.code, &first.report), (other.code, &other.report), "another report {how}");
            assert_eq!(tree, snapshot::take(&other.target, Closeness::Restored), "another tree {how}");
            crate::folder::remove(&other.target);
        }
        first
    }

    /// One extraction into `target`, with all checks around it.
    ///
    /// # Panics
    /// If anything outside changed, something temporary stayed, or it takes too long.
    pub fn run(&self, settings: Settings, paths: &[&str], target: &Path) -> Ran {
        let store = LocalStore::open(&self.repository()).expect("the repository is there");
        self.run_store(Arc::new(store), settings, paths, target)
    }

    /// As [`run`](Self::run), from another store.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_store(&self, store: Arc<dyn Store>, settings: Settings, paths: &[&str], target: &Path) -> Ran {
        let around = || [self.repository(), self.outside()].map(|folder| snapshot::take(&folder, Closeness::Source));
        let before = around();
        let reports = Temp::new();
        let report = reports.path().join("report");
        let outcome = in_time(|| {
            let inside = Inside { store, passphrase: "", settings, report: Some(&report) };
            inside.extract(&self.archive, paths, target)
        });
        assert_eq!(before, around(), "something outside the target changed");
        assert_no_temporaries(target);
        Ran::new(outcome.code, outcome.report, target.to_path_buf(), self.temp.clone())
    }
}

impl Ran {
    fn new(code: u8, report: String, target: PathBuf, temp: Arc<Temp>) -> Self {
        let mut statuses = BTreeMap::new();
        let mut warnings = Vec::new();
        for line in report.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("the report is JSON lines");
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_string();
            match line["type"].as_str() {
                Some("entry") => {
                    statuses.insert(text("path"), text("status"));
                }
                Some("warning") => {
                    warnings.push((line["code"].as_u64().unwrap_or_default(), text("path"), text("text")))
                }
                _ => {}
            }
        }
        Self { code, report, statuses, warnings, target, _temp: temp }
    }

    /// The content of a restored file.
    ///
    /// # Panics
    /// If it is not there.
    pub fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.target.join(path))
            .unwrap_or_else(|error| panic!("{path}: {error}; the report:\n{}", self.report))
    }

    /// What is there, links not followed.
    pub fn meta(&self, path: &str) -> Option<std::fs::Metadata> {
        std::fs::symlink_metadata(self.target.join(path)).ok()
    }

    /// Codes and paths of the warnings.
    pub fn blamed(&self) -> Vec<(u64, &str)> {
        self.warnings.iter().map(|(code, path, _)| (*code, path.as_str())).collect()
    }
}

/// Runs `work` on a thread of its own and gives its answer.
///
/// # Panics
/// If it panics or takes longer than a run may.
pub fn in_time<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let answer = work();
            // Nobody listens any more if it took too long.
            let _ = send.send(answer);
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                // A scope would wait for the thread that hangs, so the process ends here.
                eprintln!("\n*** A RUN HANGS: no end after {PATIENCE:?}; this test process is ended\n");
                std::process::abort();
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("the thread sent its answer"),
            },
        }
    })
}

/// Makes a symbolic link with a fixed time, so that trees with it can be compared.
///
/// # Panics
/// If it cannot be made.
pub fn plant(at: &Path, target: &Path) {
    std::os::unix::fs::symlink(target, at).expect("a symbolic link");
    let time = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, at, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).expect("its times");
}

fn assert_no_temporaries(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        assert!(!name.to_string_lossy().starts_with(".packtrain-"), "{} stayed", entry.path().display());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            assert_no_temporaries(&entry.path());
        }
    }
}

/// Runs `body` as a user without rights; only root can become one. Linux keeps credentials per
/// thread, and threads started from one get the same.
///
/// # Panics
/// If `body` does.
pub fn as_nobody<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{Gid, Uid, set_thread_gid, set_thread_groups, set_thread_uid};
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                set_thread_groups(&[]).expect("root may");
                set_thread_gid(Gid::from_raw(65_534)).expect("root may");
                set_thread_uid(Uid::from_raw(65_534)).expect("root may");
            }
            body()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
