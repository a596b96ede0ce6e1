//! Rows about damage: what is bad is named exactly, everything else is restored.

use crate::noise;
use packtrain::extract::OnDamage;
use packtrain::line::Settings;
use packtrain::messages::{Messages, Wishes};
use packtrain::opened::Opened;
use packtrain::store::{LocalStore, Store};
use packtrain::stream::sink::Concat;
use packtrain_core::base::Secret;
use packtrain_core::formats::Which;
use packtrain_core::plan::select::Selection;
use packtrain_tests::inside::settings;
use packtrain_tests::writer::stage::in_time;
use packtrain_tests::writer::{Id, Item, Object, Packing, Ran, Stage, Suite, Writer, hex};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The content of all files, one after the other, as `extract --stdout` writes it; with zeros in
/// place of what is damaged.
pub fn stream(store: Arc<dyn Store>, archive: &str, settings: Settings) -> (u8, Vec<u8>) {
    in_time(|| {
        let opened = Opened::with_passphrase(store, &Secret::new(Vec::new())).unwrap();
        let archives = opened.drive(opened.source.archives(&opened.port, Which::Live)).unwrap();
        let state = archives.iter().find(|known| known.id.to_hex() == archive).unwrap().state.as_ref().unwrap();
        let mut out = Vec::new();
        let mut messages = Messages::new(Wishes::default());
        let never = AtomicBool::new(false);
        let mut sink = Concat::new(&mut out);
        let all = Selection::new(0);
        let result = packtrain::stream::stream(
            &opened,
            state,
            &all,
            &mut sink,
            OnDamage::Zero,
            &settings,
            &mut messages,
            &never,
        );
        drop(sink);
        (messages.finish("written", result.err().as_ref()), out)
    })
}

/// Three files of three chunks each, in noise.
const CHUNK: usize = 50_000;

fn three(writer: &mut Writer) -> [Vec<u8>; 3] {
    let data = [1, 2, 3].map(|seed| noise(seed, 3 * CHUNK));
    let items: Vec<Item> = data
        .iter()
        .zip(["one", "two", "three"])
        .map(|(data, path)| Item::file(path.as_bytes(), &writer.content(data, CHUNK)))
        .collect();
    writer.archive("t", &items);
    data
}

/// `data` with these chunks of it as zeros.
fn zeroed(data: &[u8], chunks: &[usize]) -> Vec<u8> {
    let mut data = data.to_vec();
    for chunk in chunks {
        data[chunk * CHUNK..(chunk + 1) * CHUNK].fill(0);
    }
    data
}

#[track_caller]
fn assert_blames(ran: &Ran, path: &str, from: usize, to: usize, id: &Id) {
    let fits = |text: &str| text.contains(&format!("bytes {from} to {to} ")) && text.contains(&hex(id));
    let found = ran.warnings.iter().any(|(code, at, text)| (*code, at.as_str()) == (113, path) && fits(text));
    assert!(found, "bytes {from} to {to} of {path} are not blamed on {}:\n{}", hex(id), ran.report);
}

#[test]
fn row_05_a_flipped_bit_costs_one_chunk() {
    for suite in Suite::ALL {
        let mut writer = Writer::new(suite, "");
        let data = three(&mut writer);
        let id = writer.chunk_id(&data[1][CHUNK..2 * CHUNK]);
        let bytes = writer.bytes_mut(&id);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        let slot = writer.slot(&id).unwrap();
        let pack = writer.pack_name(slot.pack);
        let ran = Stage::of(&mut writer).extract();
        assert_eq!((ran.code, ran.blamed()), (113, vec![(113, "two")]));
        assert_blames(&ran, "two", CHUNK, 2 * CHUNK, &id);
        let (_, _, text) = &ran.warnings[0];
        assert!(text.contains(&format!("in {pack} at {}", slot.offset)) && text.contains("(stage open)"), "{text}");
        assert!(
            ran.read("one") == data[0] && ran.read("two") == zeroed(&data[1], &[1]) && ran.read("three") == data[2]
        );
        assert_eq!(
            [&ran.statuses["one"], &ran.statuses["two"], &ran.statuses["three"]],
            ["restored", "damaged", "restored"]
        );
    }
}

#[test]
fn row_48_an_envelope_of_forty_bytes() {
    for suite in Suite::ALL {
        // The data slot, then the metadata slot; sizes in the header agree.
        for slot in ["data", "meta"] {
            let mut writer = Writer::new(suite, "");
            let bad = b"cut short, cut short, cut short, cut short, cut short, cut short";
            let (id, whole) = writer.object(&Object::new(b'F', bad));
            let meta_len = u32::from_le_bytes(whole[41..45].try_into().unwrap()) as usize;
            let (meta, data) = whole[49..].split_at(meta_len);
            let (meta, data) = if slot == "data" { (meta, &data[..40]) } else { (&meta[..40], data) };
            let mut cut = whole[..41].to_vec();
            cut.extend((meta.len() as u32).to_le_bytes());
            cut.extend((data.len() as u32).to_le_bytes());
            cut.extend(meta);
            cut.extend(data);
            let before = writer.file("before", b"before");
            writer.put_bytes(id, &cut);
            let items = [before, Item::file(b"bad", &[(id, bad.len() as u32)]), writer.file("after", b"after")];
            writer.archive("t", &items);
            let ran = Stage::of(&mut writer).extract();
            assert_eq!((ran.code, ran.blamed()), (113, vec![(113, "bad")]), "{}", ran.report);
            assert_blames(&ran, "bad", 0, bad.len(), &id);
            assert_eq!((ran.read("before"), ran.read("after")), (b"before".to_vec(), b"after".to_vec()));
        }
    }
}

/// Five small files in one pack.
fn five(writer: &mut Writer) -> Vec<Id> {
    let contents: Vec<Vec<u8>> = (0..5).map(|at| noise(at, 1000)).collect();
    let items: Vec<Item> = contents.iter().enumerate().map(|(at, data)| writer.file(&format!("f{at}"), data)).collect();
    let ids = contents.iter().map(|data| writer.chunk_id(data)).collect();
    writer.archive("t", &items);
    ids
}

/// Extracts, with the index and by scanning; only these of the five files are damaged.
#[track_caller]
fn assert_five(writer: &mut Writer, bad: &[u64]) {
    for fragments in [1, 0] {
        writer.fragments = fragments;
        let stage = Stage::of(writer);
        let ran = stage.extract();
        let blamed: Vec<String> = bad.iter().map(|at| format!("f{at}")).collect();
        assert_eq!(
            ran.blamed(),
            blamed.iter().map(|path| (113, path.as_str())).collect::<Vec<_>>(),
            "{} fragments: {}",
            fragments,
            ran.report
        );
        for at in 0..5 {
            let expected = if bad.contains(&at) { vec![0; 1000] } else { noise(at, 1000) };
            assert!(ran.read(&format!("f{at}")) == expected, "f{at}");
        }
        // A check says so too, whatever it has to read.
        let store = LocalStore::open(&stage.repository()).unwrap();
        let inside = packtrain_tests::inside::Inside {
            store: Arc::new(store),
            passphrase: "",
            settings: settings(2, 0, 48 << 20),
            report: None,
        };
        assert_eq!(inside.check().code, 113);
    }
}

#[test]
fn row_49_a_pack_with_a_bad_header() {
    // (a) the magic of object 2 of 5 is destroyed.
    let mut writer = Writer::default();
    let ids = five(&mut writer);
    writer.bytes_mut(&ids[1])[0] = 0;
    assert_five(&mut writer, &[1]);
    // (b) its size runs past the end.
    let mut writer = Writer::default();
    let ids = five(&mut writer);
    writer.bytes_mut(&ids[1])[45..49].copy_from_slice(&0x0100_0000u32.to_le_bytes());
    assert_five(&mut writer, &[1]);
    // (c) the pack is cut by one byte: only its last object suffers.
    let mut writer = Writer::default();
    let ids = five(&mut writer);
    let pack = writer.slot(&ids[4]).unwrap().pack;
    writer.packs[pack].pop();
    assert_five(&mut writer, &[4]);
}

#[test]
fn row_52_left_over_and_stale_fragments() {
    // One of three fragments is gone: what it named is found in the packs.
    let mut writer = Writer::default();
    let data = three(&mut writer);
    writer.fragments = 3;
    let stage = Stage::of(&mut writer);
    let mut names: Vec<_> =
        std::fs::read_dir(stage.repository().join("index")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for gone in &names {
        let kept = std::fs::read(gone).unwrap();
        std::fs::remove_file(gone).unwrap();
        let ran = stage.extract();
        assert!(ran.code == 0 && ran.read("two") == data[1] && ran.read("three") == data[2], "{}", ran.report);
        std::fs::write(gone, kept).unwrap();
    }
    // An old fragment is there again, naming packs and places that are no more.
    let mut writer = Writer::default();
    let data = three(&mut writer);
    let honest = writer.slots.clone();
    for slot in &mut writer.slots {
        (slot.pack, slot.offset) = (slot.pack + 50, slot.offset + 7);
    }
    let stale = writer.sealed_fragments().remove(0);
    writer.slots = honest.clone();
    for slot in &mut writer.slots {
        slot.offset += 100;
    }
    let moved = writer.sealed_fragments().remove(0);
    writer.slots = honest;
    let stage = Stage::of(&mut writer);
    for fragment in [stale, moved] {
        let name = hex(&packtrain_tests::writer::store_hash(&fragment));
        std::fs::write(stage.repository().join("index").join(name), fragment).unwrap();
        let ran = stage.extract();
        assert!(ran.code == 0 && ran.read("one") == data[0] && ran.read("three") == data[2], "{}", ran.report);
    }
}

#[test]
fn row_54_a_chunk_that_is_nowhere() {
    let mut writer = Writer::default();
    let data = three(&mut writer);
    let id = writer.chunk_id(&data[1][..CHUNK]);
    writer.lose(&id);
    let stage = Stage::of(&mut writer);
    let ran = stage.extract();
    assert_eq!((ran.code, ran.blamed()), (113, vec![(113, "two")]));
    assert_blames(&ran, "two", 0, CHUNK, &id);
    assert!(ran.warnings[0].2.contains("is missing"));
    for (jobs, memory) in [(1, 1), (8, 48 << 20)] {
        let (code, bytes) =
            stream(Arc::new(LocalStore::open(&stage.repository()).unwrap()), &stage.archive, settings(jobs, 0, memory));
        assert!(code == 113 && bytes == [&data[0][..], &zeroed(&data[1], &[0]), &data[2]].concat());
    }
    // Where damage stops the stream, it stops: nothing after it comes out, and nobody waits.
    let words = ["cat".into(), crate::source(&stage), "two".into()];
    let call = packtrain_tests::command::Call::new(words).env("PACKTRAIN_PASSPHRASE", "");
    let run = in_time(|| call.run());
    assert_eq!((run.code, run.stdout.len()), (90, 0), "{}", run.stderr);
}

#[test]
fn row_58_objects_under_each_others_ids() {
    for suite in Suite::ALL {
        let mut writer = Writer::new(suite, "");
        let data = three(&mut writer);
        let ids = [writer.chunk_id(&data[0][..CHUNK]), writer.chunk_id(&data[2][CHUNK..2 * CHUNK])];
        // Everything behind the header, which names the chunk; then the whole objects.
        for from in [49, 0] {
            let [one, two] = ids.map(|id| writer.bytes_mut(&id).to_vec());
            writer.bytes_mut(&ids[0])[from..].copy_from_slice(&two[from..]);
            writer.bytes_mut(&ids[1])[from..].copy_from_slice(&one[from..]);
            let ran = Stage::of(&mut writer).extract();
            if from == 49 {
                assert_eq!((ran.code, ran.blamed()), (113, vec![(113, "one"), (113, "three")]), "{}", ran.report);
                assert_blames(&ran, "one", 0, CHUNK, &ids[0]);
                assert_blames(&ran, "three", CHUNK, 2 * CHUNK, &ids[1]);
                assert!(ran.read("one") == zeroed(&data[0], &[0]) && ran.read("three") == zeroed(&data[2], &[1]));
            } else {
                // Now the index lies and nothing is lost.
                assert!(ran.code == 0 && ran.read("one") == data[0] && ran.read("three") == data[2], "{}", ran.report);
            }
            for (id, whole) in ids.iter().zip([one, two]) {
                writer.bytes_mut(id).copy_from_slice(&whole);
            }
        }
    }
}

#[test]
fn row_63_blame_falls_on_the_right_pieces_every_time() {
    let mut writer = Writer::default();
    let pieces: Vec<Vec<u8>> = (0..64).map(|at| noise(at, 3000)).collect();
    let items: Vec<Item> = pieces
        .iter()
        .enumerate()
        .map(|(at, data)| Item::file(format!("f{at}").as_bytes(), &writer.content_as(data, 3000, &Packing::Zstd(1))))
        .collect();
    writer.archive("t", &items);
    let bad = [17, 29].map(|at: usize| writer.chunk_id(&pieces[at]));
    for id in &bad {
        *writer.bytes_mut(id).last_mut().unwrap() ^= 1;
    }
    let places = bad.map(|id| writer.slot(&id).unwrap().offset);
    let stage = Stage::of(&mut writer);
    for _ in 0..20 {
        let target = stage.target();
        let ran = stage.run(settings(8, 0, 48 << 20), &[], &target);
        assert_eq!((ran.code, ran.blamed()), (113, vec![(113, "f17"), (113, "f29")]));
        for ((_, _, text), (id, place)) in ran.warnings.iter().zip(bad.iter().zip(places)) {
            assert!(text.contains(&hex(id)) && text.contains(&format!(" at {place} ")), "{text}");
        }
        packtrain_tests::folder::remove(&target);
    }
}

#[test]
fn row_67_damage_ends_in_bounded_time() {
    let mut writer = Writer::default();
    let data: Vec<Vec<u8>> = (0..50).map(|at| noise(at, 10_000)).collect();
    let items: Vec<Item> = data
        .iter()
        .enumerate()
        .map(|(at, data)| Item::file(format!("f{at:02}").as_bytes(), &writer.content(data, 4000)))
        .collect();
    writer.archive("t", &items);
    let bad = [3, 11, 12, 30, 49];
    for at in bad {
        let id = writer.chunk_id(&data[at][4000..8000]);
        writer.bytes_mut(&id)[1000] ^= 0x80;
    }
    // With room for one job at a time, and with plenty; the stage itself runs both.
    let stage = Stage::of(&mut writer);
    let ran = stage.extract();
    let names = bad.map(|at| format!("f{at:02}"));
    assert_eq!(ran.blamed(), names.iter().map(|path| (113, path.as_str())).collect::<Vec<_>>());
    for (jobs, readers) in [(8, 0), (8, 2), (1, 0)] {
        let ran = stage.run(settings(jobs, readers, 1), &[], &stage.target());
        assert_eq!((ran.code, ran.warnings.len()), (113, 5));
    }
}
