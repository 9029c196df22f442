//! Looking for the next request for a moment before a thread sleeps.
//!
//! Waking a thread takes as long as several requests of a client that waits for each answer. The
//! thread of a client therefore goes on looking for the next request, and a guest need not notify
//! it; the driver of a guest looks for an answer in the same way. The time grows while they come
//! soon, and is nothing otherwise: rare requests cost no processor.
//!
//! Looking pays while processors are idle. A thread that looks notices when the system has given
//! its processor to another one, and rests then: briefly if that one soon slept again, as a client
//! does, and for a second if it computed for milliseconds. None looks while processors are lacking
//! for the threads of this process that have found something.

use gemelo_base::{Clock, SystemClock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The first time of looking.
const FIRST_NS: u64 = 4_000;
/// An attempt takes a fraction of this time, unless another thread gets the processor.
const INTERRUPTED_NS: u64 = 10_000;

/// Threads of this process that look at the moment.
static LOOKING: AtomicUsize = AtomicUsize::new(0);
/// Threads of this process that work on what they have found.
static WORKING: AtomicUsize = AtomicUsize::new(0);

/// The time for which a thread looks; see the module.
#[derive(Debug)]
pub struct Spin {
    clock: SystemClock,
    processors: usize,
    longest_ns: u64,
    window_ns: u64,
    began_ns: u64,
    rests_until_ns: u64,
    is_working: bool,
}

/// A thread that looks, until this is dropped.
struct Looking;

impl Looking {
    fn begin(processors: usize) -> Option<Self> {
        let is_one_more =
            |looking: usize| are_spare(processors, looking + 1).then_some(looking + 1);
        let begun = LOOKING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_one_more);
        // Made only then, because it is counted down when it is dropped.
        begun.is_ok().then(|| Self)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether there is a processor for each thread that works, for each that looks, and for
/// the clients of these.
fn are_spare(processors: usize, looking: usize) -> bool {
    WORKING.load(Ordering::Relaxed) + 2 * looking <= processors
}

impl Spin {
    /// The usual longest time of looking.
    pub const USUAL: Duration = Duration::from_micros(64);

    /// Makes one that looks for this time at most. What comes later is worth a sleep.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let clock = SystemClock::new();
        Self {
            processors,
            longest_ns,
            window_ns: 0,
            began_ns: clock.now_ns(),
            rests_until_ns: 0,
            is_working: false,
            clock,
        }
    }

    fn set_working(&mut self, is_working: bool) {
        if is_working && !self.is_working {
            WORKING.fetch_add(1, Ordering::Relaxed);
        } else if self.is_working && !is_working {
            WORKING.fetch_sub(1, Ordering::Relaxed);
        }
        self.is_working = is_working;
    }

    /// Attempts to take something until it is there, the time is over, or others need the
    /// processor.
    pub fn look<T>(&mut self, attempt: impl FnMut() -> Option<T>) -> Option<T> {
        self.look_if(true, attempt)
    }

    /// Does the same if that pays for another reason. Otherwise the thread is going to sleep.
    pub fn look_if<T>(&mut self, pays: bool, attempt: impl FnMut() -> Option<T>) -> Option<T> {
        self.set_working(false);
        self.began_ns = self.clock.now_ns();
        let found = if pays { self.look_for(attempt) } else { None };
        self.set_working(found.is_some());
        found
    }

    fn look_for<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let mut now_ns = self.began_ns;
        if self.window_ns == 0 || now_ns < self.rests_until_ns {
            return None;
        }
        let _looking = Looking::begin(self.processors)?;
        while now_ns.saturating_sub(self.began_ns) < self.window_ns
            && are_spare(self.processors, LOOKING.load(Ordering::Relaxed))
        {
            if let Some(found) = attempt() {
                return Some(found);
            }
            std::hint::spin_loop();
            let interruption_ns = self.clock.now_ns().saturating_sub(now_ns);
            now_ns += interruption_ns;
            if interruption_ns > INTERRUPTED_NS {
                let times_as_long = interruption_ns / INTERRUPTED_NS;
                let rest_ns = interruption_ns.saturating_mul(times_as_long);
                self.rests_until_ns = now_ns.saturating_add(rest_ns);
                break;
            }
        }
        attempt()
    }

    /// Returns the time since the last look began.
    #[must_use]
    pub fn since_look(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns().saturating_sub(self.began_ns))
    }

    /// Notes that the thread was woken from its sleep, and adapts the time.
    pub fn woken(&mut self) {
        self.set_working(true);
        let waited_ns = self.clock.now_ns().saturating_sub(self.began_ns);
        self.window_ns = next_window(self.window_ns, waited_ns, self.longest_ns);
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        self.set_working(false);
    }
}

/// The time to look for after something came later than this one allowed.
fn next_window(window_ns: u64, waited_ns: u64, longest_ns: u64) -> u64 {
    if waited_ns > longest_ns {
        return 0;
    }
    let wider = if window_ns == 0 { FIRST_NS } else { window_ns * 2 };
    wider.min(longest_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_grows_while_requests_come_soon_and_ends_when_one_is_late() {
        let mut window_ns = 0;
        let mut seen = Vec::new();
        for waited_ns in [30_000, 30_000, 30_000, 30_000, 30_000, 60_000, 90_000, 20_000] {
            window_ns = next_window(window_ns, waited_ns, 64_000);
            seen.push(window_ns);
        }
        assert_eq!(seen, [4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 0, 4_000]);
        assert_eq!(next_window(4_000, 1, 0), 0, "without time it never looks");
    }

    #[test]
    fn it_looks_only_for_its_time_and_only_with_a_processor_to_spare() {
        let mut spin = Spin::new(Spin::USUAL);
        spin.processors = 2;
        assert_eq!(spin.look(|| Some(1)), None, "it does not look before requests have come soon");
        spin.window_ns = u64::MAX;
        let mut attempts = 0;
        let mut slow = || {
            attempts += 1;
            std::thread::sleep(Duration::from_millis(20));
            None::<()>
        };
        assert_eq!((spin.look(&mut slow), spin.look(&mut slow)), (None, None));
        assert_eq!(attempts, 2, "after an interruption it looks once more, and then rests");
        for window_ns in [FIRST_NS, u64::MAX] {
            (spin.window_ns, spin.rests_until_ns) = (window_ns, 0);
            assert_eq!(spin.look(|| Some(7)), Some(7));
        }
        spin.window_ns = 100_000;
        let (mut begun, mut late) = (None, 0);
        let found = spin.look(|| {
            let begun = begun.get_or_insert_with(std::time::Instant::now);
            late += u32::from(begun.elapsed() > Duration::from_nanos(100_000));
            None::<()>
        });
        assert_eq!(found, None);
        assert!(late <= 2, "it looked {late} times after its time");
        (spin.processors, spin.rests_until_ns) = (1, 0);
        assert_eq!(spin.look(|| Some(1)), None);
        (spin.processors, spin.window_ns) = (2, u64::MAX);
        let mut other = Spin::new(Spin::USUAL);
        other.woken();
        assert_eq!(spin.look(|| Some(1)), None, "another thread works");
        drop(other);
        let mut other = Spin::new(Spin::USUAL);
        let found = spin.look(|| {
            other.woken();
            None::<()>
        });
        assert_eq!(found, None, "another thread has begun to work");
        drop(other);
        assert_eq!(spin.look_if(false, || Some(1)), None);
        assert_eq!(spin.look(|| Some(1)), Some(1));
        drop(spin);
        assert_eq!((LOOKING.load(Ordering::Relaxed), WORKING.load(Ordering::Relaxed)), (0, 0));
    }
}
