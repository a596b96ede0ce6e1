//! Archives that only a hostile or broken writer makes: paths that lead out, links in the way, one
//! path twice, values that make no sense. Nothing outside the target is touched, the rest is
//! restored, the exit code says so, and the number of workers changes nothing.
//!
//! Paths and links here; values in `hostile_values.rs`, objects and codecs in `hostile_objects.rs`.

use packtrain_tests::folder::Eyes;
use packtrain_tests::inside::settings;
use packtrain_tests::writer::stage::{as_nobody, extract_hostile as extract, hostile as stage, plant};
use packtrain_tests::writer::{Item, Stage, Value, Writer};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn nothing_is_written_through_a_link_of_the_archive() {
    let mut writer = Writer::default();
    let temp = packtrain_tests::folder::Temp::new();
    let outside = temp.folder("outside");
    std::fs::write(outside.join("keep"), b"keep").unwrap();
    let path = outside.to_str().unwrap().as_bytes();
    let items = [
        Item::link(b"evil", path),
        writer.file("evil/f", b"out"),
        writer.file("evil/keep", b"overwritten"),
        Item::link(b"evil/link", b"x"),
        Item::new(b"evil/pipe", 0o010_644),
        Item::link(b"up", b".."),
        writer.file("up/outside/f", b"out"),
        Item::link(b"chain", b"evil"),
        writer.file("chain/f", b"out"),
        writer.file("last", b"last"),
    ];
    writer.archive("a", &items);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!(ran.code, 108, "{}", ran.report);
    let blamed = ["evil/f", "evil/keep", "evil/link", "evil/pipe", "up/outside/f", "chain/f"].map(|path| (108, path));
    assert_eq!(ran.blamed(), blamed);
    assert_eq!(std::fs::read(outside.join("keep")).unwrap(), b"keep");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_link(ran.target.join("evil")).unwrap(), outside);
    assert_eq!(ran.read("last"), b"last");
}

#[test]
fn nothing_is_written_through_a_link_at_the_target() {
    let made =
        stage(|writer| vec![writer.file("evil/f", b"out"), writer.file("d/keep", b"in"), writer.file("keep", b"mine")]);
    let outside = made.outside();
    let ran = made.extract_onto(&[], |target| {
        plant(&target.join("evil"), &outside);
        plant(&target.join("keep"), &outside.join("keep"));
        plant(&target.join("d"), &outside.join("not-there"));
    });
    assert_eq!((ran.code, ran.blamed()), (108, vec![(108, "evil/f"), (108, "d/keep")]));
    // A file takes the place of a link of its own name.
    assert!(ran.meta("keep").unwrap().is_file());
    assert_eq!(ran.read("keep"), b"mine");
}

#[test]
fn a_folder_takes_the_place_of_a_link_at_the_target() {
    let made = stage(|writer| vec![Item::folder(b"evil"), writer.file("evil/keep", b"in")]);
    let outside = made.outside();
    let ran = made.extract_onto(&[], |target| plant(&target.join("evil"), &outside));
    assert_eq!((ran.code, ran.read("evil/keep")), (0, b"in".to_vec()));
    assert!(ran.meta("evil").unwrap().is_dir());
}

#[test]
fn paths_that_climb_are_refused_and_the_rest_is_not() {
    let ran = extract(|writer| {
        let content = writer.content(b"x", 100);
        let bad: [&[u8]; 8] = [b"..", b"../f", b"a/../../f", b"a/..", b"/../f", b"", b"nul\0f", b"a/b/\0"];
        let good: [&[u8]; 3] = [b"/rooted/f", b"./dot//twice/./f", b"...f"];
        // Folders with an entry each, so that their times are the same in every run.
        let folders = ["/rooted", "dot", "dot/./twice"].map(|path| Item::folder(path.as_bytes()));
        folders.into_iter().chain(bad.iter().chain(&good).map(|path| Item::file(path, &content))).collect()
    });
    assert_eq!(ran.code, 109, "{}", ran.report);
    // Borg reads what is merely not canonical the same way: below the target (format note 12.1).
    for path in ["rooted/f", "dot/twice/f", "...f"] {
        assert_eq!(ran.read(path), b"x");
    }
    assert!(ran.meta("a").is_none() && ran.meta("f").is_none());
    // An empty path has no record of its own, but counts.
    assert_eq!(ran.warnings.iter().filter(|(code, ..)| *code == 109).count(), 7);
}

#[test]
fn a_file_is_no_folder() {
    let ran = extract(|writer| {
        vec![
            writer.file("a", b"file"),
            writer.file("a/b", b"below"),
            Item::link(b"a/l", b"x"),
            writer.file("a/b/c", b"deep"),
        ]
    });
    assert_eq!((ran.code, ran.blamed()), (108, vec![(108, "a/b"), (108, "a/l"), (108, "a/b/c")]));
    assert_eq!(ran.read("a"), b"file");
}

#[test]
fn one_path_twice_ends_as_the_last_of_them() {
    let ran = extract(|writer| {
        let filler: Vec<Item> = (0..40).map(|n| writer.file(&format!("filler{n}"), &[n; 3000])).collect();
        let mut items = vec![
            writer.file("file-file", b"first"),
            writer.file("file-file", b"second"),
            writer.file("file-folder", b"first"),
            Item::folder(b"file-folder"),
            writer.file("file-folder/in", b"in"),
            Item::folder(b"folder-file"),
            writer.file("folder-file", b"second"),
            Item::link(b"link-file", b"../outside/keep"),
            writer.file("link-file", b"second"),
            writer.file("file-link", b"first"),
            Item::link(b"file-link", b"second"),
            Item::folder(b"twice").mode(0o040_700),
            writer.file("twice/a", b"a"),
        ];
        items.extend(filler);
        items.extend([
            Item::folder(b"twice").mode(0o040_750).with("mtime", Value::time(1_000_000_000, 5)),
            writer.file("twice/b", b"b"),
            Item::folder(b"at-once").mode(0o040_711),
            Item::folder(b"at-once").mode(0o040_715),
            // Again much later: the first one is long written.
            writer.file("file-file", b"third"),
        ]);
        items
    });
    assert_eq!(ran.code, 0, "{}", ran.report);
    assert_eq!(ran.read("file-file"), b"third");
    assert_eq!(ran.read("file-folder/in"), b"in");
    assert_eq!(ran.read("folder-file"), b"second");
    assert_eq!(ran.read("link-file"), b"second");
    assert_eq!(std::fs::read_link(ran.target.join("file-link")).unwrap().to_str(), Some("second"));
    assert_eq!((ran.read("twice/a"), ran.read("twice/b")), (b"a".to_vec(), b"b".to_vec()));
    let twice = ran.meta("twice").unwrap();
    assert_eq!((twice.mode() & 0o7777, twice.mtime(), twice.mtime_nsec()), (0o750, 1_000_000_000, 5));
    assert_eq!(ran.meta("at-once").unwrap().mode() & 0o7777, 0o715);
}

#[test]
fn a_folder_that_holds_something_is_not_replaced() {
    let ran = extract(|writer| {
        vec![Item::folder(b"d"), writer.file("d/in", b"in"), writer.file("d", b"file"), writer.file("d/more", b"more")]
    });
    assert_eq!((ran.code, ran.blamed()), (104, vec![(104, "d")]), "{}", ran.report);
    assert_eq!((ran.read("d/in"), ran.read("d/more")), (b"in".to_vec(), b"more".to_vec()));
}

#[test]
fn a_link_is_replaced_and_not_followed_by_what_comes_below_it() {
    let made = stage(|writer| {
        vec![
            Item::link(b"a", b"../outside"),
            writer.file("a/keep", b"out"),
            Item::folder(b"a"),
            writer.file("a/keep", b"in"),
            writer.file("b", b"file"),
            Item::link(b"b", b"../outside/keep"),
            writer.file("b", b"over the link"),
        ]
    });
    let ran = made.extract();
    // The first `a/keep` would have gone through the link; the folder then takes its place.
    assert_eq!((ran.code, ran.blamed()), (108, vec![(108, "a/keep")]));
    assert_eq!((ran.read("a/keep"), ran.read("b")), (b"in".to_vec(), b"over the link".to_vec()));
    assert!(ran.meta("a").unwrap().is_dir() && ran.meta("b").unwrap().is_file());
}

#[test]
fn link_groups_do_without_a_first_name() {
    let long = "n".repeat(256);
    let ran = extract(|writer| {
        vec![
            // The first name is refused, or fails, or is in a folder that cannot be entered.
            writer.file("../one", b"one").group(1),
            writer.file("one2", b"one").group(1),
            writer.file("one3", b"one").group(1),
            writer.file(&long, b"two").group(2),
            writer.file("two2", b"two").group(2),
            writer.file("two3", b"two").group(2),
            Item::link(b"evil", b"../outside"),
            writer.file("evil/three", b"three").group(3),
            writer.file("three2", b"three").group(3),
            writer.file("three3", b"three").group(3),
            // Nobody else in the group.
            writer.file("four", b"four").group(4),
            Item::link(b"five", b"t").group(5),
            Item::link(b"five2", b"t").group(5),
            Item::new(b"six", 0o010_640).group(6),
            Item::new(b"six2", 0o010_640).group(6),
        ]
    });
    assert_eq!(ran.code, 1, "{}", ran.report);
    assert_eq!(ran.blamed(), [(109, "../one"), (104, long.as_str()), (108, "evil/three")]);
    for (path, content) in
        [("one2", "one"), ("one3", "one"), ("two2", "two"), ("two3", "two"), ("three2", "three"), ("three3", "three")]
    {
        assert_eq!((ran.read(path), ran.meta(path).unwrap().nlink()), (content.into(), 2), "{path}");
    }
    assert_eq!(ran.meta("four").unwrap().nlink(), 1);
    for (first, second) in [("five", "five2"), ("six", "six2")] {
        assert_eq!(ran.meta(first).unwrap().ino(), ran.meta(second).unwrap().ino());
    }
}

#[test]
fn long_and_mixed_link_groups() {
    let ran = extract(|writer| {
        let mut items: Vec<Item> = (0..300).map(|n| writer.file(&format!("n{n}"), b"chain").group(1)).collect();
        // Kinds that no real file system joins: the group's first name decides, as in Borg.
        items.extend([writer.file("mixed", b"file").group(2), Item::link(b"mixed2", b"t").group(2)]);
        // A folder is never a member.
        items.extend([Item::folder(b"folder").group(3), writer.file("after", b"after").group(3)]);
        items
    });
    assert_eq!(ran.code, 0, "{}", ran.report);
    assert_eq!(ran.meta("n299").unwrap().nlink(), 300);
    assert_eq!(ran.read("after"), b"after");
    assert!(ran.meta("folder").unwrap().is_dir());
}

#[test]
fn a_link_never_joins_what_took_the_place_of_its_first_name() {
    let ran = extract(|writer| {
        vec![writer.file("a", b"linked").group(1), writer.file("a", b"other"), writer.file("b", b"linked").group(1)]
    });
    assert_eq!(ran.read("a"), b"other");
    // Either it is restored on its own, or it is named and not made.
    match ran.meta("b") {
        Some(_) => assert_eq!((ran.code, ran.read("b")), (0, b"linked".to_vec())),
        None => assert_eq!((ran.code, ran.blamed()), (110, vec![(110, "b")])),
    }
}

#[test]
fn rights_are_not_given_away_by_a_normal_user() {
    if !Eyes::here().root {
        return;
    }
    let owned = |item: Item, id: i64| item.with("uid", Value::Int(id)).with("gid", Value::Int(id));
    let made = stage(|writer| {
        vec![
            owned(writer.file("root's", b"x").mode(0o104_755), 0),
            owned(writer.file("mine", b"x").mode(0o104_755), 65_534),
            Item::new(b"char", 0o020_666).with("rdev", Value::Int(0x103)),
            Item::new(b"block", 0o060_666).with("rdev", Value::Int(0x700)),
            writer.file("other", b"fine"),
        ]
    });
    let ran = [1, 2, 8].map(|jobs| {
        let target = made.target();
        std::os::unix::fs::chown(&target, Some(65_534), Some(65_534)).unwrap();
        as_nobody(|| made.run(settings(jobs, 0, 48 << 20), &[], &target))
    });
    assert!(ran.iter().all(|other| (other.code, &other.report) == (ran[0].code, &ran[0].report)));
    let [ran, ..] = ran;
    assert_eq!(ran.code, 105, "{}", ran.report);
    assert_eq!(ran.meta("root's").unwrap().mode() & 0o7777, 0o755);
    assert_eq!(ran.meta("root's").unwrap().uid(), 65_534);
    assert_eq!(ran.meta("mine").unwrap().mode() & 0o7777, 0o4755);
    assert!(ran.meta("char").is_none() && ran.meta("block").is_none());
    assert_eq!((ran.read("other"), ran.read("last")), (b"fine".to_vec(), b"the last one\n".to_vec()));
    let blamed: Vec<&str> = ran.warnings.iter().map(|(_, path, _)| path.as_str()).collect();
    // Its owner, and its setuid bit.
    assert_eq!(blamed, ["root's", "root's", "char", "block"]);
}

#[test]
fn names_and_depths_beyond_what_the_system_takes() {
    let long = "x".repeat(256);
    let ran = extract(|writer| {
        let deep = vec!["d"; 4097].join("/");
        vec![
            writer.file(&long, b"x"),
            writer.file(&format!("{long}/f"), b"x"),
            Item::folder(long.as_bytes()),
            writer.file(&deep, b"x"),
            writer.file(&"y".repeat(255), b"longest"),
        ]
    });
    assert_eq!(ran.read(&"y".repeat(255)), b"longest");
    assert_eq!(ran.code, 1, "{}", ran.report);
    assert!(ran.meta("d").is_none());
    assert_eq!(ran.warnings.iter().map(|(code, ..)| *code).collect::<Vec<_>>(), [104, 104, 104, 109]);
}

#[test]
fn the_deepest_path_is_restored() {
    let made = stage(|writer| vec![writer.file(&vec!["d"; 4096].join("/"), b"deep")]);
    for jobs in [1, 2] {
        let target = made.target();
        let ran = made.run(settings(jobs, 0, 48 << 20), &[], &target);
        assert_eq!((ran.code, ran.read("last")), (0, b"the last one\n".to_vec()), "{}", ran.report);
        // Far beyond PATH_MAX: only step by step can one get there.
        let open = |at: &std::os::fd::OwnedFd, name: &str| {
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW;
            rustix::fs::openat(at, name, flags, rustix::fs::Mode::empty()).unwrap()
        };
        let mut at: std::os::fd::OwnedFd = std::fs::File::open(&target).unwrap().into();
        for _ in 0..4096 {
            at = open(&at, "d");
        }
        assert_eq!(std::io::read_to_string(std::fs::File::from(at)).unwrap(), "deep");
    }
}

#[test]
fn read_only_folders_of_a_normal_user() {
    let made = stage(|writer| {
        vec![Item::folder(b"d").mode(0o040_555), Item::folder(b"d/e").mode(0o040_000), writer.file("d/e/f", b"in")]
    });
    let target = made.target();
    if Eyes::here().root {
        std::os::unix::fs::chown(&target, Some(65_534), Some(65_534)).unwrap();
    }
    let ran = as_nobody(|| made.run(settings(2, 0, 48 << 20), &[], &target));
    assert_eq!(ran.code, 0, "{}", ran.report);
    assert_eq!(ran.meta("d").unwrap().mode() & 0o777, 0o555);
    std::fs::set_permissions(target.join("d"), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(ran.meta("d/e").unwrap().mode() & 0o777, 0);
    std::fs::set_permissions(target.join("d/e"), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(ran.read("d/e/f"), b"in");
}
