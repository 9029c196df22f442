//! The findings of a check of a pool, as text and as JSON.

use super::check::{Arguments, CheckedPool};
use super::outlook::describe;
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use gemelo_base::units::{format_count, format_counted, format_size};
use gemelo_check::{Problem, StoredSpace};
use gemelo_place::PoolPlace;
use gemelo_record::ResultFile;
use gemelo_serve::{CheckedReport, RequestFailure};
use gemelo_volume::{DamagedContent, LossChoice, RepairOutlook, RepairPlan};
use schemars::JsonSchema;
use serde::Serialize;

impl Arguments {
    /// Prints what was found, and writes it as JSON if that was asked for.
    fn finish(
        &self,
        found: &CheckFindings<'_>,
        text: &str,
        context: &Context,
    ) -> crate::Result<Outcome> {
        let Self { pool, data, repair, .. } = self;
        let input = Input { pool, data: *data, repair: *repair };
        let made = KIND.made(input, found, Vec::new());
        JsonOutput::new(&self.json, self.force).finish(context, made, text)?;
        Ok(match (found.is_sound, &found.settings_problem) {
            (false, _) => Outcome::FoundDamage,
            // The stored data are sound, but the pool cannot be opened.
            (true, Some(_)) => Outcome::Partial,
            (true, None) => Outcome::Done,
        })
    }
}

const KIND: Kind<ResultFile<Input<'static>, &'static CheckFindings<'static>>> =
    Kind::new("gemelo.pool-check/1", "Result of gemelo pool check");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// Directory of the pool.
    pool: &'a PoolPlace,
    /// `true` if contents were read.
    data: bool,
    /// `true` if a repair was asked for.
    repair: bool,
}

/// The findings of a check. Those of a served pool lack what only its disks tell.
#[derive(JsonSchema, Serialize)]
struct CheckFindings<'a> {
    /// `true` if nothing is wrong, or if a repair lost nothing.
    is_sound: bool,
    /// `true` if the serving process checked its counts, and pages on disk were not checked.
    is_served: bool,
    /// `true` if the pool was repaired.
    is_repaired: bool,
    /// Problem of settings.toml, if it has one.
    settings_problem: Option<String>,
    /// The faults that were found, up to a limit.
    problems: Vec<FoundProblem>,
    /// Problems beyond those that are listed.
    more_problems: u64,
    /// Contents that were compared with their checksums; [`None`] if they were not read.
    checked_contents: Option<u64>,
    /// The space of the contents, if they were read.
    space: Option<StoredSpace>,
    /// Blocks of volumes that cannot be read; null for a served pool.
    lost_blocks: Option<u64>,
    /// Blocks that were found damaged before; [`None`] if the contents were read.
    known_damaged_blocks: Option<u64>,
    /// The losses of a repair, if there is something to repair.
    repair_outlook: Option<&'a RepairOutlook>,
}

#[derive(JsonSchema, Serialize)]
struct FoundProblem {
    /// The fault in words.
    what: String,
    /// `true` if the fault loses blocks of a volume for good, unless they are written again.
    loses_data: bool,
    /// `true` if another copy of a damaged content is whole: a scrub or a repair heals it.
    can_be_healed: bool,
}

impl FoundProblem {
    fn line(&self) -> String {
        match self {
            Self { what, can_be_healed: true, .. } => {
                format!("damaged: {what}: another copy is whole\n")
            }
            Self { what, loses_data: true, .. } => format!("lost: {what}\n"),
            Self { what, .. } => format!("wrong: {what}\n"),
        }
    }
}

/// The name of the command that heals damaged contents from other copies.
fn scrub_of(pool: &PoolPlace) -> String {
    format!("'gemelo pool scrub {pool}'")
}

/// A line for settings that make no sense, if they do not.
fn settings_line(settings: Option<&RequestFailure>) -> String {
    settings.map_or_else(String::new, |failure| format!("wrong: {failure}\n"))
}

pub(super) fn show_idle(
    arguments: &Arguments,
    checked: &CheckedPool,
    settings: Option<&RequestFailure>,
    context: &Context,
) -> crate::Result<Outcome> {
    let CheckedPool { report, outlook, repaired } = checked;
    let plan = repaired.as_ref().unwrap_or_else(|| outlook.plan(LossChoice::Skip));
    let found = |problem: &Problem| {
        let is_healed = |block| plan.healed_blocks.binary_search(&block).is_ok();
        let can_be_healed = problem.damaged_block.is_some_and(is_healed);
        let loses_data = problem.loses_data && !can_be_healed;
        FoundProblem { what: problem.what.clone(), loses_data, can_be_healed }
    };
    let problems: Vec<FoundProblem> = report.problems.iter().map(found).collect();
    let mut text = settings_line(settings);
    text.extend(problems.iter().map(FoundProblem::line));
    if report.more_problems > 0 {
        text += &format!("and {} more\n", format_count(report.more_problems));
    }
    text += &format!(
        "{}, {} to {}, {} free, {} in the journal\n",
        format_counted(report.volumes, "volume"),
        format_counted(report.references, "reference"),
        format_counted(report.physical_blocks, "block"),
        format_count(report.free_blocks),
        format_counted(report.commits, "commit")
    );
    if arguments.data {
        text += &contents(report.checked_contents);
    }
    text += &report.space.as_ref().map_or_else(String::new, space);
    if report.lost_blocks > 0 {
        let (blocks, are) = (format_counted(report.lost_blocks, "block"), are(report.lost_blocks));
        text += &format!("{blocks} of volumes {are} lost: reads fail until they are written\n");
    }
    text += &known_damage(report.marked_blocks);
    if repaired.is_none() {
        text += &describe(outlook);
    }
    text += &match repaired {
        Some(plan) => after_repair(plan),
        None if !report.is_clean() => advice(arguments, checked, &problems),
        None if report.marked_blocks > 0 => "the pool has damaged contents\n".into(),
        None if settings.is_some() => {
            "the disks are what they should be, the settings are not\n".into()
        }
        None => "the pool is what it should be\n".into(),
    };
    let loses = report.more_problems > 0 || problems.iter().any(|problem| problem.loses_data);
    let found = CheckFindings {
        is_sound: report.is_sound() || repaired.is_some() && !loses && report.marked_blocks == 0,
        is_served: false,
        is_repaired: repaired.is_some(),
        settings_problem: settings.map(ToString::to_string),
        problems,
        more_problems: report.more_problems,
        checked_contents: arguments.data.then_some(report.checked_contents),
        space: report.space,
        lost_blocks: Some(report.lost_blocks),
        known_damaged_blocks: (!arguments.data).then_some(report.marked_blocks),
        repair_outlook: (!report.is_clean()).then_some(outlook),
    };
    arguments.finish(&found, &text, context)
}

/// The line after a repair.
fn after_repair(plan: &RepairPlan) -> String {
    let healed = match plan.healed_blocks.len() as u64 {
        0 => String::new(),
        contents => format!("{} healed from other copies, ", format_counted(contents, "content")),
    };
    format!("repaired: {healed}check again to see what is left\n")
}

/// Advice for a damaged pool. It follows from the judgement of the repair itself.
fn advice(arguments: &Arguments, checked: &CheckedPool, problems: &[FoundProblem]) -> String {
    let CheckedPool { report, outlook, .. } = checked;
    if let Some(why) = &outlook.refusal {
        return format!(
            "the pool is damaged and cannot be repaired: {why}: restore its volumes from a backup\n"
        );
    }
    let scrub = scrub_of(&arguments.pool);
    let healed = outlook.plan(LossChoice::Skip).healed_blocks.len() as u64;
    let contents = format_counted(healed, "content");
    if report.more_problems == 0 && problems.iter().all(|problem| problem.can_be_healed) {
        return format!("the pool is damaged: {scrub} heals {contents} from other copies\n");
    }
    match healed {
        0 => "the pool is damaged: --repair writes anew what can be\n".into(),
        _ => format!(
            "the pool is damaged: --repair heals {contents} from other copies, and writes anew \
             what can be\n"
        ),
    }
}

const fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Lines for blocks that were found damaged before, if there are any.
fn known_damage(blocks: u64) -> String {
    if blocks == 0 {
        return String::new();
    }
    let blocks = format_counted(blocks, "block");
    format!(
        "found damaged before: {blocks}; --data reads all contents and names what still is, \
         'gemelo pool scrub' heals what has another copy\n"
    )
}

fn contents(checked: u64) -> String {
    format!("{} compared with their checksums\n", format_counted(checked, "content"))
}

/// The line for the space that the contents take.
fn space(space: &StoredSpace) -> String {
    format!(
        "{} in volumes, {} after deduplication, {} stored, in blocks of {} with {} unused\n",
        format_size(space.logical_bytes),
        format_size(space.deduplicated_bytes),
        format_size(space.compressed_bytes),
        format_size(space.used_bytes()),
        format_size(space.unused_bytes)
    )
}

pub(super) fn show_served(
    arguments: &Arguments,
    report: &CheckedReport,
    settings: Option<&RequestFailure>,
    context: &Context,
) -> crate::Result<Outcome> {
    let difference = |what: &String| FoundProblem {
        what: what.clone(),
        loses_data: false,
        can_be_healed: false,
    };
    let damaged = |damaged: &DamagedContent| FoundProblem {
        what: damaged.what.clone(),
        loses_data: !damaged.can_be_healed,
        can_be_healed: damaged.can_be_healed,
    };
    let contents_found = report.contents.as_ref();
    let in_contents = contents_found.map(|found| found.problems.as_slice()).unwrap_or_default();
    let problems: Vec<FoundProblem> =
        report.differences.iter().map(difference).chain(in_contents.iter().map(damaged)).collect();
    let more_problems = contents_found.map_or(0, |found| found.more_problems);
    let mut text = settings_line(settings);
    text.extend(problems.iter().map(FoundProblem::line));
    if more_problems > 0 {
        text += &format!("and {} more\n", format_count(more_problems));
    }
    if let Some(found) = contents_found {
        text += &contents(found.checked_contents);
    }
    text += &known_damage(report.known_damaged);
    let scrub = scrub_of(&arguments.pool);
    text += &if report.is_clean() {
        "the counts of the served pool are right; pages on disk are checked when nobody serves it\n"
            .into()
    } else if report.can_be_healed() {
        format!("the pool is damaged: {scrub} heals it from other copies while it is served\n")
    } else {
        format!(
            "the pool is damaged: {scrub} heals what has another copy; for the rest stop the \
             server and run this again with --repair\n"
        )
    };
    let found = CheckFindings {
        is_sound: report.is_clean(),
        is_served: true,
        is_repaired: false,
        settings_problem: settings.map(ToString::to_string),
        problems,
        more_problems,
        checked_contents: contents_found.map(|found| found.checked_contents),
        space: None,
        lost_blocks: None,
        known_damaged_blocks: (!arguments.data).then_some(report.known_damaged),
        repair_outlook: None,
    };
    arguments.finish(&found, &text, context)
}
