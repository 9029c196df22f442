//! Verdicts on claims.

use super::scale::too_small;
use crate::group::{Values, pairs_of};
use crate::row::{exactly, is_exact};
use crate::validity::{differs_in_memory, invalid, without_generator};
use crate::{
    Condition, Doubt, Expression, Groups, Margin, Place, Quotient, Relation, Standards, Term,
};
use gemelo_figures::is_counted;
use gemelo_record::{CampaignRecord, ClaimRecord};
use gemelo_stats::{
    Confidence, Estimate, Interval, Pairs, Sample, centre_with_interval, compare_pairs,
    difference_of_pairs,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The verdict on a claim or on one of its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The confidence interval lies in the condition.
    Confirmed,
    /// The confidence interval lies outside of the condition.
    Refuted,
    /// The measurements are below the scale at which the claim means something, so they neither
    /// confirm nor refute it.
    TooSmall {
        /// The reason, as a sentence without a full stop.
        reason: String,
    },
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
    /// The reason of a verdict that the interval of what was measured does not give, such as `the
    /// same within 10 %`.
    pub remark: Option<String>,
}

/// The judgement of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// Name of the claim.
    pub id: String,
    /// The verdict: refuted if one condition is, confirmed if all are, and neither if the
    /// measurements are too small.
    pub verdict: ClaimVerdict,
    /// The outcomes of the conditions, in their order.
    pub conditions: Vec<ConditionOutcome>,
}

/// Judges a claim by the runs of a campaign. The conditions of a claim share the level: each
/// interval has an equal part of the errors, because one wrong condition makes a wrong verdict.
#[must_use]
pub fn judge(
    claim: &ClaimRecord,
    campaign: &CampaignRecord,
    groups: &Groups,
    standards: Standards,
) -> Judgement {
    let judgement = |verdict, conditions| Judgement { id: claim.id.clone(), verdict, conditions };
    if let Some(reason) = &claim.not_testable {
        return judgement(ClaimVerdict::NotTestable { reason: reason.clone() }, Vec::new());
    }
    let confidence = standards.confidence.shared_by(claim.tests.len());
    let measurements =
        Measurements { claim, campaign, groups, confidence, margin: standards.margin };
    let conditions: Vec<ConditionOutcome> =
        claim.tests.iter().map(|text| measurements.outcome(text)).collect();
    judgement(overall(&conditions), conditions)
}

/// All conditions must hold: one that cannot be judged at this scale makes the claim too small, one
/// that is refuted refutes it, and otherwise the first one that is not confirmed decides.
fn overall(conditions: &[ConditionOutcome]) -> ClaimVerdict {
    let verdicts = || conditions.iter().map(|outcome| &outcome.verdict);
    if conditions.is_empty() {
        return ClaimVerdict::NotTestable { reason: "the claim has no condition".to_owned() };
    }
    let ranks: [fn(&ClaimVerdict) -> bool; 4] = [
        |verdict| matches!(verdict, ClaimVerdict::TooSmall { .. }),
        |verdict| matches!(verdict, ClaimVerdict::Refuted),
        |verdict| matches!(verdict, ClaimVerdict::NotTestable { .. }),
        |verdict| matches!(verdict, ClaimVerdict::Undecided { .. }),
    ];
    let decisive = ranks.into_iter().find_map(|is_of_rank| verdicts().find(|one| is_of_rank(one)));
    decisive.cloned().unwrap_or(ClaimVerdict::Confirmed)
}

/// The measurements by which a claim is judged.
struct Measurements<'a> {
    claim: &'a ClaimRecord,
    campaign: &'a CampaignRecord,
    groups: &'a Groups,
    /// Level of each interval.
    confidence: Confidence,
    /// The ratios that count as the same.
    margin: Margin,
}

/// A verdict on a condition, and the remark on it.
type Remarked = (ClaimVerdict, Option<String>);

/// A number that was measured, and what is known of its noise.
struct Number {
    /// `None` if it divides by zero.
    estimate: Option<Estimate>,
    /// Fewest repetitions or rounds in its terms.
    repetitions: usize,
}

impl Measurements<'_> {
    fn outcome(&self, text: &str) -> ConditionOutcome {
        let judged = Condition::parse(text)
            .map_err(|error| error.to_string())
            .and_then(|condition| self.number(&condition).map(|number| (condition, number)));
        let (measured, (verdict, remark)) = match judged {
            Ok((condition, number)) => (number.estimate, self.verdict(&condition, &number)),
            Err(reason) => (None, (ClaimVerdict::NotTestable { reason }, None)),
        };
        ConditionOutcome { condition: text.to_owned(), measured, verdict, remark }
    }

    fn verdict(&self, condition: &Condition, number: &Number) -> Remarked {
        if let Some(reason) = self.too_small(condition) {
            return (ClaimVerdict::TooSmall { reason }, None);
        }
        match self.invalid(condition) {
            Some(Doubt::Generator) => self.bound_by_generator(condition),
            Some(doubt) => (undecided_by(doubt), None),
            None => match number.estimate.and_then(|measured| measured.interval) {
                Some(interval) if self.shows_no_difference(condition, interval) => {
                    let percent = rounded(100.0 * self.margin.share());
                    (ClaimVerdict::Refuted, Some(format!("the same within {percent} %")))
                }
                _ => (verdict(condition, number), None),
            },
        }
    }

    /// Returns whether a condition says that a ratio differs from 1, and its interval contains 1
    /// and lies within the margin.
    fn shows_no_difference(&self, condition: &Condition, interval: Interval) -> bool {
        let says_difference =
            matches!(condition.relation, Relation::Above(1.0) | Relation::Below(1.0));
        says_difference
            && is_ratio(&condition.expression)
            && condition.relation.holds_in(interval).is_none()
            && self.margin.contains(interval)
    }

    /// Judges a condition by all ratios that the storage could have without the generator.
    fn bound_by_generator(&self, condition: &Condition) -> Remarked {
        let ratios = self.ratios_without_generator(condition);
        let Some((interval, holds)) =
            ratios.and_then(|ratios| Some((ratios, condition.relation.holds_in(ratios)?)))
        else {
            return (undecided_by(Doubt::Generator), None);
        };
        let (low, high) = (rounded(interval.low()), rounded(interval.high()));
        let remark = format!("{low} to {high} without the time of the generator");
        (if holds { ClaimVerdict::Confirmed } else { ClaimVerdict::Refuted }, Some(remark))
    }

    /// Returns the interval that covers a ratio whatever share of the generator's time the storage
    /// would save: from the lower end of the interval of the least ratio to the upper end of that
    /// of the greatest.
    fn ratios_without_generator(&self, condition: &Condition) -> Option<Interval> {
        if !is_ratio(&condition.expression) {
            return None;
        }
        // Of a ratio of ratios, the inner two terms divide, and the outer two are multiplied.
        let factors = condition.terms().zip([false, true, true, false]);
        let factors: Vec<(BTreeMap<u32, [f64; 2]>, bool)> = factors
            .map(|(term, divides)| Some((self.without_generator(term)?, divides)))
            .collect::<Option<_>>()?;
        let end = |is_greatest: bool| {
            let round = |number: &u32| {
                factors.iter().try_fold((1.0, 1.0), |(base, changed), (values, divides)| {
                    let [least, most] = *values.get(number)?;
                    let value = if *divides == is_greatest { least } else { most };
                    Some(if *divides { (base * value, changed) } else { (base, changed * value) })
                })
            };
            let rounds: Vec<(f64, f64)> = factors.first()?.0.keys().filter_map(round).collect();
            compare_pairs(&Pairs::new(&rounds).ok()?, self.confidence).ratio?.interval
        };
        Interval::new(end(false)?.low(), end(true)?.high())
    }

    /// Returns the least and the greatest value that a term could have in each round without the
    /// generator, if it is known in all of them.
    fn without_generator(&self, term: &Term) -> Option<BTreeMap<u32, [f64; 2]>> {
        let processors = self.campaign.provenance.cpu_count;
        let values = self.groups.runs(&place_of(term)).iter();
        values
            .map(|run| Some((run.number, without_generator(&term.figure, run, processors)?)))
            .collect()
    }

    fn too_small(&self, condition: &Condition) -> Option<String> {
        let of_term = |term| too_small(&self.claim.least, term, self.campaign, self.groups);
        condition.terms().find_map(of_term)
    }

    /// Returns the reason why the figures of a condition do not measure the storage. The one that
    /// always leaves it undecided comes first.
    fn invalid(&self, condition: &Condition) -> Option<Doubt> {
        let terms: Vec<&Term> = condition.terms().collect();
        let of = |term: &Term| self.groups.runs(&place_of(term));
        // A ratio of ratios has two quotients, each of which must compare like with like.
        let quotients = terms.chunks(2).filter_map(|quotient| {
            let (first, last) = (quotient.first()?, quotient.last()?);
            Some(([&first.figure, &last.figure], [of(first), of(last)]))
        });
        let doubts = quotients.flat_map(|(figures, sides)| {
            figures.into_iter().flat_map(move |figure| {
                let memory = differs_in_memory(figure, sides).then_some(Doubt::Memory);
                memory.into_iter().chain(invalid(figure, sides))
            })
        });
        doubts.max_by_key(|doubt| *doubt == Doubt::Memory)
    }

    /// Returns the number of a condition, or the reason why there is no measurement.
    fn number(&self, condition: &Condition) -> Result<Number, String> {
        match &condition.expression {
            Expression::Mean(term) => {
                let sample = self.sample(term)?;
                let centre = centre_with_interval(&sample, self.confidence);
                let estimate = if is_counted(&term.figure) && is_exact(&[&sample]) {
                    exactly(centre.value)
                } else {
                    centre
                };
                Ok(Number { estimate: Some(estimate), repetitions: sample.count() })
            }
            Expression::Ratio(Quotient { above, below }) => {
                let pairs = self.pairs(below, above)?;
                let ratio = compare_pairs(&pairs, self.confidence).ratio;
                Ok(number(&pairs, ratio, &[above, below]))
            }
            Expression::RatioOfRatios { above, below } => {
                let rounds = quotients(&self.rounds(below)?, &self.rounds(above)?);
                let pairs = Pairs::new(&rounds)
                    .map_err(|_| "no repetition is complete on all sides".to_owned())?;
                let ratio = compare_pairs(&pairs, self.confidence).ratio;
                let terms: Vec<&Term> = condition.terms().collect();
                Ok(number(&pairs, ratio, &terms))
            }
            Expression::Difference(first, second) => {
                let pairs = self.pairs(second, first)?;
                let difference = difference_of_pairs(&pairs, self.confidence);
                Ok(number(&pairs, Some(difference), &[first, second]))
            }
        }
    }

    /// Returns the values of two terms in the rounds in which both were measured, or the reason why
    /// there are none.
    fn pairs(&self, base: &Term, changed: &Term) -> Result<Pairs, String> {
        self.sample(base)?;
        self.sample(changed)?;
        let [of_base, of_changed] = [base, changed].map(place_of);
        let values = |place, term| Values { runs: self.groups.runs(place), figure: term };
        pairs_of(values(&of_base, &base.figure), values(&of_changed, &changed.figure)).ok_or_else(
            || format!("no repetition of {of_base} and {of_changed} is complete on both"),
        )
    }

    /// Returns a quotient in each round in which both of its terms were measured.
    fn rounds(&self, quotient: &Quotient) -> Result<BTreeMap<u32, f64>, String> {
        let Quotient { above, below } = quotient;
        self.sample(above)?;
        self.sample(below)?;
        let divisors: BTreeMap<u32, f64> = self.values(below).collect();
        let rounds = self.values(above);
        Ok(rounds.filter_map(|(n, value)| Some((n, value / divisors.get(&n)?))).collect())
    }

    /// Returns the values of a term by the number of their repetition.
    fn values<'t>(&'t self, term: &'t Term) -> impl Iterator<Item = (u32, f64)> + 't {
        let runs = self.groups.runs(&place_of(term)).iter();
        runs.filter_map(|run| Some((run.number, run.figures.value(&term.figure)?)))
    }

    /// Returns the values of a term, or the reason why there are none.
    fn sample(&self, term: &Term) -> Result<Sample, String> {
        let Term { figure, workload, target } = term;
        let campaign = self.campaign;
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
        let place = place_of(term);
        if self.groups.runs(&place).is_empty() {
            return Err(format!("no run of {place} is complete"));
        }
        let found = self.groups.sample(&place, figure);
        found.ok_or_else(|| format!("the runs of {place} have no figure '{figure}'"))
    }
}

/// Returns the two quotients of each round that has both. A quotient by zero is left out.
fn quotients(base: &BTreeMap<u32, f64>, changed: &BTreeMap<u32, f64>) -> Vec<(f64, f64)> {
    let rounds = base.iter().filter_map(|(number, base)| Some((*base, *changed.get(number)?)));
    rounds.filter(|(base, changed)| base.is_finite() && changed.is_finite()).collect()
}

fn place_of(term: &Term) -> Place {
    Place::new(&term.workload, &term.target)
}

/// Returns the number of an estimate of rounds, which is exact if both figures are.
fn number(pairs: &Pairs, estimate: Option<Estimate>, terms: &[&Term]) -> Number {
    let is_exact = terms.iter().all(|term| is_counted(&term.figure))
        && is_exact(&[pairs.base(), pairs.changed()]);
    let estimate = match estimate {
        Some(Estimate { value, interval: None }) if is_exact => Some(exactly(value)),
        estimate => estimate,
    };
    Number { estimate, repetitions: pairs.count() }
}

fn verdict(condition: &Condition, number: &Number) -> ClaimVerdict {
    let relation = condition.relation;
    let divides = is_ratio(&condition.expression);
    let undecided = |reason: String| ClaimVerdict::Undecided { reason };
    let Some(measured) = number.estimate else {
        return undecided("the divisor is zero, so there is no ratio".to_owned());
    };
    match measured.interval.map(|interval| (interval, relation.holds_in(interval))) {
        Some((_, Some(true))) => ClaimVerdict::Confirmed,
        Some((_, Some(false))) => ClaimVerdict::Refuted,
        Some((interval, None)) => undecided(on_both_sides(relation, interval)),
        None if number.repetitions < 2 => undecided_by(Doubt::OneRepetition),
        None if divides && measured.value == 0.0 => undecided_by(Doubt::Zero),
        None => undecided_by(Doubt::NoSpread),
    }
}

fn undecided_by(doubt: Doubt) -> ClaimVerdict {
    ClaimVerdict::Undecided { reason: doubt.sentence().to_owned() }
}

fn is_ratio(expression: &Expression) -> bool {
    matches!(expression, Expression::Ratio(_) | Expression::RatioOfRatios { .. })
}

/// Says which limit lies in the interval.
fn on_both_sides(relation: Relation, interval: Interval) -> String {
    let limit = match relation {
        Relation::Above(value)
        | Relation::AtLeast(value)
        | Relation::Below(value)
        | Relation::AtMost(value) => format!("of {value}"),
        Relation::About { value, share } => {
            let reach = share * value.abs();
            format!("of an end of {} to {}", rounded(value - reach), rounded(value + reach))
        }
    };
    format!(
        "the confidence interval, {} to {}, lies on both sides {limit}",
        rounded(interval.low()),
        rounded(interval.high())
    )
}

/// Writes a number with four significant digits.
fn rounded(number: f64) -> String {
    let text = format!("{number:.3e}").parse::<f64>().unwrap_or(number);
    text.to_string()
}
