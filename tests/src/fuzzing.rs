//! What fuzzing feeds: one function per parser of untrusted bytes, from a table by name.
//!
//! The same functions run under libFuzzer (`tests/fuzz`, with coverage, on nightly) and in
//! `tests/fuzz_replay.rs` (the committed corpus and seeded changes of it, on stable). Each must
//! return, whatever the bytes, and checks what can be said of any answer.

use crate::image_writer::{BLOCK, CHUNKS, COMPACT, DATA, FULL, INLINE, ImageWriter, Node, PLAIN, nid};
use crate::log_writer::LogWriter;
use crate::writer::{Item, Object, Packing, Suite, Value, Writer};
use packtrain::opened::Opened;
use packtrain::store::Store;
use packtrain_core::base::{Id, Secret, limits};
use packtrain_core::crypto::sha256;
use packtrain_core::engine::{Budget, End, Ordered, Output, Refused, Ticket};
use packtrain_core::formats::borg1;
use packtrain_core::formats::borg2::{archive, config, index, keys, object};
use packtrain_core::formats::common::{ini, item, msgpack};
use packtrain_core::formats::{Catalog, Listed, Which};
use packtrain_core::objects::{EntryKind, Load};
use packtrain_core::plan::pattern::{Pattern, Style};
use packtrain_core::plan::select::Selection;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Feeds bytes to one parser.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 13] = [
    ("object", object_bytes),
    ("fragment", fragment),
    ("key", key),
    ("archive", archive_map),
    ("stream", stream),
    ("ini", ini_text),
    ("pattern", pattern),
    ("ordered", ordered),
    ("repository", repository),
    ("log", log),
    ("log_items", log_items),
    ("log_maps", log_maps),
    ("image", image),
];

/// Feeds `data` to the target of this name.
///
/// # Panics
/// If there is none, or a check does not hold.
pub fn feed(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    target(data);
}

/// Header and metadata of an object.
fn object_bytes(data: &[u8]) {
    if let Ok(header) = object::Header::parse(data) {
        assert!(header.total() <= limits::OBJECT_MAX.into() && header.meta_len <= limits::META_MAX);
        assert_eq!(data.get(9..41), Some(&header.id.0[..]));
    }
    for bytes in [data, data.get(object::HEADER_LEN..).unwrap_or(&[])] {
        if let Ok(metadata) = object::Metadata::parse(bytes) {
            assert!(metadata.packed.is_none_or(|packed| packed <= metadata.stored));
        }
    }
}

/// An index fragment.
fn fragment(data: &[u8]) {
    let mut seen = 0;
    let result = index::parse_fragment(data, |_, _, _, _| seen += 1);
    assert!(seen * 80 <= data.len());
    assert!(result.is_ok() || seen == 0, "entries of a fragment that is refused");
}

/// The text of a key.
fn key(data: &[u8]) {
    let _ = keys::SealedKey::parse(data);
    if keys::belongs_to(data, &Id([0xaa; 32])) {
        assert!(data.trim_ascii_start().starts_with(b"BORG_KEY "));
    }
}

/// An archive map, a list of ids, a timestamp.
fn archive_map(data: &[u8]) {
    if let Ok(state) = archive::parse(data) {
        assert!(state.roots.len() * 34 <= data.len());
    }
    if let Ok(ids) = archive::parse_list(data) {
        assert!(ids.len() * 34 <= data.len());
    }
    let _ = msgpack::Reader::new(data).timestamp();
}

/// An item stream: cut where the first bytes say, in chunks of which some are lost.
fn stream(data: &[u8]) {
    let Some((control, stream)) = data.split_first_chunk::<4>() else { return };
    if let Ok((found, used)) = item::parse(stream, item::Dialect::Borg2) {
        assert!((1..=stream.len()).contains(&used));
        if let item::Item::Entry(entry, _) = found {
            assert_safe(&entry.path);
        }
    }
    let mut writer = Writer::new(Suite::ALL[4], "");
    writer.packing = Packing::None;
    let size = usize::from(control[0]) + 1;
    let ids: Vec<_> = stream.chunks(size).map(|piece| writer.put(&Object::new(b'S', piece))).collect();
    writer.list = usize::from(control[1] % 7) + 1;
    writer.archive_of_ids("fuzz", &ids);
    if control[2] % 3 == 0
        && let Some(lost) = ids.get(usize::from(control[3]) % ids.len().max(1))
    {
        writer.lose(lost);
    }
    walk(writer.files());
}

/// A path that may be restored stays below the target.
fn assert_safe(path: &[u8]) {
    let safe = path == b"."
        || path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0));
    assert!(safe, "{}", path.escape_ascii());
}

/// The text of a config.
fn ini_text(data: &[u8]) {
    if let Some(pairs) = ini::section(data, "repository") {
        let keys: BTreeSet<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys.len(), pairs.len(), "a key twice");
    }
    if let Ok(config) = config::Config::parse(data) {
        assert!(ini::section(data, "repository").is_some_and(|pairs| ini::value(&pairs, "version") == Some("5")));
        assert!(config.suite.type_byte >= 0x10);
    }
}

/// A pattern, then after a line end a path; and all lines as rules.
fn pattern(data: &[u8]) {
    let (text, path) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len()));
    if let Ok(text) = core::str::from_utf8(text) {
        for style in [Style::Fnmatch, Style::Shell, Style::Regex, Style::Prefix, Style::Full] {
            if let Ok(pattern) = Pattern::parse(text, style) {
                let first = pattern.matches(path);
                assert_eq!(first, pattern.matches(path));
            }
        }
    }
    if let Ok(text) = core::str::from_utf8(data) {
        let (mut selection, mut style) = (Selection::new(data.len() % 3), Style::Shell);
        for line in text.lines() {
            let _ = selection.rule(line, &mut style);
        }
        selection.wants(path);
        if let Some(target) = selection.target(path) {
            assert!(path.ends_with(target));
        }
    }
}

/// A list of calls of the ordered machine, two bytes each.
fn ordered(data: &[u8]) {
    let Some((head, calls)) = data.split_first_chunk::<2>() else { return };
    let budget = Budget { bytes: head[0].into(), units: u64::from(head[1] % 16) + 1 };
    let mut machine = Ordered::<usize, usize>::new(budget);
    let (mut offered, mut next_out) = (0, 0);
    let mut tickets: Vec<Ticket> = Vec::new();
    let mut handed: BTreeSet<usize> = BTreeSet::new();
    let mut working: BTreeMap<usize, Ticket> = BTreeMap::new();
    let mut cancelled = false;
    for call in calls.chunks_exact(2) {
        let amount = usize::from(call[1]);
        match call[0] % 7 {
            0 => match machine.offer(Load { stored: call[1].into(), plain: 1, units: 1 }, offered) {
                Ok(ticket) => {
                    tickets.push(ticket);
                    offered += 1;
                }
                Err(Refused(job)) => assert_eq!(job, offered),
            },
            1 => {
                if let Some((ticket, job)) = machine.poll_job() {
                    assert_eq!(tickets.get(job), Some(&ticket));
                    assert!(working.insert(job, ticket).is_none() && !cancelled);
                }
            }
            2 => {
                if let Some(job) = working.keys().nth(amount % working.len().max(1)).copied() {
                    let ticket = working.remove(&job).expect("it is there");
                    assert_eq!(machine.done(ticket, amount as u64, job), cancelled.then_some(job));
                }
            }
            3 => match machine.poll_output() {
                Output::Ready(ticket, job) => {
                    assert_eq!((job, tickets.get(job)), (next_out, Some(&ticket)));
                    next_out += 1;
                    handed.insert(job);
                }
                Output::Ended(End::Complete) => assert!(machine.is_finished() && next_out == offered),
                Output::Ended(End::Cancelled) => assert!(cancelled && working.is_empty()),
                Output::Wait(_) => {}
            },
            4 => {
                if let Some(ticket) = tickets.get(amount % tickets.len().max(1)) {
                    machine.reclaim(*ticket);
                    handed.remove(&(amount % tickets.len()));
                }
            }
            5 if call[1] > 250 => machine.finish(),
            6 if call[1] > 250 => {
                machine.cancel();
                cancelled = true;
            }
            // A stale or early answer.
            _ => {
                let at = amount % tickets.len().max(1);
                if let Some(ticket) = tickets.get(at).filter(|_| !working.contains_key(&at)) {
                    assert_eq!(machine.done(*ticket, 0, usize::MAX), Some(usize::MAX));
                }
            }
        }
        assert_eq!(machine.jobs_out(), working.len());
        let alone = offered.saturating_sub(next_out) + handed.len() <= 1;
        assert!(machine.held_bytes() <= budget.bytes || alone, "{} bytes held", machine.held_bytes());
    }
}

/// A whole repository of Borg 1.x, segments and all.
fn log(data: &[u8]) {
    let mut files = files(data);
    // A key would be tried with as many rounds as it says.
    files.iter_mut().filter(|(name, _)| name == "config").for_each(|(_, text)| {
        let plain = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii_start().starts_with(b"key"));
        *text = plain.collect::<Vec<_>>().join(&b'\n');
    });
    walk(files);
}

/// An item stream of Borg 1.x, cut where the first bytes say, in chunks of which one may be lost.
fn log_items(data: &[u8]) {
    let Some((control, stream)) = data.split_first_chunk::<3>() else { return };
    for parts in [false, true] {
        if let Ok((found, used)) = item::parse(stream, item::Dialect::Borg1 { parts }) {
            assert!((1..=stream.len()).contains(&used));
            if let item::Item::Entry(entry, _) = found {
                assert_safe(&entry.path);
            }
        }
    }
    let mut writer = LogWriter::default();
    let lost = (control[1] % 3 == 0).then_some(control[2].into());
    writer.archive("fuzz", stream, usize::from(control[0]) + 1, lost);
    writer.put(b"content");
    walk(writer.files());
}

/// Whatever of Borg 1.x is a map or a text of its own.
fn log_maps(data: &[u8]) {
    let _ = borg1::keys::SealedKey::parse(data);
    let _ = borg1::manifest::Manifest::parse(data);
    if let Ok(map) = borg1::archive::parse(data) {
        assert!(map.items.len() * 32 <= data.len());
    }
    if let Ok((_, range)) = borg1::payload::unwrap(data) {
        assert!(range.end <= data.len());
    }
    let _ = borg1::config::Config::parse(data);
}

/// Files one after the other, each a name's length, a name, a length of two bytes, content. Keys are
/// the writer's own, since costs of a gigabyte are another test's.
fn files(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut rest = data;
    while let Some((&len, after)) = rest.split_first() {
        let Some((name, after)) = after.split_at_checked(len.into()) else { break };
        let Some((size, after)) = after.split_first_chunk::<2>() else { break };
        let size = usize::from(u16::from_be_bytes(*size)).min(after.len());
        let (content, after) = after.split_at(size);
        files.push((String::from_utf8_lossy(name).into_owned(), content.to_vec()));
        rest = after;
    }
    files
}

/// A whole repository of Borg 2.
fn repository(data: &[u8]) {
    let mut files = files(data);
    files.retain(|(name, _)| !name.starts_with("keys/"));
    files.extend(Writer::new(Suite::ALL[4], "").files().into_iter().filter(|(name, _)| name.starts_with("keys/")));
    walk(files);
}

/// Blocks of an image that an input has before those of data.
const HEAD: usize = 5 * BLOCK;

/// An EROFS image with the right checksum: its first blocks, and its data blocks.
fn image(data: &[u8]) {
    let (head, rest) = data.split_at_checked(HEAD).unwrap_or((data, &[]));
    let mut bytes = head.to_vec();
    bytes.resize(DATA as usize * BLOCK, 0);
    bytes.extend(rest);
    let bytes = ImageWriter { bytes }.finish();
    walk(vec![(String::new(), bytes.clone()), ("image".into(), bytes)]);
}

/// The other way: what [`image`] takes of an image.
fn image_input(writer: &ImageWriter) -> Vec<u8> {
    [&writer.bytes[..HEAD], &writer.bytes[DATA as usize * BLOCK..]].concat()
}

/// Images of every layout that the writer has.
fn images() -> Vec<Vec<u8>> {
    let words = |list: &[u32]| list.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let name: &[u8] = b"name";
    let file = |incompat: u32, node: Node, beside: &[u8]| {
        let mut writer = ImageWriter::new(incompat);
        writer.folder(0, 0, &[(b"f", nid(1)), (name, nid(2))]);
        writer.node(1, node, beside).node(2, Node::file(INLINE, 4, u32::MAX), b"good");
        let mut stream = Vec::new();
        lzzzz::lz4::compress_to_vec(&[7; 8192], &mut stream, lzzzz::lz4::ACC_LEVEL_DEFAULT).expect("it packs");
        writer.padded(&stream);
        image_input(&writer)
    };
    let xattrs = [&[0; 12][..], &[1, 1, 1, 0, b'a', b'b', 0, 0]].concat();
    vec![
        file(0, Node::file(PLAIN, 3000, DATA), &[]),
        file(0, Node { xattrs: 3, ..Node::file(INLINE, 2, 0) }, &[&xattrs[..], b"hi"].concat()),
        file(4, Node::file(CHUNKS, 9000, 0x20), &words(&[0, 0, DATA, u32::MAX, u32::MAX, u32::MAX])),
        file(1, Node::file(COMPACT, 8192, 0), &words(&[0, 0, 1 << 12 | 2 << 28, DATA - 1])),
        file(1, Node::file(FULL, 8192, 0), &words(&[0, 0, 0, 0, 1, DATA, 2, 0])),
        file(0x80, Node::file(FULL, 8192, 0), &words(&[1, 5, 0, 0, 0x1000_1000, DATA * BLOCK as u32, 0, 0])),
        file(0, Node { mode: 0o120_777, ..Node::file(INLINE, 3, u32::MAX) }, b"aim"),
    ]
}

/// Opens a repository in memory and looks at everything in it.
fn walk(files: Vec<(String, Vec<u8>)>) {
    let store: Arc<dyn Store> = Arc::new(InMemory(files.into_iter().collect()));
    let Ok(opened) = Opened::with_passphrase(store, &Secret::new(Vec::new())) else { return };
    opened.source.facts();
    for which in [Which::Live, Which::Deleted, Which::Checkpoints, Which::Lost] {
        let Ok(archives) = opened.drive(opened.source.archives(&opened.port, which)) else { continue };
        for archive in archives {
            let Ok(state) = &archive.state else { continue };
            let mut catalog = opened.source.catalog(state);
            look_through(&opened, &mut *catalog);
        }
    }
    opened.source.take_notices();
}

fn look_through(opened: &Opened, catalog: &mut dyn Catalog) {
    let mut entries = 0;
    while let Ok(Some(listed)) = opened.drive(catalog.next(&opened.port)) {
        entries += 1;
        assert!(entries < 1_000_000, "an archive without end");
        let Listed::Entry(entry) = listed else { continue };
        assert_safe(&entry.path);
        assert!(entry.mode <= 0o7777);
        if let EntryKind::Symlink(target) = &entry.kind {
            assert!(!target.is_empty() && !target.contains(&0));
        }
        for chunk in entry.chunks().iter().take(4) {
            if let Ok(Ok(plain)) = opened.decode(chunk) {
                assert_eq!(plain.len(), chunk.size as usize);
            }
        }
    }
}

/// A store in memory.
struct InMemory(BTreeMap<String, Vec<u8>>);

impl Store for InMemory {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        let bytes = self.0.get(name).ok_or(Errno::NOENT)?;
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or(&[]);
        let len = rest.len().min(target.len());
        target[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        let below = self.0.keys().filter_map(|name| name.strip_prefix(folder)?.strip_prefix('/'));
        let names: BTreeSet<&str> = below.map(|name| name.split('/').next().unwrap_or(name)).collect();
        Ok(names.into_iter().map(Into::into).collect())
    }

    fn stat(&self, name: &str) -> Result<Option<u64>, Errno> {
        match self.0.get(name) {
            Some(bytes) => Ok(Some(bytes.len() as u64)),
            None if self.list(name)?.is_empty() => Err(Errno::NOENT),
            None => Ok(None),
        }
    }
}

/// Sound input for a target, from which a corpus starts.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(Suite::ALL[4], "");
    let item = Item::file(b"d/f", &writer.content(b"content of a file", 10))
        .group(7)
        .with("xattrs", Value::Map(vec![(Value::Blob(b"user.x".to_vec()), Value::Blob(b"v".to_vec()))]))
        .with("acl_access", Value::Blob(b"user::rw-\ngroup::r--\nother::r--".to_vec()))
        .with("uid", Value::Int(1000))
        .with("user", Value::text("me"))
        .with("atime", Value::long_time(-1, 5));
    let items = [
        Item::folder(b"d"),
        item,
        Item::link(b"d/l", b"f"),
        Item::new(b"d/p", 0o010_644),
        Item::new(b"c", 0o020_644).with("rdev", Value::Int(259)),
    ];
    let stream: Vec<u8> = items.iter().flat_map(Item::encode).collect();
    match target {
        "object" => [Packing::None, Packing::Zstd(3)]
            .map(|packing| {
                let (_, bytes) =
                    writer.object(&Object { padding: Some(9), ..Object::new(b'F', &[b'a'; 99]).packed(packing) });
                let meta =
                    &bytes[49 + 34..49 + u32::from_le_bytes(bytes[41..45].try_into().expect("four bytes")) as usize];
                [&bytes[..49], meta].concat()
            })
            .to_vec(),
        "fragment" => {
            let names: Vec<_> = writer.packs.iter().map(|pack| crate::writer::store_hash(pack)).collect();
            vec![crate::writer::table(&writer.slots, &names), crate::writer::table(&[], &[])]
        }
        "key" => vec![writer.seal.key_text().into_bytes(), b"BORG_KEY ".to_vec()],
        "archive" => {
            let list = Value::List(vec![Value::Blob(vec![1; 32]), Value::Blob(vec![2; 32])]).encode();
            let map = Value::map(writer.archive_map("name", &[[1; 32], [2; 32]])).encode();
            vec![map, list, Value::long_time(-5, 7).encode()]
        }
        "stream" => vec![
            [&[255, 1, 1, 0][..], &stream].concat(),
            [&[19, 2, 0, 5][..], &stream].concat(),
            [&[100, 0, 0, 1][..], &stream, &stream].concat(),
        ],
        "ini" => vec![
            writer.seal.config().into_bytes(),
            b"; c\r\n[Other]\r\na: b\r\n[repository]\r\nVersion = 5\r\n".to_vec(),
        ],
        "pattern" => [
            "fm:*/x[!a-c]?\na/xd1",
            "sh:**/*.o\na/b.o",
            "re:^a(b|c)+$\nabc",
            "pp:a/b\na/b/c",
            "pf:a\na",
            "+ a\n- sh:b/**\nP re\n! c$\nR d\n# e",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec(),
        "ordered" => vec![
            [&[40, 8][..], &[0, 10, 0, 5, 1, 0, 1, 0, 2, 0, 3, 0, 2, 0, 3, 0, 3, 0, 4, 0, 4, 1, 5, 255, 3, 0]].concat(),
            [&[9, 1][..], &[0, 90, 0, 1, 1, 0, 6, 255, 2, 9, 3, 0]].concat(),
        ],
        "repository" => {
            writer.archive_of_pieces("seed", &[&stream]);
            let whole = writer.files();
            let without_index = whole.iter().filter(|(name, _)| !name.starts_with("index/")).cloned().collect();
            vec![pack(whole), pack(without_index)]
        }
        "image" => images(),
        "log" => {
            let mut writer = LogWriter::default();
            let id = writer.put(b"content of a file");
            writer.archive("seed", &log_stream(id), 100, None);
            vec![pack(writer.files())]
        }
        "log_items" => {
            let stream = log_stream(sha256(&[b"content"]));
            vec![[&[255, 1, 0][..], &stream].concat(), [&[30, 0, 2][..], &stream].concat()]
        }
        "log_maps" => {
            let mut writer = LogWriter::default();
            writer.archive("seed", b"", 1, None);
            let files = writer.files();
            let (config, segment) = (&files[0].1, &files[1].1);
            let key = Value::map(vec![
                ("algorithm", Value::text("sha256")),
                ("data", Value::Blob(vec![7; 218])),
                ("hash", Value::Blob(vec![8; 32])),
                ("iterations", Value::Int(1)),
                ("salt", Value::Blob(vec![9; 32])),
                ("version", Value::Int(1)),
            ]);
            // The maps of the archive and the manifest start after entry, type byte and compression.
            let size = u32::from_le_bytes(segment[12..16].try_into().expect("four bytes")) as usize;
            let maps = [segment[8 + 44..8 + size].to_vec(), segment[8 + size + 44..].to_vec()];
            [config.clone(), key.encode(), vec![4, 0, 0, 0, 0, 3, 1, 0, 9]].into_iter().chain(maps).collect()
        }
        _ => Vec::new(),
    }
}

/// Files as [`files`] reads them, without keys.
fn pack(files: Vec<(String, Vec<u8>)>) -> Vec<u8> {
    let one = |(name, bytes): (String, Vec<u8>)| {
        [&[name.len() as u8][..], name.as_bytes(), &(bytes.len() as u16).to_be_bytes(), &bytes].concat()
    };
    files.into_iter().filter(|(name, _)| !name.starts_with("keys/")).flat_map(one).collect()
}

/// Items of Borg 1.x of every kind that is read otherwise than in Borg 2.
fn log_stream(id: [u8; 32]) -> Vec<u8> {
    let chunks = || Value::List(vec![Value::List(vec![Value::Blob(id.to_vec()), Value::Int(7), Value::Int(50)])]);
    let item = |path: &[u8], mode: i64| {
        Item::new(path, mode).with("mtime", Value::Int(1)).with("uid", Value::Int(-1)).with("user", Value::Nil)
    };
    let items = [
        item(b"d", 0o040_755),
        item(b"d/f", 0o100_644).with("chunks", chunks()).with("hardlink_master", Value::Raw(vec![0xc3])),
        item(b"d/g", 0o100_644).with("source", Value::Blob(b"./d/f".to_vec())),
        item(b"d/h", 0o100_644).with("chunks", chunks()).with("chunks_healthy", chunks()),
        item(b"d/l", 0o120_777).with("source", Value::Blob(b"f".to_vec())),
        item(b"d/f.borg_part_1", 0o100_644).with("chunks", chunks()).with("part", Value::Int(1)),
        item(b"d/t", 0o100_644).with("mtime", Value::Blob(vec![0xff; 12])).with("bsdflags", Value::Int(1)),
        item(b"d/x", 0o100_644).with("xattrs", Value::Map(vec![(Value::Blob(b"user.e".to_vec()), Value::Nil)])),
    ];
    items.iter().flat_map(Item::encode).collect()
}
