//! The answer in sentences: which target is better on which workloads, by how much, and where the
//! data carry no difference.

use super::data::Data;
use super::doubts::{busy_processors, doubts};
use super::judgement::{CampaignStatistics, Versus};
use super::overview::{Rank, ranks, without_interval};
use crate::anchor;
use crate::document::{Answer, Item, Section, Text};
use crate::quantity::{FigureName, Unit, figure_name, ratio_range, significant};
use gemelo_base::units::format_counted;
use gemelo_compare::{Doubt, Verdict};
use gemelo_record::TargetRecord;
use gemelo_stats::Directions;

/// Comparisons that the lines below a sentence name, the strongest ones first.
const MAX_NAMED: usize = 8;

/// Returns the section with the answer.
pub(super) fn section(data: &Data, judged: &CampaignStatistics) -> Section {
    let mut section = Section::new("answer", "Answer");
    let ranks = ranks(data);
    let mut answers = Vec::new();
    if let Some((_, baseline)) = data.baseline() {
        for (_, target) in data.targets() {
            if target.name != baseline.name {
                answers.extend(of_target(data, judged, &ranks, [target, baseline]));
            }
        }
        if answers.is_empty() {
            answers.extend(alone(judged, &ranks, baseline));
        }
    }
    if answers.is_empty() {
        answers.push(Answer::new(without_answer(data)));
    }
    section.items.push(Item::Answers(answers));
    section.items.extend(loads(&ranks).map(Item::Paragraph));
    section.items.push(Item::Paragraph(extent(data, judged)));
    section.items.extend(doubtful(data, judged).map(Item::Paragraph));
    section
}

/// Says why a campaign has no answer.
fn without_answer(data: &Data) -> &'static str {
    if data.complete().next().is_some() {
        "The complete runs have none of the figures that rank targets, so there is no answer."
    } else {
        "No run was complete, so there is no answer."
    }
}

/// A comparison on one workload.
struct AnsweredComparison<'a> {
    rank: &'a Rank<'a>,
    versus: Versus,
    /// The smaller number of repetitions of the two targets.
    repetitions: usize,
}

fn of_target(
    data: &Data,
    judged: &CampaignStatistics,
    ranks: &[Rank<'_>],
    [target, baseline]: [&TargetRecord; 2],
) -> Option<Answer> {
    let mut compared: Vec<AnsweredComparison<'_>> = Vec::new();
    for rank in ranks {
        let of = |name: &str| judged.estimate(&rank.workload.name, name, &rank.figure);
        let versus = judged.versus(&rank.workload.name, &target.name, &rank.figure);
        if let (Some(one), Some(other), Some(versus)) =
            (of(&target.name), of(&baseline.name), versus)
        {
            compared.push(AnsweredComparison {
                rank,
                versus,
                repetitions: one.count.min(other.count),
            });
        }
    }
    if compared.is_empty() {
        return None;
    }
    compared.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
    let differing: Vec<&AnsweredComparison<'_>> =
        compared.iter().filter(|one| one.versus.is_significant()).collect();
    let with = |wanted: Verdict| -> Vec<&AnsweredComparison<'_>> {
        compared.iter().filter(|one| one.versus.verdict == wanted).collect()
    };
    let open = with(Verdict::Undecided);
    let busy_during = |one: &&AnsweredComparison<'_>| {
        busy_processors(data, one.rank.workload, [target, baseline])
    };
    let busy = open.iter().filter_map(busy_during).max_by(f64::total_cmp);
    let doubts = undecided(&open, compared.len(), busy);
    let mut text = Text::new().strong(target.name.clone());
    text = match differing.len() {
        0 if doubts.is_empty() => {
            text.plain(format!(" against {}: no difference was shown", baseline.name))
        }
        // A reader who is told of no difference has to know first why there is none.
        0 => {
            let doubts = doubts.join("; ");
            text.plain(format!(" against {}: {doubts}. No difference was shown", baseline.name))
        }
        count if count <= MAX_IN_SENTENCE => {
            with_doubts(each(text.plain(": "), &differing, baseline), &doubts)
        }
        _ => with_doubts(ranges(text.plain(" "), &compared, baseline, judged), &doubts),
    };
    text = text.plain(".");
    let same = with(Verdict::Same);
    if !same.is_empty() {
        let margin = (100.0 * judged.margin.share()).round();
        text =
            text.plain(format!(" The same within {margin} %{}.", extent_of(&same, compared.len())));
    }
    let shown = with(Verdict::NotJudged);
    if !shown.is_empty() {
        let extent = extent_of(&shown, compared.len());
        text = text.plain(format!(" More is neither better nor worse{extent}."));
    }
    Some(Answer { sentence: text, details: details(&compared) })
}

/// Differences that a sentence names one by one.
const MAX_IN_SENTENCE: usize = 4;

/// Adds each difference: `0.93× the writes of ext4 on hot-spots (0.88 to 0.98), slower in 5 of 5`.
fn each(mut text: Text, found: &[&AnsweredComparison<'_>], baseline: &TargetRecord) -> Text {
    for (number, one) in found.iter().enumerate() {
        if number > 0 {
            text = text.plain("; ");
        }
        let thing = verb_of(one.rank).thing;
        let ratio = significant(one.versus.ratio);
        text = text
            .strong(format!("{ratio}× {thing} of {}", baseline.name))
            .plain(format!(" on {}", one.rank.name()));
        if let Some((low, high)) = one.versus.interval.filter(|(low, high)| low < high) {
            text = text.plain(format!(" ({})", ratio_range((low, high))));
        }
        if let Some(directions) = one.versus.directions {
            let (count, direction) = direction(one, directions);
            text = text.plain(format!(", {direction} in {count} of {}", directions.rounds));
        }
    }
    text
}

/// Returns the rounds that agree with the ratio, and the word for their direction.
fn direction(one: &AnsweredComparison<'_>, directions: Directions) -> (usize, &'static str) {
    let is_higher = one.versus.ratio > 1.0;
    let count = if is_higher { directions.higher } else { directions.lower };
    let verb = verb_of(one.rank);
    (count, if is_higher { verb.higher } else { verb.lower })
}

/// Adds the ranges of many differences, by their verdict and their kind.
fn ranges(
    mut text: Text,
    compared: &[AnsweredComparison<'_>],
    baseline: &TargetRecord,
    judged: &CampaignStatistics,
) -> Text {
    let mut parts = 0;
    for verdict in [Verdict::Better, Verdict::Worse] {
        for verb in VERBS {
            let found: Vec<&AnsweredComparison<'_>> = compared
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
    text
}

/// Returns the comparisons that are undecided, by their reason, and how many processors were busy
/// with other work.
fn undecided(found: &[&AnsweredComparison<'_>], of: usize, busy: Option<f64>) -> Vec<String> {
    let busy = busy.map_or_else(String::new, |processors| {
        format!(", and {processors:.1} processors were busy with other work")
    });
    let mut reasons: Vec<Doubt> = Vec::new();
    for doubt in found.iter().filter_map(|one| one.versus.doubt) {
        if !reasons.contains(&doubt) {
            reasons.push(doubt);
        }
    }
    let part = |reason: Doubt| {
        let with: Vec<&AnsweredComparison<'_>> =
            found.iter().copied().filter(|one| one.versus.doubt == Some(reason)).collect();
        format!("undecided{}: {}{busy}", extent_of(&with, of), reason.sentence())
    };
    reasons.into_iter().map(part).collect()
}

/// Adds what is undecided to the sentence about the differences.
fn with_doubts(text: Text, doubts: &[String]) -> Text {
    doubts.iter().fold(text, |text, doubt| text.plain(format!("; {doubt}")))
}

fn strength(compared: &AnsweredComparison<'_>) -> f64 {
    compared.versus.ratio.max(f64::MIN_POSITIVE).ln().abs()
}

/// The words for a kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verb {
    /// The verb before a range of ratios, and the words after it.
    verb: &'static str,
    times: &'static str,
    /// The figure of the baseline, after a single ratio.
    thing: &'static str,
    /// The words for a higher and for a lower figure.
    higher: &'static str,
    lower: &'static str,
}

const fn speed(verb: &'static str, thing: &'static str) -> Verb {
    Verb { verb, times: "times as fast as", thing, higher: "faster", lower: "slower" }
}

const WROTE: Verb = speed("wrote", "the writes");
const READ: Verb = speed("read", "the reads");
const RAN: Verb = speed("ran", "the operations");
const TOOK: Verb = Verb {
    verb: "took",
    times: "times as long as",
    thing: "the time",
    higher: "slower",
    lower: "faster",
};
const USED: Verb = Verb {
    verb: "used",
    times: "times the space of",
    thing: "the space",
    higher: "more",
    lower: "less",
};
const HAD: Verb = Verb {
    verb: "had",
    times: "times the value of",
    thing: "the value",
    higher: "higher",
    lower: "lower",
};
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
    Verb { verb, times, .. }: Verb,
    found: &[&AnsweredComparison<'_>],
    baseline: &TargetRecord,
    judged: &CampaignStatistics,
) -> Text {
    let text = text.plain(format!("{verb} "));
    let (Some(strongest), Some(weakest)) = (found.first(), found.last()) else { return text };
    if found.len() == 1 {
        let ratio = significant(strongest.versus.ratio);
        let interval = strongest.versus.interval.map_or_else(String::new, |interval| {
            format!("{} interval {}, ", judged.level(), ratio_range(interval))
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
fn extent_of(found: &[&AnsweredComparison<'_>], of: usize) -> String {
    match found {
        [one] => format!(" on {}", one.rank.name()),
        [one, other] => format!(" on {} and {}", one.rank.name(), other.rank.name()),
        _ if found.len() == of => format!(" on all {of} workloads"),
        _ => format!(" on {} of {of} workloads", found.len()),
    }
}

fn details(compared: &[AnsweredComparison<'_>]) -> Vec<Text> {
    if compared.len() < 2 {
        return Vec::new();
    }
    let mut details: Vec<Text> = compared
        .iter()
        .take(MAX_NAMED)
        .map(|one| {
            let without = || without_interval(&one.versus).to_owned();
            let interval = one.versus.interval.map_or_else(without, ratio_range);
            Text::from(format!(
                "{}: {} ({interval}; {})",
                one.rank.name(),
                significant(one.versus.ratio),
                format_counted(one.repetitions as u64, "repetition"),
            ))
        })
        .collect();
    if compared.len() > MAX_NAMED {
        let more = compared.len() - MAX_NAMED;
        details.push(Text::new().link(format!("{more} more"), "#overview"));
    }
    details
}

/// Says what the workloads do that the answers name.
fn loads(ranks: &[Rank<'_>]) -> Option<Text> {
    let mut text = Text::new();
    let mut named: Vec<&str> = Vec::new();
    for Rank { workload, .. } in ranks {
        if named.contains(&&*workload.name) || named.len() == MAX_NAMED {
            continue;
        }
        if !named.is_empty() {
            text = text.plain("; ");
        }
        let address = format!("#{}", anchor("workload", &workload.name));
        let description = workload.description.trim_end_matches('.');
        text = text.link(workload.name.clone(), address).plain(format!(": {description}"));
        named.push(&workload.name);
    }
    (!named.is_empty()).then(|| text.plain("."))
}

/// Returns the figures of a target that nothing is compared with.
fn alone(judged: &CampaignStatistics, ranks: &[Rank<'_>], target: &TargetRecord) -> Vec<Answer> {
    let named = ranks.iter().take(MAX_NAMED).filter_map(|rank| {
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

/// Names the workloads with warnings about their measurements, which stand beside their figures.
fn doubtful(data: &Data, judged: &CampaignStatistics) -> Option<Text> {
    let mut count = 0;
    let mut text = Text::new();
    for workload in &data.plan.workloads {
        let found = doubts(data, judged, workload).len();
        if found > 0 {
            let separator = if count > 0 { ", " } else { "The measurements of " };
            let address = format!("#{}", anchor("workload", &workload.name));
            text = text.plain(separator).link(workload.name.clone(), address);
            count += found;
        }
    }
    let have =
        format!(" have {}, which stand beside them.", format_counted(count as u64, "warning"));
    (count > 0).then(|| text.plain(have))
}

/// Says how much was run, and what was not.
fn extent(data: &Data, judged: &CampaignStatistics) -> Text {
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
