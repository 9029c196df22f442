//! Fuzzes the parser `vhost_queue` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("vhost_queue", bytes));
