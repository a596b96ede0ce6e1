//! Every limit on untrusted sizes: what is at the limit passes, what is just over it is refused,
//! soon and without memory of that size. An allocator that counts stands under all of it.

#[path = "limits/allocator.rs"]
mod allocator;

use allocator::{NOW, PEAK};
use packtrain::store::{LocalStore, Store};
use packtrain_core::base::limits::*;
use packtrain_core::base::{Check, Denied, Error, Kind, Secret};
use packtrain_core::crypto::{Argon2Params, Argon2Variant};
use packtrain_core::formats::borg2::object::{Header, Metadata};
use packtrain_core::formats::common::item::{self, Dialect, Item as Parsed};
use packtrain_core::formats::common::msgpack::{Flaw, Reader};
use packtrain_core::formats::{OpenOptions, Which};
use packtrain_core::platform::{Port, drive};
use packtrain_tests::folder::Temp;
use packtrain_tests::inside::settings;
use packtrain_tests::writer::seal::Costs;
use packtrain_tests::writer::{Item, Object, Packing, Stage, Value, Writer, hex, store_hash};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// What `work` gives, and the most memory it held at a time beside what was there.
fn measure<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}

/// Only one test measures at a time; the others wait here.
fn turn() -> impl Drop {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const SMALL: usize = 1 << 20;

#[track_caller]
fn assert_small<T>(work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let (result, peak) = measure(work);
    assert!(peak < SMALL, "{peak} bytes were taken");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    result
}

fn is_over(error: &Error, cap: u64) -> bool {
    matches!(error.kind(), Kind::OverLimit { cap: named, .. } if *named == cap)
}

/// Opens what a store holds with the empty passphrase, as far as it goes.
fn open(store: &dyn Store) -> Result<(), Error> {
    let port = Port::new();
    drive(
        &port,
        async {
            let locked =
                packtrain_core::session::open(&port, packtrain::codecs::native(), OpenOptions::default()).await?;
            let source = locked.unlock(&port, &Secret::new(Vec::new())).await?;
            source.archives(&port, Which::Live).await.map(drop)
        },
        |need| store.serve(need),
    )
}

fn open_folder(root: &Path) -> Result<(), Error> {
    open(&LocalStore::open(root).unwrap())
}

fn saved(writer: &mut Writer) -> Temp {
    let temp = Temp::new();
    writer.save(temp.path()).unwrap();
    temp
}

#[test]
fn the_measure_measures() {
    let _turn = turn();
    let (len, peak) = measure(|| vec![0u8; 5 << 20].len());
    assert!(len == 5 << 20 && (5 << 20..6 << 20).contains(&peak), "{peak}");
}

#[test]
fn object_max_in_headers() {
    let _turn = turn();
    let header =
        |meta: u32, data: u32| [b"BORG_OBJ\x02", &[7; 32][..], &meta.to_le_bytes(), &data.to_le_bytes()].concat();
    assert_small(|| {
        assert!(Header::parse(&header(100, OBJECT_MAX - 149)).is_ok());
        for (meta, data) in [(100, OBJECT_MAX - 148), (100, u32::MAX), (u32::MAX, u32::MAX), (u32::MAX, 0)] {
            assert_eq!(Header::parse(&header(meta, data)), Err(Check::Sizes.into()));
        }
    });
}

#[test]
fn meta_max_in_headers() {
    let _turn = turn();
    let header = |meta: u32| [b"BORG_OBJ\x02", &[7; 32][..], &meta.to_le_bytes(), &100u32.to_le_bytes()].concat();
    assert_small(|| {
        assert!(Header::parse(&header(META_MAX)).is_ok());
        assert_eq!(Header::parse(&header(META_MAX + 1)), Err(Check::Sizes.into()));
    });
}

#[test]
fn object_max_in_sizes_that_are_stated() {
    let _turn = turn();
    // Nothing but the metadata of an archive says how long its plaintext is: 4 GiB less one byte.
    for size in [u64::from(OBJECT_MAX) + 1, u64::from(u32::MAX)] {
        let mut writer = Writer::default();
        let id = writer.put(&Object { size: Some(size), ..Object::new(b'A', &[0x80; 100]).packed(Packing::Lz4) });
        writer.archives.push(id);
        let temp = saved(&mut writer);
        let store = Arc::new(LocalStore::open(temp.path()).unwrap());
        let error = assert_small(|| {
            let opened = packtrain::opened::Opened::with_passphrase(store, &Secret::new(Vec::new())).unwrap();
            let archives = opened.drive(opened.source.archives(&opened.port, Which::Live)).unwrap();
            archives[0].state.as_ref().unwrap_err().clone()
        });
        assert!(is_over(&error, OBJECT_MAX.into()), "{error}");
    }
    // Beyond the field's range it is no size at all.
    let map = |size: i64| {
        Value::map(vec![
            ("type", Value::text("A")),
            ("ctype", Value::Int(1)),
            ("csize", Value::Int(9)),
            ("size", Value::Int(size)),
        ])
        .encode()
    };
    assert_eq!(Metadata::parse(&map(1 << 32)), Err(Check::Metadata.into()));
    assert!(Metadata::parse(&map((1 << 32) - 1)).is_ok());
}

#[test]
fn object_max_where_no_size_is_stated() {
    let _turn = turn();
    // 64 MiB of zeros in a few hundred bytes, by any codec: nothing but the limit ends it.
    let bomb = {
        let mut out = vec![0; 1 << 20];
        let len = zstd_safe::compress(out.as_mut_slice(), &vec![0u8; 64 << 20], 19).unwrap();
        out.truncate(len);
        // Without the content size in the header, so that nothing warns.
        out
    };
    let mut lz4 = Vec::new();
    lzzzz::lz4::compress_to_vec(&vec![0u8; 64 << 20], &mut lz4, 1).unwrap();
    for (ctype, bytes) in [(3, bomb), (1, lz4)] {
        let mut writer = Writer::default();
        let id =
            writer.put(&Object { size: None, ..Object::new(b'A', &[0x80; 100]).packed(Packing::Raw(ctype, bytes)) });
        writer.archives.push(id);
        let temp = saved(&mut writer);
        let store = Arc::new(LocalStore::open(temp.path()).unwrap());
        let (error, peak) = measure(|| {
            let opened = packtrain::opened::Opened::with_passphrase(store, &Secret::new(Vec::new())).unwrap();
            let archives = opened.drive(opened.source.archives(&opened.port, Which::Live)).unwrap();
            archives[0].state.as_ref().unwrap_err().clone()
        });
        assert!(is_over(&error, OBJECT_MAX.into()), "{error}");
        // The buffer may have grown to the limit, and its predecessor may still have been there.
        assert!(peak < 2 * OBJECT_MAX as usize + SMALL, "{peak}");
    }
}

#[test]
fn object_max_in_the_index() {
    let _turn = turn();
    let mut writer = Writer::default();
    let items = [writer.file("f", &[b'x'; 1000])];
    writer.archive("t", &items);
    let id = writer.chunk_id(&[b'x'; 1000]);
    writer.slots.iter_mut().filter(|slot| slot.id == id).for_each(|slot| slot.len = u32::MAX);
    let stage = Stage::of(&mut writer);
    let target = stage.target();
    // Everything else of a run takes a few megabytes; the entry claims four gigabytes.
    let (ran, peak) = measure(|| stage.run(settings(1, 0, 1 << 20), &[], &target));
    assert_eq!((ran.code, ran.read("f")), (0, vec![b'x'; 1000]), "{}", ran.report);
    assert!(peak < 16 << 20, "{peak} bytes were taken");
}

#[test]
fn config_max() {
    let _turn = turn();
    let temp = saved(&mut Writer::default());
    let path = temp.path().join("config/config");
    let text = std::fs::read_to_string(&path).unwrap();
    let padded = |len: u64| format!("{text}#{}\n", "x".repeat(len as usize - text.len() - 2));
    std::fs::write(&path, padded(CONFIG_MAX)).unwrap();
    assert_eq!(open_folder(temp.path()), Ok(()));
    std::fs::write(&path, padded(CONFIG_MAX + 1)).unwrap();
    let error = assert_small(|| open_folder(temp.path()).unwrap_err());
    assert!(is_over(&error, CONFIG_MAX), "{error}");
    // Terabytes are refused as soon.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(is_over(&assert_small(|| open_folder(temp.path()).unwrap_err()), CONFIG_MAX));
}

#[test]
fn key_max() {
    let _turn = turn();
    let mut writer = Writer::default();
    let temp = saved(&mut writer);
    let key = writer.seal.key_text();
    let folder = temp.path().join("keys");
    let put = |len: u64| {
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let text = format!("{key}{}", "\n".repeat(len as usize - key.len()));
        std::fs::write(folder.join(hex(&store_hash(text.as_bytes()))), text).unwrap();
    };
    put(KEY_MAX);
    assert_eq!(open_folder(temp.path()), Ok(()));
    put(KEY_MAX + 1);
    let error = assert_small(|| open_folder(temp.path()).unwrap_err());
    assert!(is_over(&error, KEY_MAX), "{error}");
}

#[test]
fn keys_max() {
    let _turn = turn();
    let temp = saved(&mut Writer::default());
    // One real key is there.
    for number in 1..KEYS_MAX {
        std::fs::write(temp.path().join(format!("keys/{number:064x}")), "no key").unwrap();
    }
    assert_eq!(open_folder(temp.path()), Ok(()));
    std::fs::write(temp.path().join(format!("keys/{KEYS_MAX:064x}")), "no key").unwrap();
    let error = assert_small(|| open_folder(temp.path()).unwrap_err());
    assert!(is_over(&error, KEYS_MAX as u64), "{error}");
}

#[test]
fn argon2_costs() {
    let _turn = turn();
    let most = Costs { time: ARGON2_TIME_MAX, memory: ARGON2_MEMORY_MAX, lanes: ARGON2_LANES_MAX };
    let check = |costs: Costs| {
        let Costs { time, memory, lanes } = costs;
        Argon2Params { variant: Argon2Variant::Id, time, memory_kib: memory, lanes }.check(&[0; 16])
    };
    assert_eq!(check(most), Ok(()));
    for (costs, cap) in [
        (Costs { time: ARGON2_TIME_MAX + 1, memory: 8, lanes: 1 }, ARGON2_TIME_MAX),
        (Costs { time: 1, memory: ARGON2_MEMORY_MAX + 1, lanes: 1 }, ARGON2_MEMORY_MAX),
        (Costs { time: 1, memory: 8 * 65, lanes: ARGON2_LANES_MAX + 1 }, ARGON2_LANES_MAX),
        (Costs { time: u32::MAX, memory: 8, lanes: 1 }, ARGON2_TIME_MAX),
        (Costs { time: 1, memory: u32::MAX, lanes: 1 }, ARGON2_MEMORY_MAX),
    ] {
        assert!(is_over(&check(costs).unwrap_err(), cap.into()));
        let mut writer = Writer::default();
        writer.seal.costs = costs;
        let temp = saved(&mut writer);
        let error = assert_small(|| open_folder(temp.path()).unwrap_err());
        assert!(is_over(&error, cap.into()), "{error}");
    }
    // Too little is refused as well, as no such key can exist.
    for costs in
        [Costs { time: 0, ..most }, Costs { lanes: 0, ..most }, Costs { memory: 8 * ARGON2_LANES_MAX - 1, ..most }]
    {
        assert_eq!(check(costs), Err(Check::Key.into()));
    }
    // And a wrong passphrase at honest costs is just that.
    let mut writer = Writer::new(packtrain_tests::writer::Suite::OCB_SHA256, "other");
    assert_eq!(open_folder(saved(&mut writer).path()).unwrap_err().kind(), &Kind::Denied(Denied::WrongPassphrase));
}

#[test]
fn fragment_max() {
    let _turn = turn();
    let mut writer = Writer::default();
    writer.archive("t", &[]);
    let temp = saved(&mut writer);
    let path = temp.path().join(format!("index/{}", "0".repeat(64)));
    std::fs::File::create(&path).unwrap().set_len(FRAGMENT_MAX + 1).unwrap();
    // The index is not believed then, the packs are scanned instead: with little memory.
    let (result, peak) = measure(|| open_folder(temp.path()));
    assert_eq!(result, Ok(()));
    assert!(peak < 4 * SMALL, "{peak} bytes were taken");
}

/// A repository in which one folder lists as many names as wanted.
struct Crowded {
    inner: LocalStore,
    folder: &'static str,
    count: usize,
}

impl Store for Crowded {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        self.inner.read_into(name, offset, target)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        match folder.strip_prefix(self.folder) {
            Some("") if self.folder == "packs" => Ok((0..=255).map(|high| format!("{high:02x}")).collect()),
            Some("") => Ok((0..self.count).map(|number| format!("{number:064x}")).collect()),
            Some(below) => {
                let high = &below[1..];
                let share = self.count / 256 + usize::from(high == "00") * (self.count % 256);
                Ok((0..share).map(|number| format!("{high}{number:062x}")).collect())
            }
            None => self.inner.list(folder),
        }
    }

    fn stat(&self, name: &str) -> Result<Option<u64>, Errno> {
        self.inner.stat(name)
    }
}

#[test]
fn archives_max() {
    let _turn = turn();
    let temp = saved(&mut Writer::default());
    let crowded = |count| Crowded { inner: LocalStore::open(temp.path()).unwrap(), folder: "archives", count };
    let error = open(&crowded(ARCHIVES_MAX + 1)).unwrap_err();
    assert!(is_over(&error, ARCHIVES_MAX as u64), "{error}");
    // Fewer are looked for one by one, and listed as missing.
    assert_eq!(open(&crowded(100)), Ok(()));
}

/// Ten million names take a while to make: run with `--ignored`.
#[test]
#[ignore = "ten million names: half a minute and 700 MB"]
fn packs_max() {
    let _turn = turn();
    let temp = saved(&mut Writer::default());
    let store = Crowded { inner: LocalStore::open(temp.path()).unwrap(), folder: "packs", count: PACKS_MAX + 1 };
    let error = open(&store).unwrap_err();
    assert!(matches!(error.kind(), Kind::OverLimit { what: "number of objects", .. }), "{error}");
}

#[test]
fn depth_max() {
    let _turn = turn();
    let nested = |values: u32| {
        let mut bytes = vec![0x91; values as usize - 1];
        bytes.push(0);
        bytes
    };
    assert_eq!(Reader::new(&nested(DEPTH_MAX)).skip(), Ok(()));
    assert_eq!(Reader::new(&nested(DEPTH_MAX + 1)).skip(), Err(Flaw::Malformed));
    let bomb = nested(10_000_000);
    assert_eq!(assert_small(|| Reader::new(&bomb).skip()), Err(Flaw::Malformed));
}

fn path_of(item: Item) -> Result<Parsed, Flaw> {
    item::parse(&item.encode(), Dialect::Borg2).map(|(item, _)| item)
}

#[test]
fn text_max() {
    let _turn = turn();
    let path = |len: usize| [b'p'; 255].repeat(300)[..len].to_vec();
    for (text, passes) in [(path(TEXT_MAX), true), (path(TEXT_MAX + 1), false)] {
        assert_eq!(path_of(Item::folder(&text)).is_ok(), passes);
        for key in ["user", "group", "target"] {
            let item = Item::link(b"l", b"t").with(key, Value::Text(text.clone()));
            assert_eq!(path_of(item).is_ok(), passes, "{key}");
        }
        let name = Value::Map(vec![(Value::Blob(text.clone()), Value::Blob(Vec::new()))]);
        assert_eq!(path_of(Item::folder(b"d").with("xattrs", name)).is_ok(), passes);
    }
    // A length that is only claimed takes nothing.
    let claimed = [&[0x81, 0xa4][..], b"path", &[0xdb, 0xff, 0xff, 0xff, 0xff, b'x']].concat();
    assert_eq!(assert_small(|| item::parse(&claimed, Dialect::Borg2)), Err(Flaw::Short));
}

#[test]
fn xattr_max() {
    let _turn = turn();
    for (len, passes) in [(XATTR_MAX, true), (XATTR_MAX + 1, false)] {
        let one = Value::Map(vec![(Value::text("user.x"), Value::Blob(vec![1; len]))]);
        assert_eq!(path_of(Item::folder(b"d").with("xattrs", one)).is_ok(), passes);
        for key in ["acl_access", "acl_default", "acl_nfs4", "acl_extended"] {
            assert_eq!(path_of(Item::folder(b"d").with(key, Value::Blob(vec![1; len]))).is_ok(), passes, "{key}");
        }
    }
    // All of an item together: 16 MiB.
    for (count, passes) in [(16, true), (17, false)] {
        let many = (0..count).map(|at| (Value::text(&format!("user.{at}")), Value::Blob(vec![1; XATTR_MAX]))).collect();
        assert_eq!(path_of(Item::folder(b"d").with("xattrs", Value::Map(many))).is_ok(), passes);
    }
}

#[test]
fn components_max() {
    let _turn = turn();
    let path = |count: usize| vec!["d"; count].join("/");
    assert!(matches!(path_of(Item::folder(path(COMPONENTS_MAX).as_bytes())), Ok(Parsed::Entry(..))));
    assert!(matches!(path_of(Item::folder(path(COMPONENTS_MAX + 1).as_bytes())), Ok(Parsed::Refused { .. })));
}

#[test]
fn counts_that_are_only_claimed() {
    let _turn = turn();
    for key in ["chunks", "xattrs", "digests"] {
        for count in [[0xdd, 0xff, 0xff, 0xff, 0xff], [0xdf, 0xff, 0xff, 0xff, 0xff]] {
            let item = Item::folder(b"d").with(key, Value::Raw(count.to_vec())).encode();
            assert!(assert_small(|| item::parse(&item, Dialect::Borg2)).is_err());
        }
    }
    for bytes in [vec![0xdd, 0xff, 0xff, 0xff, 0xff], vec![0xdf, 0xff, 0xff, 0xff, 0xff]] {
        assert!(assert_small(|| packtrain_core::formats::borg2::archive::parse_list(&bytes)).is_err());
        assert!(assert_small(|| packtrain_core::formats::borg2::archive::parse(&bytes)).is_err());
        let tags = Value::map(vec![("tags", Value::Raw(bytes.clone()))]).encode();
        assert!(assert_small(|| packtrain_core::formats::borg2::archive::parse(&tags)).is_err());
        assert!(assert_small(|| Metadata::parse(&bytes)).is_err());
    }
}

#[test]
fn item_max() {
    let _turn = turn();
    // An item that claims 300 MiB, of pieces that are one and the same object of 16 MiB.
    let mut writer = Writer::default();
    const PIECE: usize = 16 << 20;
    let head = [&[0x82, 0xa3][..], b"odd", &[0xc6], &(300u32 << 20).to_be_bytes()].concat();
    let first = writer.put(&Object::new(b'S', &head).packed(Packing::None));
    let piece = writer.put(&Object::new(b'S', &vec![0; PIECE]).packed(Packing::Zstd(1)));
    let good = writer.file("good", b"good").encode();
    let last = writer.put(&Object::new(b'S', &good));
    let pieces: Vec<_> = [first].into_iter().chain(core::iter::repeat_n(piece, 20)).chain([last]).collect();
    writer.archive_of_ids("t", &pieces);
    let stage = Stage::of(&mut writer);
    let target = stage.target();
    let started = Instant::now();
    let (ran, peak) = measure(|| stage.run(settings(1, 0, 1 << 20), &[], &target));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert_eq!((ran.code, ran.read("good")), (113, b"good".to_vec()), "{}", ran.report);
    // The bytes of an item as long as they may be, while the buffer grows to twice that.
    assert!(peak < 4 * ITEM_MAX, "{peak} bytes were taken");
}

#[test]
fn what_is_not_wanted_takes_no_memory() {
    let _turn = turn();
    let mut writer = Writer::default();
    let mut items = Vec::new();
    for number in 0..2000u32 {
        let plain = [&number.to_le_bytes()[..], &[b'x'; 60]].concat().repeat(1024);
        let chunks = writer.content_as(&plain, 1 << 20, &Packing::Zstd(1));
        let path = if number % 2 == 0 { format!("deep/below/f{number}") } else { format!("f{number}") };
        items.push(Item::file(path.as_bytes(), &chunks));
    }
    writer.archive("t", &items);
    let stage = Stage::of(&mut writer);
    drop(writer);
    drop(items);
    let memory = 4 << 20;
    for jobs in [1, 2, 8] {
        let target = stage.target();
        let (ran, peak) = measure(|| stage.run(settings(jobs, 0, memory), &["f1999"], &target));
        assert_eq!((ran.code, ran.statuses.len()), (0, 1), "{}", ran.report);
        assert!(peak < 4 << 20, "{peak} bytes for one file of 64 KiB with {jobs} workers");
        // All 128 MB of it: within the bound, the workers' own buffers, and the report in memory.
        let target = stage.target();
        let (ran, peak) = measure(|| stage.run(settings(jobs, 0, memory), &[], &target));
        assert_eq!((ran.code, ran.statuses.len()), (0, 2000));
        assert!(peak < memory as usize + jobs * (4 << 20) + (4 << 20), "{peak} bytes with {jobs} workers");
        packtrain_tests::folder::remove(&target);
    }
}
