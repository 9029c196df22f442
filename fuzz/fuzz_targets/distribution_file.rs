//! Fuzzes the parser `distribution_file` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("distribution_file", bytes));
