//! The fuzzer of `selector`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("selector", input));
