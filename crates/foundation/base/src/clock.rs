//! The only source of time: a monotonic clock for durations, and a wall clock for dates.
//!
//! Code whose timing is tested takes a [`Clock`], so that a test can drive it with a
//! [`ManualClock`] and repeat a run exactly. The lints of all crates deny the functions of the
//! standard library that read time and that sleep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// A monotonic clock that counts nanoseconds from an origin of its own.
pub trait Clock: Send + Sync {
    /// Returns the nanoseconds since the clock's origin. Successive values never decrease.
    fn now_ns(&self) -> u64;

    /// Blocks until `now_ns()` reaches `deadline_ns`. Returns at once if the deadline has passed.
    fn sleep_until_ns(&self, deadline_ns: u64);

    /// Returns the wall-clock time in seconds since 1970, UTC. `None` if the clock does not know
    /// it.
    fn utc_s(&self) -> Option<u64> {
        None
    }

    /// Returns the minutes since midnight, local time, 0 to 1439. `None` if the clock does not know
    /// it. A clock without a time zone gives UTC.
    fn local_minute(&self) -> Option<u16> {
        let minutes = self.utc_s()? / 60 % MINUTES_OF_DAY;
        u16::try_from(minutes).ok()
    }

    /// Returns the processor time in nanoseconds that the calling thread has used. `None` if the
    /// clock does not know it.
    fn thread_cpu_ns(&self) -> Option<u64> {
        None
    }

    /// Returns the time in nanoseconds for which processors of this machine had nothing to do, all
    /// of them together, in steps of some milliseconds. `None` if the clock does not know it.
    fn idle_cpu_ns(&self) -> Option<u64> {
        None
    }
}

/// The time that processors had nothing to do, by the line of all processors in `/proc/stat`: the
/// fourth and the fifth number are the ticks spent idle and waiting for disks.
fn idle_ticks(stat: &str) -> Option<u64> {
    let mut numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().skip(3);
    let mut number = || numbers.next()?.parse::<u64>().ok();
    number()?.checked_add(number()?)
}

/// Ticks of `/proc/stat` have this length on all architectures of Linux.
const TICK_NS: u64 = 10_000_000;

const MINUTES_OF_DAY: u64 = 24 * 60;

/// A clock that knows the date. It may jump, so it measures no durations.
pub trait WallClock: Send + Sync {
    /// Returns the date and the time of day.
    fn date(&self) -> SystemTime;
}

/// Waits for something that no [`Clock`] of a test moves: another thread, another process, or the
/// kernel. The caller looks whether it has happened, and waits again. A wait that decides what
/// happens, such as a deadline or a pace, is [`Clock::sleep_until_ns`] instead.
#[expect(clippy::disallowed_methods, reason = "this is the wait that others call")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// The operating system's clocks. The origin of the monotonic one is the moment at which the value
/// is created.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

/// A thread that has less than this left to its deadline spins instead of sleeping: a Linux timer
/// wakes a thread about 50 µs late.
const SPIN_BELOW_NS: u64 = 60_000;

impl SystemClock {
    /// Creates a clock whose origin is the current instant.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: now() }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock through which others read time")]
fn now() -> Instant {
    Instant::now()
}

impl WallClock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock through which others read the date"
    )]
    fn date(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        // The cast is safe: 2^64 ns are 584 years.
        self.origin.elapsed().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock by which others sleep")]
    fn sleep_until_ns(&self, deadline_ns: u64) {
        loop {
            let left_ns = deadline_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return;
            }
            if left_ns > SPIN_BELOW_NS {
                std::thread::sleep(Duration::from_nanos(left_ns - SPIN_BELOW_NS));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn utc_s(&self) -> Option<u64> {
        // A system whose clock is set to a time before 1970 does not know the time.
        SystemTime::UNIX_EPOCH.elapsed().ok().map(|since| since.as_secs())
    }

    fn local_minute(&self) -> Option<u16> {
        let now = jiff::Zoned::now();
        let minutes = i16::from(now.hour()) * 60 + i16::from(now.minute());
        u16::try_from(minutes).ok()
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(used.tv_sec).ok()?;
        Some(seconds * 1_000_000_000 + u64::try_from(used.tv_nsec).ok()?)
    }

    fn idle_cpu_ns(&self) -> Option<u64> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        idle_ticks(&stat)?.checked_mul(TICK_NS)
    }
}

/// A clock for tests. It moves only by [`ManualClock::advance_ns`] and by sleeping. Its origin is
/// the beginning of 1970.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// The wall-clock time of the clock's origin, in seconds since 1970, UTC.
    pub const ORIGIN_S: u64 = 1_700_000_000;

    /// Creates a clock that stands at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    pub fn advance_ns(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.now_ns.fetch_max(deadline_ns, Ordering::Relaxed);
    }

    fn utc_s(&self) -> Option<u64> {
        Some(Self::ORIGIN_S + self.now_ns() / 1_000_000_000)
    }
}

impl WallClock for ManualClock {
    fn date(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.now_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_sleeps_to_the_deadline_and_not_before() {
        let clock = SystemClock::new();
        let deadline_ns = clock.now_ns() + 200_000;
        clock.sleep_until_ns(deadline_ns);
        assert!(clock.now_ns() >= deadline_ns);
    }

    #[test]
    fn sleeping_moves_a_manual_clock_forward_only() {
        let clock = ManualClock::new();
        clock.sleep_until_ns(50);
        clock.sleep_until_ns(20);
        clock.advance_ns(1);
        assert_eq!(clock.now_ns(), 51);
        assert_eq!(clock.date(), SystemTime::UNIX_EPOCH + Duration::from_nanos(51));
    }

    #[test]
    fn minutes_of_the_day_follow_the_date() {
        let clock = ManualClock::new();
        // The origin is 22:13:20.
        assert_eq!(clock.local_minute(), Some(22 * 60 + 13));
        clock.advance_ns(2 * 3600 * 1_000_000_000);
        assert_eq!(clock.local_minute(), Some(13));
        assert!(SystemClock::new().local_minute().unwrap() < 24 * 60);
    }

    #[test]
    fn a_thread_that_works_uses_processor_time() {
        let clock = SystemClock::new();
        let began_ns = clock.thread_cpu_ns().unwrap();
        let mut sum = 0u64;
        while clock.thread_cpu_ns().unwrap() == began_ns {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(ManualClock::new().thread_cpu_ns(), None);
    }

    #[test]
    fn idle_time_is_that_of_all_processors() {
        let stat = "cpu  10 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(idle_ticks(stat), Some(4500));
        assert_eq!(idle_ticks("cpu0 1 2 3 4 5"), None);
        assert_eq!(idle_ticks(""), None);
    }
}
