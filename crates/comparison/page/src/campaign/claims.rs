//! The verdicts on the claims of a paper or of a plan, with published and measured figures side by
//! side.

use super::data::Data;
use super::judgement::CampaignStatistics;
use crate::document::{Cell, Column, Item, Row, Section, Table, Text, Tone};
use crate::quantity::{Unit, figure_title, percent, ratio_range, significant};
use gemelo_base::units::format_counted;
use gemelo_compare::{
    ClaimVerdict, Condition, ConditionOutcome, Expression, Quotient, Relation, Term,
};
use gemelo_record::ClaimRecord;

/// Returns the section with the verdicts, if the plan has claims.
pub(super) fn section(data: &Data, judged: &CampaignStatistics) -> Option<Section> {
    if data.plan.claims.is_empty() {
        return None;
    }
    let title = if data.plan.paper.is_some() { "Findings of the paper" } else { "Claims" };
    let mut section = Section::new("claims", title);
    // What a paper does not say, the plan claims itself.
    let of_paper = |claim: &ClaimRecord| data.plan.paper.is_some() && claim.place.is_some();
    let (of_paper, of_plan): (Vec<Judged<'_>>, Vec<Judged<'_>>) =
        data.plan.claims.iter().zip(&judged.claims).partition(|(claim, _)| of_paper(claim));
    for (claims, words) in [(of_paper, "of the paper"), (of_plan, "of the plan itself")] {
        if claims.is_empty() {
            continue;
        }
        let words = data.plan.paper.as_ref().map_or("", |_| words);
        section.items.push(Item::Paragraph(summary(&claims, words)));
        section.items.push(Item::Table(table(&claims, judged)));
    }
    Some(section)
}

/// A claim and the judgement on it.
type Judged<'a> = (&'a ClaimRecord, &'a gemelo_compare::Judgement);

fn table(claims: &[Judged<'_>], judged: &CampaignStatistics) -> Table {
    // Claims without published figures have no column for them.
    let is_published = claims.iter().any(|(claim, _)| claim.published.is_some());
    let published_column = is_published.then(|| Column::text("published"));
    let columns = [Column::text("claim"), Column::text("verdict"), Column::text("measured")];
    let columns = columns.into_iter().chain(published_column).collect();
    let mut table = Table::new(
        format!("Verdicts. Ranges are {} intervals of what was measured", judged.level()),
        columns,
    );
    for (claim, judgement) in claims {
        table.rows.push(Row {
            id: Some(crate::anchor("claim", &claim.id)),
            target: None,
            cells: [statement(claim), verdict(&judgement.verdict), measured(&judgement.conditions)]
                .into_iter()
                .chain(is_published.then(|| published(claim)))
                .collect(),
        });
    }
    table
}

/// Counts the verdicts in a sentence.
fn summary(claims: &[Judged<'_>], words: &str) -> Text {
    let count = |is: fn(&ClaimVerdict) -> bool| {
        claims.iter().filter(|(_, judgement)| is(&judgement.verdict)).count()
    };
    let counts = [
        (count(|verdict| *verdict == ClaimVerdict::Confirmed), "confirmed"),
        (count(|verdict| *verdict == ClaimVerdict::Refuted), "refuted"),
        (count(|verdict| matches!(verdict, ClaimVerdict::Undecided { .. })), "undecided"),
        (count(|verdict| matches!(verdict, ClaimVerdict::TooSmall { .. })), "too small here"),
        (count(|verdict| matches!(verdict, ClaimVerdict::NotTestable { .. })), "not testable here"),
    ];
    let total = format_counted(claims.len() as u64, "claim");
    let space = if words.is_empty() { "" } else { " " };
    let mut text = Text::new().plain(format!("{total}{space}{words}: "));
    let mut separator = "";
    for (count, words) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text = text.plain(separator).strong(format!("{count} {words}"));
        separator = ", ";
    }
    text.plain(".")
}

fn statement(claim: &ClaimRecord) -> Cell {
    let place = claim.place.as_deref().map_or_else(String::new, |place| format!(", {place}"));
    Cell::new(claim.claim.clone()).detail(format!("{}{place}", claim.id))
}

fn verdict(verdict: &ClaimVerdict) -> Cell {
    match verdict {
        ClaimVerdict::Confirmed => Cell::new(Text::new().strong("confirmed")).tone(Tone::Yes),
        ClaimVerdict::Refuted => Cell::new(Text::new().strong("refuted")).tone(Tone::No),
        ClaimVerdict::Undecided { reason } => Cell::new("undecided").detail(reason.clone()),
        ClaimVerdict::TooSmall { reason } => {
            Cell::new("too small here").detail(reason.clone()).tone(Tone::Muted)
        }
        ClaimVerdict::NotTestable { reason } => {
            Cell::new("not testable").detail(reason.clone()).tone(Tone::Muted)
        }
    }
}

fn published(claim: &ClaimRecord) -> Cell {
    claim.published.clone().map_or_else(|| Cell::missing("no figure"), Cell::new)
}

/// Returns the measured numbers of all conditions, each with a sentence that says what it is.
fn measured(conditions: &[ConditionOutcome]) -> Cell {
    let mut numbers = Text::new();
    let mut sentences: Vec<String> = Vec::new();
    let mut formulas: Vec<&str> = Vec::new();
    for condition in conditions {
        let Some(estimate) = condition.measured else { continue };
        let parsed = Condition::parse(&condition.condition).ok();
        let unit = parsed.as_ref().and_then(|condition| unit_of(&condition.expression));
        let range = estimate.interval.map_or_else(String::new, |interval| {
            format!(" ({})", show_range(unit, (interval.low(), interval.high())))
        });
        let remark = condition.remark.as_ref().map_or_else(String::new, |one| format!(", {one}"));
        let separator = if formulas.is_empty() { "" } else { "; " };
        let number = show(unit, estimate.value);
        numbers = numbers.plain(format!("{separator}{number}{range}{remark}"));
        sentences.extend(parsed.as_ref().map(sentence));
        formulas.push(&condition.condition);
    }
    if formulas.is_empty() {
        return Cell::missing("nothing");
    }
    Cell::new(numbers).detail(sentences.join("; ")).fold(formulas.join("; "))
}

/// Returns the unit of what a condition is about. A ratio has none.
fn unit_of(expression: &Expression) -> Option<Unit> {
    match expression {
        Expression::Mean(term) | Expression::Difference(term, _) => {
            Some(Unit::of_figure(&term.figure))
        }
        Expression::Ratio(_) | Expression::RatioOfRatios { .. } => None,
    }
}

fn show(unit: Option<Unit>, value: f64) -> String {
    unit.map_or_else(|| significant(value), |unit| unit.show(value))
}

fn show_range(unit: Option<Unit>, (low, high): (f64, f64)) -> String {
    match unit {
        Some(unit) if low < high => unit.show_range(low, high),
        _ => ratio_range((low, high)),
    }
}

/// Says a condition in words: `write operations of hot-spots on volume, times those on ext4: above
/// 1`.
fn sentence(condition: &Condition) -> String {
    let expression = match &condition.expression {
        Expression::Mean(term) => words(term),
        Expression::Ratio(quotient) => times(quotient),
        Expression::RatioOfRatios { above, below } => {
            format!("{}, against {}", times(above), times(below))
        }
        Expression::Difference(first, second) => format!("{} less {}", words(first), words(second)),
    };
    let unit = unit_of(&condition.expression);
    let number = |value: f64| show(unit, value);
    let relation = match condition.relation {
        Relation::Above(value) => format!("above {}", number(value)),
        Relation::AtLeast(value) => format!("at least {}", number(value)),
        Relation::Below(value) => format!("below {}", number(value)),
        Relation::AtMost(value) => format!("at most {}", number(value)),
        Relation::About { value, share } => {
            format!("about {}, within {}", number(value), percent(share))
        }
    };
    format!("{expression}: {relation}")
}

fn words(term: &Term) -> String {
    let title = figure_title(&term.figure).to_lowercase();
    format!("{title} of {} on {}", term.workload, term.target)
}

/// Names what differs between the two sides of a quotient.
fn times(Quotient { above, below }: &Quotient) -> String {
    let divisor = if above.figure == below.figure {
        match (above.workload == below.workload, above.target == below.target) {
            (true, _) => format!("that on {}", below.target),
            (false, true) => format!("that of {}", below.workload),
            (false, false) => format!("that of {} on {}", below.workload, below.target),
        }
    } else {
        words(below)
    };
    format!("{} by {divisor}", words(above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_stats::{Estimate, Interval};

    #[test]
    fn a_condition_is_a_sentence() {
        for (condition, expected) in [
            (
                "write/operations_per_s[hot, volume] / write/operations_per_s[hot, ext4] > 1",
                "write operations of hot on volume by that on ext4: above 1.00",
            ),
            (
                "space/data_bytes[a, v] / space/data_bytes[b, v] about 0.1 within 10%",
                "space, data of a on v by that of b: about 0.100, within 10.0 %",
            ),
            (
                "write/latency_mean_ns[a, v] - write/latency_mean_ns[a, w] <= 40000",
                "write latency, mean of a on v less write latency, mean of a on w: at most 40.0 µs",
            ),
        ] {
            assert_eq!(sentence(&Condition::parse(condition).unwrap()), expected);
        }
    }

    #[test]
    fn a_difference_has_the_unit_of_its_figure_and_ends_below_zero() {
        let estimate = |value, (low, high)| Estimate { value, interval: Interval::new(low, high) };
        let outcome = |condition: &str, measured| ConditionOutcome {
            condition: condition.to_owned(),
            measured: Some(measured),
            verdict: ClaimVerdict::Confirmed,
            remark: None,
        };
        let numbers = measured(&[
            outcome(
                "write/latency_mean_ns[a, v] - write/latency_mean_ns[a, w] <= 40000",
                estimate(-4_910.0, (-98_640.0, 139_500.0)),
            ),
            outcome("a/b_ratio[a, v] / a/b_ratio[a, w] > 1", estimate(2.0, (0.000_1, 200.0))),
            ConditionOutcome {
                remark: Some("the same within 10 %".to_owned()),
                ..outcome("a/b_ratio[a, v] / a/b_ratio[a, w] > 1", estimate(1.0, (0.95, 1.04)))
            },
        ]);
        let text = format!("{numbers:?}");
        for part in [
            "\"-4.91 µs (-98.6 to 140 µs)\"",
            "2.00 (below 0.01 to above 100)\"",
            "1.00 (0.950 to 1.04), the same within 10 %\"",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
