//! What every gemelo crate needs and none owns: sizes and durations as people write them, the clock, seeded
//! chance, the monitor through which libraries tell of progress, and the flag that asks them to stop.
//!
//! Nothing here does input or output; nothing here knows of blocks, load or volumes.

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
