//! Damage that costs nothing: all content is still there, so everything is restored with exit code 0.

use crate::victim::{Use, Victim};
use packtrain_tests::repository::pack_name;

const CASES: [&str; 3] = ["suite-aes256-ocb-blake3", "suite-authenticated-sha256", "packs-small"];

/// Does something to a fresh copy, and holds that everything is restored.
fn harmless(case: &str, what: &str, act: impl Fn(&Victim)) -> Victim {
    let victim = Victim::of(case);
    act(&victim);
    let codes = victim.rules();
    assert!(codes.iter().all(|code| *code == 0), "{case}: {what}: {codes:?}");
    victim
}

#[test]
fn index_missing_stale_damaged_or_marked() {
    for case in CASES {
        harmless(case, "index missing", |victim| {
            for name in victim.copy.files_in("index") {
                victim.copy.remove(&name);
            }
        });
        let count = Victim::of(case).copy.files_in("index").len();
        for kept in 0..count {
            harmless(case, "an old index: one fragment only", |victim| {
                for (at, name) in victim.copy.files_in("index").iter().enumerate() {
                    if at != kept {
                        victim.copy.remove(name);
                    }
                }
            });
            harmless(case, "a fragment missing", |victim| victim.copy.remove(&victim.copy.files_in("index")[kept]));
            harmless(case, "a fragment damaged", |victim| {
                victim.copy.flip(&victim.copy.files_in("index")[kept], 100, 1)
            });
            harmless(case, "a fragment empty", |victim| victim.copy.write(&victim.copy.files_in("index")[kept], b""));
        }
        let victim = harmless(case, "the marker", |victim| victim.copy.write("cache/chunkindex-invalid", b""));
        assert!(victim.check(false).stderr.contains("marked invalid"));
        harmless(case, "the index of another repository", |victim| {
            let other = Victim::of("suite-chacha20-poly1305-blake3");
            for name in victim.copy.files_in("index") {
                victim.copy.remove(&name);
            }
            for name in other.copy.files_in("index") {
                victim.copy.write(&name, &other.copy.read(&name));
            }
        });
    }
}

/// A second copy of a damaged chunk, in a pack that the index does not know.
#[test]
fn another_copy_of_each_object() {
    for case in CASES {
        for (object, what) in Victim::of(case).uses() {
            for (part, at) in
                [("payload", object.payload()), ("metadata", object.metadata()), ("id", object.offset + 9)]
            {
                let victim = harmless(case, &format!("{what:?} {part}, with a copy"), |victim| {
                    let pack = victim.copy.read(&object.pack);
                    let bytes = &pack[object.offset..object.offset + object.len()];
                    // Twice, or a pack of one object would have the name of the one that is damaged.
                    assert_ne!(victim.copy.add_pack(&[bytes, bytes].concat()), object.pack);
                    victim.copy.flip(&object.pack, at, 1);
                });
                assert_eq!(
                    victim.check(false).code,
                    113,
                    "{case}: {what:?}: the damage is found although it costs nothing"
                );
            }
        }
    }
}

/// All objects of a repository in one pack, with a new name, and no index.
#[test]
fn one_pack_without_an_index() {
    for case in CASES {
        let victim = harmless(case, "one pack", |victim| {
            let names = victim.copy.files_in("packs");
            let all: Vec<u8> = names.iter().flat_map(|name| victim.copy.read(name)).collect();
            names.iter().for_each(|name| victim.copy.remove(name));
            victim.copy.files_in("index").iter().for_each(|name| victim.copy.remove(name));
            assert_eq!(victim.copy.add_pack(&all), pack_name(&all));
        });
        let found = victim.check(true);
        assert!(
            found.code == 113 && found.stderr.contains("missing") && found.stderr.contains(", 0 damaged"),
            "{}",
            found.stderr
        );
    }
}

/// A damaged header costs its own object alone: the scan finds the next one.
#[test]
fn a_scan_goes_on_behind_a_damaged_header() {
    for case in &CASES[..2] {
        let largest = |victim: &Victim| {
            let uses = victim.uses();
            let packs = victim.copy.files_in("packs");
            let most = packs
                .iter()
                .max_by_key(|pack| uses.iter().filter(|(object, _)| object.pack == **pack).count())
                .expect("a pack")
                .clone();
            uses.into_iter().filter(|(object, _)| object.pack == most).collect::<Vec<_>>()
        };
        for part in [3, 8, 41, 43, 45, 47] {
            let victim = Victim::of(case);
            let objects = largest(&victim);
            assert_eq!(objects.len(), 5, "{case}");
            let (second, what) = &objects[1];
            assert_eq!(*what, Use::Content);
            victim.copy.files_in("index").iter().for_each(|name| victim.copy.remove(name));
            victim.copy.flip(&second.pack, second.offset + part, 0x10);
            let codes = victim.rules();
            assert!(codes.contains(&113) && codes.iter().all(|code| [0, 113].contains(code)), "{part}: {codes:?}");
            // Each of the other four is still found.
            let run = victim.extract(&victim.case.archives[0]).run;
            assert_eq!(run.stderr.matches(": bytes ").count(), 1, "{part}: {}", run.stderr);
            assert!(run.stderr.contains(&second.id), "{part}: {}", run.stderr);
        }
    }
}

#[test]
fn stray_files() {
    for case in CASES {
        harmless(case, "stray files", |victim| {
            let pack = victim.copy.read(&victim.copy.files_in("packs")[0]);
            for name in [
                "packs/readme",
                "packs/00/notes",
                "packs/zz/x",
                "packs/00/0123.tmp",
                "packs/x.hid",
                "archives/a.tmp",
                "index/b.tmp",
                "keys/notes",
                "notes",
                "data/0/1",
            ] {
                victim.copy.write(name, &pack);
            }
            // A whole pack in the wrong folder, a link to a pack, and a name in capitals.
            let name = victim.copy.files_in("packs").into_iter().find(|name| name.len() > 64).expect("a pack");
            let last = name.rsplit('/').next().expect("a name").to_owned();
            victim.copy.write(&format!("packs/ee/{last}"), b"not where it belongs");
            std::os::unix::fs::symlink("/dev/zero", victim.copy.path().join(format!("packs/ee/{}", "ee".repeat(32))))
                .expect("a link");
            victim.copy.write(&format!("packs/dd/{}", "DD".repeat(32)), b"capitals");
        });
    }
}
