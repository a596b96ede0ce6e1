//! What a program or a terminal reads: JSON lines, escaped names, pipes that close, help.

use packtrain_tests::cases;
use packtrain_tests::command::{Call, finished};
use packtrain_tests::folder::Temp;
use packtrain_tests::repository::Copy;
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// With `--log-json` every line on stderr is one JSON object, whatever happens.
#[test]
fn messages_are_json_lines() {
    let case = cases::named("borg2/suite-aes256-ocb-blake3");
    let copy = Copy::of(case);
    let items = case.archives[0].lines("raw_items");
    let content = items.iter().find_map(|item| item.get("chunks")?[0][0].as_str()).expect("a chunk");
    let object = copy.object(content.trim_start_matches('\u{7f}'));
    copy.flip(&object.pack, object.payload(), 1);
    copy.files_in("index").iter().for_each(|name| copy.remove(name));
    let mut kinds = std::collections::BTreeSet::new();
    for arguments in [
        &["extract", "-C", "out", "--list", "--progress", "--stats", "first"][..],
        &["extract", "-C", "out", "first", "not-there"],
        &["check", "--verify-data"],
        &["list", "no-such-archive"],
        &["cat", "first", "docs", "--on-damage", "zero"],
    ] {
        let temp = Temp::new();
        temp.folder("out");
        let call = Call::new(arguments)
            .args(["--log-json"])
            .env("BORG_REPO", copy.path())
            .env("BORG_PASSPHRASE", "test")
            .within(temp.path());
        let run = call.run();
        assert_ne!(run.code, 0, "{arguments:?}");
        for line in run.stderr.lines() {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {line}"));
            kinds.insert(value["type"].as_str().expect("a type").to_owned());
            if value["type"] == "log_message" {
                assert!(
                    value["message"].is_string() && value["code"].is_u64() && value["levelname"].is_string(),
                    "{line}"
                );
            }
        }
        assert!(!run.stderr.is_empty());
    }
    assert!(kinds.contains("log_message") && kinds.contains("file_status"), "{kinds:?}");
}

/// A report is JSON lines, one for each entry, then the sum.
#[test]
fn reports_are_json_lines() {
    let case = cases::named("borg2/names");
    let copy = Copy::of(case);
    let temp = Temp::new();
    temp.folder("out");
    let call = Call::new(["extract", "-C", "out", "--report", "report", "-r"])
        .args([copy.path()])
        .args([case.archives[0].spec()]);
    call.opening(case).within(temp.path()).run().expect(0);
    let text = std::fs::read_to_string(temp.path().join("report")).expect("a report");
    let lines: Vec<serde_json::Map<String, Value>> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (sum, entries) = lines.split_last().expect("lines");
    let items = case.archives[0].lines("items");
    assert_eq!((&sum["type"], &sum["exit_code"], &sum["entries"]), (&"summary".into(), &0.into(), &items.len().into()));
    let paths = |lines: &[serde_json::Map<String, Value>]| {
        lines.iter().map(packtrain_tests::tree::path_of).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(paths(entries), paths(&items));
    assert!(entries.iter().all(|entry| entry["status"] == "restored"));
}

/// A further name of a file restores no more bytes.
#[test]
fn linked_content_counts_once() {
    let case = cases::named("borg2/types");
    let copy = Copy::of(case);
    let temp = Temp::new();
    let archive = &case.archives[0];
    let call = Call::new(["extract", "--report", "report", "-r"]).args([copy.path()]).args([archive.spec()]);
    call.opening(case).within(&temp.folder("out")).run();
    let text = std::fs::read_to_string(temp.path().join("out/report")).expect("a report");
    let sum: Value = serde_json::from_str(text.lines().last().expect("a sum")).expect("JSON");
    let mut groups = std::collections::BTreeSet::new();
    let items = archive.lines("items");
    let once = items
        .iter()
        .filter(|item| item["type"] == "-")
        .filter(|item| item["hlid"].as_str().is_none_or(|group| group.is_empty() || groups.insert(group.to_owned())));
    let bytes: u64 = once.filter_map(|item| item["size"].as_u64()).sum();
    assert!(!groups.is_empty());
    assert_eq!(sum["bytes"], bytes, "{sum}");
}

/// Names with control characters do not reach a terminal as they are.
#[test]
fn names_are_escaped() {
    let case = cases::named("borg2/names");
    let copy = Copy::of(case);
    let archive = &case.archives[0];
    let odd = archive
        .lines("items")
        .iter()
        .filter(|item| item["path"].as_str().is_some_and(|path| path.contains(|letter: char| letter.is_control())))
        .count();
    assert!(odd > 2, "the case has names with control characters");
    let temp = Temp::new();
    temp.folder("out");
    for arguments in [
        &["list"][..],
        &["list", "--short"],
        &["extract", "-C", "out", "--list"],
        &["check", "--list"],
        &["cat", "--list"],
    ] {
        let paths: &[&str] = if arguments[0] == "cat" { &["re:."] } else { &[] };
        let call = Call::new(arguments)
            .args(["-r"])
            .args([copy.path()])
            .args([archive.spec()])
            .args(paths)
            .opening(case)
            .within(temp.path());
        let run = call.run().expect(0);
        let text = if arguments[0] == "list" { run.text().to_owned() } else { run.stderr.clone() };
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{arguments:?}: {text:?}");
        let lines = text.lines().count();
        assert!(lines >= archive.lines("items").len() || arguments[0] == "cat", "{arguments:?}: {lines} lines");
    }
}

/// A reader that goes away ends the run without a word.
#[test]
fn a_closed_pipe_is_silent() {
    let case = cases::named("borg2/many-items");
    let copy = Copy::of(case);
    for arguments in [&["list", "many", "--json-lines"][..], &["export-tar", "many", "-"], &["list", "many"]] {
        let call = Call::new(arguments).env("BORG_REPO", copy.path()).opening(case);
        let (mut child, _home) = call.start();
        let mut first = Vec::new();
        BufReader::with_capacity(64, child.stdout.take().expect("a pipe"))
            .read_until(b'\n', &mut first)
            .expect("a line");
        let run = finished(child.wait_with_output().expect("it ends"));
        assert!(!first.is_empty());
        assert_eq!((run.stderr.as_str(), run.code), ("", 141), "{arguments:?}");
    }
}

/// Every command has its help, with examples where it starts; the tables and pages print.
#[test]
fn help_is_there() {
    let help = Call::new(["--help"]).run().expect(0);
    for word in ["Examples:", "packtrain extract", "list", "info", "cat", "check", "export-tar"] {
        assert!(help.text().contains(word), "{word}");
    }
    for command in ["list", "info", "extract", "restore", "cat", "check", "verify", "export-tar"] {
        let text = Call::new([command, "--help"]).run().expect(0);
        assert!(text.text().contains("Usage:") && text.text().contains("--repo"), "{command}");
        assert!(text.stderr.is_empty());
    }
    let table = Call::new(["exit-codes"]).run().expect(0);
    for code in ["0  success", " 13 ", " 31 ", " 52 ", "105 ", "113 ", "128+N"] {
        assert!(table.text().contains(code), "{code:?}: {}", table.text());
    }
    assert!(Call::new(["man"]).run().expect(0).text().contains(".TH packtrain"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(Call::new(["completions", shell]).run().expect(0).text().contains("packtrain"), "{shell}");
    }
    let version = Call::new(["--version"]).run().expect(0);
    assert!(version.text().starts_with("packtrain ") && version.text().contains('.'), "{}", version.text());
}
