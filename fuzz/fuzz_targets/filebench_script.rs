//! Fuzzes the parser `filebench_script` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("filebench_script", bytes));
