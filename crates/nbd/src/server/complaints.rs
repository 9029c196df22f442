//! Reports about clients that were refused or broke the protocol. The first report of a kind is
//! written at once, and the number of further ones once a minute, so that a storm of bad clients
//! does not fill the log.

use gemelo_base::{Clock, Monitor, SystemClock};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Interval between two reports of a kind.
const EVERY_NS: u64 = 60_000_000_000;

/// Reports of the kinds `K`. Their number is small, because `kinds` keeps each of them.
pub(super) struct Complaints<K> {
    monitor: Arc<dyn Monitor>,
    clock: Box<dyn Clock>,
    kinds: Mutex<HashMap<K, Kind>>,
}

/// The reports of a kind since the last one was written.
struct Kind {
    told_ns: u64,
    untold: u64,
    last: String,
}

impl<K: Eq + Hash> Complaints<K> {
    pub(super) fn new(monitor: Arc<dyn Monitor>) -> Self {
        Self { monitor, clock: Box::new(SystemClock::new()), kinds: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the report now, or counts it.
    pub(super) fn tell(&self, kind: K, message: String) {
        let mut kinds = self.lock();
        if let Some(known) = kinds.get_mut(&kind) {
            known.untold += 1;
            known.last = message;
            return;
        }
        kinds.insert(kind, Kind { told_ns: self.clock.now_ns(), untold: 0, last: String::new() });
        drop(kinds);
        self.monitor.warn(&message);
    }

    /// Writes the number of counted reports, of each kind once a minute. At the end it writes all
    /// of them.
    pub(super) fn tell_counted(&self, is_end: bool) {
        let mut due = Vec::new();
        let now_ns = self.clock.now_ns();
        self.lock().retain(|_, kind| {
            let is_due = is_end || now_ns >= kind.told_ns.saturating_add(EVERY_NS);
            if is_due && kind.untold > 0 {
                due.push(match kind.untold {
                    1 => std::mem::take(&mut kind.last),
                    count => {
                        format!("{count} more like this since it was last told: {}", kind.last)
                    }
                });
                kind.untold = 0;
                kind.told_ns = now_ns;
                return true;
            }
            // A kind that was quiet for a minute starts again.
            !is_due
        });
        for message in due {
            self.monitor.warn(&message);
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
        let complaints = Complaints {
            clock: Box::new(Shared(Arc::clone(&clock))),
            ..Complaints::<u8>::new(Arc::clone(&heard) as _)
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
}
