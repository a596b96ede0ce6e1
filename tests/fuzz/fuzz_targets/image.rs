//! Feeds libFuzzer's bytes to the target `image` of the harness.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| packtrain_tests::fuzzing::feed("image", data));
