//! Fuzzes the parser `dedisbench_line` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("dedisbench_line", bytes));
