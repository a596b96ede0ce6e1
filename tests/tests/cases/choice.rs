//! Selections, stripped paths, dry runs, and targets where something is already.

use packtrain_tests::cases::{self, Case};
use packtrain_tests::command::{Call, Run};
use packtrain_tests::folder::Temp;
use packtrain_tests::repository::Copy;
use packtrain_tests::snapshot::{self, Closeness};
use packtrain_tests::spread::spread;
use packtrain_tests::tree::{self, Tree};

/// Extracts from a case's first archive into `out` of a new folder.
fn extract(case: &Case, copy: &Copy, arguments: &[&str]) -> (Temp, Run) {
    let temp = Temp::new();
    temp.folder("out");
    let call =
        Call::new(["extract", "-C", "out", "-r"]).args([copy.path()]).args([case.archives[0].spec()]).args(arguments);
    let run = call.opening(case).within(temp.path()).run();
    (temp, run)
}

fn out(temp: &Temp) -> Tree {
    tree::print(&temp.path().join("out"), &[])
}

fn expected(case: &Case) -> Tree {
    tree::kept(&case.archives[0].file("expect").expect("an expected tree"))
}

/// The part of a tree whose paths fit; link groups are those of the part, parents that were not chosen have no time.
fn part(whole: &Tree, chosen: impl Fn(&str) -> bool) -> Tree {
    let mut tree: Tree =
        whole.iter().filter(|(path, _)| chosen(path)).map(|(path, entry)| (path.clone(), entry.clone())).collect();
    let mut members: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    for (path, entry) in &tree {
        if let Some(group) = entry.get("hlgroup").and_then(|group| group.as_str()) {
            members.entry(group.into()).or_default().push(path.clone());
        }
    }
    for paths in members.values() {
        for path in paths {
            let entry = tree.get_mut(path).expect("an entry");
            entry.remove("hlgroup");
            if paths.len() > 1 {
                entry.insert("hlgroup".into(), paths[0].as_str().into());
            }
        }
    }
    tree
}

/// Only later names of link groups are chosen: the first chosen one is the file, the others links to it.
#[test]
fn hard_links_without_their_first_name() {
    let Some(case) = cases::restorable_named("types") else { return };
    let (copy, whole) = (Copy::of(case), expected(case));
    let items: Vec<String> = case.archives[0].lines("items").iter().map(tree::path_of).collect();
    let place = |path: &str| items.iter().position(|known| known == path).expect("a path");
    assert!(place("aa-hard-second") < place("zz-hard-first") && place("zz-hard-first") < place("setgid/hard-third"));
    for chosen in [
        &["zz-hard-first"][..],
        &["setgid", "zz-hard-first"],
        &["link-hard"],
        &["fifo-hard"],
        &["char-null"],
        &["block", "empty-linked-2", "char-null"],
    ] {
        for jobs in ["1", "8"] {
            let (temp, run) = extract(case, &copy, &[chosen, &["-j", jobs]].concat());
            run.expect(0);
            let want = part(&whole, |path| {
                chosen.iter().any(|chosen| path == *chosen || path.starts_with(&format!("{chosen}/")))
            });
            tree::assert_same(&want, &out(&temp), &format!("{chosen:?} -j {jobs}"));
        }
    }
}

/// Patterns choose what borg's rules say; a path that fits nothing is a warning of its own.
#[test]
fn patterns_choose() {
    let Some(case) = cases::restorable_named("types") else { return };
    let (copy, whole) = (Copy::of(case), expected(case));
    let link = |path: &str| path.starts_with("link-") && path != "link-to-dir";
    let (temp, run) = extract(case, &copy, &["re:^link-", "-e", "link-to-*"]);
    run.expect(0);
    tree::assert_same(&part(&whole, link), &out(&temp), "re: and an exclude");
    let (temp, run) =
        extract(case, &copy, &["--pattern", "+ sh:closed/**", "--pattern", "- sh:*", "--pattern", "- sh:**/*"]);
    run.expect(0);
    assert!(
        out(&temp).contains_key("closed/deeper/inside") && !out(&temp).contains_key("regular"),
        "{:?}",
        out(&temp).keys()
    );
    let (temp, run) = extract(case, &copy, &["regular", "not/there", "nor-this"]);
    let run = run.expect(101);
    assert!(run.stderr.contains("'not/there' matched nothing") && run.stderr.contains("'nor-this'"), "{}", run.stderr);
    tree::assert_same(&part(&whole, |path| path == "regular"), &out(&temp), "the rest is there");
    let rules = Temp::new();
    std::fs::write(rules.path().join("rules"), "# all but these\n- re:^(block|char|link|fifo)\n- pp:closed\n")
        .expect("a file");
    let file = rules.path().join("rules");
    let (temp, run) = extract(case, &copy, &["--patterns-from", file.to_str().expect("UTF-8")]);
    run.expect(0);
    let kept = |path: &str| !["block", "char", "link", "fifo", "closed"].iter().any(|start| path.starts_with(start));
    tree::assert_same(&part(&whole, kept), &out(&temp), "rules from a file");
}

/// Components are cut off in front, and what has too few of them is left out.
#[test]
fn components_are_stripped() {
    let case = cases::named("borg2/types");
    let (copy, whole) = (Copy::of(case), expected(case));
    let (temp, run) = extract(case, &copy, &["closed", "--strip-components", "1"]);
    run.expect(0);
    let mut want = Tree::new();
    for (path, entry) in &part(&whole, |path| path.starts_with("closed/")) {
        let short = path.trim_start_matches("closed/").to_owned();
        let mut entry = entry.clone();
        entry.insert("path".into(), short.as_str().into());
        want.insert(short, entry);
    }
    tree::assert_same(&want, &out(&temp), "stripped");
    let (temp, run) = extract(case, &copy, &["--strip-components", "9"]);
    run.expect(0);
    assert!(out(&temp).is_empty(), "{:?}", out(&temp));
}

/// A dry run decodes everything and writes nothing.
#[test]
fn dry_runs_write_nothing() {
    spread(
        &cases::readable(),
        |case| case.name.clone(),
        |case| {
            if case.archives.is_empty() {
                return;
            }
            let copy = Copy::of(case);
            let (temp, run) = extract(case, &copy, &["--dry-run", "--stats"]);
            let run = run.expect(0);
            assert!(run.stderr.contains("entries verified"), "{}", run.stderr);
            assert_eq!(std::fs::read_dir(temp.path().join("out")).expect("a folder").count(), 0);
            assert!(run.stdout.is_empty());
        },
    );
}

/// Extracting again over the same target gives the same tree, and so does going on with a run.
#[test]
fn a_second_run_gives_the_same_tree() {
    // Immutable and append-only files of a first run cannot be replaced, as with borg.
    let all: Vec<_> = cases::restorable().into_iter().filter(|case| !case.name.contains("/flags")).collect();
    spread(
        &all,
        |case| case.name.clone(),
        |case| {
            let copy = Copy::of(case);
            for archive in &case.archives {
                let temp = Temp::new();
                temp.folder("out");
                let run = |option: &[&str]| {
                    let call = Call::new(["extract", "-C", "out", "-r"])
                        .args([copy.path()])
                        .args([archive.spec()])
                        .args(option);
                    call.opening(case).within(temp.path()).run().expect(0)
                };
                run(&[]);
                let mut first = out(&temp);
                for path in archive.texts("mtime_free") {
                    first.get_mut(&path).expect("a folder").insert("mtime_ns".into(), serde_json::Value::Null);
                }
                run(&["-j", "8"]);
                tree::assert_same(&first, &out(&temp), &format!("{}: over itself", archive.name));
                run(&["--continue"]);
                tree::assert_same(&first, &out(&temp), &format!("{}: --continue", archive.name));
            }
        },
    );
}

/// What is there and not in the archive stays; `--overwrite never` leaves files alone.
#[test]
fn what_is_there_already() {
    let case = cases::named("borg2/sample");
    let copy = Copy::of(case);
    let temp = Temp::new();
    let target = temp.folder("out");
    std::fs::create_dir(target.join("journey")).expect("a folder");
    std::fs::write(target.join("journey/notes.txt"), b"mine").expect("a file");
    std::fs::write(target.join("other"), b"stays").expect("a file");
    let run = |option: &[&str]| {
        let call =
            Call::new(["extract", "-C", "out", "-r"]).args([copy.path()]).args([case.archives[0].spec()]).args(option);
        call.opening(case).within(temp.path()).run().expect(0)
    };
    run(&["--overwrite", "never"]);
    assert_eq!(std::fs::read(target.join("journey/notes.txt")).expect("a file"), b"mine");
    let before = snapshot::take(&target, Closeness::Restored);
    run(&["--overwrite", "never"]);
    assert_eq!(before, snapshot::take(&target, Closeness::Restored));
    run(&[]);
    assert_eq!(std::fs::read(target.join("other")).expect("a file"), b"stays");
    let mut actual = out(&temp);
    actual.remove("other");
    tree::assert_same(&expected(case), &actual, "replaced");
}
