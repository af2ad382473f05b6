//! The fuzzer of `patch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("patch", input));
