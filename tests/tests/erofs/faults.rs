//! Images that nobody should have written, one for each public fault. The names say which row of the
//! public record a test is for.

use packtrain_tests::command::{Call, Run, binary};
use packtrain_tests::folder::Temp;
use packtrain_tests::image_writer::{
    BLOCK, CHUNKS, COMPACT, DATA, FULL, INLINE, ImageWriter, Node, PLAIN, dirents, nid,
};
use packtrain_tests::images;
use std::time::{Duration, Instant};

/// What listing, checking and extracting give, and the folder that was extracted to.
struct Runs {
    list: Run,
    check: Run,
    extract: Run,
    temp: Temp,
}

impl Runs {
    fn of(image: &[u8]) -> Self {
        let temp = Temp::new();
        std::fs::write(temp.path().join("image"), image).expect("a file");
        // Built first, if need be, as that is no part of the time.
        binary();
        let started = Instant::now();
        let run = |arguments: &[&str]| Call::new(arguments).within(temp.path()).run();
        let (list, check) = (run(&["list", "--short", "image"]), run(&["check", "--verify-data", "image"]));
        let extract = run(&["extract", "image", "-C", "out"]);
        for run in [&list, &check, &extract] {
            assert!(!run.stderr.contains("panicked") && run.code < 128, "{}: {}", run.code, run.stderr);
        }
        assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
        Self { list, check, extract, temp }
    }

    /// All three with this exit code, and these words in what check says.
    #[track_caller]
    fn expect(&self, code: i32, words: &str) -> &Self {
        for run in [&self.list, &self.check, &self.extract] {
            assert_eq!(run.code, code, "{}", run.stderr);
        }
        assert!(self.check.stderr.contains(words), "{}", self.check.stderr);
        self
    }

    #[track_caller]
    fn has(&self, path: &str, content: &[u8]) -> &Self {
        let read = std::fs::read(self.temp.path().join("out").join(path)).expect(path);
        assert!(read == content, "{path}: {} bytes", read.len());
        self
    }
}

/// An image of one file `f` and a good one, `good`.
fn one(incompat: u32, node: Node, beside: &[u8], change: impl FnOnce(&mut ImageWriter)) -> Vec<u8> {
    let mut writer = ImageWriter::new(incompat);
    writer.folder(0, 0, &[(b"f", nid(1)), (b"good", nid(2))]);
    writer.node(1, node, beside).node(2, Node::file(INLINE, 4, u32::MAX), b"good");
    change(&mut writer);
    writer.finish()
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn the_writer_writes_what_the_reader_reads() {
    let image = one(0, Node::file(PLAIN, 5000, DATA), &[], |writer| {
        writer.block(&[b'a'; BLOCK]);
        writer.block(&[b'b'; 904]);
    });
    let runs = Runs::of(&image);
    runs.expect(0, "").has("good", b"good").has("f", &[[b'a'; BLOCK].as_slice(), &[b'b'; 904]].concat());
    assert_eq!(runs.list.text(), ".\nf\ngood\n");
}

#[test]
fn row_86_a_loop_of_folders_is_reported() {
    let mut writer = ImageWriter::default();
    writer.folder(0, 0, &[(b"a", nid(1)), (b"good", nid(2))]);
    writer.folder(1, 0, &[(b"b", nid(1)), (b"c", nid(0))]);
    writer.node(2, Node::file(INLINE, 4, u32::MAX), b"good");
    let runs = Runs::of(&writer.finish());
    runs.expect(113, "a/b: not restored: the folder is the same as one met before").has("good", b"good");
    assert!(runs.check.stderr.contains("a/c: not restored"));
}

#[test]
fn row_87_a_packed_inode_with_fragments_is_rejected() {
    let whole = (1u64 << 63).to_le_bytes();
    let image = one(0x21, Node::file(FULL, 10, 0), &whole, |writer| {
        writer.put(1120, &nid(3).to_le_bytes());
        writer.node(3, Node::file(FULL, 100, 0), &whole);
    });
    Runs::of(&image).expect(113, "a fragment where there is no packed inode").has("good", b"good");
}

#[test]
fn row_88_an_interlaced_extent_is_no_longer_than_its_block() {
    // Header: advice INTERLACED; one PLAIN entry at block DATA, 5000 bytes of content in 2 lclusters.
    let index = |size: u64, blocks: &[[u16; 4]]| {
        let mut beside = words(&[0, 0x10]);
        beside.extend([0; 8]);
        beside.extend(blocks.iter().flatten().flat_map(|word| word.to_le_bytes()));
        one(1, Node::file(FULL, size, 0), &beside, |writer| {
            writer.block(&[b'x'; BLOCK]);
        })
    };
    let image = index(5000, &[[0, 0, DATA as u16, 0], [2, 0, 1, 1]]);
    Runs::of(&image).expect(113, "an extent is longer than what is stored").has("good", b"good");
    // The same with as much as fits is fine: 100 bytes of a block of x.
    let image = index(100, &[[0, 0, DATA as u16, 0]]);
    Runs::of(&image).expect(0, "").has("f", &[b'x'; 100]);
}

#[test]
fn row_90_deep_and_long_paths_end() {
    let mut writer = ImageWriter::default();
    let name = [b'n'; 255];
    // As many levels as there are inodes before the data.
    let levels = u64::from(DATA) - 3;
    for level in 0..levels {
        writer.folder(level, level.saturating_sub(1), &[(&name, nid(level + 1))]);
    }
    writer.node(levels, Node::file(INLINE, 4, u32::MAX), b"leaf");
    let runs = Runs::of(&writer.finish());
    runs.expect(0, "");
    assert_eq!(runs.list.text().lines().last().expect("a line").len(), levels as usize * 256 - 1);
    let mut writer = ImageWriter::default();
    writer.bytes.resize(400 * BLOCK, 0);
    for level in 0..300 {
        writer.folder(level, level.saturating_sub(1), &[(&name, nid(level + 1))]);
    }
    Runs::of(&writer.finish()).expect(109, "it is too long or too deep");
}

#[test]
fn row_91_and_94_sizes_without_end_are_rejected() {
    for size in [1 << 40, u64::MAX, 1 << 63] {
        // Extent records: one raw record of 4096 bytes is said to be all of the content.
        let beside = [words(&[1, 0x05]), vec![0; 8], words(&[BLOCK as u32, DATA * BLOCK as u32, 0, 0])].concat();
        let node = Node::file(FULL, size, 0);
        let image = one(0x80, node, &beside, |writer| {
            writer.block(b"x");
        });
        Runs::of(&image).expect(113, "more than the limit of").has("good", b"good");
    }
    for mode in [0o120_777, 0o040_755] {
        let node = Node { mode, ..Node::file(INLINE, u64::MAX, u32::MAX) };
        Runs::of(&one(0, node, b"x", |_| {})).expect(113, "more than the limit of").has("good", b"good");
    }
}

#[test]
fn row_93_and_112_distances_are_not_followed() {
    // Distances of 0 in every entry: a compact pack and a full index.
    let stream = lzzzz_block(&[b'z'; 8192]);
    let compact = [words(&[0, 0]), words(&[1 << 12 | 2 << 28, DATA - 1])].concat();
    let image = one(1, Node::file(COMPACT, 8192, 0), &compact, |writer| {
        writer.padded(&stream);
    });
    Runs::of(&image).expect(0, "").has("f", &[b'z'; 8192]);
    let full = [words(&[0, 0, 0, 0]), words(&[1, DATA]), words(&[2, 0])].concat();
    let image = one(1, Node::file(FULL, 8192, 0), &full, |writer| {
        writer.padded(&stream);
    });
    Runs::of(&image).expect(0, "").has("f", &[b'z'; 8192]);
}

fn lzzzz_block(plain: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    lzzzz::lz4::compress_to_vec(plain, &mut stream, lzzzz::lz4::ACC_LEVEL_DEFAULT).expect("it packs");
    stream
}

#[test]
fn row_96_faulty_directory_blocks_cost_themselves_only() {
    let mut writer = ImageWriter::default();
    let good = |name: &[u8]| dirents(&[(name, nid(2))]);
    let mut rising = dirents(&[(b"n1", nid(2)), (b"n2", nid(2))]);
    rising[12 + 8] = 23;
    let mut beyond = dirents(&[(b"o1", nid(2))]);
    beyond[8..10].copy_from_slice(&60_000u16.to_le_bytes());
    let mut odd = dirents(&[(b"p1", nid(2))]);
    odd[8] = 13;
    let first = dirents(&[(b".", nid(1)), (b"..", nid(0)), (b"a", nid(2))]);
    let blocks = [first, rising, beyond, odd, good(b"z")];
    for block in &blocks {
        writer.block(block);
    }
    let size = (blocks.len() * BLOCK) as u64;
    writer.folder(0, 0, &[(b"d", nid(1)), (b"good", nid(2))]);
    writer.node(1, Node { mode: 0o040_755, ..Node::file(PLAIN, size, DATA) }, &[]);
    writer.node(2, Node { links: 4, ..Node::file(INLINE, 4, u32::MAX) }, b"good");
    let runs = Runs::of(&writer.finish());
    runs.expect(113, "d: the directory is malformed").has("good", b"good").has("d/a", b"good").has("d/z", b"good");
    assert_eq!(runs.list.stderr.matches("d: the directory is malformed").count(), 3, "{}", runs.list.stderr);
}

#[test]
fn a_name_that_comes_twice_is_refused() {
    // First as a link that leads out, then as a folder with a file in it.
    let mut writer = ImageWriter::default();
    let top = [dirents(&[(b".", nid(0)), (b"..", nid(0)), (b"x", nid(1))]), dirents(&[(b"x", nid(2)), (b"y", nid(3))])];
    top.iter().for_each(|block| {
        writer.block(block);
    });
    writer.node(0, Node { mode: 0o040_755, ..Node::file(PLAIN, 2 * BLOCK as u64, DATA) }, &[]);
    writer.node(1, Node { mode: 0o120_777, ..Node::file(INLINE, 2, u32::MAX) }, b"..");
    writer.folder(2, 0, &[(b"escaped", nid(3))]);
    writer.node(3, Node::file(INLINE, 4, u32::MAX), b"evil");
    let runs = Runs::of(&writer.finish());
    runs.expect(113, "names are out of order");
    assert!(!runs.temp.path().join("escaped").exists());
}

#[test]
fn row_98_and_99_streams_that_are_short_or_destroyed_are_damage() {
    let pack = |plain: &[u8]| {
        let mut stream = vec![0; 4096];
        let len = zstd_safe::compress(&mut stream[..], plain, 3).expect("it packs");
        stream.truncate(len);
        stream
    };
    let mut broken = pack(&[b'q'; 5000]);
    broken[0] ^= 1;
    for stream in [pack(&[b'q'; 4999]), pack(&[b'q'; 5001]), broken] {
        // zstd alone, its record after the superblock; one head and one more lcluster.
        let beside = [words(&[0, 3 << 16]), words(&[0, 0]), words(&[1, DATA]), words(&[2, 0])].concat();
        let mut image = ImageWriter::new(3);
        image.put(1108, &8u16.to_le_bytes()).put(1152, &[6, 0, 0, 10]);
        image.folder(0, 0, &[(b"f", nid(1)), (b"good", nid(2))]);
        // The header's byte 6 has the algorithm.
        let mut header = beside.clone();
        header[4..8].copy_from_slice(&[0, 0, 3, 0]);
        image.node(1, Node::file(FULL, 5000, 0), &header).node(2, Node::file(INLINE, 4, u32::MAX), b"good");
        image.padded(&stream);
        let runs = Runs::of(&image.finish());
        assert_eq!((runs.list.code, runs.check.code, runs.extract.code), (0, 113, 113), "{}", runs.check.stderr);
        assert!(runs.extract.stderr.contains("f: bytes 0 to 5000 are damaged"), "{}", runs.extract.stderr);
        runs.has("good", b"good").has("f", &[0; 5000]);
    }
}

#[test]
fn row_100_and_115_an_empty_slot_and_an_empty_directory() {
    let image = one(0, Node { mode: 0, ..Node::file(PLAIN, 0, 0) }, &[], |_| {});
    Runs::of(&image).expect(113, "f: the inode is malformed: unknown type").has("good", b"good");
    let image = one(0, Node { mode: 0o040_755, ..Node::file(INLINE, 0, 0) }, &[], |_| {});
    let runs = Runs::of(&image);
    assert_eq!((runs.list.code, runs.extract.code), (0, 0));
    assert!(runs.temp.path().join("out/f").is_dir());
    runs.has("good", b"good");
}

#[test]
fn row_103_shifts_stay_within_their_bounds() {
    // Chunks of 2^43 bytes: one entry is enough for all of the content.
    let image = one(0, Node::file(CHUNKS, 100, 31), &words(&[DATA]), |writer| {
        writer.block(&[b'c'; 100]);
    });
    Runs::of(&image).expect(0, "").has("f", &[b'c'; 100]);
    for bits in [0, 8, 17, 31, 32, 63, 255] {
        let mut writer = ImageWriter::default();
        writer.folder(0, 0, &[]).put(1036, &[bits]);
        Runs::of(&writer.finish()).expect(90, "the block size is not one");
    }
}

#[test]
fn row_105_a_raw_tail_is_no_longer_than_what_is_stored() {
    // ztailpacking: 5 bytes beside the inode for an extent of 9.
    let tail = |size: u64| {
        let head = [words(&[5 << 16, 0x08]), words(&[0, 0]), words(&[0, 0]), b"tails".to_vec()].concat();
        one(0x11, Node::file(FULL, size, 0), &head, |_| {})
    };
    Runs::of(&tail(9)).expect(113, "an extent is longer than what is stored");
    Runs::of(&tail(5)).expect(0, "").has("f", b"tails");
}

#[test]
fn row_107_fragments_beyond_4_gib() {
    // A packed inode of 5 GiB and 16 bytes that is a hole but for its last block.
    let far = 5u64 << 30;
    let image = one(0x21, Node::file(FULL, 16, 0), &(1u64 << 63 | far).to_le_bytes(), |writer| {
        // Chunks of 2^30 bytes (18 more bits): five holes and one block.
        let table = words(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX, DATA]);
        writer.put(1120, &nid(3).to_le_bytes());
        writer.node(3, Node::file(CHUNKS, far + 16, 18), &table);
        writer.block(b"beyond four gigs");
    });
    Runs::of(&image).expect(0, "").has("f", b"beyond four gigs");
}

#[test]
fn row_108_a_plain_file_of_more_than_2_gib() {
    let temp = Temp::new();
    let size = (2u64 << 30) + 1;
    let image = one(0, Node::file(PLAIN, size, DATA), &[], |_| {});
    let path = temp.path().join("image");
    std::fs::write(&path, &image).expect("a file");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the image");
    let end = u64::from(DATA) * BLOCK as u64 + size;
    file.set_len(end).expect("a sparse file");
    std::os::unix::fs::FileExt::write_all_at(&file, b"!", end - 1).expect("its last byte");
    let call = Call::new(["extract", "image", "f", "-C", "out"]).within(temp.path());
    call.run().expect(0);
    let out = std::fs::File::open(temp.path().join("out/f")).expect("the file");
    assert_eq!(out.metadata().expect("its size").len(), size);
    let mut last = [0; 2];
    std::os::unix::fs::FileExt::read_exact_at(&out, &mut last, size - 2).expect("its end");
    assert_eq!(&last, b"\0!");
}

#[test]
fn row_110_a_dictionary_beyond_the_format_is_refused_by_name() {
    let mut bytes = std::fs::read(&images::named("lzma-8m").place.path).expect("the image");
    let at = 1024 + 128 + 2;
    assert_eq!(bytes[at..at + 4], (8u32 << 20).to_le_bytes());
    bytes[at..at + 4].copy_from_slice(&(1u32 << 30).to_le_bytes());
    let writer = ImageWriter { bytes };
    Runs::of(&writer.finish()).expect(90, "LZMA dictionary size is 1073741824, more than the limit of 8388608");
}

#[test]
fn row_117_devices_in_the_wrong_place_are_seen_by_a_manifest() {
    let image = images::named("blobdev");
    let temp = Temp::new();
    Call::new(["check", "--write-manifest", "list"]).args(image.words()).within(temp.path()).run().expect(0);
    let mut other = std::fs::read(&image.place.devices[0]).expect("the device");
    other.rotate_left(BLOCK);
    std::fs::write(temp.path().join("other"), other).expect("a file");
    let words = image.words();
    let run = Call::new(["check", "--manifest", "list", "--device", "other"]).args(&words[..1]).within(temp.path());
    run.run().expect(113);
}

#[test]
fn row_119_what_a_normal_user_cannot_make_is_named() {
    if !packtrain_tests::folder::Eyes::here().root {
        return;
    }
    let image = images::named("plain");
    let temp = Temp::new();
    let out = temp.folder("out");
    std::os::unix::fs::chown(&out, Some(65534), Some(65534)).expect("a folder for nobody");
    let run = Call::as_nobody(["extract", "-C", "out"]).args(image.words()).within(temp.path()).run();
    assert_eq!(run.code, 105, "{}", run.stderr);
    for path in ["special/null", "special/block"] {
        assert!(run.stderr.contains(path), "{path} is not named: {}", run.stderr);
    }
    use std::os::unix::fs::MetadataExt;
    let links = std::fs::metadata(out.join("text")).expect("a file").nlink();
    assert_eq!(links, 3);
    assert!(
        out.join("special/socket").symlink_metadata().is_ok() && out.join("special/fifo").symlink_metadata().is_ok()
    );
}

#[test]
fn row_120_a_wrong_checksum_is_no_success() {
    let temp = Temp::new();
    let mut bytes = std::fs::read(&images::named("zstd-4k").place.path).expect("the image");
    bytes[1090] ^= 1;
    std::fs::write(temp.path().join("image"), bytes).expect("a file");
    let run = |arguments: &[&str]| Call::new(arguments).within(temp.path()).run();
    for command in ["list", "check", "info"] {
        let run = run(&[command, "image"]).expect(90);
        assert!(run.stderr.contains("the checksum of the superblock does not hold"), "{}", run.stderr);
        assert!(run.stderr.contains("--ignore-checksum"), "{}", run.stderr);
    }
    run(&["list", "--ignore-checksum", "image"]).expect(0);
}

#[test]
fn what_is_unknown_or_wrapped_is_refused_by_name() {
    let mut writer = ImageWriter::new(0x200);
    writer.folder(0, 0, &[]);
    Runs::of(&writer.finish()).expect(2, "the image needs the features with bits 0x200");
    let start = |bytes: &[u8]| [bytes, &[0; 8192]].concat();
    Runs::of(&start(&[0x3a, 0xff, 0x26, 0xed])).expect(2, "Android sparse image");
    Runs::of(&start(&[0x1f, 0x8b, 8, 0])).expect(2, "compressed with gzip");
    Runs::of(&start(&[0x28, 0xb5, 0x2f, 0xfd])).expect(2, "compressed with zstd");
    Runs::of(&start(b"nothing")).expect(15, "not a repository or image");
    Runs::of(b"short").expect(15, "not a repository or image");
}

#[test]
fn stated_links_are_counted_by_check() {
    let image = one(0, Node { links: 3, ..Node::file(INLINE, 1, u32::MAX) }, b"x", |_| {});
    let runs = Runs::of(&image);
    assert_eq!((runs.list.code, runs.check.code), (0, 113), "{}", runs.check.stderr);
    let said = "it states 3 names, 1 were found";
    assert!(runs.check.stderr.contains(said), "{}", runs.check.stderr);
    // The tree is walked once, also where every byte is verified.
    assert_eq!(runs.check.stderr.matches(said).count(), 1, "{}", runs.check.stderr);
}
