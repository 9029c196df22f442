//! Deciding about further repetitions: at each look, the pairs whose comparison with the baseline
//! is undecided, and those of undecided claims, get more.

use crate::error::CampaignError;
use gemelo_compare::{
    ClaimVerdict, Condition, Doubt, Groups, Place, Repetition, Row, Standards, baseline,
    compare_targets, judge,
};
use gemelo_record::{CampaignRecord, Outcome, RunRecord};
use std::collections::BTreeSet;

/// The complete runs so far.
#[derive(Debug, Default)]
pub(super) struct CompleteRuns {
    groups: Groups,
}

impl CompleteRuns {
    /// Adds a run.
    pub(super) fn add(&mut self, run: &RunRecord) {
        if run.outcome == Outcome::Done {
            self.groups.add(Place::new(&run.workload, &run.target), Repetition::of_run(run));
        }
    }

    /// Returns the workloads and targets for which more repetitions may decide. Both sides
    /// of a comparison are measured again, because they are compared in rounds.
    pub(super) fn undecided(
        &self,
        campaign: &CampaignRecord,
    ) -> Result<BTreeSet<Place>, CampaignError> {
        let standards = Standards::of(campaign)?;
        let mut places = BTreeSet::new();
        if let Some(baseline) = baseline(campaign, &self.groups) {
            let rows = compare_targets(campaign, &self.groups, standards);
            // More repetitions help against noise, and not against a load that measures no storage.
            let is_open = |row: &Row| matches!(row.doubt, Some(Doubt::Wide | Doubt::OneRepetition));
            for row in rows.into_iter().filter(is_open) {
                let of_baseline = Some(baseline.name.clone());
                places.insert(Place { target: of_baseline, ..row.place.clone() });
                places.insert(row.place);
            }
        }
        for claim in &campaign.claims {
            let judgement = judge(claim, campaign, &self.groups, standards);
            for outcome in judgement.conditions {
                let is_open = matches!(outcome.verdict, ClaimVerdict::Undecided { .. });
                if let Some(condition) =
                    Condition::parse(&outcome.condition).ok().filter(|_| is_open)
                {
                    let terms = condition.terms();
                    places.extend(terms.map(|term| Place::new(&term.workload, &term.target)));
                }
            }
        }
        Ok(places)
    }
}
