//! The fuzzer of `request-line`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run("request-line", input));
