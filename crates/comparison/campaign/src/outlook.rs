//! The outlook of a campaign: its runs in their order, the time and the space that they need.

use crate::plan::Plan;
use crate::room::needed_bytes;
use crate::run::{first_runs, warm_up_runs};
use crate::schedule::Pair;
use crate::selection::Selection;
use gemelo_record::PlannedRun;
use gemelo_stats::{Confidence, PlannedLooks, RatioNoise};
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
    /// The runs in their order, without those that undecided comparisons may add.
    pub runs: Vec<PlannedRun>,
    /// Runs of each target that precede them and do not count.
    pub warm_up_runs: usize,
    /// The most repetitions of each pair.
    pub max_repetitions: u32,
    /// The expected time of all runs whose length is known, with making targets and starting
    /// processes.
    pub known_time: Duration,
    /// Number of runs of unknown length, each of which ends at its time limit at the latest.
    pub unknown_runs: usize,
    /// The most space of one target, if it is known. Runs follow one another.
    pub space_bytes: Option<u64>,
    /// Pairs that cannot be run although both members can, each with its reason.
    pub unsuitable: Vec<String>,
    /// The differences that the comparisons can find, if there are any.
    pub power: Option<Power>,
}

/// The power of the comparisons of a plan, before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Repetitions of each side.
    pub repetitions: u32,
    /// Number of comparisons that share the level of confidence.
    pub comparisons: usize,
    /// Further pairs of targets whose runs will tell by how many figures they are compared.
    pub unknown_pairs: usize,
    /// The level of confidence of all comparisons together.
    pub confidence: f64,
    /// The deviation of a ratio from round to round that is assumed, as a share.
    pub spread_share: f64,
    /// The difference, as a share: the margin of the plan.
    pub difference_share: f64,
    /// The share of cases in which such a difference is found.
    pub found_share: f64,
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
        let runs = first_runs(self, &selection);
        let warm_up = warm_up_runs(self, &selection);
        let times: Vec<_> =
            runs.iter().chain(&warm_up).map(|run| self.expected_time(run)).collect();
        Outlook {
            title: self.settings.title.clone(),
            targets: targets.collect(),
            workloads: workloads.collect(),
            warm_up_runs: warm_up.len(),
            runs,
            max_repetitions: self.settings.max_repetitions,
            known_time: times.iter().flatten().sum(),
            unknown_runs: times.iter().filter(|time| time.is_none()).count(),
            space_bytes: needed_bytes(self, &selection),
            power: self.power(&selection),
            unsuitable: selection.unsuitable,
        }
    }

    /// Returns the expected time of a run, if that of its load is known.
    fn expected_time(&self, run: &PlannedRun) -> Option<Duration> {
        let workload = self.workloads.iter().find(|workload| workload.name == run.workload)?;
        let target = self.targets.iter().find(|target| target.name == run.target)?;
        Some(self.settings.idle + target.target.making_time() + workload.expected_time()?)
    }

    /// Returns the power of the comparisons with the baseline.
    fn power(&self, selection: &Selection) -> Option<Power> {
        let settings = &self.settings;
        let first = selection.pairs.iter().map(|pair| pair.target).min()?;
        let named = settings.baseline.as_ref();
        let baseline =
            self.targets.iter().position(|target| Some(&target.name) == named).unwrap_or(first);
        let on_baseline =
            |workload: usize| selection.pairs.contains(&Pair { workload, target: baseline });
        let compared = selection
            .pairs
            .iter()
            .filter(|pair| pair.target != baseline && on_baseline(pair.workload));
        let is_ranked = |pair: &&Pair| {
            let workload = self.workloads.get(pair.workload);
            workload.is_some_and(|load| load.main_figure.is_some())
        };
        let (ranked, unknown): (Vec<&Pair>, Vec<&Pair>) = compared.partition(is_ranked);
        let (comparisons, unknown_pairs) = (ranked.len(), unknown.len());
        let looks = PlannedLooks::new(settings.repetitions, settings.max_repetitions);
        let confidence = looks.share(Confidence::new(settings.confidence).ok()?);
        let noise = RatioNoise { deviation: settings.spread_share, is_paired: true };
        let level = confidence.shared_by(comparisons);
        let found_share = noise.power(1.0 - settings.margin_share, settings.max_repetitions, level);
        (comparisons > 0).then_some(Power {
            repetitions: settings.max_repetitions,
            comparisons,
            unknown_pairs,
            confidence: settings.confidence,
            spread_share: settings.spread_share,
            difference_share: settings.margin_share,
            found_share,
        })
    }
}
