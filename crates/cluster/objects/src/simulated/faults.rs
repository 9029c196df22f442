//! The faults that a simulated store has, and the fate of each call.

use gemelo_base::random::Random;

/// The rates of faults, and the durations of calls. Rates are per 1,000 calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// The shortest way to the store, and back.
    pub min_delay_ns: u64,
    /// The longest way to the store, and back.
    pub max_delay_ns: u64,
    /// The time after which a client gives up a call.
    pub timeout_ns: u64,
    /// Calls that are applied and not acknowledged.
    pub lost_replies: u64,
    /// Calls that are never applied.
    pub lost_calls: u64,
    /// Calls that are applied after their sender gave up.
    pub late_calls: u64,
}

impl Faults {
    /// A store without faults that answers after 0.2 to 2 ms.
    pub const NONE: Self = Self {
        min_delay_ns: 100_000,
        max_delay_ns: 1_000_000,
        timeout_ns: 1_000_000_000,
        lost_replies: 0,
        lost_calls: 0,
        late_calls: 0,
    };

    /// A store that loses one call in 50, in each of the three ways.
    pub const FREQUENT: Self =
        Self { lost_replies: 20, lost_calls: 20, late_calls: 20, ..Self::NONE };

    pub(super) fn delay_ns(&self, random: &mut Random) -> u64 {
        let range_ns = self.max_delay_ns.saturating_sub(self.min_delay_ns);
        self.min_delay_ns + random.below(range_ns + 1)
    }

    /// Draws when a call arrives, and when its sender goes on.
    pub(super) fn draw(&self, random: &mut Random) -> Fate {
        let (there_ns, back_ns) = (self.delay_ns(random), self.delay_ns(random));
        let chance = random.below(1000);
        let late_ns = self.timeout_ns + random.below(self.timeout_ns.max(1));
        let lost_reply = self.lost_replies;
        let lost_call = lost_reply + self.lost_calls;
        if chance < lost_reply {
            Fate { arrival_ns: Some(there_ns), reply_ns: None }
        } else if chance < lost_call {
            Fate { arrival_ns: None, reply_ns: None }
        } else if chance < lost_call + self.late_calls {
            Fate { arrival_ns: Some(late_ns), reply_ns: None }
        } else {
            Fate { arrival_ns: Some(there_ns), reply_ns: Some(there_ns + back_ns) }
        }
    }
}

/// The fate of a call, in nanoseconds after it was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    /// The time at which the store applies the call, if it ever does.
    pub(super) arrival_ns: Option<u64>,
    /// The time at which the sender has the answer, if it ever has.
    pub(super) reply_ns: Option<u64>,
}

impl Fate {
    pub(super) const LOST: Self = Self { arrival_ns: None, reply_ns: None };
}
