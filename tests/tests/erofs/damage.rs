//! Damaged images: no panic, no hang, nothing without an end, and the source as it was.

use packtrain::store::LocalStore;
use packtrain_tests::folder::Temp;
use packtrain_tests::images;
use packtrain_tests::inside::{Inside, settings};
use packtrain_tests::middlemen::{Fault, Faulty};
use packtrain_tests::spread::spread;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Extracts and checks with each of `bytes` of the image flipped, and returns how often each code came.
fn flip(name: &str, bytes: &[u64]) -> BTreeMap<u8, u64> {
    let image = images::named(name);
    let id = super::whole::id(image);
    let codes: Mutex<BTreeMap<u8, u64>> = Mutex::default();
    let temp = Temp::new();
    let number = AtomicU64::new(0);
    spread(
        bytes,
        |at| format!("{name} byte {at}"),
        |at| {
            let mask = if at % 2 == 0 { 0x01 } else { 0x80 };
            let store = LocalStore::at(image.place.clone()).expect("the image");
            let run = Inside {
                store: Arc::new(Faulty::new(store, "image", Fault::Flip(*at, mask))),
                passphrase: "",
                settings: settings(1, 0, 1 << 20),
                report: None,
            };
            let folder = number.fetch_add(1, Ordering::Relaxed).to_string();
            let target = temp.folder(&folder);
            let outcome = run.extract(&id, &["text", "links", "sizes", "owned", "special", "sparse"], &target);
            *codes.lock().expect("no panic here").entry(outcome.code).or_default() += 1;
            temp.clear(&folder);
            run.check();
        },
    );
    codes.into_inner().expect("no panic here")
}

/// Every byte of metadata, and some of content, of images of every kind.
#[test]
fn flipped_bytes_are_survived() {
    for name in
        ["by-1.5-legacy", "everything", "48bit-zstd-64k", "metabox", "lzma-4k", "dedupe-deflate", "chunk4k-indexes"]
    {
        let len = std::fs::metadata(&images::named(name).place.path).expect("the image").len();
        // The superblock and what follows it byte by byte, everything else at a distance that is no
        // divisor of a record's length.
        let bytes: Vec<u64> =
            (1024..1160).chain((1160..len).step_by(if name == "by-1.5-legacy" { 61 } else { 211 })).collect();
        let codes = flip(name, &bytes);
        let known = [0, 1, 2, 15, 31, 90, 101, 104, 105, 109, 113];
        assert!(codes.keys().all(|code| known.contains(code)), "{name}: {codes:?}");
        assert!(codes.get(&90).is_some_and(|count| *count > 50), "{name}: {codes:?}");
    }
}
