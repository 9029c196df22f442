//! Fuzzes the parser `job_file` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("job_file", bytes));
