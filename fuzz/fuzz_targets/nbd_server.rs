//! Fuzzes the parser `nbd_server` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("nbd_server", bytes));
