//! The answer in sentences: which target is better on which workloads, by how much, and where the
//! data carry no difference.

use super::data::Data;
use super::judgement::{Judgement, Versus};
use super::overview::{Rank, ranks, without_interval};
use crate::document::{Answer, Item, Section, Text};
use crate::quantity::{FigureName, Unit, figure_name, significant};
use gemelo_base::units::format_counted;
use gemelo_compare::Verdict;
use gemelo_record::TargetRecord;

/// Comparisons that the lines below a sentence name, the strongest ones first.
const MOST_NAMED: usize = 8;

/// Returns the section with the answer.
pub(super) fn section(data: &Data, judged: &Judgement) -> Section {
    let mut section = Section::new("answer", "Answer");
    let ranks = ranks(data);
    let mut answers = Vec::new();
    if let Some((_, baseline)) = data.baseline() {
        for (_, target) in data.targets() {
            if target.name != baseline.name {
                answers.extend(of_target(judged, &ranks, target, baseline));
            }
        }
        if answers.is_empty() {
            answers.extend(alone(judged, &ranks, baseline));
        }
    }
    if answers.is_empty() {
        answers.push(Answer::new("No run was complete, so there is no answer."));
    }
    section.items.push(Item::Answers(answers));
    section.items.push(Item::Paragraph(extent(data, judged)));
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
) -> Option<Answer> {
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
    compared.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
    let mut text = Text::new().strong(target.name.clone()).plain(" ");
    let mut parts = 0;
    for verdict in [Verdict::Better, Verdict::Worse] {
        for verb in VERBS {
            let found: Vec<&Compared<'_>> = compared
                .iter()
                .filter(|one| one.versus.verdict == verdict && verb_of(one.rank) == verb)
                .collect();
            if found.is_empty() {
                continue;
            }
            if parts > 0 {
                text = text.plain("; it ");
            }
            parts += 1;
            text = part(text, verb, &found, baseline, judged);
        }
    }
    if compared.is_empty() {
        return None;
    }
    if parts == 0 {
        text = text.plain(format!("against {}", baseline.name));
    }
    text = text.plain(".");
    for (verdict, words) in UNDECIDED {
        let found: Vec<&Compared<'_>> =
            compared.iter().filter(|one| one.versus.verdict == verdict).collect();
        if !found.is_empty() {
            text = text.plain(format!(" {words}{}.", extent_of(&found, compared.len())));
        }
    }
    Some(Answer { sentence: text, details: details(&compared) })
}

/// Verdicts without a difference, and how a sentence about them begins.
const UNDECIDED: [(Verdict, &str); 3] = [
    (Verdict::Same, "These data carry no difference"),
    (Verdict::TooFew, "The repetitions are too few to tell a difference"),
    (Verdict::NotJudged, "More is neither better nor worse"),
];

fn strength(compared: &Compared<'_>) -> f64 {
    compared.versus.ratio.max(f64::MIN_POSITIVE).ln().abs()
}

/// A verb and the words after a ratio.
type Verb = (&'static str, &'static str);

const WROTE: Verb = ("wrote", "times as fast as");
const READ: Verb = ("read", "times as fast as");
const RAN: Verb = ("ran", "times as fast as");
const TOOK: Verb = ("took", "times as long as");
const USED: Verb = ("used", "times the space of");
const HAD: Verb = ("had", "times the value of");
const VERBS: [Verb; 6] = [WROTE, READ, RAN, TOOK, USED, HAD];

fn verb_of(rank: &Rank<'_>) -> Verb {
    let FigureName { kind, .. } = figure_name(&rank.figure);
    match (Unit::of_figure(&rank.figure), kind.as_str()) {
        (Unit::PerSecond | Unit::BytesPerSecond, "write") => WROTE,
        (Unit::PerSecond | Unit::BytesPerSecond, "read") => READ,
        (Unit::PerSecond | Unit::BytesPerSecond, _) => RAN,
        (Unit::Nanoseconds, _) => TOOK,
        (Unit::Bytes, _) => USED,
        _ => HAD,
    }
}

/// Adds a part of the sentence: the comparisons with one finding and one verb.
fn part(
    text: Text,
    (verb, times): Verb,
    found: &[&Compared<'_>],
    baseline: &TargetRecord,
    judged: &Judgement,
) -> Text {
    let text = text.plain(format!("{verb} "));
    let (Some(strongest), Some(weakest)) = (found.first(), found.last()) else { return text };
    if found.len() == 1 {
        let ratio = significant(strongest.versus.ratio);
        let interval = strongest.versus.interval.map_or_else(String::new, |(low, high)| {
            format!("{} interval {}, ", judged.level(), Unit::Number.show_range(low, high))
        });
        return text.strong(format!("{ratio} {times} {}", baseline.name)).plain(format!(
            " on {} ({interval}{})",
            strongest.rank.name(),
            format_counted(strongest.repetitions as u64, "repetition"),
        ));
    }
    let (one, other) = (strongest.versus.ratio, weakest.versus.ratio);
    let range = Unit::Number.show_range(one.min(other), one.max(other));
    text.strong(format!("{range} {times} {}", baseline.name))
        .plain(format!(" on {}", format_counted(found.len() as u64, "workload")))
}

/// Writes the workloads of comparisons: ` on uniform-read`, ` on 3 of 5 workloads`.
fn extent_of(found: &[&Compared<'_>], of: usize) -> String {
    match found {
        [one] => format!(" on {}", one.rank.name()),
        [one, other] => format!(" on {} and {}", one.rank.name(), other.rank.name()),
        _ if found.len() == of => format!(" on any of the {of} workloads"),
        _ => format!(" on {} of {of} workloads", found.len()),
    }
}

fn details(compared: &[Compared<'_>]) -> Vec<Text> {
    if compared.len() < 2 {
        return Vec::new();
    }
    let mut details: Vec<Text> = compared
        .iter()
        .take(MOST_NAMED)
        .map(|one| {
            let interval = one.versus.interval.map_or_else(
                || without_interval(one.repetitions).to_owned(),
                |(low, high)| Unit::Number.show_range(low, high),
            );
            Text::from(format!(
                "{}: {} ({interval}; {})",
                one.rank.name(),
                significant(one.versus.ratio),
                format_counted(one.repetitions as u64, "repetition"),
            ))
        })
        .collect();
    if compared.len() > MOST_NAMED {
        let more = compared.len() - MOST_NAMED;
        details.push(Text::new().link(format!("{more} more"), "#overview"));
    }
    details
}

/// Returns the figures of a target that nothing is compared with.
fn alone(judged: &Judgement, ranks: &[Rank<'_>], target: &TargetRecord) -> Vec<Answer> {
    let named = ranks.iter().take(MOST_NAMED).filter_map(|rank| {
        let of = judged.estimate(&rank.workload.name, &target.name, &rank.figure)?;
        let unit = Unit::of_figure(&rank.figure);
        let text = Text::new()
            .plain(format!("{} on {}: ", target.name, rank.name()))
            .strong(unit.show(of.value));
        let interval = of.interval.map_or_else(String::new, |(low, high)| {
            format!(", {} interval {}", judged.level(), unit.show_range(low, high))
        });
        let repetitions = format_counted(of.count as u64, "repetition");
        Some(Answer::new(text.plain(format!("{interval}, {repetitions}."))))
    });
    named.collect()
}

/// Says how much was run, and what was not.
fn extent(data: &Data, judged: &Judgement) -> Text {
    let complete = data.complete().count();
    let planned = data.plan.runs.len();
    let text = Text::new().plain(format!(
        "{complete} of {} were complete: {} on {}. Ranges in brackets are {} intervals.",
        format_counted(planned as u64, "planned run"),
        format_counted(data.plan.targets.len() as u64, "target"),
        format_counted(data.plan.workloads.len() as u64, "workload"),
        judged.level()
    ));
    if complete == planned {
        return text;
    }
    text.plain(" ").link("The other runs and the reasons", "#runs").plain(" are listed below.")
}
