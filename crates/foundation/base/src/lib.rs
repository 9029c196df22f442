//! Types that all gemelo crates share: sizes and durations as users write them, clocks, random
//! numbers, sets of numbers, time series, the monitor to which libraries report progress, the stop
//! flag, locks, threads that tell of their panics, work in the background, and the kinds of
//! failures.
//!
//! This crate does no input or output apart from reading time and random bytes, asking for the
//! identity of a file, and reads of files whose errors say what is missing. It contains nothing
//! about blocks, load or volumes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

extern crate self as gemelo_base;

pub mod background;
mod boot_clock;
mod bytes;
pub mod clock;
mod daily;
mod failure;
mod file_identity;
pub mod huge_pages;
pub mod live;
pub mod locks;
pub mod memory;
pub mod monitor;
pub mod names;
pub mod panics;
mod permutation;
pub mod process;
pub mod random;
pub mod scheduling;
pub mod series;
mod short_read;
mod sparse_bits;
mod start;
mod stat;
pub mod stop;
pub mod threads;
pub mod units;
pub mod values;

pub use boot_clock::BootClock;
pub use bytes::is_zero;
pub use clock::{Clock, ManualClock, SystemClock, WallClock, pause};
pub use daily::DailyWindow;
pub use failure::{Classified, FailureKind, Remedy, with_causes};
pub use file_identity::FileIdentity;
pub use gemelo_derive::{Classified, StatTable};
pub use monitor::{Monitor, Recorder, Silent, Unit};
pub use names::{ShowPath, name_of_text, text_of_name};
pub use permutation::Permutation;
pub use short_read::{read_exact_at, short_read};
pub use sparse_bits::{PagedBits, SparseBits};
pub use start::{AtOnce, StartLine};
pub use stat::{Stat, StatKind, StatTable};
pub use stop::StopFlag;

/// Makes a type a string in results: the text that it shows, and that it is parsed from.
#[macro_export]
macro_rules! text_in_results {
    ($name:ty) => {
        impl TryFrom<String> for $name {
            type Error = <$name as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}
