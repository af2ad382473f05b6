//! The fuzzer of `yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("yaml", input));
