//! The outlook of a campaign: its runs in their order, the time and the space that they need.

use crate::plan::Plan;
use crate::run::first_runs;
use crate::selection::Selection;
use gemelo_record::PlannedRun;
use std::time::Duration;

/// A target or a workload of a plan.
#[derive(Debug)]
pub struct Member {
    /// Name in the plan.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Reason why this machine cannot have it.
    pub left_out: Option<String>,
}

/// The actions of a campaign on this machine, before any is done.
#[derive(Debug)]
pub struct Outlook {
    /// Title of the report.
    pub title: String,
    /// The targets, in the order of the plan.
    pub targets: Vec<Member>,
    /// The workloads, in the order of the plan.
    pub workloads: Vec<Member>,
    /// The runs in their order, without those that wide confidence intervals may add.
    pub runs: Vec<PlannedRun>,
    /// The most repetitions of each pair.
    pub most_repetitions: u32,
    /// The time of all runs whose length is known, without making targets.
    pub known_time: Duration,
    /// Number of runs of unknown length, each of which ends at its time limit at the latest.
    pub unknown_runs: usize,
    /// The most space of one target, if the targets have limits. Runs follow one another.
    pub space_bytes: Option<u64>,
    /// Pairs that cannot be run although both members can, each with its reason.
    pub unsuitable: Vec<String>,
}

impl Plan {
    /// Returns what a campaign of this plan would do on this machine.
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        let selection = Selection::of(self);
        let targets =
            self.targets.iter().zip(&selection.targets).map(|(target, left_out)| Member {
                name: target.name.clone(),
                description: target.description.clone(),
                left_out: left_out.clone(),
            });
        let workloads =
            self.workloads.iter().zip(&selection.workloads).map(|(workload, left_out)| Member {
                name: workload.name.clone(),
                description: workload.description.clone(),
                left_out: left_out.clone(),
            });
        let repetitions = self.settings.repetitions as usize;
        let times = selection.pairs.iter().map(|pair| {
            self.workloads.get(pair.workload).and_then(crate::workload::WorkloadPlan::expected_time)
        });
        let times: Vec<_> = times.collect();
        let known: Duration = times.iter().flatten().sum();
        let pauses = self.settings.idle * u32::try_from(times.len()).unwrap_or(u32::MAX);
        Outlook {
            title: self.settings.title.clone(),
            targets: targets.collect(),
            workloads: workloads.collect(),
            runs: first_runs(self, &selection),
            most_repetitions: self.settings.most_repetitions,
            known_time: (known + pauses) * self.settings.repetitions,
            unknown_runs: times.iter().filter(|time| time.is_none()).count() * repetitions,
            space_bytes: self.space(&selection),
            unsuitable: selection.unsuitable,
        }
    }

    fn space(&self, selection: &Selection) -> Option<u64> {
        let used = selection.pairs.iter().filter_map(|pair| self.targets.get(pair.target));
        let limits = used.filter_map(|target| target.target.space_bytes());
        limits.chain(self.settings.space_bytes).max()
    }
}
