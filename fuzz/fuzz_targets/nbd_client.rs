//! Fuzzes the parser `nbd_client` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("nbd_client", bytes));
