//! Fuzzes the parser `result_file` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("result_file", bytes));
