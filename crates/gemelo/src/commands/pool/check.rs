//! `gemelo pool check`.

use super::outlook::{describe, gives_up};
use crate::confirm::ask;
use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use crate::json::{JsonOption, JsonOutput, Made};
use crate::pools;
use crate::values::pool_place_parser;
use anyhow::anyhow;
use clap::{Args, ValueEnum, ValueHint};
use gemelo_base::units::{format_count, format_counted};
use gemelo_check::{CheckOptions, CheckReport, Problem, check};
use gemelo_disk::DiskAccess;
use gemelo_place::{PlaceError, PoolPlace};
use gemelo_serve::{
    CheckedReport, PoolRequest, Purpose, Reply, RequestFailure, Settings, mark_damaged,
};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, RepairOptions, RepairOutlook, VolumeError, repair, repair_outlook,
};
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Read all contents and compare them with their checksums and fingerprints
    #[arg(long)]
    data: bool,
    /// Write anew what can be, and mark what is lost, so that the pool can be used again
    #[arg(long)]
    repair: bool,
    /// With --repair, give up what is lost without a question; otherwise, overwrite an existing
    /// JSON file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonOption,
    /// With --repair, what to do about a commit of the journal that is lost: keep the later ones,
    /// or go back to the state before it [default: asked for; skip with --force]
    #[arg(long, value_name = "CHOICE", requires = "repair")]
    lost_commit: Option<LostCommit>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LostCommit {
    /// Keep the later commits: loses least
    Skip,
    /// Go back to the state before the lost commit: a state that the pool had
    RollBack,
}

impl From<LostCommit> for LossChoice {
    fn from(choice: LostCommit) -> Self {
        match choice {
            LostCommit::Skip => Self::Skip,
            LostCommit::RollBack => Self::RollBack,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.check_json()?;
    let name = &arguments.pool;
    let about = |error: PlaceError| RequestFailure::from(error).about(&name.to_string());
    // Whatever the disks hold: with settings that make no sense no command opens the pool.
    let settings = Settings::read(&arguments.pool).err();
    let access = if arguments.repair { DiskAccess::Exclusive } else { DiskAccess::Shared };
    match arguments.pool.open_disks(access) {
        Ok(held) => {
            let disks = held.disks();
            let of_engine = |error: VolumeError| about(error.into());
            let mut checked = Checked::of(&disks, arguments.data, context).map_err(of_engine)?;
            if !arguments.repair || checked.report.is_clean() {
                drop(disks);
                held.release().map_err(about)?;
                mark_damaged(&arguments.pool, &checked.report.damaged_blocks, &*context.monitor);
                return show_idle(arguments, &checked, settings.as_ref(), context);
            }
            let choice = arguments.choose(&checked.outlook, context)?;
            let options = RepairOptions { data: arguments.data, choice };
            repair(&disks, options, &*context.monitor, &context.stop).map_err(of_engine)?;
            drop(disks);
            held.release().map_err(about)?;
            checked.is_repaired = true;
            show_idle(arguments, &checked, settings.as_ref(), context)
        }
        Err(error) if error.is_in_use() && arguments.repair => {
            let error = about(error);
            let text =
                format!("{error}: a pool that is in use cannot be repaired: stop that process");
            Err(RequestFailure { text, ..error }.into())
        }
        Err(error) if error.is_in_use() => {
            let access = pools::open(&arguments.pool, Purpose::Read, context)?;
            let reply = pools::ask(&access, &PoolRequest::Check { data: arguments.data }, context)?;
            access.close()?;
            let Reply::Checked(report) = reply else { return Err(pools::other_version()) };
            show_served(arguments, &report, settings.as_ref(), context)
        }
        Err(error) => Err(about(error).into()),
    }
}

/// The result of a check of a pool that no process has open.
struct Checked {
    report: CheckReport,
    /// The losses of a repair, if there is something to repair.
    outlook: RepairOutlook,
    is_repaired: bool,
}

impl Checked {
    fn of(disks: &PoolDisks, data: bool, context: &Context) -> Result<Self, VolumeError> {
        let (monitor, stop) = (&*context.monitor, &context.stop);
        let report = check(disks, CheckOptions { data }, monitor, stop)?;
        let outlook = match report.is_clean() {
            true => RepairOutlook::default(),
            false => repair_outlook(disks, data, monitor, stop)?,
        };
        Ok(Self { report, outlook, is_repaired: false })
    }
}

impl Arguments {
    /// Refuses a JSON file that cannot be written or that exists. With --repair it is refused in
    /// any case, so that nobody gives up data by an option that was meant for the file.
    fn check_json(&self) -> anyhow::Result<()> {
        match self.json.path() {
            Some(path) if self.repair && path.is_file() => Err(bad_input(anyhow!(
                "{} exists: name another file; with --repair, --force is for the pool alone",
                path.display()
            ))),
            _ => self.json.check(self.force),
        }
    }

    /// Asks whether to give up what a repair cannot keep, if there is anything, and what to do
    /// about a lost commit, if there is a choice.
    fn choose(&self, outlook: &RepairOutlook, context: &Context) -> anyhow::Result<LossChoice> {
        let chosen = self.lost_commit.map(LossChoice::from);
        let choice = chosen.unwrap_or(LossChoice::Skip);
        if self.force || !gives_up(outlook) {
            return Ok(choice);
        }
        let pool = &self.pool;
        let refused = format!("{pool}: nothing was repaired: use --force to give up what is lost");
        let wanted: &[(&str, LossChoice)] = match outlook.skip.is_some() && chosen.is_none() {
            true => &[("skip", LossChoice::Skip), ("roll-back", LossChoice::RollBack)],
            false => &[("yes", choice)],
        };
        let words: Vec<&str> = wanted.iter().map(|(word, _)| *word).collect();
        let question = format!("{pool}: type {} to repair it all the same", words.join(" or "));
        let answer = ask(&describe(outlook), &question, &refused, context)?;
        let answer = wanted.iter().find(|(word, _)| *word == answer);
        answer.map(|(_, choice)| *choice).ok_or_else(|| bad_input(anyhow!("{refused}")))
    }

    /// Prints what was found, and writes it as JSON if that was asked for.
    fn finish(
        &self,
        found: &CheckFindings<'_>,
        text: &str,
        context: &Context,
    ) -> anyhow::Result<Outcome> {
        let Self { pool, data, repair, .. } = self;
        let input = Input { pool, data: *data, repair: *repair };
        let made = Made { schema: SCHEMA, input, result: found, warnings: Vec::new() };
        JsonOutput::new(&self.json, self.force).finish(context, made, text)?;
        Ok(match (found.is_sound, &found.settings_problem) {
            (false, _) => Outcome::FoundDamage,
            // The stored data are sound, but the pool cannot be opened.
            (true, Some(_)) => Outcome::Partial,
            (true, None) => Outcome::Done,
        })
    }
}

const SCHEMA: &str = "gemelo.pool-check/1";

#[derive(Serialize)]
struct Input<'a> {
    pool: &'a PoolPlace,
    data: bool,
    repair: bool,
}

/// The findings of a check. Those of a served pool lack what only its disks tell.
#[derive(Serialize)]
struct CheckFindings<'a> {
    /// `true` if nothing is wrong, or if a repair lost nothing.
    is_sound: bool,
    is_served: bool,
    is_repaired: bool,
    settings_problem: Option<String>,
    problems: Vec<FoundProblem>,
    more_problems: u64,
    checked_contents: Option<u64>,
    lost_blocks: Option<u64>,
    /// Blocks that were found damaged before; [`None`] if the contents were read.
    known_damaged_blocks: Option<u64>,
    /// The losses of a repair, if there is something to repair.
    repair_outlook: Option<&'a RepairOutlook>,
}

#[derive(Serialize)]
struct FoundProblem {
    what: String,
    loses_data: bool,
}

/// A line for settings that make no sense, if they do not.
fn settings_line(settings: Option<&RequestFailure>) -> String {
    settings.map_or_else(String::new, |failure| format!("wrong: {failure}\n"))
}

fn show_idle(
    arguments: &Arguments,
    checked: &Checked,
    settings: Option<&RequestFailure>,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let Checked { report, outlook, is_repaired } = checked;
    let mut text = settings_line(settings);
    for problem in &report.problems {
        text += if problem.loses_data { "lost: " } else { "wrong: " };
        text += &problem.what;
        text.push('\n');
    }
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
    if report.lost_blocks > 0 {
        let (blocks, are) = (format_counted(report.lost_blocks, "block"), are(report.lost_blocks));
        text += &format!("{blocks} of volumes {are} lost: reads fail until they are written\n");
    }
    text += &known_damage(report.marked_blocks);
    if !is_repaired {
        text += &describe(outlook);
    }
    text += match (report.is_clean(), *is_repaired) {
        (true, _) if report.marked_blocks > 0 => "the pool has damaged contents\n",
        (true, _) if settings.is_some() => {
            "the disks are what they should be, the settings are not\n"
        }
        (true, _) => "the pool is what it should be\n",
        (false, true) => "repaired: check again to see what is left\n",
        (false, false) => "the pool is damaged: --repair writes anew what can be\n",
    };
    let loses =
        report.more_problems > 0 || report.problems.iter().any(|problem| problem.loses_data);
    let problem = |problem: &Problem| FoundProblem {
        what: problem.what.clone(),
        loses_data: problem.loses_data,
    };
    let found = CheckFindings {
        is_sound: report.is_sound() || *is_repaired && !loses && report.marked_blocks == 0,
        is_served: false,
        is_repaired: *is_repaired,
        settings_problem: settings.map(ToString::to_string),
        problems: report.problems.iter().map(problem).collect(),
        more_problems: report.more_problems,
        checked_contents: arguments.data.then_some(report.checked_contents),
        lost_blocks: Some(report.lost_blocks),
        known_damaged_blocks: (!arguments.data).then_some(report.marked_blocks),
        repair_outlook: (!report.is_clean()).then_some(outlook),
    };
    arguments.finish(&found, &text, context)
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
    format!("found damaged before: {blocks}; --data reads all contents and names what still is\n")
}

fn contents(checked: u64) -> String {
    format!("{} compared with their checksums\n", format_counted(checked, "content"))
}

fn show_served(
    arguments: &Arguments,
    report: &CheckedReport,
    settings: Option<&RequestFailure>,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let mut text = settings_line(settings);
    for difference in &report.differences {
        text += &format!("wrong: {difference}\n");
    }
    if let Some(found) = &report.contents {
        for problem in &found.problems {
            text += &format!("lost: {problem}\n");
        }
        if found.more_problems > 0 {
            text += &format!("and {} more\n", format_count(found.more_problems));
        }
        text += &contents(found.checked_contents);
    }
    text += &known_damage(report.known_damaged);
    text += if report.is_clean() {
        "the counts of the served pool are right; pages on disk are checked when nobody serves it\n"
    } else {
        "the pool is damaged: stop the server and run this again with --repair\n"
    };
    let of = |texts: &[String], loses_data| -> Vec<FoundProblem> {
        texts.iter().map(|what| FoundProblem { what: what.clone(), loses_data }).collect()
    };
    let mut problems = of(&report.differences, false);
    if let Some(found) = &report.contents {
        problems.extend(of(&found.problems, true));
    }
    let contents = report.contents.as_ref();
    let found = CheckFindings {
        is_sound: report.is_clean(),
        is_served: true,
        is_repaired: false,
        settings_problem: settings.map(ToString::to_string),
        problems,
        more_problems: contents.map_or(0, |found| found.more_problems),
        checked_contents: contents.map(|found| found.checked_contents),
        lost_blocks: None,
        known_damaged_blocks: (!arguments.data).then_some(report.known_damaged),
        repair_outlook: None,
    };
    arguments.finish(&found, &text, context)
}
