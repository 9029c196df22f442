//! Fuzzes the parser `pool_kept` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("pool_kept", bytes));
