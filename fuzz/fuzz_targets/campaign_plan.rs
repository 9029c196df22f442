//! Fuzzes the parser `campaign_plan` of `gemelo_fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gemelo_fuzzing::run("campaign_plan", bytes));
