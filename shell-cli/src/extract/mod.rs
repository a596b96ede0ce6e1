//! Extracting: entries to files, written by the workers, reported in order.
//!
//! | file | holds |
//! |---|---|
//! | [`task`] | what crosses to a worker and back |
//! | [`worker`] | a worker: decode, write, set attributes |
//! | [`plan`](mod@plan) | the conductor's planning half: entries to tasks, folders, batches |
//! | [`conduct`] | its other half: results in order, repairs, links, folders' attributes |
//! | [`readback`] | a second pass: the restored bytes against the chunk ids |
//!
//! The planner makes folders as it meets them and hands everything else to workers, so a small
//! file is decoded, written, given its attributes and its name on one core while its bytes are
//! in that core's cache. What must happen in order (hard links, folders' attributes, reports)
//! passes through the line as a task of its own and is done when it comes out.

pub mod conduct;
pub mod plan;
pub mod readback;
pub mod task;
pub mod worker;

use crate::exit::{self, Failure, Result};
use crate::line::{self, Settings};
use crate::messages::Messages;
use crate::opened::Opened;
use crate::target::{Policy, Problem, Target};
use core::sync::atomic::AtomicBool;
use packtrain_core::objects::ArchiveState;
use packtrain_core::plan::select::Selection;
use std::path::Path;

/// What to do about a file whose content is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Fill the damaged ranges with zeros and restore the rest.
    #[default]
    Zero,
    /// Leave the file out.
    Skip,
    /// End the run.
    Stop,
}

impl OnDamage {
    /// What becomes of the damaged range or file, for messages.
    pub const fn consequence(self) -> &'static str {
        match self {
            Self::Zero => "filled with zeros",
            Self::Skip => "the file is left out",
            Self::Stop => "the run stops",
        }
    }
}

/// What to do about a file that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave it.
    Never,
    /// Replace it if the archived one is newer.
    IfNewer,
    /// Replace it if size or modification time differ.
    IfChanged,
    /// Replace it.
    #[default]
    Always,
}

/// Options of an extraction.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which attributes are restored.
    pub policy: Policy,
    /// Damaged content.
    pub on_damage: OnDamage,
    /// Existing files.
    pub overwrite: Overwrite,
    /// Read everything back when it is restored.
    pub verify: bool,
}

/// Restores the selected entries of an archive into `target`.
///
/// # Errors
/// A failure that ended the run; warnings are in `messages`.
#[expect(clippy::too_many_arguments, reason = "the run's parts, each named; a struct would only rename them")]
pub fn extract(
    opened: &Opened,
    archive: &ArchiveState,
    selection: &Selection,
    target: &Path,
    options: &Options,
    settings: &Settings,
    messages: &mut Messages,
    cancelled: &AtomicBool,
) -> Result<()> {
    let target = Target::open(target, options.policy.clone()).map_err(|problem| {
        let what = if problem == Problem::ParentIsFile { "is not a directory".into() } else { problem.to_string() };
        Failure::new(exit::ERROR, format!("{}: {what}", target.display()))
    })?;
    let crew = worker::Writers::new(opened, settings);
    let planner = plan::Planner::new(opened, archive, selection, target, options, settings);
    let mut conductor = conduct::Restorer::new(planner, options, messages);
    line::run(settings, &crew, cancelled, &mut conductor)?;
    let (target, unproven) = conductor.finish();
    if options.verify {
        readback::read_back(opened, archive, selection, &target, &unproven, settings, messages, cancelled)?;
    }
    Ok(())
}
