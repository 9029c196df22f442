//! Fuzzes the parser `trace_options` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("trace_options", bytes));
