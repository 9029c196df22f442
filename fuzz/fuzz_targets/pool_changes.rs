//! Fuzzes the parser `pool_changes` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("pool_changes", bytes));
