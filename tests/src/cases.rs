//! The table of cases, read from their `case.json` files.

use crate::folder::{Eyes, say};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// One repository.
#[derive(Clone, Debug)]
pub struct Case {
    /// Format and name of the case, which is the path of its folder: `borg2/sample`.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// All of `case.json`.
    pub json: Map<String, Value>,
    /// Its archives in order of time, as far as they are read without further ado.
    pub archives: Vec<Archive>,
    /// Archives of Borg 1.x that have to be asked for, are refused, or are no plain success.
    pub special: Vec<Archive>,
}

/// One archive of a case.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Its name, not unique.
    pub name: String,
    /// Its id in hex.
    pub id: String,
    /// All of its map in `case.json`.
    pub json: Map<String, Value>,
    folder: PathBuf,
}

/// The formats that have cases: folders below `cases`.
pub const FORMATS: [&str; 2] = ["borg1", "borg2"];

/// The folder of all cases, one folder a format.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Every case, in order of format and name.
///
/// # Panics
/// If a case cannot be read: a broken table must not make tests pass.
pub fn all() -> &'static [Case] {
    static ALL: OnceLock<Vec<Case>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut cases = Vec::new();
        for format in FORMATS {
            let mut folders: Vec<PathBuf> = std::fs::read_dir(root().join(format))
                .expect("the folder of a format")
                .map(|entry| entry.expect("an entry").path())
                .filter(|path| path.join("case.json").is_file())
                .collect();
            folders.sort();
            cases.extend(folders.iter().map(|folder| Case::read(format, folder)));
        }
        cases
    })
}

/// The case of this name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> &'static Case {
    all().iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

/// The cases that can be opened and are whole.
pub fn readable() -> Vec<&'static Case> {
    all().iter().filter(|case| case.refused().is_none() && !case.json.contains_key("damage")).collect()
}

/// The cases of one format, `borg1` or `borg2`.
pub fn of_format(format: &str) -> Vec<&'static Case> {
    all().iter().filter(|case| case.format() == format).collect()
}

/// Cases that nobody but root can restore as they are: devices, flags, setuid bits, privileged attributes.
const PRIVILEGED: [&str; 9] = [
    "borg1/flags",
    "borg1/import-tar",
    "borg1/types",
    "borg1/xattrs",
    "borg2/flags",
    "borg2/flags-linked",
    "borg2/import-tar",
    "borg2/types",
    "borg2/xattrs",
];

/// The cases that can be opened and restored here without a warning: as root all of them. What is
/// left out is said on stderr, past the test's capture.
pub fn restorable() -> Vec<&'static Case> {
    let mut cases = readable();
    if !Eyes::here().root {
        cases.retain(|case| !PRIVILEGED.contains(&case.name.as_str()));
        say(&format!("not root: the cases {} are NOT restored", PRIVILEGED.join(", ")));
    }
    cases
}

/// The case of this name, if it can be restored here without a warning.
pub fn restorable_named(name: &str) -> Option<&'static Case> {
    restorable().into_iter().find(|case| case.name == name)
}

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).map(Into::into)
}

fn texts(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let list = map.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str).map(Into::into).collect()
}

impl Case {
    fn read(format: &str, folder: &Path) -> Self {
        let bytes = std::fs::read(folder.join("case.json")).expect("case.json");
        let json: Map<String, Value> = serde_json::from_slice(&bytes).expect("case.json is JSON");
        let archives = json.get("archives").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let archives = archives.iter().map(|value| Archive::read(value, folder));
        let (special, archives) = archives.partition(|archive| format == "borg1" && archive.is_special());
        let name = format!("{format}/{}", text(&json, "case").expect("a name"));
        Self { name, folder: folder.to_path_buf(), json, archives, special }
    }

    /// `borg1` or `borg2`.
    pub fn format(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The repository.
    pub fn repo(&self) -> PathBuf {
        self.folder.join("repo")
    }

    /// The passphrase.
    pub fn passphrase(&self) -> String {
        text(&self.json, "passphrase").unwrap_or_default()
    }

    /// Every passphrase that opens it.
    pub fn passphrases(&self) -> Vec<String> {
        match self.json.get("passphrases").and_then(Value::as_array) {
            Some(several) => several.iter().filter_map(Value::as_str).map(Into::into).collect(),
            None => vec![self.passphrase()],
        }
    }

    /// The key file, if the key is one.
    pub fn keyfile(&self) -> Option<PathBuf> {
        text(&self.json, "keyfile").map(|path| self.folder.join(path))
    }

    /// Why it must not be opened.
    pub fn refused(&self) -> Option<String> {
        text(&self.json, "refused")
    }

    /// The texts of a list in `case.json`, such as `lost` or `unexpected`.
    pub fn texts(&self, key: &str) -> Vec<String> {
        texts(&self.json, key)
    }

    /// The archive of this name; the first of several.
    ///
    /// # Panics
    /// If there is none.
    pub fn archive(&self, name: &str) -> &Archive {
        self.archives.iter().find(|archive| archive.name == name).unwrap_or_else(|| panic!("no archive {name}"))
    }
}

impl Archive {
    fn read(value: &Value, folder: &Path) -> Self {
        let json = value.as_object().expect("an archive is a map").clone();
        Self {
            // Of a name that is not UTF-8 nothing but the id is used.
            name: text(&json, "name").or_else(|| text(&json, "name_b64")).expect("a name"),
            id: text(&json, "id").expect("an id"),
            json,
            folder: folder.to_path_buf(),
        }
    }

    /// How it is named on the command line, whatever others are called.
    pub fn spec(&self) -> String {
        format!("aid:{}", self.id)
    }

    /// A file of the case that belongs to this archive: `expect`, `items`, `raw_items`, `expect_sparse`.
    pub fn file(&self, key: &str) -> Option<PathBuf> {
        text(&self.json, key).map(|path| self.folder.join(path)).filter(|path| path.is_file())
    }

    /// The JSON lines of one of its files.
    ///
    /// # Panics
    /// If there is no such file, or it is not JSON.
    pub fn lines(&self, key: &str) -> Vec<Map<String, Value>> {
        let path = self.file(key).unwrap_or_else(|| panic!("{}: no {key}", self.name));
        let text = std::fs::read_to_string(path).expect("a file of the case");
        text.lines().map(crate::tree::from_python).collect()
    }

    /// The texts of a list in its map, such as `mtime_free`.
    pub fn texts(&self, key: &str) -> Vec<String> {
        texts(&self.json, key)
    }

    /// Options that `tree.py` was given.
    pub fn tree_options(&self) -> Vec<String> {
        self.texts("tree_options")
    }

    /// True for an archive of Borg 1.x that has to be asked for, is refused, or is no plain success.
    fn is_special(&self) -> bool {
        let keys = ["hidden", "refused", "broken", "unauthenticated", "only_by_scan", "wants", "extract_rc", "escapes"];
        keys.iter().any(|key| self.json.contains_key(*key))
    }

    /// True if what borg wrote is not what is right.
    pub fn borg_is_wrong(&self) -> bool {
        self.json.contains_key("extract_rc")
    }
}
