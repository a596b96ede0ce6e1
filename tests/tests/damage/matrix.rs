//! Actions crossed with places, for a suite that encrypts and one that only authenticates.

use crate::victim::{Use, Victim};
use packtrain_tests::spread::spread;

const SUITES: [&str; 2] = ["suite-aes256-ocb-blake3", "suite-authenticated-sha256"];

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// One bit in the middle of what is hit.
    Flip,
    /// The last byte is gone.
    CutOne,
    /// The second half is gone.
    CutHalf,
    /// All of it is gone.
    Missing,
    /// Another file of the same kind stands in its place, from the same or another repository.
    Swapped,
}

const ACTIONS: [Action; 5] = [Action::Flip, Action::CutOne, Action::CutHalf, Action::Missing, Action::Swapped];

/// Does it to the file `name`; `at` is the byte to flip, `other` the content that is swapped in.
fn apply(victim: &Victim, action: Action, name: &str, at: usize, other: &[u8]) {
    let bytes = victim.copy.read(name);
    match action {
        Action::Flip => victim.copy.flip(name, at, 0x10),
        Action::CutOne => victim.copy.write(name, &bytes[..bytes.len() - 1]),
        Action::CutHalf => victim.copy.write(name, &bytes[..bytes.len() / 2]),
        Action::Missing => victim.copy.remove(name),
        Action::Swapped => victim.copy.write(name, other),
    }
}

fn every(check: impl Fn(&str, Action) + Sync) {
    let all: Vec<(&str, Action)> = SUITES.into_iter().flat_map(|suite| ACTIONS.map(|action| (suite, action))).collect();
    spread(&all, |(suite, action)| format!("{suite} {action:?}"), |(suite, action)| check(suite, *action));
}

/// Of another repository, with another key.
fn foreign(name: &str) -> Vec<u8> {
    let other = Victim::of("suite-chacha20-poly1305-blake3");
    let folder = name.split('/').next().expect("a folder");
    other.copy.read(&other.copy.files_in(folder)[0])
}

#[test]
fn config() {
    every(|suite, action| {
        let victim = Victim::of(suite);
        let name = "config/config";
        // A bit of the repository id.
        let text = String::from_utf8(victim.copy.read(name)).expect("UTF-8");
        let at = text.find("id = ").expect("an id") + 20;
        apply(&victim, action, name, at, &foreign(name));
        let run = victim.check(true);
        let fine = match action {
            // The last byte is a line end, or at worst a letter of the last value.
            Action::CutOne => run.code == 0,
            Action::Flip => [44, 90].contains(&run.code),
            Action::Swapped => run.code == 44,
            Action::CutHalf | Action::Missing => run.code == 90,
        };
        assert!(fine, "{}: {}", run.code, run.stderr);
        victim.rules();
    });
}

#[test]
fn key() {
    every(|suite, action| {
        let victim = Victim::of(suite);
        let name = victim.copy.files_in("keys")[0].clone();
        let size = victim.copy.read(&name).len();
        apply(&victim, action, &name, size / 2, &foreign(&name));
        let codes = victim.rules();
        let right: &[i32] = match action {
            Action::Missing | Action::Swapped => &[44],
            // The last byte is a line end.
            Action::CutOne => &[0],
            Action::Flip | Action::CutHalf => &[52, 90],
        };
        assert!(codes.iter().all(|code| right.contains(code)), "{codes:?}");
    });
}

/// Any damage of the index is a reason to read the packs instead, and nothing is lost.
#[test]
fn index_fragment() {
    every(|suite, action| {
        for at in 0..3 {
            let victim = Victim::of(suite);
            let fragments = victim.copy.files_in("index");
            let name = &fragments[at];
            let other = victim.copy.read(&fragments[(at + 1) % fragments.len()]);
            let size = victim.copy.read(name).len();
            apply(&victim, action, name, size / 2, &other);
            assert!(victim.rules().iter().all(|code| *code == 0), "fragment {at}");
            // A lost fragment is not noticed by its name, and nothing needs it.
            if action != Action::Missing {
                assert_eq!(victim.check(false).code, 113, "fragment {at}");
            }
        }
    });
}

/// Pointers are empty files: they can be lost, hidden, or name something else.
#[test]
fn archive_pointer() {
    for suite in SUITES {
        let victim = Victim::of(suite);
        let (first, second) = (&victim.case.archives[0], &victim.case.archives[1]);
        let name = format!("archives/{}", first.id);
        victim.copy.remove(&name);
        victim.extract(first).run.expect(31);
        victim.extract(second).run.expect(0);
        // Stale: as it was when the archive had been deleted.
        victim.copy.write(&format!("{name}.del"), b"");
        victim.extract(first).run.expect(31);
        // Swapped: it names a chunk that is no archive, or nothing at all.
        for id in
            [victim.first(Use::Content).id, victim.first(Use::List).id, victim.first(Use::Stream).id, "ab".repeat(32)]
        {
            let victim = Victim::of(suite);
            victim.copy.write(&format!("archives/{id}"), b"");
            let run = packtrain_tests::command::Call::new(["extract", "-n", "-r"])
                .args([victim.copy.path()])
                .args([format!("aid:{id}")])
                .opening(victim.case)
                .run()
                .expect(90);
            assert!(run.stderr.contains(&id), "{}", run.stderr);
            assert!(victim.case.archives.iter().all(|archive| victim.extract(archive).run.code == 0));
            assert_eq!(victim.check(false).code, 113);
        }
    }
}

/// Each part of each object of each pack, one bit each.
#[test]
fn every_part_of_every_object() {
    let mut all = Vec::new();
    for suite in SUITES {
        for (number, (object, what)) in Victim::of(suite).uses().into_iter().enumerate() {
            let parts = [
                ("magic", object.offset + 3),
                ("version", object.offset + 8),
                ("id", object.offset + 20),
                ("metadata size", object.offset + 41),
                ("payload size", object.offset + 45),
                ("metadata", object.metadata()),
                ("payload", object.payload()),
            ];
            all.extend(parts.map(|(part, at)| (suite, number, object.clone(), what, part, at)));
        }
    }
    spread(
        &all,
        |(suite, number, _, what, part, _)| format!("{suite}: object {number} ({what:?}), {part}"),
        |(suite, _, object, what, part, at)| {
            let victim = Victim::of(suite);
            victim.copy.flip(&object.pack, *at, 0x10);
            let codes = victim.rules();
            assert_hit(&victim, *what, &codes);
            if *what == Use::Content {
                victim.content_is_named(object);
            }
            // The pack no longer has the hash that is its name.
            let quick = victim.check(false);
            assert_eq!(quick.code, 113, "{part}");
            assert!(quick.stderr.contains(&object.pack), "{}", quick.stderr);
        },
    );
}

fn assert_hit(victim: &Victim, what: Use, codes: &[i32]) {
    let hit = if what == Use::Archive { 90 } else { 113 };
    assert!(
        codes.contains(&hit) && codes.iter().all(|code| [0, hit].contains(code)),
        "{what:?}: {codes:?} in {}",
        victim.case.name
    );
}

/// Whole packs: cut, lost, or with the content of another.
#[test]
fn packs() {
    let all: Vec<_> = SUITES
        .into_iter()
        .flat_map(|suite| ACTIONS.map(|action| (suite, action)))
        .flat_map(|pair| (0..4).map(move |pack| (pair, pack)))
        .collect();
    spread(
        &all,
        |((suite, action), pack)| format!("{suite} pack {pack} {action:?}"),
        |((suite, action), pack)| {
            let victim = Victim::of(suite);
            let packs = victim.copy.files_in("packs");
            let name = &packs[*pack];
            let objects: Vec<_> = victim.uses().into_iter().filter(|(object, _)| object.pack == *name).collect();
            let other = victim.copy.read(&packs[(pack + 1) % packs.len()]);
            apply(&victim, *action, name, 0, &other);
            let codes = victim.rules();
            assert!(
                codes.iter().any(|code| *code != 0) && codes.iter().all(|code| [0, 90, 113].contains(code)),
                "{codes:?}"
            );
            let only_content = objects.iter().all(|(_, what)| *what == Use::Content);
            if only_content && *action == Action::Missing {
                objects.iter().for_each(|(object, _)| victim.content_is_named(object));
            }
            assert_ne!(victim.check(false).code, 0);
        },
    );
}

/// `--on-damage` decides: zeros, the file left out, or the end of the run.
#[test]
fn policies_for_damaged_content() {
    let victim = Victim::of(SUITES[0]);
    let object = victim.first(Use::Content);
    victim.copy.flip(&object.pack, object.payload(), 1);
    let archive = &victim.case.archives[0];
    let path = crate::victim::chunks(archive)
        .into_iter()
        .find(|(_, chunks)| chunks[..].iter().any(|(id, _)| *id == object.id))
        .expect("a file")
        .0;
    for (policy, code, there) in [("zero", 113, true), ("skip", 113, false), ("stop", 90, false)] {
        for jobs in ["1", "8"] {
            let temp = packtrain_tests::folder::Temp::new();
            let call =
                packtrain_tests::command::Call::new(["extract", "-C", ".", "--on-damage", policy, "-j", jobs, "-r"]);
            let run = call
                .args([victim.copy.path()])
                .args([archive.spec()])
                .opening(victim.case)
                .within(temp.path())
                .run()
                .expect(code);
            assert!(run.stderr.contains(&path), "{policy}: {}", run.stderr);
            let file = temp.path().join(&path);
            assert_eq!(file.exists(), there, "{policy}");
            if there {
                assert!(
                    std::fs::read(&file).expect("a file").iter().all(|byte| *byte == 0),
                    "zeros stand for the damage"
                );
            }
        }
    }
    // A stream stops by default, as nothing can mark the place in it.
    let cat = |policy: &[&str]| {
        let call = packtrain_tests::command::Call::new(["cat", "-r"])
            .args([victim.copy.path()])
            .args([archive.spec().as_str(), &path])
            .args(policy);
        call.opening(victim.case).run()
    };
    cat(&[]).expect(90);
    let zeros = cat(&["--on-damage", "zero"]).expect(113);
    assert!(!zeros.stdout.is_empty() && zeros.stdout.iter().all(|byte| *byte == 0));
}
