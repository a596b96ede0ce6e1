//! Objects, packs and index entries that only a hostile or broken key holder writes: all of them
//! are authentic. Each is refused quickly, blamed exactly, and leaves the rest intact.

use packtrain::extract::{self, OnDamage, Options, Overwrite};
use packtrain::messages::{Messages, Wishes};
use packtrain::opened::Opened;
use packtrain::target::Policy;
use packtrain_core::base::Secret;
use packtrain_core::formats::Which;
use packtrain_core::objects::Method;
use packtrain_core::plan::select::Selection;
use packtrain_core::platform::{Codec, CodecError, Decoder};
use packtrain_tests::inside::settings;
use packtrain_tests::writer::item::chunk_list;
use packtrain_tests::writer::{Id, Item, Object, Packing, Ran, Slot, Stage, Value, Writer, hex};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A file whose one chunk is this object, between two good ones.
fn around(writer: &mut Writer, id: Id, size: u32) -> Stage {
    let items = [writer.file("before", b"before"), Item::file(b"bad", &[(id, size)]), writer.file("after", b"after")];
    writer.archive("a", &items);
    Stage::of(writer)
}

/// Only `bad` is damaged: named with its chunk, filled with zeros; within a short time.
#[track_caller]
fn assert_only_bad(stage: &Stage, id: &Id, size: usize, why: &str) -> Ran {
    let started = Instant::now();
    let ran = stage.extract();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!((ran.code, ran.blamed()), (113, vec![(113, "bad")]), "{}", ran.report);
    let (_, _, text) = &ran.warnings[0];
    assert!(text.contains(&hex(id)) && text.contains("bytes 0 to") && text.contains(why), "{text}");
    assert!(ran.read("bad") == vec![0; size], "the damaged range is zeros");
    assert_eq!((ran.read("before"), ran.read("after")), (b"before".to_vec(), b"after".to_vec()));
    assert_eq!(ran.statuses["bad"], "damaged");
    ran
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    core::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(len)
    .collect()
}

#[test]
fn a_wrong_hash_is_found_though_the_tag_holds() {
    let mut writer = Writer::default();
    let id = writer.chunk_id(b"what it should be");
    writer.put(&Object { id: Some(id), ..Object::new(b'F', b"what is really in") });
    let stage = around(&mut writer, id, 17);
    assert_only_bad(&stage, &id, 17, "content does not match its chunk id");
}

#[test]
fn sizes_in_metadata_that_lie() {
    for (size, packing, why) in [
        (Some(6), Packing::None, "decompressed length"),
        (Some(4), Packing::Lz4, "decompressed length"),
        (Some(u64::from(u32::MAX)), Packing::Lz4, "decompressed length"),
        // Beyond the range of the field at all.
        (Some(1 << 32), Packing::None, "object metadata is malformed"),
    ] {
        let mut writer = Writer::default();
        let plain = b"content, content, content, content, content".repeat(3);
        let id = writer.put(&Object { size, ..Object::new(b'F', &plain).packed(packing) });
        let stage = around(&mut writer, id, plain.len() as u32);
        assert_only_bad(&stage, &id, plain.len(), why);
    }
}

#[test]
fn metadata_that_is_none() {
    let mut deep = vec![0x81, 0xa1, b'x'];
    deep.extend(vec![0x91; 60_000]);
    deep.push(0);
    let map = |pairs| Value::map(pairs).encode();
    let whole = || {
        vec![("type", Value::text("F")), ("ctype", Value::Int(0)), ("csize", Value::Int(7)), ("size", Value::Int(7))]
    };
    let changed = |key: &'static str, value: Value| {
        let mut pairs = whole();
        pairs.retain(|(known, _)| *known != key);
        pairs.push((key, value));
        map(pairs)
    };
    for (metadata, why) in [
        (Vec::new(), "metadata is malformed"),
        (vec![0xc0], "metadata is malformed"),
        (deep, "metadata is malformed"),
        (map(whole()).into_iter().chain([0]).collect(), "metadata is malformed"),
        (changed("type", Value::text("FF")), "metadata is malformed"),
        (changed("ctype", Value::Int(4)), "unknown compression type 4"),
        (changed("ctype", Value::Int(256)), "metadata is malformed"),
        (changed("csize", Value::Int(6)), "sizes are inconsistent"),
        (changed("csize", Value::Int(-1)), "metadata is malformed"),
        (changed("psize", Value::Int(8)), "metadata is malformed"),
    ] {
        let mut writer = Writer::default();
        let id = writer.put(&Object { metadata: Some(metadata), ..Object::new(b'F', b"seven b") });
        let stage = around(&mut writer, id, 7);
        assert_only_bad(&stage, &id, 7, why);
    }
}

#[test]
fn a_zstd_frame_that_promises_too_much() {
    // Content size 2^40, then one raw block of three bytes.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    bomb.extend((1u64 << 40).to_le_bytes());
    bomb.extend([0x19, 0, 0, b'a', b'b', b'c']);
    // A window of 2^41 bytes, no content size.
    let window = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8][..], &[0x19, 0, 0, b'a', b'b', b'c']].concat();
    // 20 MiB of zeros in a few bytes, where three are expected.
    let zeros = {
        let mut out = vec![0; 1 << 16];
        let len = zstd_safe::compress(out.as_mut_slice(), &vec![0u8; 20 << 20], 3).unwrap();
        out.truncate(len);
        out
    };
    for frame in [bomb, window, zeros] {
        for size in [Some(3), None] {
            let mut writer = Writer::default();
            let id = writer.put(&Object { size, ..Object::new(b'F', b"abc").packed(Packing::Raw(3, frame.clone())) });
            let stage = around(&mut writer, id, 3);
            assert_only_bad(&stage, &id, 3, "decompress");
        }
    }
}

#[test]
fn an_xz_stream_with_a_dictionary_of_a_gigabyte() {
    // "abc" in one LZMA2 chunk; the dictionary's size is the byte at 16, after it a CRC-32 of the block header.
    let mut stream = unhex(
        "fd377a585a000000ff12d941020021011c00000010cf58cc01000261626300000001130303a560d806729e7a010000000000595a",
    );
    assert_eq!(stream[16], 0x1c, "64 MiB");
    stream[16] = 0x24;
    let sum = crc32(&stream[12..20]);
    stream[20..24].copy_from_slice(&sum.to_le_bytes());
    for size in [Some(3), None] {
        let mut writer = Writer::default();
        let id = writer.put(&Object { size, ..Object::new(b'F', b"abc").packed(Packing::Raw(2, stream.clone())) });
        let stage = around(&mut writer, id, 3);
        assert_only_bad(&stage, &id, 3, "decompression failed");
    }
    // The same with 64 MiB is what `xz -9` writes, and is read.
    let mut writer = Writer::default();
    let usual = unhex(
        "fd377a585a000000ff12d941020021011c00000010cf58cc01000261626300000001130303a560d806729e7a010000000000595a",
    );
    let id = writer.put(&Object::new(b'F', b"abc").packed(Packing::Raw(2, usual)));
    let ran = around(&mut writer, id, 3).extract();
    assert_eq!((ran.code, ran.read("bad")), (0, b"abc".to_vec()));
}

#[test]
fn content_may_be_an_object_of_any_type() {
    // Deduplication does not look at types: a backed-up file may equal a metadata chunk (7.2).
    for kind in *b"ACSF" {
        let mut writer = Writer::default();
        let id = writer.put(&Object::new(kind, b"as content"));
        let ran = around(&mut writer, id, 10).extract();
        assert_eq!((ran.code, ran.read("bad")), (0, b"as content".to_vec()));
    }
}

#[test]
fn content_does_not_pass_for_an_archive() {
    // The pointer is only a file name: anybody can make one.
    let mut writer = Writer::default();
    let items = [writer.file("f", b"real")];
    writer.archive("real", &items);
    let map = Value::map(writer.archive_map("forged", &[])).encode();
    let forged = writer.put(&Object::new(b'F', &map));
    writer.archives.push(forged);
    let mut stage = Stage::of(&mut writer);
    let ran = stage.run(settings(2, 0, 48 << 20), &[], &stage.target());
    assert_eq!(ran.code, 90, "{}", ran.report);
    stage.archive = hex(&writer.archives[0]);
    let ran = stage.extract();
    assert_eq!((ran.code, ran.read("f")), (0, b"real".to_vec()));
}

#[test]
fn lists_and_streams_of_another_type_leave_a_gap() {
    // `C` in place of `S` and the other way round, each under its own, right id.
    let mut writer = Writer::default();
    let good = [writer.file("good", b"good")];
    let good: Vec<u8> = good.iter().flat_map(Item::encode).collect();
    let right = writer.put(&Object::new(b'S', &good));
    let wrong = writer.put(&Object::new(b'F', &Item::folder(b"wrong").encode()));
    writer.archive_of_ids("a", &[wrong, right]);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!((ran.code, ran.read("good")), (113, b"good".to_vec()));
    assert!(ran.meta("wrong").is_none());
    // A list that is an `S`.
    let mut writer = Writer::default();
    let list = Value::List(vec![Value::Blob(right.to_vec())]).encode();
    let list = writer.put(&Object::new(b'S', &list));
    let map = Value::map(writer.archive_map("a", &[list]));
    writer.archive_of_map(&map);
    assert_eq!(Stage::of(&mut writer).extract().code, 113);
}

#[test]
fn a_stream_that_ends_inside_an_item() {
    let mut writer = Writer::default();
    let items = [writer.file("whole", b"whole"), writer.file("cut", b"cut")];
    let stream: Vec<u8> = items.iter().flat_map(Item::encode).collect();
    for cut in [1, 20, items[1].encode().len() - 1] {
        writer.archive_of_stream("a", &stream[..stream.len() - cut]);
        let ran = Stage::of(&mut writer).extract();
        assert_eq!((ran.code, ran.read("whole")), (113, b"whole".to_vec()), "{}", ran.report);
        assert!(ran.meta("cut").is_none());
    }
    // Whole items, then one byte.
    writer.archive_of_stream("a", &[&stream[..], &[0x83]].concat());
    let ran = Stage::of(&mut writer).extract();
    assert_eq!((ran.code, ran.read("whole"), ran.read("cut")), (113, b"whole".to_vec(), b"cut".to_vec()));
}

#[test]
fn the_first_item_after_a_gap_may_span_chunks() {
    // Piece 1 is lost. Piece 2 ends one item and starts a long one, which ends in piece 3.
    let mut writer = Writer::default();
    let long = writer
        .file("long", b"long")
        .with("xattrs", Value::Map(vec![(Value::Blob(b"user.x".to_vec()), Value::Blob(noise(1, 3000)))]));
    let [a, b, c] = ["a", "b", "c"].map(|path| writer.file(path, path.as_bytes()).encode());
    let stream = [&a[..], &b, &long.encode(), &c].concat();
    let (first, second) = (a.len() + 10, a.len() + b.len() + 1000);
    let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
    writer.archive_of_pieces("all", &pieces);
    let lost = writer.chunk_id(pieces[0]);
    writer.lose(&lost);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!(ran.code, 113, "{}", ran.report);
    assert_eq!(ran.read("c"), b"c");
    assert_eq!(
        ran.meta("long").map(|meta| meta.len()),
        Some(4),
        "an intact item is not lost with its neighbour: {}",
        ran.report
    );
}

#[test]
fn whole_items_before_a_gap_are_not_lost_with_it() {
    // Piece 2 ends the long item that piece 1 began and holds more whole ones; piece 3 is lost.
    let mut writer = Writer::default();
    let long = writer
        .file("long", b"long")
        .with("xattrs", Value::Map(vec![(Value::Blob(b"user.x".to_vec()), Value::Blob(noise(1, 3000)))]));
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|path| writer.file(path, path.as_bytes()).encode());
    let stream = [&long.encode()[..], &a, &b].concat();
    let pieces = [&stream[..2900], &stream[2900..], &c, &d];
    writer.archive_of_pieces("all", &pieces);
    let lost = writer.chunk_id(&c);
    writer.lose(&lost);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!(ran.code, 113, "{}", ran.report);
    let there = ["long", "a", "b", "c", "d"].map(|path| ran.meta(path).is_some());
    assert_eq!(there, [true, true, true, false, true], "{}", ran.report);
}

/// Item streams in which an item could start nearly everywhere, and each would be long.
#[test]
fn searching_for_an_item_takes_time_in_proportion() {
    // Records of a chunk list, laid out so that another list starts inside each of them and reads
    // the same bytes shifted; every 60 bytes stands the header of an item that begins with one.
    let mut record = [0; 60];
    record[..3].copy_from_slice(&[0x93, 0xc4, 32]);
    record[35] = 1;
    record[36..38].copy_from_slice(&[0xc4, 22]);
    record[47..60].copy_from_slice(b"\x81\xa6chunks\xdd\xff\xff\xff\xff");
    let stream = record.repeat((4 << 20) / 60);
    let mut writer = Writer::default();
    writer.cut = 16 << 20;
    let last = writer.file("last", b"last").encode();
    writer.archive_of_stream("a", &[&[0xc1][..], &stream, &last].concat());
    let stage = Stage::of(&mut writer);
    let started = Instant::now();
    let ran = stage.run(settings(1, 0, 48 << 20), &[], &stage.target());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!((ran.code, ran.read("last")), (113, b"last".to_vec()), "{}", ran.report);
}

#[test]
fn index_entries_that_lie_are_not_believed() {
    let lie = |change: &dyn Fn(&mut Slot)| {
        let mut writer = Writer::default();
        let items =
            [writer.file("before", b"before"), writer.file("f", &noise(3, 5000)), writer.file("after", b"after")];
        writer.archive("a", &items);
        let id = writer.chunk_id(&noise(3, 5000));
        writer.slots.iter_mut().filter(|slot| slot.id == id).for_each(change);
        let ran = Stage::of(&mut writer).extract();
        // The object is where it is; an index that lies only costs a scan (format note 9.3).
        assert_eq!(ran.code, 0, "{}", ran.report);
        assert!(ran.read("f") == noise(3, 5000) && ran.read("before") == b"before" && ran.read("after") == b"after");
    };
    lie(&|slot| slot.offset += 1);
    lie(&|slot| slot.offset = 0);
    lie(&|slot| slot.offset = u32::MAX);
    lie(&|slot| slot.len -= 1);
    lie(&|slot| slot.len += 1);
    lie(&|slot| slot.len = 0);
    lie(&|slot| slot.len = 10);
    lie(&|slot| slot.len = u32::MAX);
    lie(&|slot| slot.pack = 99);
    lie(&|slot| slot.pack = 1);
}

#[test]
fn a_thousand_chunks_at_any_number_of_workers() {
    let mut writer = Writer::default();
    let data = noise(5, 1_000_000);
    let packings = [Packing::None, Packing::Lz4, Packing::Zstd(3)];
    let mut chunks = Vec::new();
    for (at, piece) in data.chunks(1000).enumerate() {
        if at % 100 == 99 {
            writer.next_pack();
        }
        let plain = [piece, &vec![at as u8; 500]].concat();
        chunks.extend(writer.content_as(&plain, 4096, &packings[at % 3]));
    }
    let expected: Vec<u8> =
        data.chunks(1000).enumerate().flat_map(|(at, piece)| [piece, &vec![at as u8; 500]].concat()).collect();
    let mut items = vec![Item::file(b"big", &chunks)];
    for (at, chunk) in chunks.iter().enumerate() {
        items.push(Item::file(format!("f{at}").as_bytes(), &[*chunk]));
    }
    writer.archive("a", &items);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!((ran.code, ran.statuses.len()), (0, 1001), "{}", ran.report);
    assert!(ran.read("big") == expected);
    assert!((0..1000).all(|at| ran.read(&format!("f{at}")) == expected[at * 1500..(at + 1) * 1500]));
}

#[test]
fn chunk_lists_with_a_third_part_are_read() {
    let mut writer = Writer::default();
    let id = writer.put(&Object::new(b'F', b"old style"));
    let triple = Value::List(vec![Value::Blob(id.to_vec()), Value::Int(9), Value::Int(42)]);
    let item = Item::file(b"f", &[]).with("chunks", Value::List(vec![triple])).with("size", Value::Int(9));
    assert_eq!(chunk_list(&[]), Value::List(Vec::new()));
    writer.archive("a", &[item]);
    let ran = Stage::of(&mut writer).extract();
    assert_eq!((ran.code, ran.read("f")), (0, b"old style".to_vec()));
}

/// LZ4, but some input makes it panic, as a fault in a codec would.
struct Brittle;

const TRIGGER: &[u8] = b"this one panics";

impl Codec for Brittle {
    fn method(&self) -> Method {
        Method::Lz4
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Self)
    }
}

impl Decoder for Brittle {
    fn decode(&mut self, source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
        assert!(!source.windows(TRIGGER.len()).any(|window| window == TRIGGER), "a codec's panic, on purpose");
        packtrain_core::codecs::Lz4.decoder().decode(source, target)
    }

    fn decode_prefix(&mut self, source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
        packtrain_core::codecs::Lz4.decoder().decode_prefix(source, target)
    }
}

#[test]
fn a_codec_that_panics_is_told_and_nothing_is_called_restored_that_is_not() {
    let mut writer = Writer::default();
    let bad = [TRIGGER, &[b'x'; 2000]].concat();
    let mut items: Vec<Item> = (0..30u8).map(|at| writer.file(&format!("f{at}"), &[at; 2000])).collect();
    items.insert(10, writer.file("bad", &bad));
    items.insert(10, Item::link(b"link", b"f1"));
    items.insert(20, Item::folder(b"folder"));
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    for jobs in [1, 2, 8] {
        let target = stage.target();
        let reports = packtrain_tests::folder::Temp::new();
        let report = reports.path().join("report");
        let code = packtrain_tests::writer::stage::in_time(|| {
            let store = std::sync::Arc::new(packtrain::store::LocalStore::open(&stage.repository()).unwrap());
            let mut opened = Opened::with_passphrase(store, &Secret::new(Vec::new())).unwrap();
            opened.kit = opened.kit.with(&Brittle);
            let archives = opened.drive(opened.source.archives(&opened.port, Which::Live)).unwrap();
            let state = archives[0].state.as_ref().unwrap();
            let options = Options {
                policy: Policy::of_this_process(),
                on_damage: OnDamage::Zero,
                overwrite: Overwrite::Always,
                verify: false,
            };
            let file = std::io::BufWriter::new(std::fs::File::create(&report).unwrap());
            let mut messages = Messages::new(Wishes { report: Some(file), ..Wishes::default() });
            let (all, never) = (Selection::new(0), AtomicBool::new(false));
            let result = extract::extract(
                &opened,
                state,
                &all,
                &target,
                &options,
                &settings(jobs, 0, 48 << 20),
                &mut messages,
                &never,
            );
            messages.finish("restored", result.err().as_ref())
        });
        assert_eq!(code, 113, "with {jobs} workers");
        let report = std::fs::read_to_string(report).unwrap();
        let entries: Vec<serde_json::Value> = report.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let status = |path: &str| {
            entries
                .iter()
                .find(|line| line["type"] == "entry" && line["path"] == path)
                .map(|line| line["status"].as_str().unwrap_or_default())
        };
        assert!(matches!(status("bad"), Some("damaged" | "failed" | "left out")), "{report}");
        // Whatever is called restored is so; whatever is not is named with a status of its own.
        for at in 0..30u8 {
            let path = format!("f{at}");
            let whole = std::fs::read(target.join(&path)).is_ok_and(|bytes| bytes == [at; 2000]);
            match status(&path) {
                Some("restored") => assert!(whole, "{path} is said to be restored\n{report}"),
                Some(_) => {}
                None => panic!("{path} is not accounted for\n{report}"),
            }
        }
        match status("link") {
            Some("restored") => assert!(std::fs::read_link(target.join("link")).is_ok(), "{report}"),
            found => assert!(found.is_some(), "the link is not accounted for\n{report}"),
        }
        assert!(target.join("folder").is_dir());
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// CRC-32 as `.xz` uses it (The .xz File Format 1.2.1, section 6).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}
