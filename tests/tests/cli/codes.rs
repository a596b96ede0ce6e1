//! Each failure has its exit code and says what to do.

use packtrain_tests::cases;
use packtrain_tests::command::{Call, Run};
use packtrain_tests::folder::Temp;
use packtrain_tests::repository::Copy;
use packtrain_tests::snapshot::{self, Closeness};

/// A run over the sample with its passphrase.
fn sample(copy: &Copy, arguments: &[&str]) -> Run {
    Call::new(arguments).env("PACKTRAIN_REPO", copy.path()).env("PACKTRAIN_PASSPHRASE", "test").run()
}

#[test]
fn nothing_there_and_nothing_known() {
    let temp = Temp::new();
    let run = Call::new(["list", "not/there"]).within(temp.path()).run().expect(13);
    assert!(run.stderr.contains("not/there"), "{}", run.stderr);
    let run = Call::new(["list"]).args([temp.folder("empty")]).run().expect(15);
    assert!(run.stderr.contains("empty"), "{}", run.stderr);
    std::fs::write(temp.path().join("file"), b"x").expect("a file");
    let run = Call::new(["list"]).args([temp.path().join("file")]).run();
    assert!([13, 15].contains(&run.code), "{}: {}", run.code, run.stderr);
}

#[test]
fn archives_that_are_not_there_or_not_alone() {
    let case = cases::named("borg2/sample");
    let copy = Copy::of(case);
    let run = sample(&copy, &["list", "nope"]).expect(31);
    assert!(run.stderr.contains("'nope'") && run.stderr.contains("packtrain list"), "{}", run.stderr);
    // One name, two archives: both are named by what tells them apart.
    for command in
        [&["list", "journey"][..], &["extract", "-n", "journey"], &["info", "journey"], &["check", "journey"]]
    {
        let run = sample(&copy, command).expect(31);
        for archive in &case.archives {
            assert!(run.stderr.contains(&format!("aid:{}", &archive.id[..12])), "{}", run.stderr);
        }
    }
    sample(&copy, &["list", "aid:"]).expect(31);
    sample(&copy, &["list", "aid:0"]).expect(31);
    for (spec, archive) in [("latest", 1), (&format!("aid:{}", &case.archives[0].id[..6]), 0)] {
        let run = sample(&copy, &["list", spec, "--json-lines"]).expect(0);
        let sizes: Vec<u64> = case.archives[archive]
            .lines("items")
            .iter()
            .filter(|item| item["type"] == "-")
            .filter_map(|item| item["size"].as_u64())
            .collect();
        let ours = run.text().lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        assert_eq!(ours.filter_map(|line| line["size"].as_u64()).collect::<Vec<_>>(), sizes, "{spec}");
    }
}

#[test]
fn keys_that_are_missing_or_wrong() {
    let case = cases::named("borg2/key-keyfile");
    let list = || Call::new(["list", "-r"]).args([case.repo()]).env("BORG_PASSPHRASE", "test");
    let run = list().run().expect(44);
    assert!(run.stderr.contains("BORG_KEY_FILE"), "{}", run.stderr);
    let temp = Temp::new();
    list().env("BORG_KEY_FILE", temp.path().join("nothing")).run().expect(42);
    let other = cases::named("borg2/key-both").keyfile().expect("a key file");
    let run = list().env("BORG_KEY_FILE", &other).run().expect(42);
    assert!(run.stderr.contains("not a key file for repository"), "{}", run.stderr);
    list().env("BORG_KEY_FILE", case.keyfile().expect("a key file")).run().expect(0);
    // The same file where key files usually are.
    for (variable, below) in [
        ("BORG_KEYS_DIR", ""),
        ("BORG_CONFIG_DIR", "keys"),
        ("BORG_BASE_DIR", ".config/borg/keys"),
        ("XDG_CONFIG_HOME", "borg/keys"),
        ("HOME", ".config/borg/keys"),
    ] {
        let temp = Temp::new();
        let folder = temp.path().join(below);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::copy(&other, folder.join("another")).expect("a copy");
        std::fs::copy(case.keyfile().expect("a key file"), folder.join("mine")).expect("a copy");
        assert!(list().env(variable, temp.path()).run().expect(0).text().contains("archive"), "{variable}");
    }
}

#[test]
fn passphrases_that_are_missing_or_wrong() {
    let copy = Copy::of(cases::named("borg2/sample"));
    let list = || Call::new(["list", "-r"]).args([copy.path()]);
    let run = list().run().expect(50);
    assert!(run.stderr.contains("PACKTRAIN_PASSPHRASE"), "{}", run.stderr);
    let run = list().env("BORG_PASSPHRASE", "not it").run().expect(52);
    assert!(run.stderr.contains("wrong"), "{}", run.stderr);
    list().env("BORG_PASSPHRASE", "").run().expect(52);
    list().env("BORG_PASSCOMMAND", "false").run().expect(50);
    list().env("BORG_PASSCOMMAND", "no-such-program-here").run().expect(50);
    list().env("BORG_PASSPHRASE_FD", "77").run().expect(50);
    list().env("BORG_PASSPHRASE_FD", "x").run().expect(4);
}

#[test]
fn wrong_usage() {
    let copy = Copy::of(cases::named("borg2/sample"));
    for arguments in [
        &[][..],
        &["no-such-command"],
        &["extract"],
        &["list", "latest", "--no-such-option"],
        &["extract", "latest", "-n", "-j", "0"],
        &["extract", "latest", "-n", "-j", "1025"],
        &["extract", "latest", "-n", "--memory", "much"],
        &["extract", "latest", "-n", "re:("],
        &["extract", "latest", "-n", "--pattern", "? x"],
        &["extract", "latest", "-n", "--exclude-from", "/not/there"],
        &["cat", "latest"],
        &["export-tar", "latest"],
        &["list", "latest", "--format", "{path"],
        &["check", "--verify-data", "--sample", "0%"],
        &["check", "--sample", "5%"],
        &["list", "latest", "--format", "{paht}"],
        // What a stream holds already cannot be taken back.
        &["cat", "latest", "x", "--on-damage", "skip"],
        &["export-tar", "latest", "-", "--on-damage", "skip"],
        &["extract", "latest", "--stdout", "--on-damage", "skip"],
    ] {
        let run = sample(&copy, arguments).expect(4);
        assert!(!run.stderr.is_empty() && run.stdout.is_empty(), "{arguments:?}");
    }
    Call::new(["list"]).run().expect(4);
    let run = Call::new(["extract", "latest", "-n", "-r"])
        .args([copy.path()])
        .env("PACKTRAIN_JOBS", "many")
        .env("BORG_PASSPHRASE", "test")
        .run()
        .expect(4);
    assert!(run.stderr.contains("PACKTRAIN_JOBS"), "{}", run.stderr);
}

/// An archive that cannot be read may be the one that is meant: no other is taken for it.
#[test]
fn another_archive_is_not_taken_for_a_damaged_one() {
    let case = cases::named("borg2/sample");
    let copy = Copy::of(case);
    let [old, new] = &case.archives[..] else { panic!("two archives") };
    let object = copy.object(&new.id);
    copy.flip(&object.pack, object.payload(), 1);
    for name in ["latest", "journey", "nope"] {
        for command in [&["list"][..], &["info"], &["extract", "-n"], &["check"], &["export-tar"], &["cat"]] {
            let mut words = command.to_vec();
            words.push(name);
            words.extend((command == ["export-tar"]).then_some("-"));
            words.extend((command == ["cat"]).then_some("journey/notes.txt"));
            let run = sample(&copy, &words).expect(90);
            assert!(run.stdout.is_empty() && run.stderr.contains(&new.id[..12]), "{words:?}: {}", run.stderr);
            assert!(run.stderr.contains(&format!("aid:{}", &old.id[..12])), "{words:?}: {}", run.stderr);
        }
    }
    sample(&copy, &["extract", "-n", &old.spec()]).expect(0);
}

/// Nothing is written into the source, whatever is asked for.
#[test]
fn the_source_is_no_target() {
    let copy = Copy::of(cases::named("borg2/sample"));
    let before = snapshot::take(&copy.path(), Closeness::Source);
    let path = |below: &str| copy.path().join(below).display().to_string();
    let temp = Temp::new();
    std::os::unix::fs::symlink(copy.path(), temp.path().join("link")).expect("a link");
    let link = temp.path().join("link/config/report").display().to_string();
    for arguments in [
        &["extract", "latest", "-C", &path("")][..],
        &["extract", "latest", "-C", &path("packs")],
        &["extract", "latest", "-C", &path("packs/new")],
        &["extract", "latest", "-n", "--report", &path("config/config")],
        &["extract", "latest", "-n", "--report", &link],
        &["check", "--report", &path("report")],
        &["export-tar", "latest", &path("packs/x.tar")],
    ] {
        let run = sample(&copy, arguments).expect(4);
        assert!(run.stderr.contains("inside the source"), "{}", run.stderr);
    }
    let run = Call::new(["extract", ".::latest"]).within(&copy.path()).env("BORG_PASSPHRASE", "test").run().expect(4);
    assert!(run.stderr.contains("inside the source"), "{}", run.stderr);
    assert_eq!(before, snapshot::take(&copy.path(), Closeness::Source), "the source changed");
}

#[test]
fn a_target_that_is_a_file() {
    let copy = Copy::of(cases::named("borg2/sample"));
    let temp = Temp::new();
    std::fs::write(temp.path().join("file"), b"x").expect("a file");
    let target = temp.path().join("file").display().to_string();
    let run = sample(&copy, &["extract", "latest", "-C", &target]).expect(2);
    assert!(run.stderr.contains(&format!("{target}: is not a directory")), "{}", run.stderr);
}

#[test]
fn both_ways_to_name_a_repository() {
    let case = cases::named("borg2/suite-aes256-ocb-sha256");
    let copy = Copy::of(case);
    let joined = format!("{}::first", copy.path().display());
    let path = copy.path().display().to_string();
    let listed = |arguments: &[&str], variable: Option<&str>| {
        let call = Call::new(["list", "--json-lines"]).args(arguments).env("PACKTRAIN_PASSPHRASE", "test");
        variable.into_iter().fold(call, |call, name| call.env(name, &path)).run().expect(0).stdout
    };
    let one = listed(&[&joined], None);
    assert!(!one.is_empty());
    assert_eq!(one, listed(&["-r", &path, "first"], None));
    assert_eq!(one, listed(&["--repo", &path, "first"], None));
    assert_eq!(one, listed(&["first"], Some("BORG_REPO")));
    assert_eq!(one, listed(&["first"], Some("PACKTRAIN_REPO")));
    // What is named on the command line comes first.
    let call =
        Call::new(["list", "--json-lines", &joined]).env("BORG_REPO", "/not/there").env("PACKTRAIN_PASSPHRASE", "test");
    assert_eq!(call.run().expect(0).stdout, one);
    assert_eq!(listed(&[&path], None), listed(&[], Some("BORG_REPO")));
}
