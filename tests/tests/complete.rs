//! The table of cases is complete: every folder is in it, has its files, and is of one format.

use packtrain::store::{LocalStore, Store};
use packtrain_core::formats::FORMATS;
use packtrain_core::platform::{Port, drive};
use packtrain_tests::cases;
use packtrain_tests::folder;
use packtrain_tests::images;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn every_folder_is_a_case() {
    let folders = |below: &str| -> BTreeSet<String> {
        std::fs::read_dir(cases::root().join(below))
            .expect("a folder of cases")
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.file_type().expect("its type").is_dir())
            .map(|entry| entry.file_name().into_string().expect("UTF-8"))
            .filter(|name| !name.starts_with("__"))
            .collect()
    };
    let known = cases::FORMATS.into_iter().chain(["erofs"]).map(String::from);
    assert_eq!(folders(""), known.collect());
    let folders: BTreeSet<String> = cases::FORMATS
        .iter()
        .flat_map(|format| folders(format).into_iter().map(move |name| format!("{format}/{name}")))
        .collect();
    let table: BTreeSet<String> = cases::all().iter().map(|case| case.name.clone()).collect();
    assert_eq!(folders, table);
    assert!(table.len() >= 57 + 109, "{} cases", table.len());
    for case in cases::all() {
        assert!(case.folder.ends_with(&case.name), "{}", case.name);
    }
}

/// Every file is named by `case.json`, and every file that it names is there.
#[test]
fn every_case_has_its_files() {
    for case in cases::all() {
        let mut named: BTreeSet<String> = ["case.json", "notes.txt"].map(Into::into).into();
        for archive in case.archives.iter().chain(&case.special) {
            for path in paths(&Value::Object(archive.json.clone())) {
                assert!(case.folder.join(&path).is_file(), "{}: {path} is not there", case.name);
                named.insert(path);
            }
            // Of some archives of Borg 1.x there is no list.
            let borg1 = case.format() == "borg1";
            assert!(borg1 || archive.json.contains_key("items"), "{}: {}", case.name, archive.name);
            let told = archive.json.contains_key("expect") || archive.borg_is_wrong();
            assert!(told || case.special.iter().any(|one| one.id == archive.id), "{}: {}", case.name, archive.name);
        }
        if let Some(key) = case.keyfile() {
            named.insert(key.strip_prefix(&case.folder).expect("below the case").to_str().expect("UTF-8").into());
        }
        let there: BTreeSet<String> =
            folder::files(&case.folder).into_iter().filter(|name| !name.starts_with("repo/")).collect();
        assert!(there.is_subset(&named), "{}: {:?} belongs to nothing", case.name, there.difference(&named));
        assert!(there.contains("case.json") && case.repo().is_dir());
        let none = case.archives.is_empty() && case.special.is_empty();
        assert!(!none || case.refused().is_some(), "{}: archives, or a refusal", case.name);
    }
}

/// Every image is in the table, and every file of the table is there.
#[test]
fn every_image_is_in_the_table() {
    let packed = |name: &Value| format!("{}.zst", name.as_str().expect("a name"));
    let mut named = BTreeSet::new();
    for image in images::all() {
        named.insert(format!("{}.img.zst", image.name));
        named.extend(image.json.get("devices").and_then(Value::as_array).into_iter().flatten().map(packed));
    }
    let mut there: BTreeSet<String> = folder::files(&images::root()).into_iter().collect();
    there.retain(|name| name.ends_with(".zst"));
    assert_eq!(there, named);
    assert!(images::all().len() >= 57, "{} images", images::all().len());
}

/// Every file that a case's description names.
fn paths(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.starts_with("expect/") || text.starts_with("items/") => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(paths).collect(),
        Value::Object(map) => map.values().flat_map(paths).collect(),
        _ => Vec::new(),
    }
}

/// The formats that claim a source, and whether they can open it.
fn claims(path: &Path) -> Vec<(&'static str, bool)> {
    let store = LocalStore::open(path).expect("a case");
    let store: &dyn Store = &store;
    let port = Port::new();
    let mut claims = Vec::new();
    for format in FORMATS {
        match drive(&port, format.detect(&port), |need| store.serve(need)) {
            Ok(false) => {}
            // A refusal is a claim, too: it says what the thing is.
            claim => claims.push((format.name(), claim.is_ok())),
        }
    }
    claims
}

/// Each format has cases, and each case is recognised by one format alone.
#[test]
fn every_case_is_of_one_format() {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for image in images::all() {
        assert_eq!(claims(&image.place.path), [("EROFS", true)], "{}", image.name);
        *count.entry("EROFS").or_default() += 1;
    }
    for case in cases::all() {
        let claims = claims(&case.repo());
        // A refusal may come later than from a look at the names, or be that nothing is known of it.
        if case.refused().is_some() && claims.is_empty() {
            continue;
        }
        let [(name, opens)] = claims[..] else { panic!("{}: {claims:?}", case.name) };
        assert!(opens || case.refused().is_some(), "{}", case.name);
        *count.entry(name).or_default() += usize::from(opens);
    }
    for format in FORMATS {
        assert!(count.get(format.name()).copied() > Some(0), "{} has no case", format.name());
    }
}
