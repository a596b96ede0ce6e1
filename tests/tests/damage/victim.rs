//! A repository to damage, what is right, and the rules that hold whatever the damage.

use packtrain_tests::cases::{self, Archive, Case};
use packtrain_tests::command::{Call, Run};
use packtrain_tests::folder::{Eyes, Temp};
use packtrain_tests::repository::{Copy, Object};
use packtrain_tests::tree::{self, Tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A copy of a case that is to be damaged.
pub struct Victim {
    /// The case.
    pub case: &'static Case,
    /// The copy.
    pub copy: Copy,
}

/// What an object is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// An archive's own metadata.
    Archive,
    /// A list of ids (C).
    List,
    /// A piece of the item stream (S).
    Stream,
    /// Content of files.
    Content,
}

/// How a run of `extract` ended.
#[derive(Debug)]
pub struct Ending {
    /// Exit code and messages.
    pub run: Run,
    /// What was written.
    pub tree: Tree,
}

impl Victim {
    /// A fresh copy.
    pub fn of(case: &str) -> Self {
        let case = cases::named(&format!("borg2/{case}"));
        Self { case, copy: Copy::of(case) }
    }

    /// What each object is used as, from what borg says of the archives.
    pub fn uses(&self) -> Vec<(Object, Use)> {
        let lists: BTreeSet<String> =
            self.case.archives.iter().flat_map(|archive| archive.texts("item_ptrs")).collect();
        let content: BTreeSet<String> =
            self.case.archives.iter().flat_map(chunks).flat_map(|(_, chunks)| chunks).map(|(id, _)| id).collect();
        let what = |id: &String| match id {
            id if self.case.archives.iter().any(|archive| archive.id == *id) => Use::Archive,
            id if lists.contains(id) => Use::List,
            id if content.contains(id) => Use::Content,
            _ => Use::Stream,
        };
        self.copy.objects().into_iter().map(|object| (object.clone(), what(&object.id))).collect()
    }

    /// The first object of this use.
    pub fn first(&self, wanted: Use) -> Object {
        self.uses().into_iter().find(|(_, what)| *what == wanted).expect("an object of each use").0
    }

    /// Extracts an archive, on one worker and on eight, which must not differ.
    pub fn extract(&self, archive: &Archive) -> Ending {
        let [one, eight] = ["1", "8"].map(|jobs| {
            let temp = Temp::new();
            temp.folder("out");
            let call =
                Call::new(["extract", "-C", "out", "-j", jobs, "-r"]).args([self.copy.path()]).args([archive.spec()]);
            let call = call.opening(self.case).within(temp.path());
            let home = call.home().display().to_string();
            let mut run = call.run();
            run.stderr = run.stderr.replace(&home, "HOME");
            Ending { run, tree: tree::print(&temp.path().join("out"), &[]) }
        });
        assert_eq!((one.run.code, &one.run.stderr), (eight.run.code, &eight.run.stderr), "-j 8 says something else");
        assert!(!one.run.stderr.contains("panicked"), "a panic: {}", one.run.stderr);
        let times = |tree: &Tree| {
            // Folders whose item is lost have the time of their making.
            let mut tree = tree.clone();
            tree.values_mut().filter(|entry| entry["type"] == "dir").for_each(|entry| drop(entry.remove("mtime_ns")));
            tree
        };
        tree::assert_same(&times(&one.tree), &times(&eight.tree), "-j 8 writes something else");
        one
    }

    /// Checks everything, every byte of it or not.
    pub fn check(&self, data: bool) -> Run {
        let call = Call::new(["check", "-r"]).args([self.copy.path()]).args(data.then_some("--verify-data"));
        let run = call.opening(self.case).run();
        assert!(!run.stderr.contains("panicked"), "a panic: {}", run.stderr);
        run
    }

    /// The rules for any damage at all. Returns the exit codes of the archives.
    ///
    /// 1. Exit code 0 comes only with the right tree.
    /// 2. What is not named is exact: a file that is written and not named equals the original.
    /// 3. A check of every byte finds what an extraction finds.
    pub fn rules(&self) -> Vec<i32> {
        let mut codes = Vec::new();
        for archive in &self.case.archives {
            let expected = tree::kept(&archive.file("expect").expect("an expected tree"));
            let Ending { run, tree } = self.extract(archive);
            codes.push(run.code);
            if run.code == 0 {
                tree::assert_same(&expected, &tree, &format!("{}: exit code 0", archive.name));
                continue;
            }
            assert!(!run.stderr.trim().is_empty(), "{}: exit code {} and no word", archive.name, run.code);
            let whole = !run.stderr.contains("entries of the archive are lost");
            for (path, entry) in &tree {
                let want = expected.get(path).unwrap_or_else(|| panic!("{path} is not in the archive"));
                let mut named = run.stderr.contains(&format!("{path}: bytes "));
                // Another name of a damaged file is the same file.
                if let Some(group) = want.get("hlgroup") {
                    named |= expected.iter().any(|(other, entry)| {
                        entry.get("hlgroup") == Some(group) && run.stderr.contains(&format!("{other}: bytes "))
                    });
                }
                for (key, value) in want {
                    let free = (key == "sha256" && named)
                        || (!whole && (entry["type"] == "dir" || key == "hlgroup"))
                        || (!Eyes::here().root && (key == "uid" || key == "gid"));
                    assert!(
                        free || value.is_null() || entry.get(key) == Some(value),
                        "{path}: {key} is {:?}, not {value}; {}",
                        entry.get(key),
                        run.stderr
                    );
                }
            }
            if whole && run.code == 113 {
                assert_eq!(expected.len(), tree.len(), "everything is there: {}", run.stderr);
            }
        }
        let found = self.check(true);
        if codes.iter().any(|code| *code != 0) {
            assert_ne!(found.code, 0, "check --verify-data finds nothing, extract gives {codes:?}");
        }
        codes
    }

    /// Checks that damaged content is named with all that is known of it, and that zeros stand in
    /// its place.
    pub fn content_is_named(&self, object: &Object) {
        for archive in &self.case.archives {
            let hit: Vec<(String, u64, u64)> = chunks(archive)
                .into_iter()
                .flat_map(|(path, chunks)| {
                    let mut start = 0;
                    let ranges = chunks.into_iter().map(move |(id, size)| {
                        start += size;
                        (id, start - size, start)
                    });
                    ranges
                        .filter(|(id, ..)| *id == object.id)
                        .map(|(_, from, to)| (path.clone(), from, to))
                        .collect::<Vec<_>>()
                })
                .collect();
            let Ending { run, .. } = self.extract(archive);
            if hit.is_empty() {
                assert_eq!(run.code, 0, "{}: {}", archive.name, run.stderr);
                continue;
            }
            assert_eq!(run.code, 113, "{}: {}", archive.name, run.stderr);
            let lines: Vec<&str> = run.stderr.lines().filter(|line| line.contains(&object.id)).collect();
            let mut named = BTreeMap::new();
            for line in lines {
                let place = format!("in {} at {}", object.pack, object.offset);
                assert!(line.contains(&place) || line.contains("is missing"), "the place '{place}' is not in: {line}");
                for (path, from, to) in &hit {
                    if line.contains(&format!("{path}: bytes {from} to {to} ")) {
                        named.insert((path.clone(), *from), ());
                    }
                }
            }
            assert!(!named.is_empty(), "{hit:?} is not named: {}", run.stderr);
            // Files that are one inode are named once.
            let linked = tree::kept(&archive.file("expect").expect("a tree"));
            let alone = hit.iter().filter(|(path, ..)| !linked[path].contains_key("hlgroup"));
            for (path, from, _) in alone {
                assert!(named.contains_key(&(path.clone(), *from)), "{path} at {from} is not named: {}", run.stderr);
            }
        }
    }
}

/// A file's path, and its chunks' ids and sizes.
pub type Content = (String, Vec<(String, u64)>);

/// The files of an archive with their chunks, as borg has them.
pub fn chunks(archive: &Archive) -> Vec<Content> {
    let read = |chunk: &Value| {
        let id = chunk[0].as_str().expect("an id").trim_start_matches('\u{7f}').to_owned();
        (id, chunk[1].as_u64().expect("a size"))
    };
    let items = archive.lines("raw_items");
    let files = items
        .iter()
        .filter_map(|item| Some((tree::path_of(item), item.get("chunks")?.as_array()?.iter().map(read).collect())));
    files.collect()
}
