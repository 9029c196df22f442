//! Processor time and memory as the kernel reports them.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Processor time and memory used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel on behalf of the program.
    pub system_ns: u64,
    /// Peak memory of the whole program since the run began, populating included. It is the peak
    /// since the program began if the kernel does not permit resetting it.
    pub peak_memory_bytes: u64,
}

/// Resets the kernel's record of peak memory to the memory in use now. What an earlier job has
/// freed is not in use.
pub(crate) fn forget_peak_memory() {
    /// Value that resets the peak, see proc(5).
    const RESET_PEAK: &str = "5";
    gemelo_base::memory::give_back_freed();
    // A kernel without this feature keeps the peak of the whole program, as documented at the
    // field.
    let _ = std::fs::write("/proc/self/clear_refs", RESET_PEAK);
}

impl Usage {
    /// Returns the usage of the calling thread so far.
    pub(crate) fn of_this_thread() -> Self {
        Self::of(UsageWho::RUSAGE_THREAD)
    }

    /// Returns the usage of the whole program so far.
    pub(crate) fn of_this_program() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    fn of(who: UsageWho) -> Self {
        /// The kernel counts memory in KiB.
        const KIB: u64 = 1024;
        let Ok(usage) = getrusage(who) else { return Self::default() };
        let nanoseconds =
            |time: nix::sys::time::TimeVal| u64::try_from(time.num_nanoseconds()).unwrap_or(0);
        Self {
            user_ns: nanoseconds(usage.user_time()),
            system_ns: nanoseconds(usage.system_time()),
            peak_memory_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * KIB,
        }
    }

    /// Returns the usage of two programs together.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
            peak_memory_bytes: self.peak_memory_bytes.saturating_add(other.peak_memory_bytes),
        }
    }

    /// Returns the usage since an earlier moment.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            peak_memory_bytes: self.peak_memory_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_forgotten() {
        const LARGE: usize = 256 << 20;
        drop(std::hint::black_box(vec![1u8; LARGE]));
        let before = Usage::of_this_program().peak_memory_bytes;
        assert!(before > LARGE as u64);
        forget_peak_memory();
        let after = Usage::of_this_program().peak_memory_bytes;
        assert!(after > 0 && after < before - LARGE as u64 / 2, "{before}, then {after}");
    }
}
