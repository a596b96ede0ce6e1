//! Items whose values make no sense: sizes that lie, keys of no text, times before all time, ACLs of
//! garbage, kinds of file that do not exist. What makes sense is restored, the rest is named.

use packtrain_tests::folder::Eyes;
use packtrain_tests::inside::settings;
use packtrain_tests::writer::item::MTIME;
use packtrain_tests::writer::stage::{extract_hostile as extract, hostile as stage};
use packtrain_tests::writer::{Item, Value, Writer};
use std::os::unix::fs::MetadataExt;

#[test]
fn devices_of_any_number() {
    let ran = extract(|_| {
        vec![
            Item::new(b"null", 0o020_644).with("rdev", Value::Int(0x103)),
            Item::new(b"bare", 0o020_644),
            Item::new(b"huge", 0o060_644).with("rdev", Value::Int(i64::MAX)),
        ]
    });
    if Eyes::here().root && ran.meta("null").is_some() {
        assert_eq!((ran.meta("null").unwrap().rdev(), ran.meta("bare").unwrap().rdev()), (0x103, 0));
    } else {
        assert_ne!(ran.code, 0);
    }
    // No kernel number is that large: made as something else it would be a lie.
    assert!(ran.meta("huge").is_none_or(|meta| meta.rdev() == i64::MAX as u64), "{:?}", ran.meta("huge"));
}

#[test]
fn sizes_that_lie() {
    let ran = extract(|writer| {
        let lie = |item: Item, size: i64| item.with("size", Value::Int(size));
        let many: Vec<Item> = [("more", 6), ("less", 4), ("none", 0), ("huge", i64::MAX)]
            .into_iter()
            .map(|(path, size)| lie(writer.file(path, b"12345"), size))
            .collect();
        let mut items = many;
        items.push(
            Item::new(b"wider", 0o100_644)
                .with("chunks", packtrain_tests::writer::item::chunk_list(&[]))
                .with("size", Value::Raw([&[0xcf][..], &[0xff; 8]].concat())),
        );
        items.push(writer.file("right", b"12345"));
        items.push(writer.file("unsized", b"12345").without("size"));
        items
    });
    assert_eq!(ran.code, 113);
    assert_eq!(ran.blamed(), ["more", "less", "none", "huge", "wider"].map(|path| (113, path)));
    for (_, path, text) in &ran.warnings {
        // Both numbers are named.
        let stated = match path.as_str() {
            "more" => "6",
            "less" => "4",
            "none" => "0",
            "huge" => "9223372036854775807",
            _ => "18446744073709551615",
        };
        assert!(text.contains(stated), "{text}");
    }
    for path in ["more", "less", "none", "huge", "right", "unsized"] {
        assert_eq!(ran.read(path), b"12345", "{path}");
    }
    assert_eq!(ran.read("wider"), b"");
}

#[test]
fn one_small_chunk_a_hundred_thousand_times() {
    let made = stage(|writer| {
        let one = writer.content(b"again and again ", 100)[0];
        vec![Item::file(b"f", &vec![one; 100_000]), Item::file(b"g", &vec![one; 1000])]
    });
    for jobs in [1, 2, 8] {
        let target = made.target();
        let ran = made.run(settings(jobs, 0, 1 << 20), &[], &target);
        assert_eq!(ran.code, 0, "{}", ran.report);
        assert!(
            ran.read("f") == b"again and again ".repeat(100_000) && ran.read("g") == b"again and again ".repeat(1000)
        );
    }
}

#[test]
fn keys_and_values_of_no_sense_are_passed_over() {
    let ran = extract(|writer| {
        vec![
            writer
                .file("keys", b"x")
                .with_key(b"\xff\xfe", Value::Int(1))
                .with_key(b"", Value::Nil)
                .with_key(b"zz", Value::Map(vec![(Value::Int(1), Value::Nil)])),
            writer
                .file("nils", b"x")
                .with("user", Value::Nil)
                .with("group", Value::Nil)
                .with("uid", Value::Nil)
                .with("gid", Value::Nil)
                .with("atime", Value::Nil)
                .with("hlid", Value::Nil)
                .with("xattrs", Value::Nil)
                .with("acl_access", Value::Nil)
                .with("bsdflags", Value::Nil)
                .with("size", Value::Nil),
            writer
                .file("nested", b"x")
                .with("odd", Value::List(vec![Value::List(vec![Value::List(vec![Value::Nil; 3]); 3]); 3])),
        ]
    });
    assert_eq!((ran.code, ran.warnings.len()), (0, 0), "{}", ran.report);
    for path in ["keys", "nils", "nested"] {
        assert_eq!(ran.read(path), b"x");
    }
}

#[test]
fn items_that_are_none_leave_a_gap_and_no_more() {
    let mut deep = vec![0x91; 100_000];
    deep.push(0xc0);
    let id = |item: Item| item;
    for (what, spoil) in [
        (
            "a nested bomb",
            Box::new(move |item: Item| item.with("odd", Value::Raw(deep.clone()))) as Box<dyn Fn(Item) -> Item>,
        ),
        ("no path", Box::new(|item: Item| item.without("path"))),
        ("a nil path", Box::new(|item: Item| item.with("path", Value::Nil))),
        ("a mode that is text", Box::new(|item: Item| item.with("mode", Value::text("rwx")))),
        ("an impossible mode", Box::new(|item: Item| item.with("mode", Value::Int(1 << 40)))),
        ("a short link group", Box::new(|item: Item| item.with("hlid", Value::Blob(vec![1; 31])))),
        ("nanoseconds beyond a second", Box::new(|item: Item| item.with("mtime", Value::long_time(0, 1_000_000_000)))),
        (
            "a chunk of no bytes",
            Box::new(|item: Item| item.with("chunks", packtrain_tests::writer::item::chunk_list(&[([1; 32], 0)]))),
        ),
        (
            "a chunk beyond the limit",
            Box::new(|item: Item| {
                item.with("chunks", packtrain_tests::writer::item::chunk_list(&[([1; 32], 20_971_480)]))
            }),
        ),
        (
            "a list that never ends",
            Box::new(|item: Item| item.with("chunks", Value::Raw(vec![0xdd, 0xff, 0xff, 0xff, 0xff]))),
        ),
        ("a path of 64 KiB and one", Box::new(|item: Item| item.with("path", Value::Text(vec![b'p'; 65_537])))),
    ] {
        let ran = extract(|writer| {
            let bad = spoil(id(writer.file("bad", b"bad")));
            vec![writer.file("before", b"before"), bad, writer.file("after", b"after")]
        });
        assert_eq!(ran.code, 113, "{what}: {}", ran.report);
        assert_eq!((ran.read("before"), ran.read("after")), (b"before".to_vec(), b"after".to_vec()), "{what}");
        assert!(ran.meta("bad").is_none(), "{what}");
    }
}

#[test]
fn times_out_of_range_are_named() {
    let ran = extract(|writer| {
        let at = |writer: &mut Writer, path: &str, seconds: i64| {
            writer.file(path, b"x").with("mtime", Value::long_time(seconds, 7))
        };
        vec![
            at(writer, "far", i64::MAX),
            at(writer, "long-ago", i64::MIN),
            at(writer, "1901", -(1 << 31)),
            at(writer, "2262", 9_223_199_236),
        ]
    });
    assert_eq!(ran.code, 104, "{}", ran.report);
    assert!(
        ran.warnings.iter().all(|(code, path, _)| *code == 104 && ["far", "long-ago"].contains(&path.as_str())),
        "{}",
        ran.report
    );
    assert_eq!(ran.meta("1901").unwrap().mtime(), -(1 << 31));
    assert_eq!(ran.meta("2262").unwrap().mtime(), 9_223_199_236);
    for path in ["far", "long-ago", "1901", "2262"] {
        assert_eq!(ran.read(path), b"x");
    }
}

#[test]
fn attributes_of_no_sense_are_named() {
    if !Eyes::here().attributes {
        return;
    }
    let xattr = |item: Item, name: &[u8]| {
        item.with("xattrs", Value::Map(vec![(Value::Blob(name.to_vec()), Value::Blob(b"v".to_vec()))]))
    };
    let ran = extract(|writer| {
        vec![
            xattr(writer.file("good", b"x"), b"user.good"),
            xattr(writer.file("nul", b"x"), b"user.a\0b"),
            xattr(writer.file("none", b"x"), b""),
            xattr(writer.file("space", b"x"), b"bogus.space"),
            xattr(writer.file("long", b"x"), &[&b"user."[..], &[b'n'; 300]].concat()),
            writer.file("garbage", b"x").with("acl_access", Value::Blob(b"not an acl\xff\0".to_vec())),
            writer.file("empty-acl", b"x").with("acl_access", Value::Blob(Vec::new())),
            writer.file("endless", b"x").with("acl_access", Value::Blob(b"user::rwx\n".repeat(100_000))),
        ]
    });
    assert_ne!(ran.code, 0);
    let mut blamed: Vec<&str> = ran.warnings.iter().map(|(_, path, _)| path.as_str()).collect();
    blamed.dedup();
    assert_eq!(blamed, ["nul", "none", "space", "long", "garbage", "endless"], "{}", ran.report);
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(ran.target.join("good"), "user.good", &mut value), Ok(1));
    // Cut at the NUL, it would be another name.
    assert!(rustix::fs::getxattr(ran.target.join("nul"), "user.a", &mut value).is_err());
    for path in ["good", "nul", "none", "space", "long", "garbage", "empty-acl", "endless"] {
        assert_eq!((ran.read(path), ran.meta(path).unwrap().mode() & 0o777), (b"x".to_vec(), 0o644), "{path}");
        assert_eq!(ran.meta(path).unwrap().mtime_nsec(), i64::from(MTIME.1));
    }
}

#[test]
fn what_cannot_be_made_is_named() {
    let ran = extract(|_| {
        vec![
            Item::new(b"lost", 0o100_644),
            Item::new(b"socket", 0o140_755),
            Item::new(b"door", 0o150_755),
            Item::new(b"nothing", 0),
            Item::link(b"nowhere", b""),
            Item::link(b"nul", b"a\0b"),
            Item::link(b"far", &[b't'; 5000]),
        ]
    });
    assert_ne!(ran.code, 0);
    let blamed: Vec<&str> = ran.warnings.iter().map(|(_, path, _)| path.as_str()).collect();
    let all = ["lost", "socket", "door", "nothing", "nowhere", "nul", "far"];
    assert_eq!(blamed, all, "{}", ran.report);
    assert!(all.iter().all(|path| ran.meta(path).is_none()));
}
