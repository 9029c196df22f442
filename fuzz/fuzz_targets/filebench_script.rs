//! Fuzzes the parser `filebench_script` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("filebench_script", bytes));
