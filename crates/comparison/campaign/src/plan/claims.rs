//! The claims of a plan and the paper that it repeats.

use super::PlanError;
use super::keys::Keys;
use crate::target::TargetPlan;
use crate::workload::WorkloadPlan;
use gemelo_base::values::{Percent, Span};
use gemelo_compare::{Condition, Term};
use gemelo_figures::Unit;
use gemelo_job::nearest::nearest;
use gemelo_record::{ClaimRecord, LeastFigure, LeastScale, Paper};

/// Most claims of a plan. The papers have below 50 findings each.
const MAX_CLAIMS: usize = 1000;

/// Reads the claims of a plan with these targets and workloads. `least` is the least scale of the
/// claims about rates, times and processor time.
pub(super) fn claims(
    tables: &[Keys<'_>],
    least: &LeastScale,
    targets: &[TargetPlan],
    workloads: &[WorkloadPlan],
) -> Result<Vec<ClaimRecord>, PlanError> {
    if tables.len() > MAX_CLAIMS {
        return Err(PlanError::TooMany { most: MAX_CLAIMS, what: "claims" });
    }
    let mut claims = Vec::<ClaimRecord>::with_capacity(tables.len());
    for keys in tables {
        let mut claim = claim(keys)?;
        let mut is_timed = false;
        for test in &claim.tests {
            is_timed |= check_test(keys, test, targets, workloads)?.terms().any(is_over_time);
        }
        if is_timed {
            claim.least = filled(claim.least, least);
        }
        if claims.iter().any(|other| other.id == claim.id) {
            return Err(keys.wrong("id", format_args!("two claims have the id '{}'", claim.id)));
        }
        claims.push(claim);
    }
    Ok(claims)
}

fn claim(keys: &Keys<'_>) -> Result<ClaimRecord, PlanError> {
    let claim = ClaimRecord {
        id: keys.required_text("id")?,
        claim: keys.required_text("claim")?,
        published: keys.text("published")?,
        place: keys.text("place")?,
        not_testable: keys.text("not-testable")?,
        tests: keys.texts("tests")?,
        least: keys.table("least")?.as_ref().map(least).transpose()?.unwrap_or_default(),
    };
    keys.finish()?;
    match (&claim.not_testable, claim.tests.is_empty()) {
        (Some(_), false) => Err(keys.wrong("not-testable", "cannot stand beside 'tests'")),
        (None, true) => {
            Err(keys.wrong("tests", "is missing: give conditions, or the reason in 'not-testable'"))
        }
        _ => Ok(claim),
    }
}

/// Returns whether a figure depends on the length of its measurement: counts and sizes do not.
fn is_over_time(term: &Term) -> bool {
    let is_speed = Unit::of_figure(&term.figure).is_speed();
    is_speed || term.figure.ends_with("cpu_share")
}

/// Fills what a claim leaves open with the scale of the plan.
fn filled(own: LeastScale, plan: &LeastScale) -> LeastScale {
    LeastScale {
        repetitions: own.repetitions.or(plan.repetitions),
        time_ns: own.time_ns.or(plan.time_ns),
        data_bytes: own.data_bytes.or(plan.data_bytes),
        memory_share: own.memory_share.or(plan.memory_share),
        fill_share: own.fill_share.or(plan.fill_share),
        figure: own.figure.or_else(|| plan.figure.clone()),
    }
}

/// Reads a least scale.
pub(super) fn least(keys: &Keys<'_>) -> Result<LeastScale, PlanError> {
    let share = |name| {
        let share = keys.parsed::<Percent>(name, "a percentage, such as 90 or 90%")?;
        Ok::<_, PlanError>(share.map(|share| share.0))
    };
    let span = keys.parsed::<Span>("time", "a duration, such as 30s or 5m")?;
    let least = LeastScale {
        repetitions: keys.parsed("repetitions", "a whole number")?,
        time_ns: span.map(|span| span.0.as_nanos() as u64),
        data_bytes: keys.size("data")?,
        memory_share: keys.parsed("memory", "a number, such as 2 for twice the memory")?,
        fill_share: share("fill")?,
        figure: match (keys.text("figure")?, keys.parsed("at-least", "a number")?) {
            (Some(name), Some(value)) => Some(LeastFigure { name, value }),
            (None, None) => None,
            _ => return Err(keys.wrong("figure", "and 'at-least' stand together")),
        },
    };
    keys.finish()?;
    Ok(least)
}

/// Parses a condition. Refuses one that names something that the plan does not have.
fn check_test(
    keys: &Keys<'_>,
    test: &str,
    targets: &[TargetPlan],
    workloads: &[WorkloadPlan],
) -> Result<Condition, PlanError> {
    let condition = Condition::parse(test).map_err(|error| keys.wrong("tests", error))?;
    for term in condition.terms() {
        let target_names = || targets.iter().map(|target| target.name.as_str());
        let workload_names = || workloads.iter().map(|workload| workload.name.as_str());
        if !target_names().any(|name| name == term.target) {
            return Err(keys.wrong("tests", no_such("target", &term.target, target_names())));
        }
        if !workload_names().any(|name| name == term.workload) {
            return Err(keys.wrong("tests", no_such("workload", &term.workload, workload_names())));
        }
    }
    Ok(condition)
}

fn no_such<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        Some(known) => format!("no {kind} is named '{name}'; a similar one is '{known}'"),
        None => format!("no {kind} is named '{name}'"),
    }
}

pub(super) fn paper(keys: Option<&Keys<'_>>) -> Result<Option<Paper>, PlanError> {
    let Some(keys) = keys else { return Ok(None) };
    let paper = Paper {
        id: keys.required_text("id")?,
        title: keys.required_text("title")?,
        authors: keys.texts("authors")?,
        venue: keys.required_text("venue")?,
        year: keys.parsed("year", "a year")?.unwrap_or(0),
    };
    keys.finish()?;
    Ok(Some(paper))
}
