//! Fuzzes the parser `units` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("units", bytes));
