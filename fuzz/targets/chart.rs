//! The fuzzer of `chart`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("chart", input));
