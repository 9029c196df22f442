//! Divides the time of a run into ramp-up, measured part and cool-down, and these into intervals.
//! All processes use the same division, so the intervals of all processes can be added up by their
//! start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The start, which is not measured.
    RampUp,
    /// The part that the figures of a result describe.
    Measured,
    /// The end, which is not measured.
    CoolDown,
}

/// A part of a run within one phase and one interval, in nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) phase: Phase,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// The division of a run's time into stretches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    ramp_up_ns: u64,
    cool_down_start_ns: u64,
    interval_ns: u64,
}

impl Timeline {
    pub(crate) fn new(spec: &crate::job::JobSpec) -> Self {
        let end_ns = spec.time_ns.unwrap_or(u64::MAX);
        let interval_ns = if spec.interval_ns == 0 { u64::MAX } else { spec.interval_ns };
        // Without a cool-down, operations that complete after the end belong to the measured part.
        let cool_down_start_ns =
            if spec.cool_down_ns == 0 { u64::MAX } else { end_ns - spec.cool_down_ns };
        Self { ramp_up_ns: spec.ramp_up_ns, cool_down_start_ns, interval_ns }
    }

    /// Returns the stretch that contains a moment.
    pub(crate) fn at(&self, moment_ns: u64) -> Stretch {
        let (phase, first_ns, last_ns) = if moment_ns < self.ramp_up_ns {
            (Phase::RampUp, 0, self.ramp_up_ns)
        } else if moment_ns < self.cool_down_start_ns {
            (Phase::Measured, self.ramp_up_ns, self.cool_down_start_ns)
        } else {
            (Phase::CoolDown, self.cool_down_start_ns, u64::MAX)
        };
        let index = (moment_ns - first_ns) / self.interval_ns;
        let start_ns = first_ns + index * self.interval_ns;
        Stretch { phase, start_ns, end_ns: start_ns.saturating_add(self.interval_ns).min(last_ns) }
    }

    /// Returns the length of the measured part of a run that ended at `end_ns`, in nanoseconds.
    pub(crate) fn measured_ns(&self, end_ns: u64) -> u64 {
        end_ns.min(self.cool_down_start_ns).saturating_sub(self.ramp_up_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;

    #[test]
    fn stretches_are_cut_at_intervals_and_phases() {
        let timeline = Timeline::new(&JobSpec {
            time_ns: Some(100),
            ramp_up_ns: 15,
            cool_down_ns: 20,
            interval_ns: 10,
            ..JobSpec::default()
        });
        let mut moment_ns = 0;
        let mut found = Vec::new();
        while moment_ns < 100 {
            let stretch = timeline.at(moment_ns);
            assert_eq!(stretch.start_ns, moment_ns, "stretches follow each other");
            found.push((stretch.phase, stretch.end_ns));
            moment_ns = stretch.end_ns;
        }
        use Phase::{CoolDown, Measured, RampUp};
        let measured = [25, 35, 45, 55, 65, 75, 80].map(|end| (Measured, end));
        let expected = [(RampUp, 10), (RampUp, 15)].into_iter().chain(measured);
        assert_eq!(found, expected.chain([(CoolDown, 90), (CoolDown, 100)]).collect::<Vec<_>>());
        assert_eq!(timeline.measured_ns(100), 65);
        assert_eq!(timeline.measured_ns(50), 35);
    }

    #[test]
    fn without_intervals_a_phase_is_one_stretch() {
        let timeline =
            Timeline::new(&JobSpec { interval_ns: 0, ramp_up_ns: 5, ..JobSpec::default() });
        assert_eq!(timeline.at(4), Stretch { phase: Phase::RampUp, start_ns: 0, end_ns: 5 });
        assert_eq!(timeline.at(1 << 50).start_ns, 5);
    }
}
