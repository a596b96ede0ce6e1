//! What the measurements share: rounds in turn, medians and spreads.
//!
//! Nothing here is a test: machines are noisy, so figures are printed, never compared with a bound.

use std::time::{Duration, Instant};

/// Runs each of `contenders` once per round, in turn, so that a machine that slows down slows all
/// of them; returns each one's times, sorted.
pub fn rounds(count: usize, contenders: &mut [&mut dyn FnMut()]) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::with_capacity(count); contenders.len()];
    // The first round warms caches and is not counted.
    for round in 0..=count {
        for (run, times) in contenders.iter_mut().zip(&mut times) {
            let started = Instant::now();
            run();
            if round > 0 {
                times.push(started.elapsed());
            }
        }
    }
    for times in &mut times {
        times.sort();
    }
    times
}

/// Median, minimum and maximum of sorted times, in seconds.
pub fn spread(sorted: &[Duration]) -> (f64, f64, f64) {
    let at = |n: usize| sorted.get(n).map_or(0.0, Duration::as_secs_f64);
    (at(sorted.len() / 2), at(0), at(sorted.len().saturating_sub(1)))
}

/// Bytes that compress like text, the same at every call: words from a small vocabulary.
pub fn text(len: usize) -> Vec<u8> {
    let words = [
        "let ", "mut ", "self.", "offset", " = ", "bytes", "();\n", "    ", "match ", "chunk", "Some(", ")", "?", "u64",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        // xorshift: quick, seeded, and good enough to choose words.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend_from_slice(words[(state % words.len() as u64) as usize].as_bytes());
        if state.is_multiple_of(5) {
            text.extend_from_slice(state.to_string().as_bytes());
        }
    }
    text.truncate(len);
    text
}
