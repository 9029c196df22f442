//! Processor time and memory, as the kernel counts them.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// Processor time and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the program's own code.
    pub user_ns: u64,
    /// Processor time of the kernel on its behalf.
    pub system_ns: u64,
    /// The most memory that the whole program has had at any time so far.
    pub peak_memory_bytes: u64,
}

impl Usage {
    /// Of the calling thread so far.
    pub(crate) fn of_this_thread() -> Self {
        Self::of(UsageWho::RUSAGE_THREAD)
    }

    /// Of the whole program so far.
    pub(crate) fn of_this_program() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    fn of(who: UsageWho) -> Self {
        /// The kernel counts memory in KiB.
        const KIB: u64 = 1024;
        let Ok(usage) = getrusage(who) else { return Self::default() };
        let nanoseconds = |time: nix::sys::time::TimeVal| u64::try_from(time.num_nanoseconds()).unwrap_or(0);
        Self {
            user_ns: nanoseconds(usage.user_time()),
            system_ns: nanoseconds(usage.system_time()),
            peak_memory_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * KIB,
        }
    }

    /// What was used since an earlier moment.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            peak_memory_bytes: self.peak_memory_bytes,
        }
    }
}
