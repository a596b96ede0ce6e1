//! `list` says what borg says.

use packtrain_tests::cases;
use packtrain_tests::command::{Call, Run};
use packtrain_tests::spread::spread;
use packtrain_tests::tree::path_of;
use serde_json::{Map, Value, json};

fn lines(run: &Run) -> Vec<Map<String, Value>> {
    run.text().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Every entry of every archive that borg could list, in the order of the archive.
#[test]
fn entries_are_those_that_borg_lists() {
    spread(
        &cases::readable().into_iter().filter(|case| case.format() == "borg1").collect::<Vec<_>>(),
        |case| case.name.clone(),
        |case| {
            for archive in case.archives.iter().filter(|archive| archive.file("items").is_some()) {
                let call = Call::new(["list", "--json-lines", "-r"]).args([case.repo()]).args([archive.spec()]);
                let (ours, borgs) = (lines(&call.opening(case).run().expect(0)), archive.lines("items"));
                assert_eq!(ours.len(), borgs.len(), "{}: number of entries", archive.name);
                for (ours, borgs) in ours.iter().zip(&borgs) {
                    entry(ours, borgs, &archive.name);
                }
                let Some(_) = archive.file("raw_items") else { continue };
                let raw = archive.lines("raw_items").into_iter().filter(|raw| !raw.contains_key("part"));
                for (ours, raw) in ours.iter().zip(raw) {
                    assert_eq!(ours["mtime_ns"], raw["mtime"], "{}: {ours:?}", archive.name);
                    assert_eq!(path_of(ours), raw_path(&raw), "{}", archive.name);
                }
            }
        },
    );
}

/// The path of a raw item, where bytes that are not UTF-8 are hex digits after a control character.
fn raw_path(raw: &Map<String, Value>) -> String {
    let path = path_of(raw);
    let Some(hex) = path.strip_prefix('\u{7f}') else { return path };
    let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    match (0..hex.len()).step_by(2).map(digit).collect::<Option<Vec<u8>>>() {
        Some(bytes) => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(other) => format!("base64:{}", packtrain::messages::base64(other.as_bytes())),
        },
        // A name that starts like that.
        None => path,
    }
}

fn entry(ours: &Map<String, Value>, borgs: &Map<String, Value>, archive: &str) {
    let what = format!("{archive}: {}", path_of(borgs));
    // Borg shows what is not UTF-8 as question marks, which raw items do not.
    if !path_of(borgs).contains('?') {
        assert_eq!(path_of(ours), path_of(borgs), "{what}");
    }
    assert_eq!(ours["type"], borgs["type"], "{what}: type");
    // A further name of something has a letter of its own there.
    let further = borgs["mode"].as_str().is_some_and(|mode| mode.starts_with('h'));
    let mode = |line: &Map<String, Value>| line["mode"].as_str().map(|mode| mode[usize::from(further)..].to_owned());
    assert_eq!(mode(ours), mode(borgs), "{what}: mode");
    for key in ["uid", "gid"] {
        assert_eq!(ours[key], borgs[key], "{what}: {key}");
    }
    for key in ["user", "group"] {
        let number = &borgs[if key == "user" { "uid" } else { "gid" }];
        let absent = [json!("None"), json!(number.to_string()), number.clone()];
        match &ours[key] {
            Value::Null => assert!(absent.contains(&borgs[key]), "{what}: {key} {}", borgs[key]),
            name => assert_eq!(name, &borgs[key], "{what}: {key}"),
        }
    }
    match borgs["type"].as_str() {
        // Of a further name borg shows no size.
        Some("-") if further => {}
        Some("-") => {
            for key in ["size", "num_chunks"].into_iter().filter(|key| borgs.contains_key(*key)) {
                assert_eq!(ours.get(key), borgs.get(key), "{what}: {key}");
            }
        }
        Some("l") if borgs["linktarget"].as_str().is_some_and(|target| target.contains('?')) => {}
        Some("l") => assert_eq!(ours.get("linktarget"), borgs.get("linktarget"), "{what}: linktarget"),
        _ => {}
    }
    let flags = |line: &Map<String, Value>| line.get("flags").and_then(Value::as_u64).unwrap_or_default();
    assert_eq!(flags(ours), flags(borgs), "{what}: flags");
}

/// Archives with their metadata, in order of time.
#[test]
fn archives_are_those_of_the_table() {
    for case in cases::readable().into_iter().filter(|case| case.format() == "borg1") {
        let run = Call::new(["list", "--json-lines", "-r"]).args([case.repo()]).opening(case).run();
        let ours = lines(&run);
        for archive in &case.archives {
            let line = ours.iter().find(|line| line["id"] == archive.id.as_str());
            let line = line.unwrap_or_else(|| panic!("{}: {} is not listed: {}", case.name, archive.name, run.stderr));
            for key in ["comment", "hostname", "username"] {
                assert_eq!(line[key], archive.json[key], "{}: {}: {key}", case.name, archive.name);
            }
            assert_eq!(line["time"], archive.json["time"], "{}: {}", case.name, archive.name);
            if archive.json.contains_key("name") {
                assert_eq!(line["name"], archive.json["name"], "{}", case.name);
            }
        }
        assert!(ours.len() >= case.archives.len());
    }
}
