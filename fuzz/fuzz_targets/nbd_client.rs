//! Fuzzes the parser `nbd_client` of `gemelo::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo::fuzzing::run("nbd_client", bytes));
