//! Types that all gemelo crates share: sizes and durations as users write them, the clock, seeded
//! random numbers, the monitor to which libraries report progress, and the stop flag.
//!
//! This crate does no input or output, and it contains nothing about blocks, load or volumes.

pub mod clock;
pub mod monitor;
mod permutation;
pub mod random;
pub mod stop;
pub mod units;

pub use clock::{Clock, ManualClock, SystemClock};
pub use monitor::{Monitor, Recorder, Silent, Unit};
pub use permutation::Permutation;
pub use stop::StopFlag;
