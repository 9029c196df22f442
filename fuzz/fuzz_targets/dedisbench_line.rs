//! Fuzzes the parser `dedisbench_line` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("dedisbench_line", bytes));
