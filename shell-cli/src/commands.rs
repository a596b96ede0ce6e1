//! The commands: from parsed arguments to an exit code.

use crate::archives::{archives, choose, find, meant, state};
use crate::args::{
    CatArgs, CheckArgs, Choice, Cli, Command, Common, ExtractArgs, InfoArgs, ListArgs, Power, TarArgs, Words,
};
use crate::check::{self, Depth};
use crate::exit::{self, Failure, Result, describe};
use crate::extract::{self, OnDamage, Options, Overwrite};
use crate::line::Settings;
use crate::listing::{self, Style};
use crate::messages::{Messages, Wishes};
use crate::opened::{self, Opened};
use crate::prove::{self, Manifests};
use crate::secrets::{Secrets, variable};
use crate::stream::sink::{Concat, output_failed};
use crate::stream::tar::TarSink;
use crate::stream::{self, sink::Sink};
use crate::target::Policy;
use core::sync::atomic::AtomicBool;
use packtrain_core::formats::Listed;
use packtrain_core::objects::{Archive, ArchiveState, EntryKind, Fact};
use packtrain_core::plan::pattern::Style as PatternStyle;
use packtrain_core::plan::select::Selection;
use serde_json::json;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Default bound on bytes in flight.
const MEMORY: u64 = 48 << 20;

/// Why content of an image is not read back.
const NO_HASHES: &str = "an image has no hashes to compare with: instead of --verify, write a manifest with \
                         check --write-manifest and compare it with the restored files (sha256sum -c)";

/// Runs a command and returns its exit code. `cancelled` is set by a signal.
pub fn run(cli: Cli, cancelled: &Arc<AtomicBool>) -> u8 {
    match cli.command {
        Command::List(args) => quiet(&args.common, "listed", |messages| list(&args, messages)),
        Command::Info(args) => quiet(&args.common, "shown", |messages| info(&args, messages)),
        Command::Extract(args) => {
            let verb = if args.dry_run { "verified" } else { "restored" };
            loud(&args.common, &args.power, &args.words, verb, |messages| extract(&args, messages, cancelled))
        }
        Command::Cat(args) => {
            loud(&args.common, &args.power, &args.words, "written", |messages| cat(&args, messages, cancelled))
        }
        Command::Check(args) => {
            loud(&args.common, &args.power, &args.words, "checked", |messages| check(&args, messages, cancelled))
        }
        Command::ExportTar(args) => {
            loud(&args.common, &args.power, &args.words, "written", |messages| export_tar(&args, messages, cancelled))
        }
        Command::ExitCodes => print(exit::TABLE.as_bytes()),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut <Cli as clap::CommandFactory>::command(), "packtrain", &mut text);
            print(&text)
        }
        Command::Man => {
            let mut text = Vec::new();
            let page = clap_mangen::Man::new(<Cli as clap::CommandFactory>::command());
            match page.render(&mut text) {
                Ok(()) => print(&text),
                Err(_) => exit::ERROR,
            }
        }
    }
}

/// Refuses to write to a place inside the source, which is only ever read.
fn outside(source: &Path, place: &Path) -> Result<()> {
    let Ok(root) = std::fs::metadata(source) else { return Ok(()) };
    // The place may be still to be made; of what is there already, links are followed.
    let there = place.ancestors().map(|part| if part.as_os_str().is_empty() { Path::new(".") } else { part });
    let Some(there) = there.filter_map(|part| part.canonicalize().ok()).next() else { return Ok(()) };
    let same = |part: &Path| part.metadata().is_ok_and(|part| (part.dev(), part.ino()) == (root.dev(), root.ino()));
    match there.ancestors().any(same) {
        true => Err(Failure::usage(format!(
            "{}: this is inside the source, which is only ever read; choose another place",
            place.display()
        ))),
        false => Ok(()),
    }
}

fn print(text: &[u8]) -> u8 {
    match std::io::stdout().write_all(text) {
        Ok(()) => exit::OK,
        Err(error) => output_failed(error).code,
    }
}

fn quiet(common: &Common, verb: &str, run: impl FnOnce(&mut Messages) -> Result<()>) -> u8 {
    finish(Messages::new(Wishes { json: common.log_json, ..Wishes::default() }), verb, run)
}

fn loud(
    common: &Common,
    power: &Power,
    words: &[OsString],
    verb: &str,
    run: impl FnOnce(&mut Messages) -> Result<()>,
) -> u8 {
    let mut wishes = Wishes {
        json: common.log_json,
        list: power.list,
        progress: power.progress,
        stats: power.stats || common.verbose > 0,
        report: None,
    };
    if let Some(path) = &power.report {
        // What is wrong with the words, the command itself says.
        if let Ok(words) = Words::parse(words, common.repo.as_ref())
            && let Err(failure) = outside(&words.source, path)
        {
            eprintln!("packtrain: {failure}");
            return failure.code;
        }
        match std::fs::File::create(path) {
            Ok(file) => wishes.report = Some(BufWriter::new(file)),
            Err(error) => {
                eprintln!("packtrain: {}: the report cannot be written: {error}", path.display());
                return exit::ERROR;
            }
        }
    }
    finish(Messages::new(wishes), verb, run)
}

fn finish(mut messages: Messages, verb: &str, run: impl FnOnce(&mut Messages) -> Result<()>) -> u8 {
    match run(&mut messages) {
        Ok(()) => messages.finish(verb, None),
        // A reader that went away has its answer; nothing is to be said.
        Err(failure) if failure.message.is_empty() => failure.code,
        Err(failure) => messages.finish(verb, Some(&failure)),
    }
}

fn settings(power: &Power) -> Result<Settings> {
    let jobs = match (power.jobs, variable("JOBS")) {
        (Some(jobs), _) => jobs.into(),
        (None, Some(text)) => text
            .to_str()
            .and_then(|text| text.parse().ok())
            .filter(|jobs| (1..=1024).contains(jobs))
            .ok_or_else(|| Failure::usage("PACKTRAIN_JOBS is not a number from 1 to 1024"))?,
        (None, None) => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let memory = match (power.memory, variable("MEMORY")) {
        (Some(memory), _) => memory,
        (None, Some(text)) => text
            .to_str()
            .and_then(|text| crate::args::parse_size(text).ok())
            .ok_or_else(|| Failure::usage("PACKTRAIN_MEMORY is not a size such as 64M"))?,
        (None, None) => MEMORY,
    };
    Ok(Settings { jobs, readers: power.readers.into(), memory })
}

/// The opened source, and the words as they are meant for it.
fn open_quietly(words: Words, common: &Common) -> Result<(Opened, Words)> {
    let opened = Opened::open(&common.place(&words), &Secrets, common.options())?;
    let words = if opened.source.is_image() { words.of_image() } else { words };
    Ok((opened, words))
}

/// The same, after what the source found out about itself was told.
fn open(words: Words, common: &Common, messages: &mut Messages) -> Result<(Opened, Words)> {
    let (opened, words) = open_quietly(words, common)?;
    tell_notices(&opened, messages);
    Ok((opened, words))
}

/// What the source found out about itself. An index that had to be done without changes no exit
/// code here: what counts is what could be read. Only `check` takes it as a finding.
fn tell_notices(opened: &Opened, messages: &mut Messages) {
    for notice in opened.source.take_notices() {
        messages.note(&notice.text);
    }
}

fn selection(choice: &Choice, paths: &[String], strip: usize) -> Result<Selection> {
    let bad = |error: packtrain_core::plan::pattern::BadPattern| Failure::usage(error.to_string());
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    };
    let mut selection = Selection::new(strip);
    for path in paths {
        selection.include(path).map_err(bad)?;
    }
    let mut style = PatternStyle::Shell;
    for rule in &choice.pattern {
        selection.rule(rule, &mut style).map_err(bad)?;
    }
    for file in &choice.patterns_from {
        let mut style = PatternStyle::Shell;
        for line in read(file)?.lines() {
            selection.rule(line, &mut style).map_err(bad)?;
        }
    }
    for pattern in &choice.exclude {
        selection.exclude(pattern).map_err(bad)?;
    }
    for file in &choice.exclude_from {
        for line in read(file)?.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            selection.exclude(line).map_err(bad)?;
        }
    }
    Ok(selection)
}

/// Include paths that matched nothing are a warning each.
fn tell_unused(selection: &Selection, messages: &mut Messages) {
    for path in selection.unused() {
        messages.warn(exit::PATTERN_UNUSED, b"", &format!("'{path}' matched nothing in the archive"));
    }
}

fn list(args: &ListArgs, messages: &mut Messages) -> Result<()> {
    let words = Words::parse(&args.words, args.common.repo.as_ref())?;
    let (opened, words) = open(words, &args.common, messages)?;
    let archives = archives(&opened, &args.common)?;
    let mut out = BufWriter::with_capacity(256 << 10, std::io::stdout().lock());
    let style = |default: &str, keys: &[&str]| -> Result<Style> {
        Ok(match &args.format {
            _ if args.json_lines => Style::Json,
            Some(format) => Style::Format(listing::parse_format(format, keys)?),
            None if args.short => Style::Short,
            None => Style::Format(listing::parse_format(default, keys)?),
        })
    };
    let Some(archive) = meant(&opened, &words, &archives)? else {
        if args.json {
            let list: Vec<_> = archives.iter().map(listing::archive_json).collect();
            writeln!(out, "{}", json!({"archives": list})).map_err(output_failed)?;
        } else {
            let style = style(listing::ARCHIVE_FORMAT, &listing::ARCHIVE_KEYS)?;
            for archive in &archives {
                listing::archive(&mut out, &style, archive).map_err(output_failed)?;
            }
        }
        for archive in archives.iter().filter(|archive| archive.state.is_err()) {
            let error = archive.state.as_ref().err().map(describe).unwrap_or_default();
            messages.damage(b"", &format!("archive {} cannot be read: {error}", archive.id));
        }
        out.flush().map_err(output_failed)?;
        tell_notices(&opened, messages);
        return Ok(());
    };
    let selection = selection(&args.choice, &words.rest, 0)?;
    let format = if args.long { listing::LONG_FORMAT } else { listing::ENTRY_FORMAT };
    let style = if args.json { Style::Json } else { style(format, &listing::ENTRY_KEYS)? };
    let mut catalog = opened.source.catalog(state(archive)?);
    while let Some(listed) = opened.drive(catalog.next(&opened.port))? {
        match listed {
            Listed::Entry(entry) if selection.wants(&entry.path) => {
                listing::entry(&mut out, &style, &entry).map_err(output_failed)?;
            }
            Listed::Entry(_) => {}
            Listed::Refused { path, why } => messages.refused(&path, &why),
            Listed::Gap(error) => {
                messages.damage(b"", &format!("entries of the archive are lost here: {}", describe(&error)))
            }
        }
    }
    out.flush().map_err(output_failed)?;
    tell_unused(&selection, messages);
    tell_notices(&opened, messages);
    Ok(())
}

fn info(args: &InfoArgs, messages: &mut Messages) -> Result<()> {
    let words = Words::parse(&args.words, args.common.repo.as_ref())?;
    let (opened, words) = open(words, &args.common, messages)?;
    let archives = archives(&opened, &args.common)?;
    let mut out = std::io::stdout().lock();
    let shown: Vec<&Archive> = match &words.archive {
        Some(name) => vec![find(&archives, name)?],
        None => archives.iter().collect(),
    };
    let mut facts = opened.source.facts();
    if let ([only], true) = (shown.as_slice(), opened.source.is_image()) {
        facts.extend(counts(&opened, state(only)?, messages)?);
    }
    if args.json {
        let facts: serde_json::Map<_, _> = facts.into_iter().map(|fact| (fact.key.into(), fact.value.into())).collect();
        let archives: Vec<_> = shown.into_iter().map(listing::archive_json).collect();
        return writeln!(out, "{}", json!({"source": facts, "archives": archives})).map_err(output_failed);
    }
    if words.archive.is_none() {
        for fact in facts {
            writeln!(out, "{:20} {}", fact.key, fact.value).map_err(output_failed)?;
        }
        if !opened.source.is_image() {
            writeln!(out, "{:20} {}", "archives", archives.len()).map_err(output_failed)?;
        }
        return Ok(());
    }
    for archive in shown {
        if let serde_json::Value::Object(map) = listing::archive_json(archive) {
            for (key, value) in map {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), |text| crate::messages::printable(text.as_bytes()));
                writeln!(out, "{key:20} {text}").map_err(output_failed)?;
            }
        }
    }
    Ok(())
}

/// What a walk through an image counts.
fn counts(opened: &Opened, archive: &ArchiveState, messages: &mut Messages) -> Result<Vec<Fact>> {
    let (mut entries, mut files, mut bytes) = (0u64, 0u64, 0u64);
    let mut groups = HashSet::new();
    let mut catalog = opened.source.catalog(archive);
    while let Some(listed) = opened.drive(catalog.next(&opened.port))? {
        match listed {
            Listed::Entry(entry) => {
                entries += 1;
                if matches!(entry.kind, EntryKind::File(_)) && entry.link_group.is_none_or(|group| groups.insert(group))
                {
                    files += 1;
                    bytes = bytes.saturating_add(entry.content_len());
                }
            }
            Listed::Refused { path, why } => messages.refused(&path, &why),
            Listed::Gap(error) => messages.damage(b"", &format!("entries are lost: {}", describe(&error))),
        }
    }
    let stored = opened.store.stat("").ok().flatten().unwrap_or(0);
    let ratio = format!("{:.2}", bytes as f64 / stored.max(1) as f64);
    let facts = [
        ("entries", entries.to_string()),
        ("files", files.to_string()),
        ("content_bytes", bytes.to_string()),
        ("image_bytes", stored.to_string()),
        ("ratio", ratio),
    ];
    Ok(facts.into_iter().map(|(key, value)| Fact { key, value }).collect())
}

fn extract(args: &ExtractArgs, messages: &mut Messages, cancelled: &AtomicBool) -> Result<()> {
    let words = Words::parse(&args.words, args.common.repo.as_ref())?;
    words.need_archive()?;
    let settings = settings(&args.power)?;
    let on_damage = args.on_damage.into();
    if args.stdout && on_damage == OnDamage::Skip {
        return Err(Failure::usage("a stream cannot leave a file out that it has begun: --on-damage zero or stop"));
    }
    opened::derive_on(settings.benches());
    let (opened, words) = open(words, &args.common, messages)?;
    let selection = selection(&args.choice, &words.rest, args.strip_components)?;
    let archive = choose(&opened, &words, &args.common)?;
    if args.verify && opened.source.is_image() {
        return Err(Failure::usage(NO_HASHES));
    }
    if args.dry_run || args.stdout {
        let mut out = Concat::new(BufWriter::new(std::io::stdout()));
        let mut nothing = Concat::new(std::io::sink());
        let sink: &mut dyn Sink = if args.stdout { &mut out } else { &mut nothing };
        stream::stream(&opened, &archive, &selection, sink, on_damage, &settings, messages, cancelled)?;
    } else {
        let policy = Policy {
            numeric_ids: args.numeric_ids,
            acls: !args.noacls,
            xattrs: !args.noxattrs,
            flags: !args.noflags,
            sparse: !args.no_sparse,
            ..Policy::of_this_process()
        };
        let overwrite = if args.resume { Overwrite::IfChanged } else { args.overwrite.into() };
        let options = Options { policy, on_damage, overwrite, verify: args.verify };
        let target = args.target.as_deref().unwrap_or(Path::new("."));
        outside(&words.source, target)?;
        extract::extract(&opened, &archive, &selection, target, &options, &settings, messages, cancelled)?;
    }
    tell_unused(&selection, messages);
    tell_notices(&opened, messages);
    Ok(())
}

fn cat(args: &CatArgs, messages: &mut Messages, cancelled: &AtomicBool) -> Result<()> {
    let words = Words::parse(&args.words, args.common.repo.as_ref())?;
    words.need_archive()?;
    let settings = settings(&args.power)?;
    opened::derive_on(settings.benches());
    let (opened, words) = open(words, &args.common, messages)?;
    if words.rest.is_empty() {
        return Err(Failure::usage("which files? cat SOURCE::ARCHIVE PATH..."));
    }
    let choice =
        Choice { exclude: Vec::new(), exclude_from: Vec::new(), pattern: Vec::new(), patterns_from: Vec::new() };
    let selection = selection(&choice, &words.rest, 0)?;
    let archive = choose(&opened, &words, &args.common)?;
    let mut sink = Concat::new(BufWriter::new(std::io::stdout()));
    stream::stream(&opened, &archive, &selection, &mut sink, args.on_damage.into(), &settings, messages, cancelled)?;
    tell_unused(&selection, messages);
    tell_notices(&opened, messages);
    Ok(())
}

fn export_tar(args: &TarArgs, messages: &mut Messages, cancelled: &AtomicBool) -> Result<()> {
    let words = Words::parse(&args.words, args.common.repo.as_ref())?;
    words.need_archive()?;
    let settings = settings(&args.power)?;
    opened::derive_on(settings.benches());
    let (opened, words) = open(words, &args.common, messages)?;
    let (file, paths) = words
        .rest
        .split_first()
        .ok_or_else(|| Failure::usage("where to? export-tar SOURCE::ARCHIVE FILE, - for stdout"))?;
    let selection = selection(&args.choice, paths, args.strip_components)?;
    let archive = choose(&opened, &words, &args.common)?;
    let out: Box<dyn Write> = if file == "-" {
        Box::new(std::io::stdout())
    } else {
        outside(&words.source, Path::new(file))?;
        let made = std::fs::File::create_new(file);
        Box::new(made.map_err(|error| Failure::new(exit::ERROR, format!("{file}: {error}")))?)
    };
    let mut sink = TarSink::new(BufWriter::with_capacity(256 << 10, out));
    stream::stream(&opened, &archive, &selection, &mut sink, args.on_damage.into(), &settings, messages, cancelled)?;
    tell_unused(&selection, messages);
    tell_notices(&opened, messages);
    Ok(())
}

fn check(args: &CheckArgs, messages: &mut Messages, cancelled: &AtomicBool) -> Result<()> {
    let words = Words::parse(&args.words, args.common.repo.as_ref())?;
    let settings = settings(&args.power)?;
    opened::derive_on(settings.benches());
    let (opened, words) = open_quietly(words, &args.common)?;
    let findings = |messages: &mut Messages| {
        for notice in opened.source.take_notices() {
            if notice.serious { messages.damage(b"", &notice.text) } else { messages.note(&notice.text) }
        }
    };
    findings(messages);
    let archives = match archives(&opened, &args.common) {
        // What is stored can be checked all the same.
        Err(failure) if failure.code == exit::INTEGRITY && words.archive.is_none() => {
            messages.damage(b"", &failure.message);
            Vec::new()
        }
        other => other?,
    };
    let chosen: Vec<&Archive> = match &words.archive {
        Some(name) => vec![find(&archives, name)?],
        None => archives.iter().collect(),
    };
    let manifests = Manifests { known: args.manifest.as_deref(), written: args.write_manifest.as_deref() };
    let by_file = manifests.are_wanted() || (opened.source.is_image() && args.verify_data);
    let one = match (by_file, chosen.as_slice()) {
        (false, _) => None,
        (true, [one]) => Some(state(one)?),
        (true, _) => return Err(Failure::usage("a manifest is of one archive: SOURCE::ARCHIVE")),
    };
    // An image has no stored objects that say what they are, and its pieces have no hashes: all of it is
    // proven by file, which walks the tree as well.
    let is_image = opened.source.is_image();
    let depth = Depth {
        repository: !args.archives_only && !is_image,
        archives: if is_image { !by_file } else { !args.repository_only },
        data: args.verify_data && !is_image,
        sample: args.sample,
        max_duration: args.max_duration,
    };
    if is_image && (args.sample < 1.0 || args.max_duration.is_some()) {
        return Err(Failure::usage("an image is verified as a whole: no --sample or --max-duration"));
    }
    if let Some(path) = manifests.written {
        outside(&words.source, path)?;
    }
    check::check(&opened, &chosen, words.archive.is_none(), &depth, &settings, messages, cancelled)?;
    if let Some(archive) = one {
        prove::prove(&opened, archive, manifests, &settings, messages, cancelled)?;
    }
    findings(messages);
    Ok(())
}
