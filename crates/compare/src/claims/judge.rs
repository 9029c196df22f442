//! Verdicts on claims.

use crate::{Condition, Expression, Groups, Place, Term};
use gemelo_record::{CampaignRecord, ClaimRecord};
use gemelo_stats::{
    Confidence, Estimate, Sample, difference_of_means, mean_with_interval, ratio_of_means,
};
use serde::Serialize;

/// The verdict on a claim or on one of its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The confidence interval lies in the condition.
    Confirmed,
    /// The confidence interval lies outside of the condition.
    Refuted,
    /// The measurements carry neither.
    Undecided {
        /// The reason, as a sentence without a full stop.
        reason: String,
    },
    /// The campaign cannot test it.
    NotTestable {
        /// The reason, as a sentence without a full stop.
        reason: String,
    },
}

/// The outcome of one condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConditionOutcome {
    /// The text of the condition.
    pub condition: String,
    /// The number that was computed, with its interval, if there are runs.
    pub measured: Option<Estimate>,
    /// The verdict on this condition.
    pub verdict: ClaimVerdict,
}

/// The judgement of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// Name of the claim.
    pub id: String,
    /// The verdict: refuted if one condition is, confirmed if all are.
    pub verdict: ClaimVerdict,
    /// The outcomes of the conditions, in their order.
    pub conditions: Vec<ConditionOutcome>,
}

/// Judges a claim by the runs of a campaign, at the campaign's confidence level.
#[must_use]
pub fn judge(claim: &ClaimRecord, campaign: &CampaignRecord, groups: &Groups) -> Judgement {
    let judgement = |verdict, conditions| Judgement { id: claim.id.clone(), verdict, conditions };
    if let Some(reason) = &claim.not_testable {
        return judgement(ClaimVerdict::NotTestable { reason: reason.clone() }, Vec::new());
    }
    let conditions: Vec<ConditionOutcome> =
        claim.tests.iter().map(|text| outcome(text, campaign, groups)).collect();
    judgement(overall(&conditions), conditions)
}

/// All conditions must hold: one that is refuted refutes the claim, and otherwise the first one
/// that is not confirmed decides.
fn overall(conditions: &[ConditionOutcome]) -> ClaimVerdict {
    let verdicts = || conditions.iter().map(|outcome| &outcome.verdict);
    if conditions.is_empty() {
        return ClaimVerdict::NotTestable { reason: "the claim has no condition".to_owned() };
    }
    let ranks: [fn(&ClaimVerdict) -> bool; 3] = [
        |verdict| matches!(verdict, ClaimVerdict::Refuted),
        |verdict| matches!(verdict, ClaimVerdict::NotTestable { .. }),
        |verdict| matches!(verdict, ClaimVerdict::Undecided { .. }),
    ];
    let decisive = ranks.into_iter().find_map(|is_of_rank| verdicts().find(|one| is_of_rank(one)));
    decisive.cloned().unwrap_or(ClaimVerdict::Confirmed)
}

fn outcome(text: &str, campaign: &CampaignRecord, groups: &Groups) -> ConditionOutcome {
    let judged = Condition::parse(text).map_err(|error| error.to_string()).and_then(|condition| {
        measure(&condition, campaign, groups).map(|found| (condition, found))
    });
    let (measured, verdict) = match judged {
        Ok((condition, measured)) => (measured, verdict(&condition, measured)),
        Err(reason) => (None, ClaimVerdict::NotTestable { reason }),
    };
    ConditionOutcome { condition: text.to_owned(), measured, verdict }
}

fn verdict(condition: &Condition, measured: Option<Estimate>) -> ClaimVerdict {
    let undecided = |reason: &str| ClaimVerdict::Undecided { reason: reason.to_owned() };
    let Some(measured) = measured else {
        return undecided("the divisor is zero, so there is no ratio");
    };
    let Some(interval) = measured.interval else {
        return undecided("there are too few repetitions for a confidence interval");
    };
    match condition.relation.holds_in(interval) {
        Some(true) => ClaimVerdict::Confirmed,
        Some(false) => ClaimVerdict::Refuted,
        None => undecided("the confidence interval lies on both sides of the limit"),
    }
}

/// Returns the number with its interval, `None` if it divides by zero, or the reason why there is
/// no measurement.
fn measure(
    condition: &Condition,
    campaign: &CampaignRecord,
    groups: &Groups,
) -> Result<Option<Estimate>, String> {
    let confidence = Confidence::new(campaign.confidence).map_err(|error| error.to_string())?;
    let sample = |term: &Term| sample(term, campaign, groups);
    Ok(match &condition.expression {
        Expression::Mean(term) => Some(mean_with_interval(&sample(term)?, confidence)),
        Expression::Ratio(above, below) => {
            ratio_of_means(&sample(below)?, &sample(above)?, confidence)
        }
        Expression::Difference(first, second) => {
            Some(difference_of_means(&sample(second)?, &sample(first)?, confidence))
        }
    })
}

/// Returns the values of a term, or the reason why there are none.
fn sample(term: &Term, campaign: &CampaignRecord, groups: &Groups) -> Result<Sample, String> {
    let Term { figure, workload, target } = term;
    let of_target = campaign.targets.iter().find(|record| record.name == *target);
    let of_target = of_target.ok_or_else(|| format!("the plan has no target '{target}'"))?;
    let of_workload = campaign.workloads.iter().find(|record| record.name == *workload);
    let of_workload =
        of_workload.ok_or_else(|| format!("the plan has no workload '{workload}'"))?;
    if let Some(reason) = &of_target.left_out {
        return Err(format!("the target {target} was left out: {reason}"));
    }
    if let Some(reason) = &of_workload.left_out {
        return Err(format!("the workload {workload} was left out: {reason}"));
    }
    let place = Place::new(workload, target);
    if groups.runs(&place).is_empty() {
        return Err(format!("no run of {place} is complete"));
    }
    let found = groups.sample(&place, figure);
    found.ok_or_else(|| format!("the runs of {place} have no figure '{figure}'"))
}
