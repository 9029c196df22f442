//! Throttled reports about clients. Of each kind, the first few reports of a minute are written at
//! once, and the number of further ones once a minute, so that a storm of clients does not fill the
//! log.

use gemelo_base::{Clock, Monitor, SystemClock};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Length of the minute in which reports are counted.
const EVERY_NS: u64 = 60_000_000_000;

/// Reports of the kinds `K`. Their number is small, because `kinds` keeps each of them.
pub(super) struct Reports<K> {
    monitor: Arc<dyn Monitor>,
    /// Writes a report, as a warning or as an event.
    write: fn(&dyn Monitor, &str),
    /// Most reports of a kind that are written in a minute.
    max_written: u64,
    clock: Box<dyn Clock>,
    kinds: Mutex<HashMap<K, ReportKind>>,
}

/// The reports of a kind in the present minute.
struct ReportKind {
    began_ns: u64,
    written: u64,
    counted: u64,
    last: String,
}

impl<K: Eq + Hash> Reports<K> {
    /// Makes reports that are warnings, one of each kind in a minute.
    pub(super) fn warnings(monitor: Arc<dyn Monitor>) -> Self {
        Self::new(monitor, |monitor, message| monitor.warn(message), 1)
    }

    /// Makes reports that are events for a log, of each kind this number in a minute.
    pub(super) fn events(monitor: Arc<dyn Monitor>, max_written: u64) -> Self {
        Self::new(monitor, |monitor, message| monitor.log(message), max_written)
    }

    fn new(monitor: Arc<dyn Monitor>, write: fn(&dyn Monitor, &str), max_written: u64) -> Self {
        let (clock, kinds) = (Box::new(SystemClock::new()), Mutex::default());
        Self { monitor, write, max_written, clock, kinds }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, ReportKind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the report now, or counts it.
    pub(super) fn tell(&self, kind: K, message: String) {
        let began_ns = self.clock.now_ns();
        let mut kinds = self.lock();
        let new = ReportKind { began_ns, written: 0, counted: 0, last: String::new() };
        let known = kinds.entry(kind).or_insert(new);
        if known.written >= self.max_written {
            known.counted += 1;
            known.last = message;
            return;
        }
        known.written += 1;
        drop(kinds);
        (self.write)(&*self.monitor, &message);
    }

    /// Writes the number of counted reports, of each kind once a minute. At the end it writes all
    /// of them.
    pub(super) fn tell_counted(&self, is_end: bool) {
        let mut due = Vec::new();
        let now_ns = self.clock.now_ns();
        self.lock().retain(|_, kind| {
            let is_due = is_end || now_ns >= kind.began_ns.saturating_add(EVERY_NS);
            if is_due && kind.counted > 0 {
                due.push(match kind.counted {
                    1 => std::mem::take(&mut kind.last),
                    count => {
                        format!("{count} more like this since it was last told: {}", kind.last)
                    }
                });
                // The number is the first report of the next minute.
                *kind =
                    ReportKind { began_ns: now_ns, written: 1, counted: 0, last: String::new() };
                return true;
            }
            // A kind that was not counted starts again.
            !is_due
        });
        for message in due {
            (self.write)(&*self.monitor, &message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{ManualClock, Recorder};

    #[test]
    fn the_first_is_told_and_then_a_count_once_a_minute() {
        let heard = Arc::new(Recorder::new());
        let clock = Arc::new(ManualClock::new());
        struct Shared(Arc<ManualClock>);
        impl Clock for Shared {
            fn now_ns(&self) -> u64 {
                self.0.now_ns()
            }
            fn sleep_until_ns(&self, deadline_ns: u64) {
                self.0.sleep_until_ns(deadline_ns);
            }
        }
        let complaints = Reports {
            clock: Box::new(Shared(Arc::clone(&clock))),
            ..Reports::<u8>::warnings(Arc::clone(&heard) as _)
        };
        for number in 0..1000 {
            complaints.tell(1, format!("client {number} was refused"));
            complaints.tell_counted(false);
        }
        complaints.tell(2, "another kind".to_owned());
        assert_eq!(heard.warnings(), ["client 0 was refused", "another kind"]);
        clock.advance_ns(EVERY_NS);
        complaints.tell_counted(false);
        complaints.tell_counted(false);
        assert_eq!(
            heard.warnings().last().unwrap(),
            "999 more like this since it was last told: client 999 was refused"
        );
        complaints.tell(1, "client 1000 was refused".to_owned());
        complaints.tell(2, "the other kind again".to_owned());
        assert_eq!(heard.warnings().len(), 4, "{:?}", heard.warnings());
        complaints.tell_counted(true);
        assert_eq!(heard.warnings().last().unwrap(), "client 1000 was refused");
    }

    #[test]
    fn events_are_logged_one_by_one_up_to_their_number_a_minute() {
        let heard = Arc::new(Recorder::new());
        let events = Reports::events(Arc::clone(&heard) as _, 3);
        for number in 0..10 {
            events.tell("connected", format!("client {number} connected"));
        }
        events.tell("left", "client 0 left".to_owned());
        events.tell_counted(false);
        assert_eq!(heard.logged().len(), 4, "{:?}", heard.logged());
        events.tell_counted(true);
        assert_eq!(
            heard.logged().last().unwrap(),
            "7 more like this since it was last told: client 9 connected"
        );
        assert!(heard.warnings().is_empty());
    }
}
