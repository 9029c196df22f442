//! `gemelo compare` compares two results or campaigns.

mod text;

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use clap::Args;
use gemelo_base::units::parse_percent;
use gemelo_compare::{
    Confidence, Limited, Margin, Request, SCHEMA, Selection, Settings, Side, Slowdown, Summary,
    compare_sides,
};
use gemelo_record::ResultFile;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

const KIND: Kind<ResultFile<Input<'static>, &'static Summary>> =
    Kind::new(SCHEMA, "Result of gemelo compare");

/// The kind of results of this command.
pub(crate) const KINDS: [Described; 1] = [KIND.described()];

/// Compare two results or campaigns, and name the figures that changed beyond noise.
///
/// A and B are result files of bench, suite, replay, filebench, scan, pool stat or fio (with
/// --output-format=json), or the directories of two campaigns, whose runs are matched by workload
/// and target. Several files of a side, given with --a and --b, are repetitions. Nothing is called
/// faster or slower with one repetition on a side.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Result file or campaign before the change
    #[arg(value_name = "A", required_unless_present = "a", requires = "after")]
    before: Option<PathBuf>,
    /// Result file or campaign after the change
    #[arg(value_name = "B")]
    after: Option<PathBuf>,
    /// Result files before the change, each a repetition
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        requires = "b",
        conflicts_with_all = ["before", "after"]
    )]
    a: Vec<PathBuf>,
    /// Result files after the change, each a repetition
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "a")]
    b: Vec<PathBuf>,
    /// Compare all figures; by default, these are rates, mean and 99th percentile of latencies, use
    /// of processors, and space
    #[arg(long, conflicts_with = "figure")]
    all: bool,
    /// Compare only this figure, such as write/latency_p99_ns; may be given several times
    #[arg(long, value_name = "NAME")]
    figure: Vec<String>,
    /// Confidence level of intervals and verdicts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = confidence)]
    confidence: Confidence,
    /// The largest difference that does not matter, in percent: two sides are the same only if the
    /// whole interval of their ratio is within it
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = margin)]
    margin: Margin,
    /// The files of a number on both sides were measured in one round, one after the other:
    /// compare them pair by pair, so that a drift of the machine drops out
    #[arg(long, requires = "b")]
    rounds: bool,
    /// End with exit status 6 if a rate fell or a time rose by this percentage or more, beyond
    /// noise, and with 8 if the measurements do not tell
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    fail_if_slower: Option<f64>,
    #[command(flatten)]
    json: JsonOutput,
}

/// The request, as the result file keeps it.
#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// Files or campaign of the first side.
    #[serde(serialize_with = "gemelo_base::names::paths::serialize")]
    before: &'a [PathBuf],
    /// Files or campaign of the second side.
    #[serde(serialize_with = "gemelo_base::names::paths::serialize")]
    after: &'a [PathBuf],
    /// The level of the intervals, 0 to 1.
    confidence: Confidence,
    /// The largest difference that does not matter.
    margin_share: Margin,
    /// Whether repetitions of one number were measured in one round.
    rounds: bool,
    /// The choice of figures: main, all, or names.
    figures: FigureSelection<'a>,
    /// The loss from which the comparison fails.
    fail_if_slower_share: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum FigureSelection<'a> {
    Set(&'static str),
    Named(&'a [String]),
}

fn confidence(text: &str) -> Result<Confidence, String> {
    let share = parse_percent(text).map_err(|error| error.to_string())?;
    Confidence::new(share).map_err(|_| "give a percentage from 50 to 99.99, such as 95".to_owned())
}

fn margin(text: &str) -> Result<Margin, String> {
    let share = parse_percent(text).map_err(|error| error.to_string())?;
    Margin::new(share).map_err(|_| "give a percentage above 0 and below 100, such as 10".to_owned())
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let limit = arguments.fail_if_slower.map(Slowdown::new).transpose().or_bad_input()?;
    let settings = Settings {
        confidence: arguments.confidence,
        margin: arguments.margin,
        selection: arguments.selection(),
    };
    let request = Request { settings, in_rounds: arguments.rounds, limit };
    let [before, after] = arguments.sides();
    let (summary, warnings) = compare_sides(&Side::read(&before)?, &Side::read(&after)?, &request)?;
    let text = text::of_summary(&summary, &request.settings);
    let outcome = summary.limit.as_ref().map_or(Outcome::Done, outcome_of);
    let input = Input {
        before: &before,
        after: &after,
        confidence: arguments.confidence,
        margin_share: arguments.margin,
        rounds: arguments.rounds,
        figures: arguments.figures(),
        fail_if_slower_share: arguments.fail_if_slower,
    };
    let made = KIND.made(input, &summary, warnings);
    arguments.json.finish(context, made, &text)?;
    Ok(outcome)
}

fn outcome_of(answer: &Limited) -> Outcome {
    if !answer.slower.is_empty() {
        Outcome::FoundSlower
    } else if answer.is_decided() {
        Outcome::Done
    } else {
        Outcome::Undecided
    }
}

impl Arguments {
    fn sides(&self) -> [Vec<PathBuf>; 2] {
        [(&self.before, &self.a), (&self.after, &self.b)]
            .map(|(one, several)| one.iter().chain(several).cloned().collect())
    }

    fn selection(&self) -> Selection {
        match (self.all, self.figure.is_empty()) {
            (true, _) => Selection::All,
            (false, true) => Selection::Main,
            (false, false) => Selection::Named(self.figure.clone()),
        }
    }

    fn figures(&self) -> FigureSelection<'_> {
        match (self.all, self.figure.is_empty()) {
            (true, _) => FigureSelection::Set("all"),
            (false, true) => FigureSelection::Set("main"),
            (false, false) => FigureSelection::Named(&self.figure),
        }
    }
}
