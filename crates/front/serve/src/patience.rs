//! A server that starts while its store does not answer waits for it, and says so.

use crate::failure::RequestFailure;
use crate::open_pool::OpenError;
use crate::systemd;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_place::PoolPlace;

/// Pause after an attempt. The attempt itself lasts as long as a lease if the store is silent.
const PAUSE_NS: u64 = 1_000_000_000;
/// Interval between two messages.
const TOLD_EVERY_NS: u64 = 60_000_000_000;
/// Interval between two looks at the stop flag.
const LOOK_NS: u64 = 50_000_000;

/// Waits until the store of a member answers, and finds out if this process may fence others: at
/// its start, and not when it first has to. A pool of this host is not waited for.
///
/// # Errors
/// Fails if the store refuses, or if the wait was stopped.
pub fn await_store(
    place: &PoolPlace,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<(), RequestFailure> {
    let Some(member) = place.member() else { return Ok(()) };
    let tried =
        wait_for_store(place, stop, monitor, || member.try_fence().map_err(OpenError::Pool));
    tried.map_err(|error| RequestFailure::from(error).about_place(place))
}

/// Repeats an attempt as long as the store does not answer in time.
pub(crate) fn wait_for_store<T>(
    place: &PoolPlace,
    stop: &StopFlag,
    monitor: &dyn Monitor,
    attempt: impl Fn() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let clock = SystemClock::new();
    let mut next_told_ns = 0;
    loop {
        let error = match attempt() {
            Err(OpenError::Pool(error)) if error.may_pass() && !stop.is_raised() => error,
            other => return other,
        };
        let Some(member) = place.member() else {
            return Err(OpenError::Pool(error));
        };
        if clock.now_ns() >= next_told_ns {
            monitor.warn(&format!("{place}: waiting for the store: {error}"));
            systemd::notify("STATUS=waiting for the store");
            next_told_ns = clock.now_ns() + TOLD_EVERY_NS;
        }
        // A client whose changes may still be on their way takes no member again.
        member.reconnect();
        let until_ns = clock.now_ns() + PAUSE_NS;
        while clock.now_ns() < until_ns && !stop.is_raised() {
            clock.sleep_until_ns(clock.now_ns() + LOOK_NS);
        }
    }
}
