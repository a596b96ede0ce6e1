//! Rows about what is restored: links, times, holes, attributes, targets that are not empty.

use crate::noise;
use packtrain::store::LocalStore;
use packtrain_tests::folder::{Eyes, Temp};
use packtrain_tests::inside::settings;
use packtrain_tests::middlemen::{Delaying, Recording};
use packtrain_tests::writer::stage::{as_nobody, plant};
use packtrain_tests::writer::{Item, Object, Packing, Stage, Value, Writer};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::Arc;
use std::time::Duration;

const MEMORY: u64 = 48 << 20;

#[test]
fn row_01_only_the_second_name_of_a_hard_link() {
    let mut writer = Writer::default();
    let data = noise(1, 300_000);
    let chunks = writer.content(&data, 70_000);
    let items = [
        Item::folder(b"a"),
        Item::file(b"a/f", &chunks).group(1),
        Item::folder(b"b"),
        Item::file(b"b/f", &chunks).group(1),
    ];
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    let ran = stage.extract_onto(&["b"], |_| ());
    assert_eq!((ran.code, ran.meta("b/f").unwrap().nlink()), (0, 1));
    assert!(ran.read("b/f") == data && ran.meta("a").is_none());
    // With a source that takes its time.
    let store = Delaying::new(LocalStore::open(&stage.repository()).unwrap(), Duration::from_millis(5), 1);
    let ran = stage.run_store(Arc::new(store), settings(8, 0, 1), &["b"], &stage.target());
    assert!(ran.code == 0 && ran.read("b/f") == data);
}

#[test]
fn row_02_only_the_second_name_of_a_linked_pipe() {
    let mut writer = Writer::default();
    writer.archive(
        "t",
        &[Item::new(b"a/p", 0o010_644).group(1), Item::folder(b"b"), Item::new(b"b/p", 0o010_644).group(1)],
    );
    let ran = Stage::of(&mut writer).extract_onto(&["b"], |_| ());
    assert_eq!(ran.code, 0, "{}", ran.report);
    assert!(ran.meta("b/p").unwrap().file_type().is_fifo() && ran.meta("a").is_none());
}

#[test]
fn row_20_a_piece_of_the_stream_is_all_zeros() {
    let mut writer = Writer::default();
    writer.packing = Packing::None;
    writer.cut = 10_000;
    let zeros = |item: Item| {
        item.with("xattrs", Value::Map(vec![(Value::Blob(b"trusted.z".to_vec()), Value::Blob(vec![0; 60_000]))]))
    };
    let items =
        [writer.file("a", b"a"), zeros(writer.file("b", b"b")), zeros(writer.file("c", b"c")), writer.file("d", b"d")];
    writer.archive("t", &items);
    let zero = writer.chunk_id(&[0; 10_000]);
    assert!(writer.slot(&zero).is_some(), "a piece is all zeros");
    let ran = Stage::of(&mut writer).extract();
    // Values of that size may be refused by the file system; the items are all there.
    assert!(matches!(ran.code, 0 | 104..=106), "{}", ran.report);
    for path in ["a", "b", "c", "d"] {
        assert_eq!(ran.read(path), path.as_bytes());
    }
}

#[test]
fn row_22_obfuscated_content() {
    let mut writer = Writer::default();
    let mut items = vec![Item::file(b"f0", &[])];
    let mut expected = vec![("f0".to_string(), Vec::new())];
    for (size, padding) in [(1, 0), (1, 4096), (4095, 1000), (3 << 20, 70_000)] {
        for packing in [Packing::None, Packing::Lz4, Packing::Zstd(3)] {
            for stated in [true, false] {
                let plain = [vec![b'a'; size / 2], noise(items.len() as u64, size - size / 2)].concat();
                let size_stated = stated.then_some(size as u64);
                let id = writer.put(&Object {
                    padding: Some(padding),
                    size: size_stated,
                    ..Object::new(b'F', &plain).packed(packing.clone())
                });
                let path = format!("f{}", items.len());
                items.push(Item::file(path.as_bytes(), &[(id, size as u32)]));
                expected.push((path, plain));
            }
        }
    }
    writer.archive("t", &items);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!((ran.code, ran.warnings.len()), (0, 0), "{}", ran.report);
    assert!(expected.iter().all(|(path, plain)| ran.read(path) == *plain && ran.statuses[path] == "restored"));
}

#[test]
fn row_25_times_before_1970() {
    let mut writer = Writer::default();
    let at = |item: Item, seconds, nanos| {
        item.with("mtime", Value::long_time(seconds, nanos)).with("atime", Value::long_time(seconds - 1, nanos))
    };
    let items = [
        at(writer.file("half", b"x"), -1, 500_000_000),
        at(writer.file("long", b"x"), -2_000_000_000, 1),
        at(Item::folder(b"d"), -1, 999_999_999),
        at(Item::link(b"l", b"x"), -86_400, 0),
    ];
    writer.archive("t", &items);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!(ran.code, 0, "{}", ran.report);
    for (path, seconds, nanos) in
        [("half", -1, 500_000_000), ("long", -2_000_000_000, 1), ("d", -1, 999_999_999), ("l", -86_400, 0)]
    {
        let meta = ran.meta(path).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (seconds, nanos), "{path}");
    }
}

#[test]
fn row_30_attributes_in_the_order_that_works() {
    let eyes = Eyes::here();
    if !(eyes.root && eyes.attributes && eyes.flags) {
        return;
    }
    let mut writer = Writer::default();
    let full = |item: Item| {
        item.with("uid", Value::Int(1234))
            .with("gid", Value::Int(2345))
            .with("mtime", Value::time(1_000_000_000, 42))
            .with("xattrs", Value::Map(vec![(Value::Blob(b"user.x".to_vec()), Value::Blob(b"v".to_vec()))]))
            .with("bsdflags", Value::Int(2))
    };
    let items = [
        full(Item::folder(b"d").mode(0o042_750)),
        full(writer.file("d/setuid", b"x").mode(0o104_755)),
        full(writer.file("d/one", b"linked")).group(1),
        full(writer.file("d/two", b"linked")).group(1),
    ];
    writer.archive("t", &items);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!((ran.code, ran.warnings.len()), (0, 0), "{}", ran.report);
    for (path, mode) in [("d", 0o2750), ("d/setuid", 0o4755), ("d/one", 0o644), ("d/two", 0o644)] {
        let meta = ran.meta(path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid(), meta.gid()), (mode, 1234, 2345), "{path}");
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_000_000_000, 42), "{path}");
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(ran.target.join(path), "user.x", &mut value), Ok(1), "{path}");
        let at = std::fs::File::open(ran.target.join(path)).unwrap();
        let flags = rustix::fs::ioctl_getflags(&at).unwrap();
        assert!(flags.contains(rustix::fs::IFlags::IMMUTABLE), "{path}");
    }
    assert_eq!(ran.meta("d/one").unwrap().ino(), ran.meta("d/two").unwrap().ino());
}

#[test]
fn row_65_attributes_that_are_refused_are_grouped() {
    let eyes = Eyes::here();
    if !(eyes.root && eyes.attributes) {
        return;
    }
    let mut writer = Writer::default();
    let items: Vec<Item> = (0..200)
        .map(|number| {
            let name = |name: &str| (Value::Blob(name.into()), Value::Blob(b"v".to_vec()));
            writer
                .file(&format!("f{number}"), &noise(number, 500))
                .with("xattrs", Value::Map(vec![name("user.fine"), name("security.no"), name("trusted.no")]))
        })
        .collect();
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    for (jobs, memory) in [(1, MEMORY), (8, MEMORY), (8, 1)] {
        let target = stage.target();
        std::os::unix::fs::chown(&target, Some(65_534), Some(65_534)).unwrap();
        let ran = as_nobody(|| stage.run(settings(jobs, 0, memory), &[], &target));
        assert_eq!((ran.code, ran.warnings.len()), (105, 400), "{}", ran.report);
        assert!((0..200).all(|number| ran.read(&format!("f{number}")) == noise(number, 500)));
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(target.join("f199"), "user.fine", &mut value), Ok(1));
    }
    // To a person it is one line for each attribute, however many files have it.
    let target = stage.target();
    std::os::unix::fs::chown(&target, Some(65_534), Some(65_534)).unwrap();
    let words = ["extract", &crate::source(&stage), "-C", target.to_str().unwrap()].map(String::from);
    let run = packtrain_tests::command::Call::as_nobody(words).env("PACKTRAIN_PASSPHRASE", "").run().expect(105);
    assert_eq!(
        run.stderr.lines().filter(|line| line.contains("200 entries: extended attribute")).count(),
        2,
        "{}",
        run.stderr
    );
    assert!(run.stderr.lines().count() < 8, "{}", run.stderr);
}

#[test]
fn row_79_an_existing_longer_file_is_cut() {
    for sparse in [false, true] {
        let mut writer = Writer::default();
        let data = if sparse { vec![0; 100_000] } else { noise(1, 100_000) };
        let items = [writer.file("f", &data)];
        writer.archive("t", &items);
        let ran = Stage::of(&mut writer)
            .extract_onto(&[], |target| std::fs::write(target.join("f"), noise(2, 100_100)).unwrap());
        assert!(ran.code == 0 && ran.read("f") == data);
    }
}

#[test]
fn row_80_twice_over_the_same_target() {
    let mut writer = Writer::default();
    let items = [
        Item::folder(b"d").mode(0o040_555),
        writer.file("d/f", b"content"),
        writer.file("d/one", b"linked").group(1),
        writer.file("d/two", b"linked").group(1),
        Item::link(b"d/l", b"f"),
        Item::new(b"d/p", 0o010_600),
    ];
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    for jobs in [1, 8] {
        let target = stage.target();
        let tree = || packtrain_tests::snapshot::take(&target, packtrain_tests::snapshot::Closeness::Restored);
        assert_eq!(stage.run(settings(jobs, 0, MEMORY), &[], &target).code, 0);
        let first = tree();
        assert_eq!(stage.run(settings(jobs, 0, MEMORY), &[], &target).code, 0);
        assert_eq!(first, tree());
        // What was restored becomes a link to something to keep: it is replaced, not followed.
        let keep = stage.outside().join("keep");
        std::fs::remove_file(target.join("d/f")).unwrap();
        plant(&target.join("d/f"), &keep);
        std::fs::remove_file(target.join("d/one")).unwrap();
        plant(&target.join("d/one"), &keep);
        let ran = stage.run(settings(jobs, 0, MEMORY), &[], &target);
        assert_eq!((ran.code, first), (0, tree()), "{}", ran.report);
        assert_eq!(std::fs::read(keep).unwrap(), b"keep this\n");
    }
}

#[test]
fn row_84_a_hole_is_not_fetched() {
    let mut writer = Writer::default();
    const CHUNK: usize = 16 << 20;
    let zeros = writer.content(&vec![0; CHUNK], CHUNK);
    let slot = writer.slot(&zeros[0].0).unwrap();
    let tail = writer.content(b"the end", 100);
    let chunks: Vec<_> = core::iter::repeat_n(zeros[0], 16).chain(tail).collect();
    writer.archive("t", &[Item::file(b"hole", &chunks)]);
    let stage = Stage::of(&mut writer);
    let (store, reads) = Recording::new(LocalStore::open(&stage.repository()).unwrap());
    let ran = stage.run_store(Arc::new(store), settings(2, 0, MEMORY), &[], &stage.target());
    assert_eq!(ran.code, 0, "{}", ran.report);
    let meta = ran.meta("hole").unwrap();
    assert_eq!(meta.len(), 16 * CHUNK as u64 + 7);
    assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    let place = u64::from(slot.offset)..u64::from(slot.offset + slot.len);
    let reads = reads.lock().unwrap();
    let fetched = reads
        .get(&writer.pack_name(slot.pack))
        .into_iter()
        .flatten()
        .filter(|(at, len)| *at < place.end && at + len > place.start)
        .count();
    assert!(fetched <= 1, "the zero chunk was fetched {fetched} times");
}

#[test]
fn row_62_chunks_that_arrive_out_of_order() {
    let mut writer = Writer::default();
    let data = noise(4, 1_000_000);
    let chunks = writer.content(&data, 1000);
    writer.archive("t", &[Item::file(b"f", &chunks)]);
    let stage = Stage::of(&mut writer);
    for (jobs, memory) in [(1, MEMORY), (8, MEMORY), (8, 1), (16, 100_000)] {
        let store = || {
            Arc::new(Delaying::new(
                LocalStore::open(&stage.repository()).unwrap(),
                Duration::from_millis(3),
                jobs as u64,
            ))
        };
        let ran = stage.run_store(store(), settings(jobs, 0, memory), &[], &stage.target());
        assert!(ran.code == 0 && ran.read("f") == data, "{}", ran.report);
        let (code, bytes) = crate::damage::stream(store(), &stage.archive, settings(jobs, 0, memory));
        assert!(code == 0 && bytes == data, "to a pipe, with {jobs} workers in {memory} bytes");
    }
}

#[test]
fn row_60_lz4_chunks_many_times_over() {
    let mut writer = Writer::default();
    let mut chunks = Vec::new();
    let mut expected = Vec::new();
    for at in 0..64 {
        // Compressible, and each unlike the others.
        let plain: Vec<u8> = noise(at, 1 << 15).iter().flat_map(|byte| [*byte; 8]).collect();
        chunks.extend(writer.content_as(&plain, 1 << 20, &Packing::Lz4));
        expected.extend(plain);
    }
    writer.archive("t", &[Item::file(b"f", &chunks)]);
    let stage = Stage::of(&mut writer);
    let temp = Temp::new();
    for round in 0..12 {
        let target = temp.folder(&round.to_string());
        let ran = stage.run(settings(8, 0, MEMORY), &[], &target);
        assert!(ran.code == 0 && ran.read("f") == expected, "round {round}");
        temp.clear(&round.to_string());
    }
}
