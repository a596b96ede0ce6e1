//! Packtrain as a library, in this process: with any store, and thousands of runs a minute.

use packtrain::check::Depth;
use packtrain::exit::{Failure, Result};
use packtrain::extract::{self, OnDamage, Options, Overwrite};
use packtrain::line::Settings;
use packtrain::messages::{Messages, Wishes};
use packtrain::opened::Opened;
use packtrain::store::Store;
use packtrain::target::Policy;
use packtrain_core::base::Secret;
use packtrain_core::formats::Which;
use packtrain_core::plan::select::Selection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How a run inside this process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code, as the command would give it.
    pub code: u8,
    /// The report, as `--report` writes it; empty if none was asked for.
    pub report: String,
}

/// One run: which store, how, where to.
pub struct Inside<'a> {
    /// The source.
    pub store: Arc<dyn Store>,
    /// What opens it.
    pub passphrase: &'a str,
    /// Workers and bounds.
    pub settings: Settings,
    /// Where a report is written, if one is wanted.
    pub report: Option<&'a Path>,
}

/// Workers, readers and memory.
pub const fn settings(jobs: usize, readers: usize, memory: u64) -> Settings {
    Settings { jobs, readers, memory }
}

impl Inside<'_> {
    /// Extracts an archive into `target`: those paths, or everything.
    ///
    /// # Panics
    /// If the report cannot be written.
    pub fn extract(&self, archive: &str, paths: &[&str], target: &Path) -> Outcome {
        self.run("restored", |opened, messages| {
            let mut selection = Selection::new(0);
            for path in paths {
                selection.include(path).map_err(|error| Failure::usage(error.to_string()))?;
            }
            let archives = opened.drive(opened.source.archives(&opened.port, Which::Live))?;
            let found = archives.iter().find(|known| known.id.to_hex() == archive);
            let found = found.ok_or_else(|| Failure::new(packtrain::exit::NO_ARCHIVE, "no such archive"))?;
            let state =
                found.state.as_ref().map_err(|error| Failure::new(packtrain::exit::INTEGRITY, error.to_string()))?;
            let policy = Policy { sparse: true, ..Policy::of_this_process() };
            let options = Options { policy, on_damage: OnDamage::Zero, overwrite: Overwrite::Always, verify: false };
            let cancelled = AtomicBool::new(false);
            extract::extract(opened, state, &selection, target, &options, &self.settings, messages, &cancelled)
        })
    }

    /// Checks everything, every byte of it.
    pub fn check(&self) -> Outcome {
        self.run("checked", |opened, messages| {
            let archives = opened.drive(opened.source.archives(&opened.port, Which::Live))?;
            let chosen: Vec<_> = archives.iter().collect();
            let depth = Depth { repository: true, archives: true, data: true, sample: 1.0, max_duration: None };
            packtrain::check::check(opened, &chosen, true, &depth, &self.settings, messages, &AtomicBool::new(false))
        })
    }

    fn run(&self, verb: &str, work: impl FnOnce(&Opened, &mut Messages) -> Result<()>) -> Outcome {
        let report = self.report.map(|path| std::io::BufWriter::new(std::fs::File::create(path).expect("a report")));
        let mut messages = Messages::new(Wishes { report, ..Wishes::default() });
        let passphrase = Secret::new(self.passphrase.as_bytes().to_vec());
        let result = Opened::with_passphrase(self.store.clone(), &passphrase).and_then(|opened| {
            let result = work(&opened, &mut messages);
            for notice in opened.source.take_notices() {
                messages.note(&notice.text);
            }
            result
        });
        let code = messages.finish(verb, result.err().as_ref());
        let report = self.report.map(|path| std::fs::read_to_string(path).expect("a report")).unwrap_or_default();
        Outcome { code, report }
    }
}
