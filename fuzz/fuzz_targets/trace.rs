//! Fuzzes the parser `trace` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("trace", bytes));
