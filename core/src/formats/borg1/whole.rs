//! Whole repositories, opened from their bytes as a shell would.

use super::config::Config;
use super::envelope::Keys;
use super::log::Log;
use super::mode::Mode;
use super::repository::Repository;
use super::store::MemoryStore;
use super::vectors::{self, sealed};
use super::{Borg1, entry};
use crate::base::{Check, Denied, Error, Id, Kind, Result, Secret};
use crate::formats::{Format, Listed, OpenOptions, Source, Which};
use crate::objects::{ChunkRef, Entry, EntryKind, Role, Unit};
use crate::platform::{Kit, Scratch};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};

const STRICT: OpenOptions = OpenOptions { not_authenticated: false, ignore_checksum: false, parts: false };
const LENIENT: OpenOptions = OpenOptions { not_authenticated: true, ignore_checksum: false, parts: false };

fn opened(store: &MemoryStore, passphrase: &str, key: &str, options: OpenOptions) -> Result<Box<dyn Source>> {
    let passphrase: &'static Secret = Box::leak(Box::new(Secret::new(passphrase.into())));
    let mut locked = store.drive(|port| Borg1.open(port, Kit::empty(), options))?;
    if !key.is_empty() {
        assert!(locked.offer_key(key.as_bytes()));
    }
    let locked: &'static _ = Box::leak(locked);
    store.drive(|port| locked.unlock(port, passphrase))
}

/// Everything that a source holds, as text: names, paths, content; or the first error.
fn told(store: &MemoryStore, source: Box<dyn Source>, which: Which) -> Result<String> {
    let source: &'static dyn Source = Box::leak(source);
    let mut text = String::new();
    for archive in store.drive(|port| source.archives(port, which))? {
        let state: &'static _ = Box::leak(Box::new(archive.state?));
        text.push_str(&format!("{}:", state.name.escape_ascii()));
        let catalog = Box::leak(source.catalog(state));
        while let Some(listed) = store.drive(|port| async { catalog.next(port).await })? {
            match listed {
                Listed::Entry(entry) => {
                    text.push_str(&format!(" {}={}", entry.path.escape_ascii(), content(store, source, &entry)?))
                }
                Listed::Refused { why, .. } => text.push_str(&format!(" ({why})")),
                Listed::Gap(error) => return Err(error),
            }
        }
    }
    Ok(text)
}

fn content(store: &MemoryStore, source: &'static dyn Source, entry: &Entry) -> Result<String> {
    let EntryKind::File(Some(chunks)) = &entry.kind else { return Ok("-".into()) };
    let mut text = String::new();
    for chunk in chunks {
        let plain = decode(store, source, *chunk)?;
        text.push_str(&plain.escape_ascii().collect::<Vec<u8>>().iter().map(|byte| *byte as char).collect::<String>());
    }
    Ok(text)
}

/// The plaintext from the first copy that is good.
fn decode(store: &MemoryStore, source: &'static dyn Source, chunk: ChunkRef) -> Result<Vec<u8>> {
    let mut failed = Vec::new();
    let mut first = None;
    let mut at = source.locate(&chunk);
    loop {
        if at.is_none() {
            let failed: &'static [_] = Vec::leak(failed.clone());
            at = store.drive(|port| source.relocate(port, chunk.id, failed))?;
        }
        let Some(extent) = at.take() else {
            return Err(first.unwrap_or_else(|| Error::new(Kind::Missing("the chunk"))));
        };
        let name = source.opener().object_name(extent.object);
        let mut stored = store.drive(|port| {
            let name: &'static str = String::leak(name);
            port.read(name, extent.offset, extent.len.into())
        })?;
        let unit = Unit { id: chunk.id, at: extent, size: Some(chunk.size), role: Role::Content };
        let mut plain = Vec::new();
        match source.opener().open(&unit, &mut stored, &mut plain, &mut Scratch::new(Kit::empty())) {
            Ok(content) => return Ok(content.bytes(&stored, &plain).to_vec()),
            Err(fault) => first.get_or_insert(fault.error),
        };
        failed.push(extent);
    }
}

fn read(store: &MemoryStore) -> Result<String> {
    told(store, opened(store, "test", "", STRICT)?, Which::Live)
}

#[test]
fn the_vector_is_read() {
    let store = vectors::repository();
    assert_eq!(read(&store).unwrap(), "v: h=hello\\n");
    assert!(store.drive(|port| Borg1.detect(port)).unwrap());
    let source = opened(&store, "test", "", STRICT).unwrap();
    assert_eq!(source.indexed().len(), 4);
    assert!(source.take_notices().iter().all(|notice| !notice.serious));
    let all: Vec<String> = source.facts().into_iter().map(|fact| format!("{}={}", fact.key, fact.value)).collect();
    assert!(all.contains(&"encryption=repokey".into()) && all.contains(&"chunks=3".into()), "{all:?}");
    assert!(source.stored_objects().all(|(name, mut audit)| {
        audit.update(&store.0[&name]);
        audit.finish().is_ok()
    }));
    let wrong = opened(&store, "Test", "", STRICT).err().unwrap();
    assert_eq!(wrong.kind(), &Kind::Denied(Denied::WrongPassphrase));
}

#[test]
fn the_key_may_be_a_file() {
    let mut store = vectors::repository();
    let (config, key) = vectors::CONFIG.split_once("key = ").unwrap();
    let file = format!("BORG_KEY {}\n{}", vectors::REPOSITORY, key.replace('\t', ""));
    store.put("config", config.as_bytes());
    assert_eq!(opened(&store, "test", "", STRICT).err().unwrap().kind(), &Kind::Denied(Denied::NoKey));
    let source = opened(&store, "test", &file, STRICT).unwrap();
    assert_eq!(told(&store, source, Which::Live).unwrap(), "v: h=hello\\n");
}

/// No changed byte ever gives other content; most give an error, some change nothing that is read.
#[test]
fn a_flip_of_any_byte_never_gives_wrong_content() {
    let store = vectors::repository();
    // The key is opened once: that takes its time, on purpose.
    let material = vectors::material(3);
    let config = Config::parse(vectors::CONFIG.as_bytes()).unwrap();
    let read = |store: &MemoryStore| {
        let log = Arc::new(store.drive(|port| Log::open(port, 1000))?);
        let keys = Keys::new(Mode::of(3).unwrap(), &material)?;
        let source = store.drive(|port| Repository::open(port, Kit::empty(), config.clone(), STRICT, keys, log))?;
        told(store, Box::new(source), Which::Live)
    };
    let mut refused = 0;
    for name in ["data/0/0", "data/0/1"] {
        for at in 0..store.0[name].len() {
            let mut other = store.clone();
            other.0.get_mut(name).unwrap()[at] ^= 0x20;
            match read(&other) {
                Ok(text) => assert_eq!(text, "v: h=hello\\n", "{name} {at}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// A repository of mode none from plaintexts, with the manifest and a COMMIT at its end.
fn plain(objects: &[(Id, Vec<u8>)]) -> MemoryStore {
    let mut store = MemoryStore::default();
    let (config, _) = vectors::CONFIG.split_once("key = ").unwrap();
    store.put("config", config.as_bytes());
    let mut segment = entry::MAGIC.to_vec();
    for (id, plain) in objects {
        segment.extend(sealed(0, &[&id.0[..], &[2, 0, 0], plain].concat()));
    }
    store.put("data/0/0", &segment);
    store.put("data/0/1", &[entry::MAGIC.as_slice(), entry::COMMIT].concat());
    store
}

fn object(plain: &[u8]) -> (Id, Vec<u8>) {
    (vectors::keys(2).chunk_id(&[plain]).unwrap(), plain.to_vec())
}

fn raw(bytes: &[u8]) -> Vec<u8> {
    [&[0xda][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn manifest(archives: &[(&str, Id)]) -> (Id, Vec<u8>) {
    let mut map = b"\x83\xa6config\x80\xa7version\x01\xa8archives".to_vec();
    map.push(0x80 | archives.len() as u8);
    for (name, id) in archives {
        map.extend([raw(name.as_bytes()), b"\x82\xa2id".to_vec(), raw(&id.0), b"\xa4time\xa1x".to_vec()].concat());
    }
    (Id([0; 32]), map)
}

fn archive(items: &[Id]) -> (Id, Vec<u8>) {
    let mut map = b"\x84\xa7version\x01\xa4name\xa1n\xa4time\xb32020-01-01T00:00:00\xa5items".to_vec();
    map.push(0x90 | items.len() as u8);
    items.iter().for_each(|id| map.extend(raw(&id.0)));
    object(&map)
}

fn item(path: &str, more: &[&[u8]]) -> Vec<u8> {
    let mut map = alloc::vec![0x80 | (2 + more.len()) as u8];
    map.extend([b"\xa4mode\xcd\x81\xa4\xa4path".to_vec(), raw(path.as_bytes())].concat());
    more.iter().for_each(|pair| map.extend_from_slice(pair));
    map
}

fn chunks(of: &(Id, Vec<u8>)) -> Vec<u8> {
    [b"\xa6chunks\x91\x93".to_vec(), raw(&of.0.0), alloc::vec![of.1.len() as u8, 1]].concat()
}

/// One archive `a` of these items, after these contents.
fn with_items(contents: &[(Id, Vec<u8>)], items: &[Vec<u8>]) -> MemoryStore {
    let stream = object(&items.concat());
    let archive = archive(&[stream.0]);
    let manifest = manifest(&[("a", archive.0)]);
    plain(&[contents, &[stream, archive, manifest]].concat())
}

fn read_plain(store: &MemoryStore) -> Result<String> {
    told(store, opened(store, "", "", STRICT)?, Which::Live)
}

#[test]
fn later_names_share_the_content_of_the_first() {
    let text = object(b"text");
    let (master, no_master) = (b"\xafhardlink_master\xc3".to_vec(), b"\xafhardlink_master\xc2".to_vec());
    let source = |path: &str| [b"\xa6source".to_vec(), raw(path.as_bytes())].concat();
    let marked = [
        item("f", &[&chunks(&text), &master]),
        item("single", &[&chunks(&text), &no_master]),
        item("d/g", &[&source("f")]),
        item("alone", &[&source("nowhere")]),
    ];
    let store = with_items(core::slice::from_ref(&text), &marked);
    assert_eq!(
        read_plain(&store).unwrap(),
        "a: f=text single=text d/g=text (it is another name of nowhere, which is not in the archive)"
    );
    // Old writers and imported archives mark nothing, and write paths as they like.
    let unmarked = [
        item("f", &[&chunks(&text)]),
        item("single", &[&chunks(&text)]),
        item("g", &[&source("./f")]),
        item("h", &[&source("g")]),
    ];
    let store = with_items(&[text], &unmarked);
    let source: &'static dyn Source = Box::leak(opened(&store, "", "", STRICT).unwrap());
    let archives = store.drive(|port| source.archives(port, Which::Live)).unwrap();
    let state: &'static _ = Box::leak(Box::new(archives[0].state.clone().unwrap()));
    let catalog = Box::leak(source.catalog(state));
    let mut entries = Vec::new();
    while let Some(Listed::Entry(entry)) = store.drive(|port| async { catalog.next(port).await }).unwrap() {
        entries.push((entry.path.clone(), entry.link_group, entry.content_len()));
    }
    let group = entries[0].1;
    assert!(group.is_some());
    let expected = [("f", group), ("single", None), ("g", group), ("h", group)];
    assert_eq!(entries, expected.map(|(path, group)| (path.as_bytes().to_vec(), group, 4)));
}

#[test]
fn parts_and_checkpoints_are_shown_on_request() {
    let text = object(b"text");
    let items = [item("f.borg_part_1", &[&chunks(&text), b"\xa4part\x01"]), item("f", &[&chunks(&text)])];
    let stream = object(&items.concat());
    let archive = archive(&[stream.0]);
    let manifest = manifest(&[("a", archive.0), ("b.checkpoint.1", archive.0)]);
    let store = plain(&[text, stream, archive, manifest]);
    assert_eq!(read_plain(&store).unwrap(), "a: f=text");
    let source = opened(&store, "", "", OpenOptions { parts: true, ..STRICT }).unwrap();
    assert_eq!(told(&store, source, Which::Checkpoints).unwrap(), "b.checkpoint.1: f.borg_part_1=text f=text");
}

#[test]
fn a_forged_plaintext_manifest_is_refused() {
    let forged = with_items(&[], &[]);
    let downgrade = |result: Result<Box<dyn Source>>| assert_eq!(result.err().unwrap(), Check::Downgrade.into());
    assert_eq!(read_plain(&forged).unwrap(), "a:");
    // A passphrase was given; a key file is there; the config holds a key.
    downgrade(opened(&forged, "test", "", STRICT));
    downgrade(opened(&forged, "", &format!("BORG_KEY {}\nAAAA", vectors::REPOSITORY), STRICT));
    let mut store = forged;
    store.put("config", vectors::CONFIG.as_bytes());
    downgrade(opened(&store, "", "", STRICT));
    // Among authentic objects one in plaintext is none.
    let mut store = vectors::repository();
    let text = object(&[b'x'; 50]);
    let forged = sealed(0, &[&text.0.0[..], &[2, 0, 0], &text.1].concat());
    store.put("data/0/2", &[entry::MAGIC.as_slice(), &forged, entry::COMMIT].concat());
    let source: &'static dyn Source = Box::leak(opened(&store, "test", "", STRICT).unwrap());
    let chunk = ChunkRef::new(text.0, 50);
    assert_eq!(decode(&store, source, chunk).unwrap_err().kind(), &Kind::Corrupt(Check::EnvelopeType));
}

#[test]
fn authentication_is_demanded_unless_told_otherwise() {
    // An authenticated repository whose metadata carries none: the type byte of every object is 7.
    let keys = vectors::keys(7);
    let object = |plain: &[u8]| (keys.chunk_id(&[plain]).unwrap(), plain.to_vec());
    let stream = object(&item("f", &[]));
    let map = archive(&[stream.0]).1;
    let archive = object(&map);
    let mut store = plain(&[stream, archive.clone(), manifest(&[("a", archive.0)])]);
    let segment = store.0["data/0/0"].clone();
    let mut authenticated = entry::MAGIC.to_vec();
    let mut rest = &segment[8..];
    while let Some(front) = entry::Front::parse(rest) {
        let mut body = rest[9..front.size as usize].to_vec();
        body[32] = 7;
        authenticated.extend(sealed(0, &body));
        rest = &rest[front.size as usize..];
    }
    store.put("data/0/0", &authenticated);
    store.put("config", vectors::CONFIG.as_bytes());
    assert_eq!(Mode::of(7).unwrap().name, "authenticated");
    assert_eq!(opened(&store, "test", "", STRICT).err().unwrap(), Check::TamAbsent.into());
    let source = opened(&store, "test", "", LENIENT).unwrap();
    let notices = source.take_notices();
    assert!(notices.iter().any(|notice| notice.serious && notice.text.starts_with("not authenticated: the manifest")));
    assert_eq!(told(&store, source, Which::Live).unwrap(), "a: f=-");
    // Without the key it can be read, and nothing verified.
    let (config, _) = vectors::CONFIG.split_once("key = ").unwrap();
    store.put("config", config.as_bytes());
    assert_eq!(opened(&store, "", "", STRICT).err().unwrap().kind(), &Kind::Denied(Denied::NoKey));
    let source = opened(&store, "", "", LENIENT).unwrap();
    assert!(source.take_notices().iter().any(|notice| notice.serious && notice.text.contains("the key is missing")));
    assert_eq!(told(&store, source, Which::Live).unwrap(), "a: f=-");
}

#[test]
fn archives_are_found_without_a_manifest() {
    let text = object(b"text");
    let stream = object(&item("f", &[&chunks(&text)]));
    let archive = archive(&[stream.0]);
    let store = plain(&[text, stream, archive]);
    assert!(matches!(read_plain(&store).unwrap_err().kind(), Kind::Missing(_)));
    let source = opened(&store, "", "", STRICT).unwrap();
    assert_eq!(told(&store, source, Which::Lost).unwrap(), "n: f=text");
    // In a repository with a key, too: its archive is authentic, its manifest was removed.
    let mut store = vectors::repository();
    store.put("data/0/2", &[entry::MAGIC.as_slice(), &sealed(1, &[0; 32]), entry::COMMIT].concat());
    assert!(read(&store).is_err());
    let source = opened(&store, "test", "", STRICT).unwrap();
    assert_eq!(told(&store, source, Which::Lost).unwrap(), "v: h=hello\\n");
    // What the manifest names is not lost.
    let store = vectors::repository();
    let source = opened(&store, "test", "", STRICT).unwrap();
    assert_eq!(told(&store, source, Which::Lost).unwrap(), "");
}

#[test]
fn removed_and_salvaged_objects_are_used_only_under_their_id() {
    let text = object(b"text");
    let mut store = with_items(core::slice::from_ref(&text), &[item("f", &[&chunks(&text)])]);
    // Removed by a writer that lost count.
    store.put("data/0/2", &[entry::MAGIC.as_slice(), &sealed(1, &text.0.0), entry::COMMIT].concat());
    assert_eq!(read_plain(&store).unwrap(), "a: f=text");
    // Content that imitates a manifest, met through a damaged length: not believed.
    let forged = manifest(&[("forged", Id([1; 32]))]);
    let inner = sealed(0, &[&forged.0.0[..], &[2, 0, 0], &forged.1].concat());
    let mut store = plain(&[object(&inner)]);
    let segment = store.0.get_mut("data/0/0").unwrap();
    // The length now leads right to the imitation, which ends where the segment ends.
    let len = (segment.len() - 8 - inner.len()) as u32;
    segment[12..16].copy_from_slice(&len.to_le_bytes());
    let error = read_plain(&store).unwrap_err();
    assert_eq!(error.kind(), &Kind::Corrupt(Check::Crc));
}
