//! The fuzzer of `json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("json", input));
