//! The answer in sentences: which target is better on which workloads, by how much, and where the
//! data carry no difference.

use super::data::Data;
use super::judgement::{Finding, Judgement, Versus};
use super::overview::{Rank, ranks};
use crate::document::{Item, Section, Text};
use crate::quantity::{Unit, significant};
use gemelo_base::units::format_counted;
use gemelo_record::{Better, TargetRecord};

/// Comparisons of one kind that a sentence names, the strongest ones first.
const MOST_NAMED: usize = 4;

/// Returns the section with the answer.
pub(super) fn section(data: &Data, judged: &Judgement) -> Section {
    let mut section = Section::new("answer", "Answer");
    let ranks = ranks(data);
    let mut sentences = Vec::new();
    if let Some((_, baseline)) = data.baseline() {
        for (_, target) in data.targets() {
            if target.name != baseline.name && target.left_out.is_none() {
                sentences.extend(of_target(judged, &ranks, target, baseline));
            }
        }
        if sentences.is_empty() {
            sentences.extend(alone(judged, &ranks, baseline));
        }
    }
    if sentences.is_empty() {
        sentences.push("No run was complete, so there is no answer.".into());
    }
    section.items.push(Item::Answers(sentences));
    section.items.push(Item::Paragraph(extent(data)));
    section
}

/// A comparison on one workload.
struct Compared<'a> {
    rank: &'a Rank<'a>,
    versus: Versus,
    /// The smaller number of repetitions of the two targets.
    repetitions: usize,
}

fn of_target(
    judged: &Judgement,
    ranks: &[Rank<'_>],
    target: &TargetRecord,
    baseline: &TargetRecord,
) -> Vec<Text> {
    let mut compared: Vec<Compared<'_>> = Vec::new();
    for rank in ranks {
        let of = |name: &str| judged.estimate(&rank.workload.name, name, &rank.figure);
        let versus = judged.versus(&rank.workload.name, &target.name, &rank.figure);
        if let (Some(one), Some(other), Some(versus)) =
            (of(&target.name), of(&baseline.name), versus)
        {
            compared.push(Compared { rank, versus, repetitions: one.count.min(other.count) });
        }
    }
    if compared.is_empty() {
        return Vec::new();
    }
    compared.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
    let with = |finding| compared.iter().filter(move |one| one.versus.finding == finding);
    let mut text = Text::new().strong(target.name.clone()).plain(format!(
        " against {}, on {}: ",
        baseline.name,
        format_counted(compared.len() as u64, "comparison"),
    ));
    let mut parts = 0;
    for finding in [Finding::Better, Finding::Worse, Finding::Different, Finding::Undecided] {
        let found: Vec<&Compared<'_>> = with(finding).collect();
        if found.is_empty() {
            continue;
        }
        if parts > 0 {
            text = text.plain("; ");
        }
        parts += 1;
        text = named(text, finding, &found, compared.len());
    }
    vec![text.plain(".")]
}

fn strength(compared: &Compared<'_>) -> f64 {
    compared.versus.ratio.max(f64::MIN_POSITIVE).ln().abs()
}

/// Adds a part of the sentence: the comparisons with one finding.
fn named(mut text: Text, finding: Finding, found: &[&Compared<'_>], of: usize) -> Text {
    let share = if found.len() == of { "all".to_owned() } else { found.len().to_string() };
    text = match finding {
        Finding::Better => text.strong(format!("better on {share}")),
        Finding::Worse => text.strong(format!("worse on {share}")),
        Finding::Different => text.strong(format!("different on {share}")),
        Finding::Undecided => {
            text.strong("no difference that these data carry").plain(format!(" on {share}"))
        }
    };
    text = text.plain(" (");
    for (place, one) in found.iter().take(MOST_NAMED).enumerate() {
        if place > 0 {
            text = text.plain("; ");
        }
        text = text.plain(format!("{}: {}", one.rank.name(), in_words(one)));
    }
    match found.len().saturating_sub(MOST_NAMED) {
        0 => text.plain(")"),
        more => text.plain(format!("; and {more} more)")),
    }
}

/// Writes a comparison: `1.42 times the operations a second, 1.31 to 1.55, 5 repetitions`.
fn in_words(compared: &Compared<'_>) -> String {
    let Compared { rank, versus, repetitions } = compared;
    let quantity = match (Unit::of_figure(&rank.figure), rank.better) {
        (Unit::PerSecond, _) => "times the operations a second",
        (Unit::BytesPerSecond, _) => "times the throughput",
        (Unit::Nanoseconds, _) => "times the time",
        (Unit::Bytes, _) => "times the space",
        (_, Better::Lower | Better::Higher | Better::Neither) => "times the value",
    };
    let interval = versus.interval.map_or_else(
        || ", no interval".to_owned(),
        |(low, high)| format!(", {}", Unit::Number.show_range(low, high)),
    );
    let repetitions = format_counted(*repetitions as u64, "repetition");
    format!("{} {quantity}{interval}, {repetitions}", significant(versus.ratio))
}

/// Returns the figures of a target that nothing is compared with.
fn alone(judged: &Judgement, ranks: &[Rank<'_>], target: &TargetRecord) -> Vec<Text> {
    ranks
        .iter()
        .take(2 * MOST_NAMED)
        .filter_map(|rank| {
            let of = judged.estimate(&rank.workload.name, &target.name, &rank.figure)?;
            let unit = Unit::of_figure(&rank.figure);
            let mut text = Text::new()
                .plain(format!("{} on {}: ", target.name, rank.name()))
                .strong(unit.show(of.value));
            if let Some((low, high)) = of.interval {
                text = text.plain(format!(", {} interval {}", judged.level(), unit.show_range(low, high)));
            }
            Some(text.plain("."))
        })
        .collect()
}

/// Says how much was run, and what was not.
fn extent(data: &Data) -> Text {
    let complete = data.complete().count();
    let planned = data.plan.runs.len();
    let mut text = Text::new().plain(format!(
        "{complete} of {} were complete: {} on {}. ",
        format_counted(planned as u64, "planned run"),
        format_counted(data.plan.targets.len() as u64, "target"),
        format_counted(data.plan.workloads.len() as u64, "workload"),
    ));
    if complete < planned {
        text = text.link("The other runs and the reasons", "#runs").plain(" are listed below. ");
    }
    text.plain(format!("Ratios have {} % intervals.", 100.0 * data.plan.confidence))
}
