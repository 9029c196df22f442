//! The command that repeats a test that has failed, and the caches that its pools have.

#![allow(
    clippy::print_stderr,
    dead_code,
    unreachable_pub,
    reason = "tests of several crates use it, to say how a failure is repeated; not all have pools"
)]

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of pools that have asked for a cache since the seed was set.
static CACHES: AtomicU64 = AtomicU64::new(0);

/// Bytes of the metadata cache of a pool that a test opens: by turns few, of which a checkpoint and
/// a look-up push pages out, and enough for all metadata.
pub fn cache_bytes() -> u64 {
    [64 << 10, 64 << 20][(CACHES.fetch_add(1, Ordering::Relaxed) % 2) as usize]
}

/// Prints the command that repeats the test with a seed, if the test fails before this is dropped.
pub struct Repeat {
    seed: u64,
}

impl Repeat {
    pub fn of(seed: u64) -> Self {
        // The test alone, with this seed, has the same caches.
        CACHES.store(seed, Ordering::Relaxed);
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
