//! The command that repeats a test that has failed.

#![allow(
    clippy::print_stderr,
    unreachable_pub,
    reason = "tests of several crates use it, to say how a failure is repeated"
)]

/// Prints the command that repeats the test with a seed, if the test fails before this is dropped.
pub struct Repeat {
    seed: u64,
}

impl Repeat {
    pub const fn of(seed: u64) -> Self {
        Self { seed }
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            eprintln!(
                "repeat it with: GEMELO_TEST_SEED={} GEMELO_TEST_ROUNDS=1 cargo nextest run -p {} \
                 -E 'binary({}) & test(={})'",
                self.seed,
                env!("CARGO_PKG_NAME"),
                env!("CARGO_CRATE_NAME"),
                thread.name().unwrap_or_default()
            );
        }
    }
}
