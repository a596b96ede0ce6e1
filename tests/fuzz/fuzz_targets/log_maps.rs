//! Feeds libFuzzer's bytes to the target `log_maps` of the harness.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| packtrain_tests::fuzzing::feed("log_maps", data));
