//! Fuzzes the parser `saved_set` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("saved_set", bytes));
