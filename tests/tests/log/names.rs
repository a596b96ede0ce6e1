//! Rows about names: of files in output, of archives, of strays in a repository.

use packtrain_tests::command::{Call, Run};
use packtrain_tests::writer::{Item, Stage, Value, Writer, hex};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn call(words: &[&str]) -> Run {
    Call::new(words).env("PACKTRAIN_PASSPHRASE", "").run()
}

#[test]
fn row_35_a_backslash_is_a_letter() {
    let mut writer = Writer::default();
    let items = [writer.file("a\\b", b"x"), writer.file("..\\c", b"y"), writer.file("C:", b"z")];
    writer.archive("t", &items);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!(
        (ran.code, ran.read("a\\b"), ran.read("..\\c"), ran.read("C:")),
        (0, b"x".to_vec(), b"y".to_vec(), b"z".to_vec())
    );
}

#[test]
fn row_37_names_cannot_write_to_the_terminal() {
    let mut writer = Writer::default();
    let names = ["x\r\nEvil: 1", "\x1b[2J\x1b]0;t\x07", "<script>", "tab\there", "\u{202e}gnp", "c1\u{9b}2J"];
    let mut items: Vec<Item> = names.iter().map(|name| writer.file(name, b"x")).collect();
    // No climbing: the first component is a name of four letters.
    items.push(writer.file("x\r\n../y", b"x"));
    items.push(Item::link(b"link", b"to\x1b[31m\nhere"));
    writer.archive("t\u{202e}\x1b[2J", &items);
    let stage = Stage::of(&mut writer);
    let source = crate::source(&stage);
    let root = stage.repository().display().to_string();
    for words in [
        vec!["list", &source],
        vec!["list", "--short", &source],
        vec!["list", &root],
        vec!["info", &source],
        vec!["list", "--json-lines", &source],
        vec!["list", "--json", &root],
    ] {
        let run = call(&words);
        let shown = [&run.stdout[..], run.stderr.as_bytes()].concat();
        let shown = String::from_utf8(shown).unwrap();
        let bad = |letter: char| (letter.is_control() && letter != '\n') || matches!(letter, '\u{202a}'..='\u{202e}');
        // In JSON an invisible letter is data; control characters are escaped there as well.
        let json = words.iter().any(|word| word.starts_with("--json"));
        let bad =
            |letter: char| if json { letter.is_control() && letter != '\n' && letter != '\u{9b}' } else { bad(letter) };
        assert_eq!(shown.chars().find(|letter| bad(*letter)), None, "{words:?}: {shown:?}");
    }
    // One line for each entry, however many lines its name has.
    assert_eq!(call(&["list", "--short", &source]).expect(0).stdout.iter().filter(|byte| **byte == b'\n').count(), 8);
    for line in call(&["list", "--json-lines", &source]).text().lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let path = entry["path"].as_str().unwrap();
        assert!(names.contains(&path) || ["link", "x\r\n../y"].contains(&path), "{path:?}");
    }
}

#[test]
fn row_38_names_that_are_not_utf8() {
    let mut writer = Writer::default();
    let content = writer.content(b"bytes", 100);
    let item = Item::file(b"\xff\xfe", &content)
        .with("user", Value::Text(b"\xfcser".to_vec()))
        .with("group", Value::Text(b"gr\xff".to_vec()));
    writer.archive("t", &[item]);
    let stage = Stage::of(&mut writer);
    let ran = stage.extract();
    let there = ran.target.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    assert_eq!((ran.code, std::fs::read(there).unwrap()), (0, b"bytes".to_vec()));
    let run = call(&["list", "--json-lines", &crate::source(&stage)]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(run.text().trim()).unwrap();
    // A form to read, and the bytes themselves.
    assert_eq!(
        (entry["path"].as_str(), entry["path_b64"].as_str()),
        (Some("\u{fffd}\u{fffd}"), Some("//4=")),
        "{entry}"
    );
    assert!(call(&["list", &crate::source(&stage)]).expect(0).text().contains("\\xff\\xfe"));
}

#[test]
fn row_39_archives_of_one_name() {
    let mut writer = Writer::default();
    let ids: Vec<String> = ["first", "second", "third"]
        .map(|content| {
            let items = [writer.file("f", content.as_bytes())];
            hex(&writer.archive("docs", &items))
        })
        .to_vec();
    let stage = Stage::of(&mut writer);
    let root = stage.repository().display().to_string();
    let listed = call(&["list", "--json", &root]).expect(0);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let shown: Vec<&str> =
        listed["archives"].as_array().unwrap().iter().map(|archive| archive["id"].as_str().unwrap()).collect();
    assert_eq!(shown, ids);
    for (id, content) in ids.iter().zip(["first", "second", "third"]) {
        let run = call(&["cat", &format!("{root}::aid:{id}"), "f"]).expect(0);
        assert_eq!(run.text(), content);
    }
    let several = call(&["cat", &format!("{root}::docs"), "f"]).expect(31);
    assert!(ids.iter().all(|id| several.stderr.contains(&id[..12])), "{}", several.stderr);
    assert_eq!(call(&["cat", &format!("{root}::latest"), "f"]).expect(0).text(), "third");
}

#[test]
fn row_51_strays_in_a_repository() {
    let mut writer = Writer::default();
    let items = [writer.file("f", b"content")];
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    let put = |name: &str| {
        let path = stage.repository().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"stray").unwrap();
    };
    for name in [
        "packs/00/foo.tmp",
        "packs/00/README",
        "packs/lost+found/x",
        "packs/x",
        "index/foo",
        "archives/notes.txt",
        "keys/old",
        "index/AB",
    ] {
        put(name);
    }
    put(&format!("packs/00/{}.tmp", "0".repeat(64)));
    put(&format!("packs/00/{}.hid", "0".repeat(64)));
    std::os::unix::fs::symlink("/dev/zero", stage.repository().join("packs/00").join("0".repeat(64))).unwrap();
    let ran = stage.extract();
    assert_eq!((ran.code, ran.read("f")), (0, b"content".to_vec()));
    let run = call(&["check", "--verify-data", stage.repository().to_str().unwrap()]);
    assert!(!run.stderr.contains("panicked") && run.code != 90, "{}", run.stderr);
    assert_eq!(run.stderr.matches("README").count().max(1), 1, "told at most once");
}

#[test]
fn row_57_deleted_archives() {
    let mut writer = Writer::default();
    let items = [writer.file("f", b"deleted")];
    let gone = writer.archive("gone", &items);
    let items = [writer.file("f", b"kept")];
    writer.archive("kept", &items);
    writer.archives.retain(|id| *id != gone);
    writer.deleted.push(gone);
    let stage = Stage::of(&mut writer);
    let root = stage.repository().display().to_string();
    assert!(!call(&["list", &root]).expect(0).text().contains("gone"));
    assert!(call(&["list", "--deleted", &root]).expect(0).text().contains("gone"));
    call(&["cat", &format!("{root}::gone"), "f"]).expect(31);
    let before = files(&stage.repository());
    assert_eq!(call(&["cat", "--deleted", &format!("{root}::gone"), "f"]).expect(0).text(), "deleted");
    assert_eq!(before, files(&stage.repository()), "reading brings nothing back");
}

fn files(root: &Path) -> Vec<String> {
    packtrain_tests::folder::files(root)
}
