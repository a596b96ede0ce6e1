//! The command line, as `packtrain --help` shows it.

use crate::exit::{Failure, Result};
use crate::extract::{OnDamage, Overwrite};
use crate::store::Place;
use clap::{Args, Parser, Subcommand, ValueEnum};
use packtrain_core::formats::OpenOptions;
use std::ffi::OsString;
use std::path::PathBuf;

/// Opens backup repositories and restores and verifies them on every core, in order, within a
/// memory bound. The source is only ever read.
#[derive(Debug, Parser)]
#[command(name = "packtrain", version, disable_version_flag = true, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print the version.
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

const EXAMPLES: &str = "\
Examples:
  packtrain list /backup/repo
  packtrain list /backup/repo::docs
  packtrain extract /backup/repo::latest -C /restore --progress
  packtrain extract -r /backup/repo aid:3f2a home/me/photos
  packtrain cat /backup/repo::docs etc/fstab
  packtrain export-tar /backup/repo::docs - | zstd > docs.tar.zst
  packtrain check --verify-data /backup/repo

An archive is named by its name, by aid:HEXPREFIX, or latest. Exit codes: packtrain help exit-codes";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List archives, or with an archive its entries.
    List(ListArgs),
    /// Show what the source is: format, version, cipher, sizes, archives.
    Info(InfoArgs),
    /// Restore entries to files.
    #[command(visible_alias = "restore")]
    Extract(ExtractArgs),
    /// Write the content of the named files to stdout, in order.
    Cat(CatArgs),
    /// Verify structure and, with --verify-data, every byte.
    #[command(visible_alias = "verify")]
    Check(CheckArgs),
    /// Write an archive as a PAX tar stream.
    ExportTar(TarArgs),
    /// Print the table of exit codes.
    #[command(after_help = crate::exit::TABLE)]
    ExitCodes,
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
}

/// What every command takes.
#[derive(Args, Debug)]
pub struct Common {
    /// The source; the first word is then the archive. Also PACKTRAIN_REPO or BORG_REPO.
    #[arg(short = 'r', long = "repo", value_name = "SOURCE")]
    pub repo: Option<PathBuf>,
    /// Say more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Messages as JSON lines.
    #[arg(long)]
    pub log_json: bool,
    /// Also find archives that are marked as deleted but not compacted away.
    #[arg(long)]
    pub deleted: bool,
    /// Also find archives that interrupted runs left behind (Borg 1.x).
    #[arg(long)]
    pub consider_checkpoints: bool,
    /// Also show the parts of files whose backup was interrupted (Borg 1.x).
    #[arg(long)]
    pub consider_part_files: bool,
    /// Also look through all that is stored for archives that no list names (Borg 1.x).
    #[arg(long)]
    pub lost: bool,
    /// Read metadata that cannot be shown to be authentic, and say so (Borg 1.x).
    #[arg(long)]
    pub not_authenticated: bool,
    /// A further device of an image; once for each, in the order of its table (EROFS).
    #[arg(long, value_name = "FILE")]
    pub device: Vec<PathBuf>,
    /// Where an image starts in its file, such as 1M (EROFS).
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value_t = 0)]
    pub offset: u64,
    /// Read an image whose superblock does not have its checksum (EROFS).
    #[arg(long)]
    pub ignore_checksum: bool,
}

impl Common {
    /// Where the source of these words is.
    pub fn place(&self, words: &Words) -> Place {
        Place { path: words.source.clone(), offset: self.offset, devices: self.device.clone() }
    }

    /// What may be read.
    pub const fn options(&self) -> OpenOptions {
        OpenOptions {
            not_authenticated: self.not_authenticated,
            ignore_checksum: self.ignore_checksum,
            parts: self.consider_part_files,
        }
    }
}

/// How the work is spread and bounded.
#[derive(Args, Debug)]
pub struct Power {
    /// Decoding workers; 1 uses no threads. Default: all cores. Also PACKTRAIN_JOBS.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Threads that read ahead of the workers; 0: each worker reads for itself.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub readers: u16,
    /// Bound on bytes in flight, such as 64M or 1GiB. Also PACKTRAIN_MEMORY.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Show progress.
    #[arg(short, long)]
    pub progress: bool,
    /// Print each entry's path as it is done.
    #[arg(long)]
    pub list: bool,
    /// Print counts at the end.
    #[arg(short, long)]
    pub stats: bool,
    /// Write a report: JSON lines, one per entry and warning, then a summary.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Which entries.
#[derive(Args, Debug)]
pub struct Choice {
    /// Leave out what matches (fm: unless it says sh:, re:, pp: or pf:).
    #[arg(short, long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Exclude patterns from a file, one a line.
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// One rule: '+ PATTERN' or '- PATTERN' (sh: unless it says otherwise); the first match decides.
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    pub pattern: Vec<String>,
    /// Rules from a file, one a line.
    #[arg(long, value_name = "FILE")]
    pub patterns_from: Vec<PathBuf>,
}

/// Arguments of `list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    #[expect(missing_docs)]
    pub common: Common,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub choice: Choice,
    /// The source and, after two colons, the archive; then what the command needs.
    #[arg(value_name = "SOURCE[::ARCHIVE] PATH")]
    pub words: Vec<OsString>,
    /// Also how the content is laid out (EROFS).
    #[arg(short, long)]
    pub long: bool,
    /// Only names.
    #[arg(long)]
    pub short: bool,
    /// A format such as '{mode} {size:>9} {path}{NL}'.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Archives as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json_lines: bool,
}

/// Arguments of `info`.
#[derive(Args, Debug)]
pub struct InfoArgs {
    #[command(flatten)]
    #[expect(missing_docs)]
    pub common: Common,
    /// The source and, after two colons, the archive; then what the command needs.
    #[arg(value_name = "SOURCE[::ARCHIVE]")]
    pub words: Vec<OsString>,
    /// As one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `extract`.
#[derive(Args, Debug)]
pub struct ExtractArgs {
    #[command(flatten)]
    #[expect(missing_docs)]
    pub common: Common,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub power: Power,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub choice: Choice,
    /// The source and, after two colons, the archive; then what the command needs.
    #[arg(value_name = "SOURCE::ARCHIVE PATH")]
    pub words: Vec<OsString>,
    /// Restore into this directory instead of the current one.
    #[arg(short = 'C', long = "target", value_name = "DIR")]
    pub target: Option<PathBuf>,
    /// Decode and verify everything, write nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Write the content of files to stdout instead.
    #[arg(long)]
    pub stdout: bool,
    /// Remove so many leading components from each path.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub strip_components: usize,
    /// Owners by number only.
    #[arg(long)]
    pub numeric_ids: bool,
    /// No file flags.
    #[arg(long)]
    pub noflags: bool,
    /// No ACLs.
    #[arg(long)]
    pub noacls: bool,
    /// No extended attributes.
    #[arg(long)]
    pub noxattrs: bool,
    /// Allocate and write zeros instead of leaving holes.
    #[arg(long)]
    pub no_sparse: bool,
    /// Accepted for Borg's sake: holes are the default.
    #[arg(long, hide = true)]
    pub sparse: bool,
    /// What to do about damaged content.
    #[arg(long, value_enum, default_value_t = DamageArg::Zero)]
    pub on_damage: DamageArg,
    /// What to do about files that exist.
    #[arg(long, value_enum, default_value_t = OverwriteArg::Always)]
    pub overwrite: OverwriteArg,
    /// Read everything back from the target and compare it with the archive.
    #[arg(long, conflicts_with_all = ["dry_run", "stdout"])]
    pub verify: bool,
    /// Go on with an interrupted run: files with the archived size and time are left alone.
    #[arg(long = "continue")]
    pub resume: bool,
}

/// Arguments of `cat`.
#[derive(Args, Debug)]
pub struct CatArgs {
    #[command(flatten)]
    #[expect(missing_docs)]
    pub common: Common,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub power: Power,
    /// The source and, after two colons, the archive; then what the command needs.
    #[arg(value_name = "SOURCE::ARCHIVE PATH")]
    pub words: Vec<OsString>,
    /// What to do about damaged content.
    #[arg(long, value_enum, default_value_t = StreamDamageArg::Stop)]
    pub on_damage: StreamDamageArg,
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    #[expect(missing_docs)]
    pub common: Common,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub power: Power,
    /// The source and, after two colons, the archive; then what the command needs.
    #[arg(value_name = "SOURCE[::ARCHIVE]")]
    pub words: Vec<OsString>,
    /// Also open every chunk: authenticate, decrypt, decompress, compare with its id.
    #[arg(long)]
    pub verify_data: bool,
    /// Only stored objects against their names.
    #[arg(long, conflicts_with = "archives_only")]
    pub repository_only: bool,
    /// Only the archives.
    #[arg(long)]
    pub archives_only: bool,
    /// Also decode every file and write its SHA-256 to a list, as sha256sum does.
    #[arg(long, value_name = "FILE")]
    pub write_manifest: Option<PathBuf>,
    /// Also decode every file and compare it with such a list.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Verify only this share of the chunks, such as 5%.
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "100%", requires = "verify_data")]
    pub sample: f64,
    /// Stop verifying after this time, such as 90s, 10m or 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "verify_data")]
    pub max_duration: Option<std::time::Duration>,
}

/// Arguments of `export-tar`.
#[derive(Args, Debug)]
pub struct TarArgs {
    #[command(flatten)]
    #[expect(missing_docs)]
    pub common: Common,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub power: Power,
    #[command(flatten)]
    #[expect(missing_docs)]
    pub choice: Choice,
    /// The source and, after two colons, the archive; then what the command needs.
    #[arg(value_name = "SOURCE::ARCHIVE FILE PATH")]
    pub words: Vec<OsString>,
    /// Remove so many leading components from each path.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub strip_components: usize,
    /// What to do about damaged content.
    #[arg(long, value_enum, default_value_t = StreamDamageArg::Zero)]
    pub on_damage: StreamDamageArg,
}

/// `--on-damage`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DamageArg {
    /// Fill with zeros, name the range, restore the rest.
    Zero,
    /// Leave the file out.
    Skip,
    /// End the run.
    Stop,
}

impl From<DamageArg> for OnDamage {
    fn from(arg: DamageArg) -> Self {
        match arg {
            DamageArg::Zero => Self::Zero,
            DamageArg::Skip => Self::Skip,
            DamageArg::Stop => Self::Stop,
        }
    }
}

/// `--on-damage` of a stream, where nothing that is written can be taken back.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StreamDamageArg {
    /// Fill with zeros, name the range, write the rest.
    Zero,
    /// End the run.
    Stop,
}

impl From<StreamDamageArg> for OnDamage {
    fn from(arg: StreamDamageArg) -> Self {
        match arg {
            StreamDamageArg::Zero => Self::Zero,
            StreamDamageArg::Stop => Self::Stop,
        }
    }
}

/// `--overwrite`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OverwriteArg {
    /// Leave existing files alone.
    Never,
    /// Replace if the archived one is newer.
    IfNewer,
    /// Replace if size or time differ.
    IfChanged,
    /// Replace.
    Always,
}

impl From<OverwriteArg> for Overwrite {
    fn from(arg: OverwriteArg) -> Self {
        match arg {
            OverwriteArg::Never => Self::Never,
            OverwriteArg::IfNewer => Self::IfNewer,
            OverwriteArg::IfChanged => Self::IfChanged,
            OverwriteArg::Always => Self::Always,
        }
    }
}

/// What is wrong with words that should name an archive and do not.
pub const NEED_ARCHIVE: &str = "an archive is needed: SOURCE::ARCHIVE, where ARCHIVE is a name, aid:HEX or latest";

/// The words of a command, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The source.
    pub source: PathBuf,
    /// The archive, if one is named.
    pub archive: Option<String>,
    /// True if a word of its own names it; of an image, that would be the first path.
    pub archive_apart: bool,
    /// The rest.
    pub rest: Vec<String>,
}

impl Words {
    /// Takes `words` apart. With `repo` (or a repository in the environment, unless the first
    /// word names something on disk) the first word is the archive.
    ///
    /// # Errors
    /// Usage.
    pub fn parse(words: &[OsString], repo: Option<&PathBuf>) -> Result<Self> {
        let mut words = words.iter().map(|word| {
            word.clone()
                .into_string()
                .map_err(|word| Failure::usage(format!("{}: not UTF-8; use a pattern for such names", word.display())))
        });
        let (source, archive, archive_apart) = match repo {
            Some(repo) => (repo.clone(), words.next().transpose()?, true),
            None => {
                let first = words.next().transpose()?;
                match (first, crate::secrets::variable("REPO")) {
                    (Some(first), Some(repo)) if !split(&first).0.exists() => (repo.into(), Some(first), true),
                    (None, Some(repo)) => (repo.into(), None, true),
                    (Some(first), _) => {
                        let (source, archive) = split(&first);
                        (source, archive, false)
                    }
                    (None, None) => {
                        return Err(Failure::usage("a source is needed: SOURCE[::ARCHIVE], or -r SOURCE [ARCHIVE]"));
                    }
                }
            }
        };
        let archive = archive.filter(|name| !name.is_empty());
        Ok(Self { source, archive, archive_apart, rest: words.collect::<Result<_>>()? })
    }

    /// The same words for an image, whose only archive has no name: a word that would name an archive
    /// is a path.
    #[must_use]
    pub fn of_image(mut self) -> Self {
        if self.archive_apart {
            self.rest.splice(0..0, self.archive.take());
        }
        self
    }

    /// Refuses words without an archive, where the source does not look like an image.
    ///
    /// # Errors
    /// Usage.
    pub fn need_archive(&self) -> Result<()> {
        // Files and block devices hold images.
        let may_be_image = std::fs::metadata(&self.source).is_ok_and(|found| !found.is_dir());
        match self.archive {
            None if !may_be_image => Err(Failure::usage(NEED_ARCHIVE)),
            _ => Ok(()),
        }
    }
}

fn split(word: &str) -> (PathBuf, Option<String>) {
    match word.split_once("::") {
        Some((source, archive)) => (source.into(), Some(archive.into())),
        None => (word.into(), None),
    }
}

/// A size such as `4096`, `64M`, `1GiB`. Single letters and `iB` count in 1024, `kB` and the like in 1000.
///
/// # Errors
/// What is wrong with it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| match digits {
        0 => format!("'{text}' does not start with a number"),
        _ => format!("'{text}' is too large"),
    })?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let (base, letter) = match unit.as_str() {
        "" | "b" => return Ok(number),
        unit if unit.ends_with("ib") => (1024u64, &unit[..unit.len() - 2]),
        unit if unit.len() == 2 && unit.ends_with('b') => (1000, &unit[..1]),
        unit => (1024, unit),
    };
    let power = match letter {
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(format!("'{unit}' is not a unit of size")),
    };
    base.checked_pow(power).and_then(|unit| number.checked_mul(unit)).ok_or_else(|| format!("'{text}' is too large"))
}

fn parse_share(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| format!("'{text}' is not a percentage"))?;
    if number > 0.0 && number <= 100.0 { Ok(number / 100.0) } else { Err("a sample is between 0% and 100%".into()) }
}

fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = number.parse().map_err(|_| format!("'{text}' is not a time"))?;
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("'{unit}' is not a unit of time: s, m or h")),
    };
    Ok(std::time::Duration::from_secs(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("1kB"), Ok(1000));
        assert_eq!(parse_size("17"), Ok(17));
        assert!(parse_size("x").is_err() && parse_size("1Z").is_err() && parse_size("99999999999T").is_err());
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert!(parse_share("0").is_err() && parse_share("101").is_err());
        assert_eq!(parse_duration("10m"), Ok(std::time::Duration::from_secs(600)));
    }

    #[test]
    fn both_ways_to_name_an_archive() {
        let words = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        let one = Words::parse(&words(&["/r::a", "p"]), None).unwrap();
        let two = Words::parse(&words(&["a", "p"]), Some(&"/r".into())).unwrap();
        assert_eq!((&one.source, &one.archive, &one.rest), (&two.source, &two.archive, &two.rest));
        assert_eq!(two.of_image().rest, ["a", "p"]);
        assert_eq!(one.of_image().rest, ["p"]);
        assert_eq!(Words::parse(&words(&["/r"]), None).unwrap().archive, None);
    }
}
