//! Fuzzing on stable: the committed corpus as it is, then thousands of seeded changes of it. A
//! failure names target and seed; libFuzzer (`tests/fuzz`) goes further and adds to the corpus.

use packtrain_tests::fuzzing::{TARGETS, Target, seeds};
use packtrain_tests::writer::stage::in_time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Changes of the corpus per target, and the time after which a slow target has had enough.
const CHANGES: u64 = 40_000;
const ENOUGH: Duration = Duration::from_secs(6);
/// One input may take so long, in a build without optimisation.
const SLOW: Duration = Duration::from_secs(3);

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

fn committed(target: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(corpus(target)).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file of the corpus")).collect()
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % bound.max(1)
    }
}

/// Bytes that often stand at an edge: of MessagePack, of numbers, of text.
const EDGES: [u8; 16] = [0, 1, 0x7f, 0x80, 0xff, 0xc0, 0xc1, 0xc6, 0xd9, 0xdb, 0xdd, 0xdf, 0xde, b'/', b'.', b'\n'];

fn change(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed);
    let mut data = corpus[dice.below(corpus.len())].clone();
    for _ in 0..1 + dice.below(6) {
        let at = dice.below(data.len());
        match dice.below(8) {
            _ if data.is_empty() => data.push(dice.below(256) as u8),
            0 => data[at] ^= 1 << dice.below(8),
            1 => data[at] = dice.below(256) as u8,
            2 => data[at] = EDGES[dice.below(EDGES.len())],
            3 => data.truncate(at),
            4 => drop(data.drain(at..(at + 1 + dice.below(40)).min(data.len()))),
            5 => {
                let piece = data[at..(at + 1 + dice.below(60)).min(data.len())].to_vec();
                let to = dice.below(data.len());
                data.splice(to..to, piece);
            }
            6 => {
                let other = &corpus[dice.below(corpus.len())];
                let from = dice.below(other.len());
                data.splice(at.., other[from.min(other.len())..].iter().copied());
            }
            _ => {
                let end = (at + 4).min(data.len());
                data[at..end].fill([0, 0xff][dice.below(2)]);
            }
        }
    }
    data
}

fn feed(target: Target, what: &str, data: &[u8]) {
    let started = Instant::now();
    if catch_unwind(AssertUnwindSafe(|| target(data))).is_err() {
        panic!("{what} fails with {} bytes: {}", data.len(), data.escape_ascii());
    }
    assert!(started.elapsed() < SLOW, "{what} took {:?}: {}", started.elapsed(), data.escape_ascii());
}

fn replay(name: &str) {
    let (_, target) = *TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    in_time(|| {
        let corpus = committed(name);
        assert!(!corpus.is_empty(), "the corpus of {name} is empty");
        for (at, data) in corpus.iter().enumerate() {
            feed(target, &format!("{name}, file {at} of the corpus,"), data);
        }
        let started = Instant::now();
        let minutes = std::env::var("PACKTRAIN_FUZZ_MINUTES")
            .ok()
            .and_then(|text| text.parse().ok())
            .map(|minutes: u64| Duration::from_secs(60 * minutes));
        let first = std::env::var("PACKTRAIN_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut seed: u64 = first;
        // Long runs stop short of the patience of `in_time`.
        let enough = minutes.unwrap_or(ENOUGH).min(Duration::from_secs(55));
        while (minutes.is_some() || seed - first < CHANGES) && started.elapsed() < enough {
            feed(target, &format!("{name}, seed {seed},"), &change(&corpus, seed));
            seed += 1;
        }
        assert!(seed - first > 200, "only {} inputs in {:?}", seed - first, started.elapsed());
        eprintln!("{name}: {} inputs in {:?}", seed - first, started.elapsed());
    });
}

#[test]
fn object() {
    replay("object");
}

#[test]
fn fragment() {
    replay("fragment");
}

#[test]
fn key() {
    replay("key");
}

#[test]
fn archive() {
    replay("archive");
}

#[test]
fn stream() {
    replay("stream");
}

#[test]
fn ini() {
    replay("ini");
}

#[test]
fn pattern() {
    replay("pattern");
}

#[test]
fn ordered() {
    replay("ordered");
}

#[test]
fn repository() {
    replay("repository");
}

#[test]
fn log() {
    replay("log");
}

#[test]
fn log_items() {
    replay("log_items");
}

#[test]
fn log_maps() {
    replay("log_maps");
}

#[test]
fn every_target_has_a_test_and_sound_seeds() {
    for (name, target) in TARGETS {
        let sound = seeds(name);
        assert!(!sound.is_empty(), "{name}");
        sound.iter().for_each(|data| target(data));
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets").join(format!("{name}.rs"));
        assert!(file.is_file(), "{} is missing", file.display());
    }
}

/// Writes what the corpus starts from.
#[test]
#[ignore = "writes into the tree"]
fn write_corpus() {
    for (name, _) in TARGETS {
        std::fs::create_dir_all(corpus(name)).expect("a folder");
        for (at, data) in seeds(name).iter().enumerate() {
            std::fs::write(corpus(name).join(format!("seed-{at}")), data).expect("a file");
        }
    }
}
