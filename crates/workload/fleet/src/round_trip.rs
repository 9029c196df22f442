//! The offset of the clock of a host, by round trips: the quickest one tells it best.

use gemelo_base::{Clock, SystemClock, WallClock};
use serde::{Deserialize, Serialize};

/// Round trips to each host.
pub(crate) const ROUND_TRIPS: u32 = 8;

/// Readings of the clock that times runs and of the date, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) clock_ns: u64,
    /// The date since 1970.
    pub(crate) date_ns: u64,
}

impl Now {
    pub(crate) fn of(clock: &SystemClock) -> Self {
        let since = clock.date().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let date_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Self { clock_ns: clock.now_ns(), date_ns }
    }
}

/// The offset of the clocks of a host against those here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Length of the quickest round trip. Half of it bounds the error of both offsets.
    pub round_trip_ns: u64,
    /// The date over there minus the date here.
    pub date_offset_ns: i64,
    /// The clock of runs over there minus the one here. Both count from the start of their program.
    #[serde(skip)]
    pub(crate) clock_offset_ns: i64,
}

/// One round trip: readings of the clocks here and there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundTrip {
    pub(crate) sent_ns: u64,
    /// The readings here when the answer came.
    pub(crate) received: Now,
    /// The readings in the answer.
    pub(crate) far: Now,
}

impl RoundTrip {
    /// Returns the offsets if the answer was made in the middle of the round trip.
    pub(crate) fn offset(&self) -> ClockOffset {
        let round_trip_ns = self.received.clock_ns.saturating_sub(self.sent_ns);
        let half_ns = round_trip_ns / 2;
        ClockOffset {
            round_trip_ns,
            date_offset_ns: difference(
                self.far.date_ns,
                self.received.date_ns.saturating_sub(half_ns),
            ),
            clock_offset_ns: difference(self.far.clock_ns, self.sent_ns.saturating_add(half_ns)),
        }
    }
}

impl ClockOffset {
    /// Returns the better one of two measurements.
    pub(crate) fn or_quicker(self, other: Option<Self>) -> Self {
        other.filter(|other| other.round_trip_ns <= self.round_trip_ns).unwrap_or(self)
    }

    /// Returns the reading over there at a reading of the clock here.
    pub(crate) fn there(&self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.clock_offset_ns)
    }
}

/// Returns `one - other`, or the nearest number that fits.
fn difference(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(if one > other {
        i64::MAX
    } else {
        i64::MIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_round_trip_tells_the_offset() {
        let trip = |sent_ns, received_ns, far_clock_ns| RoundTrip {
            sent_ns,
            received: Now { clock_ns: received_ns, date_ns: 1_000_000 + received_ns },
            far: Now { clock_ns: far_clock_ns, date_ns: 1_000_000 + far_clock_ns - 400 },
        };
        // The clock over there is 500 ahead; the first answer waited on its way back.
        let slow = trip(100, 1100, 650).offset();
        let quick = trip(2000, 2100, 2550).offset();
        let best = quick.or_quicker(Some(slow));
        assert_eq!(
            (best.round_trip_ns, best.clock_offset_ns, best.date_offset_ns),
            (100, 500, 100)
        );
        assert_eq!(slow.or_quicker(Some(quick)), best);
        assert_eq!(best.there(3000), 3500);
    }
}
