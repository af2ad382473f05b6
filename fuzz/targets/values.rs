//! The fuzzer of `values`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("values", input));
