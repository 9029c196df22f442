//! The targets and workloads that this machine can have, and the pairs of them that are run.

use crate::plan::Plan;
use crate::schedule::Pair;
use crate::workload::{Action, WorkloadPlan};

/// The part of a plan that can be run here.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The reason why a target is left out, by its place in the plan.
    pub(crate) targets: Vec<Option<String>>,
    /// The reason why a workload is left out, by its place in the plan.
    pub(crate) workloads: Vec<Option<String>>,
    /// The pairs to run, in the order of the plan.
    pub(crate) pairs: Vec<Pair>,
    /// Pairs that cannot be run although both members can, each with its reason.
    pub(crate) unsuitable: Vec<String>,
}

impl Selection {
    /// Asks every target and every workload what it needs.
    pub(crate) fn of(plan: &Plan) -> Self {
        let targets: Vec<_> = plan.targets.iter().map(|target| target.target.missing()).collect();
        let missing_of = |workload: &WorkloadPlan| workload.actions().find_map(Action::missing);
        let workloads: Vec<_> = plan.workloads.iter().map(missing_of).collect();
        let mut selection = Self { targets, workloads, pairs: Vec::new(), unsuitable: Vec::new() };
        for (workload, of_plan) in plan.workloads.iter().enumerate() {
            for (target, place) in plan.targets.iter().enumerate() {
                let is_missing =
                    |list: &[Option<String>], at: usize| list.get(at).is_some_and(Option::is_some);
                if !of_plan.is_for(&place.name)
                    || is_missing(&selection.targets, target)
                    || is_missing(&selection.workloads, workload)
                {
                    continue;
                }
                let kind = place.target.place_kind();
                if of_plan.actions().all(|action| action.accepts(kind)) {
                    selection.pairs.push(Pair { workload, target });
                } else {
                    selection.unsuitable.push(format!(
                        "{} is not run on {}, which is {}",
                        of_plan.name,
                        place.name,
                        kind.name()
                    ));
                }
            }
        }
        selection
    }

    /// Returns why nothing can be run.
    pub(crate) fn reasons(&self, plan: &Plan) -> String {
        let of_targets = plan.targets.iter().map(|target| &target.name).zip(&self.targets);
        let of_workloads = plan.workloads.iter().map(|load| &load.name).zip(&self.workloads);
        let reasons = of_targets
            .chain(of_workloads)
            .filter_map(|(name, reason)| Some(format!("{name}: {}", reason.as_ref()?)));
        let all: Vec<_> = reasons.chain(self.unsuitable.iter().cloned()).collect();
        if all.is_empty() {
            "no workload is for a target of the plan".to_owned()
        } else {
            all.join("; ")
        }
    }
}
