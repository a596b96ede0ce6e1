//! Every byte of a repository flipped, one at a time: never wrong content with exit code 0.
//!
//! The repository is real; only its key is sealed again with the least cost, so that ten thousand
//! runs take seconds. Runs are inside this process, through a store that changes one byte.

use packtrain::store::LocalStore;
use packtrain_tests::cases;
use packtrain_tests::folder::Temp;
use packtrain_tests::inside::{Inside, settings};
use packtrain_tests::middlemen::{Fault, Faulty};
use packtrain_tests::repository::Copy;
use packtrain_tests::snapshot::{self, Closeness};
use packtrain_tests::spread::spread;
use packtrain_tests::tree;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The largest repository whose every byte is flipped.
const SIZE_MAX: usize = 15 << 10;
/// All bits of every byte at this distance are flipped too.
const STRIDE: usize = 7;

/// Distance of flipped bytes in an index that is mostly empty. It is no divisor of a bucket's length.
const INDEX_STRIDE: usize = 11;

/// A file, a byte in it, and the bits to change.
type Flip = (String, u64, u8);

/// Every byte of every file, with one low or one high bit; of some bytes all bits.
fn flips(copy: &Copy) -> Vec<Flip> {
    let mut all = Vec::new();
    let mut total = 0;
    for name in copy.files() {
        let size = copy.read(&name).len();
        total += size;
        // The index of Borg 1.x is mostly empty: not each of its empty buckets is of interest.
        for at in (0..size).step_by(if name.starts_with("index.") { INDEX_STRIDE } else { 1 }) {
            all.push((name.clone(), at as u64, if at % 2 == 0 { 0x01 } else { 0x80 }));
            if at % STRIDE == 0 {
                all.push((name.clone(), at as u64, 0xff));
            }
        }
    }
    let index: usize = copy.files().iter().filter(|name| name.starts_with("index.")).map(|n| copy.read(n).len()).sum();
    let expected = total - index + index.div_ceil(INDEX_STRIDE);
    assert!(expected > 4096 && expected < SIZE_MAX, "{expected} bytes");
    assert_eq!(all.iter().map(|(name, at, _)| (name, at)).collect::<std::collections::BTreeSet<_>>().len(), expected);
    all
}

fn every_byte(case: &str, log: &str) {
    let case = cases::named(case);
    let copy = Copy::of(case);
    let passphrase = if case.json.get("mode").is_some_and(|mode| mode == "none") { "" } else { "test" };
    let whole = |name: &str, fault: Fault| Inside {
        store: Arc::new(Faulty::new(LocalStore::open(&copy.path()).expect("a copy"), name, fault)),
        passphrase,
        settings: settings(1, 0, 1 << 20),
        report: None,
    };
    // What is right, as the outside tool says, and as the digest that every run is compared with.
    let mut right = BTreeMap::new();
    for archive in &case.archives {
        let temp = Temp::new();
        let outcome = whole("", Fault::Missing).extract(&archive.id, &[], temp.path());
        assert_eq!(outcome.code, 0);
        let expected = tree::kept(&archive.file("expect").expect("a tree"));
        tree::assert_same(&expected, &tree::print(temp.path(), &[]), &archive.name);
        right.insert(archive.id.clone(), snapshot::take(temp.path(), Closeness::Restored));
    }
    let harmless = AtomicU64::new(0);
    let codes: Mutex<BTreeMap<u8, u64>> = Mutex::default();
    let temp = Temp::new();
    let number = AtomicU64::new(0);
    let all = flips(&copy);
    spread(
        &all,
        |(name, at, mask)| format!("{name} byte {at} ^ {mask:#04x}"),
        |(name, at, mask)| {
            let run = whole(name, Fault::Flip(*at, *mask));
            for archive in &case.archives {
                let folder = number.fetch_add(1, Ordering::Relaxed).to_string();
                let target = temp.folder(&folder);
                let outcome = run.extract(&archive.id, &[], &target);
                *codes.lock().expect("no panic here").entry(outcome.code).or_default() += 1;
                if outcome.code == 0 {
                    harmless.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(
                        snapshot::take(&target, Closeness::Restored),
                        right[&archive.id],
                        "exit code 0 with a wrong tree"
                    );
                }
                temp.clear(&folder);
            }
        },
    );
    // A flip in the index or in what nobody reads costs nothing; a flip in a pack or the key does.
    let codes = codes.into_inner().expect("no panic here");
    let packs: usize = copy.files_in(log).iter().map(|name| copy.read(name).len()).sum();
    let runs = all.len() as u64 * case.archives.len() as u64;
    let hit = runs - harmless.into_inner();
    assert!(hit as usize > packs / 2, "too few flips did harm: {hit} of {runs}");
    assert!(codes.keys().all(|code| [0, 2, 31, 42, 44, 52, 90, 113].contains(code)), "exit codes {codes:?}");
    let usual: &[u8] = if passphrase.is_empty() { &[0, 90, 113] } else { &[0, 52, 90, 113] };
    assert!(usual.iter().all(|code| codes.contains_key(code)), "exit codes {codes:?}");
}

#[test]
fn every_byte_of_an_encrypted_repository() {
    every_byte("borg2/suite-aes256-ocb-blake3", "packs");
}

#[test]
fn every_byte_of_an_authenticated_repository() {
    every_byte("borg2/suite-authenticated-sha256", "packs");
}

#[test]
fn every_byte_of_an_encrypted_log() {
    every_byte("borg1/key-one-line", "data");
}

#[test]
fn every_byte_of_a_plain_log() {
    every_byte("borg1/mode-none", "data");
}

/// Opening with the passphrase's real cost: each kind of byte of a real key, flipped.
#[test]
fn the_real_key() {
    let case = cases::named("borg2/suite-chacha20-poly1305-sha256");
    let key =
        packtrain_tests::folder::files(&case.repo()).into_iter().find(|name| name.starts_with("keys/")).expect("a key");
    let size = std::fs::metadata(case.repo().join(&key)).expect("a key").len();
    let some: Vec<u64> = (0..size).step_by(61).collect();
    spread(
        &some,
        |at| format!("byte {at}"),
        |at| {
            let store = Faulty::new(LocalStore::open(&case.repo()).expect("a case"), &key, Fault::Flip(*at, 0x01));
            let run =
                Inside { store: Arc::new(store), passphrase: "test", settings: settings(1, 0, 1 << 20), report: None };
            let temp = Temp::new();
            let code = run.extract(&case.archives[0].id, &[], temp.path()).code;
            if code == 0 {
                let expected = tree::kept(&case.archives[0].file("expect").expect("a tree"));
                tree::assert_same(&expected, &tree::print(temp.path(), &[]), "exit code 0");
            }
        },
    );
}
