//! `list` and `info` say what borg says.

use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::command::{Call, Run};
use packtrain_tests::repository::Copy;
use packtrain_tests::spread::spread;
use packtrain_tests::tree::path_of;
use serde_json::{Map, Value, json};

fn list(case: &Case, copy: &Copy, arguments: &[&str]) -> Run {
    Call::new(["list", "-r"]).args([copy.path()]).args(arguments).opening(case).run()
}

/// Cases of Borg 2: what Borg 1.x lists has other names, see `borg1.rs`.
fn readable() -> Vec<&'static Case> {
    cases::readable().into_iter().filter(|case| case.format() == "borg2").collect()
}

fn lines(run: &Run) -> Vec<Map<String, Value>> {
    run.text().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Every entry of every archive, field by field, in the order of the archive.
#[test]
fn entries_are_those_that_borg_lists() {
    spread(
        &readable(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            for archive in &case.archives {
                let run = list(case, &copy, &[&archive.spec(), "--json-lines"]).expect(0);
                let (ours, borgs) = (lines(&run), archive.lines("items"));
                assert_eq!(ours.len(), borgs.len(), "{}: number of entries", archive.name);
                for (ours, borgs) in ours.iter().zip(&borgs) {
                    entry(ours, borgs, archive);
                }
                // Raw items have times to the nanosecond.
                if archive.file("raw_items").is_some() {
                    for (ours, raw) in ours.iter().zip(archive.lines("raw_items")) {
                        assert_eq!(ours["mtime_ns"], raw["mtime"], "{}: {ours:?}", archive.name);
                    }
                }
            }
        },
    );
}

fn entry(ours: &Map<String, Value>, borgs: &Map<String, Value>, archive: &Archive) {
    let what = format!("{}: {}", archive.name, path_of(borgs));
    assert_eq!(path_of(ours), path_of(borgs), "{what}");
    let same = |ours_key: &str, borgs_key: &str| {
        assert_eq!(ours.get(ours_key), borgs.get(borgs_key), "{what}: {ours_key}");
    };
    same("type", "type");
    same("mode", "mode");
    same("uid", "uid");
    same("gid", "gid");
    for key in ["user", "group"] {
        // Borg writes an absent name as the text None, or the number of its owner.
        let absent = [json!("None"), json!(borgs[if key == "user" { "uid" } else { "gid" }].to_string())];
        match &ours[key] {
            Value::Null => assert!(absent.contains(&borgs[key]), "{what}: {key} {}", borgs[key]),
            name => assert_eq!(name, &borgs[key], "{what}: {key}"),
        }
    }
    let (mtime, nanos) = (borgs["mtime"].as_str().expect("a time"), ours["mtime_ns"].as_i64().expect("nanoseconds"));
    assert_eq!(ours["mtime"].as_str().and_then(|text| text.get(..19)), mtime.get(..19), "{what}: mtime");
    assert_eq!(format!("{:06}", nanos.rem_euclid(1_000_000_000) / 1000), mtime[20..26], "{what}: its fraction");
    match borgs["type"].as_str() {
        Some("-") => {
            same("size", "size");
            // One case has shorter items.
            if borgs.contains_key("num_chunks") {
                same("num_chunks", "num_chunks");
            }
        }
        Some("l") if borgs.contains_key("target_b64") => same("linktarget_b64", "target_b64"),
        Some("l") => same("linktarget", "target"),
        _ => assert!(ours.get("size").is_none() && ours.get("linktarget").is_none(), "{what}"),
    }
    assert_eq!(ours.get("hlid").and_then(Value::as_str).unwrap_or_default(), borgs["hlid"], "{what}: hlid");
    assert_eq!(
        ours["flags"].as_u64().unwrap_or_default(),
        borgs["flags"].as_u64().unwrap_or_default(),
        "{what}: flags"
    );
    assert_eq!(ours.get("inode").cloned().unwrap_or_default(), borgs["inode"], "{what}: inode");
    for name in ["sha256", "blake3"] {
        if let Some(digest) = ours.get(&format!("digest_{name}")) {
            assert_eq!(digest, &borgs[name], "{what}: {name}");
        }
    }
}

/// Archives with all their metadata, in order of time; what is deleted or lost as such.
#[test]
fn archives_are_those_of_the_table() {
    spread(
        &readable(),
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            let run = list(case, &copy, &["--json-lines"]);
            let lost = case.texts("lost");
            assert_eq!(run.code, if lost.is_empty() { 0 } else { 113 }, "{}", run.stderr);
            let ours = lines(&run);
            assert_eq!(ours.len(), case.archives.len() + lost.len());
            for (ours, archive) in ours.iter().zip(&case.archives) {
                let table = &archive.json;
                let meta = table["meta"].as_object().expect("a map");
                assert_eq!(ours["deleted"], false);
                for key in ["name", "id", "comment", "tags", "hostname", "username"] {
                    assert_eq!(ours[key], table[key], "{}: {key}", archive.name);
                }
                assert_eq!(ours["time"], table["time_stored"], "{}: time", archive.name);
                // The map of one archive could not be dumped.
                let known = meta.contains_key("version");
                for key in ["start", "end", "command_line", "cwd", "size", "nfiles"].into_iter().filter(|_| known) {
                    assert_eq!(
                        ours.get(key).unwrap_or(&Value::Null),
                        meta.get(key).unwrap_or(&Value::Null),
                        "{}: {key}",
                        archive.name
                    );
                }
            }
            for id in &lost {
                let line = ours.iter().find(|line| line["id"] == id.as_str()).expect("a lost archive is listed");
                assert!(line["error"].is_string() && line.get("name").is_none() && run.stderr.contains(id), "{line:?}");
            }
            // The other ways to list say the same.
            let whole: Value = serde_json::from_slice(&list(case, &copy, &["--json"]).stdout).expect("a JSON document");
            assert_eq!(
                whole["archives"].as_array().expect("a list").iter().map(|a| &a["id"]).collect::<Vec<_>>(),
                ours.iter().map(|a| &a["id"]).collect::<Vec<_>>()
            );
            let text = list(case, &copy, &[]);
            assert_eq!(text.text().lines().count(), ours.len(), "one line each: {}", text.text());
            for (line, archive) in text.text().lines().zip(&case.archives) {
                assert!(line.starts_with(&archive.id[..8]) && line.contains(archive.name.as_str()), "{line}");
            }
        },
    );
}

#[test]
fn deleted_archives_are_listed_on_request() {
    let case = cases::named("borg2/archives");
    let copy = Copy::of(case);
    let all = lines(&list(case, &copy, &["--json-lines", "--deleted"]).expect(0));
    let deleted: Vec<_> = all.iter().filter(|line| line["deleted"] == true).collect();
    let table = case.json["deleted"].as_array().expect("a list");
    assert_eq!((deleted.len(), all.len()), (table.len(), table.len() + case.archives.len()));
    for known in table {
        let line = deleted.iter().find(|line| line["id"] == known["id"]).expect("it is listed");
        assert_eq!((&line["name"], &line["comment"]), (&known["name"], &known["comment"]));
        let spec = format!("aid:{}", known["id"].as_str().expect("an id"));
        list(case, &copy, &[&spec]).expect(31);
        list(case, &copy, &[&spec, "--deleted"]).expect(0);
    }
    // They are in their place in time, so that the latest is the last of all, and that one is not deleted.
    let last = all.last().expect("archives");
    assert_eq!((&last["name"], &last["deleted"]), (&json!("no-items"), &json!(false)));
    let call = Call::new(["info", "--json", "--deleted", "-r"]).args([copy.path()]).args(["latest"]);
    let info: Value = serde_json::from_slice(&call.opening(case).run().expect(0).stdout).expect("JSON");
    assert_eq!(info["archives"][0]["id"], last["id"]);
}

/// What is no object is named once; the rest works.
#[test]
fn unexpected_names_are_told_once() {
    for name in ["borg2/foreign-names", "borg2/leftovers"] {
        let case = cases::named(name);
        let run = list(case, &Copy::of(case), &[]).expect(0);
        assert!(run.text().contains("archive"), "{}", run.text());
        for name in case.texts("unexpected") {
            assert_eq!(run.stderr.matches(&name).count(), 1, "{name} in: {}", run.stderr);
        }
    }
}

#[test]
fn info_names_suite_version_and_counts() {
    for name in [
        "borg2/suite-authenticated-sha256",
        "borg2/suite-chacha20-poly1305-blake3",
        "borg2/suite-aes256-ocb-sha256",
        "borg2/packs-small",
        "borg2/index-multi",
    ] {
        let case = cases::named(name);
        let copy = Copy::of(case);
        let run = Call::new(["info", "--json", "-r"]).args([copy.path()]).opening(case).run().expect(0);
        let info: Value = serde_json::from_str(run.text()).expect("a JSON document");
        let suite = case.json["suite"].as_str().expect("a suite");
        let config = String::from_utf8(copy.read("config/config")).expect("UTF-8");
        let id = config.lines().find_map(|line| line.strip_prefix("id = ")).expect("an id");
        let source = &info["source"];
        assert!(
            suite.starts_with(source["encryption"].as_str().expect("a name").split('-').next().expect("a name")),
            "{source} {suite}"
        );
        assert_eq!((&source["id"], &source["version"]), (&json!(id), &json!("5")));
        assert_eq!(source["packs"], copy.files_in("packs").len().to_string());
        assert_eq!(source["index_fragments"], copy.files_in("index").len().to_string());
        assert_eq!(info["archives"].as_array().map(Vec::len), Some(case.archives.len()));
        let one =
            Call::new(["info", "-r"]).args([copy.path()]).args([case.archives[0].spec()]).opening(case).run().expect(0);
        assert!(
            one.text().contains(&case.archives[0].id) && one.text().contains(&case.archives[0].name),
            "{}",
            one.text()
        );
    }
}

/// Borg's formats, and plain text for people.
#[test]
fn formats_and_selections_list_the_same_entries() {
    let case = cases::named("borg2/types");
    let (copy, archive) = (Copy::of(case), &case.archives[0]);
    let run = list(case, &copy, &[&archive.spec(), "--format", "{type} {mode} {size} {path}{NL}"]).expect(0);
    let borgs = archive.lines("items");
    for (line, item) in run.text().lines().zip(&borgs) {
        let size = if item["type"] == "-" { item["size"].as_u64().unwrap_or_default() } else { 0 };
        let want = format!(
            "{} {} {size} {}",
            item["type"].as_str().unwrap_or_default(),
            item["mode"].as_str().unwrap_or_default(),
            item["path"].as_str().unwrap_or_default()
        );
        assert_eq!(line, want);
    }
    assert_eq!(run.text().lines().count(), borgs.len());
    let some = list(case, &copy, &[&archive.spec(), "closed", "--short"]).expect(0);
    assert_eq!(some.text(), "closed\nclosed/deeper\nclosed/deeper/inside\nclosed/inside\n");
    let less = list(case, &copy, &[&archive.spec(), "closed", "-e", "sh:closed/deeper/**", "--short"]).expect(0);
    assert_eq!(less.text(), "closed\nclosed/deeper\nclosed/inside\n");
}
