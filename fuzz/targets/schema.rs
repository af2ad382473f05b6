//! The fuzzer of `schema`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("schema", input));
