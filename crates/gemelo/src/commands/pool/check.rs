//! `gemelo pool check`.

use super::outlook::{describe, gives_up};
use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use crate::pools;
use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use gemelo_base::units::{format_count, format_counted};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_disk::DiskAccess;
use gemelo_serve::{CheckedReport, Failure, Purpose, Reply, Request, Settings};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, PoolDirectory, RepairOptions, RepairOutlook, VolumeError, record_damage, repair,
    repair_outlook,
};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// Read all contents and compare them with their checksums and fingerprints
    #[arg(long)]
    data: bool,
    /// Write anew what can be, and mark what is lost, so that the pool can be used again
    #[arg(long)]
    repair: bool,
    /// With --repair, give up what is lost without a question
    #[arg(long, requires = "repair")]
    yes: bool,
    /// With --repair, what to do about a commit of the journal that is lost: keep the later ones, or go
    /// back to the state before it [default: asked for; skip with --yes]
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
    let name = arguments.pool.display();
    let about = |error: VolumeError| pools::error(Failure::from(error).about(&name.to_string()));
    // Whatever the disks hold: with settings that make no sense no command opens the pool.
    let settings = Settings::read(&arguments.pool).err();
    let access = if arguments.repair { DiskAccess::Exclusive } else { DiskAccess::Shared };
    match PoolDirectory::open(&arguments.pool, access) {
        Ok(directory) => {
            let disks = directory.disks();
            let mut checked = Checked::of(&disks, arguments.data, context).map_err(about)?;
            if !arguments.repair || checked.report.is_clean() {
                drop((disks, directory));
                record(&arguments.pool, &checked.report, context);
                return show_idle(arguments, &checked, settings.as_ref(), context);
            }
            let choice = arguments.choose(&checked.outlook, context)?;
            let options = RepairOptions { data: arguments.data, choice };
            repair(&disks, options, &*context.monitor, &context.stop).map_err(about)?;
            checked.is_repaired = true;
            show_idle(arguments, &checked, settings.as_ref(), context)
        }
        Err(error @ VolumeError::InUse { .. }) if arguments.repair => Err(bad_input(anyhow!(
            "{name}: {error}: stop it first, a pool is repaired when nobody has it"
        ))),
        Err(VolumeError::InUse { .. }) => {
            let access = pools::open(&arguments.pool, Purpose::Read, context)?;
            let reply = pools::ask(&access, &Request::Check { data: arguments.data }, context)?;
            access.close().map_err(pools::error)?;
            let Reply::Checked(report) = reply else { return Err(pools::other_version()) };
            show_served(&report, settings.as_ref(), context)
        }
        Err(error) => Err(about(error)),
    }
}

/// The result of a check of a pool that no process has open.
struct Checked {
    report: CheckReport,
    /// What a repair gives up, if there is something to repair.
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
    /// Asks whether to give up what a repair cannot keep, if there is anything, and what to do about a
    /// lost commit, if there is a choice.
    fn choose(&self, outlook: &RepairOutlook, context: &Context) -> anyhow::Result<LossChoice> {
        let chosen = self.lost_commit.map(LossChoice::from);
        let choice = chosen.unwrap_or(LossChoice::Skip);
        if self.yes || !gives_up(outlook) {
            return Ok(choice);
        }
        describe(outlook).lines().for_each(|line| context.monitor.warn(line));
        let pool = self.pool.display();
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(bad_input(anyhow!(
                "{pool}: nothing was repaired: say --yes to give up what is lost"
            )));
        }
        let must_choose = outlook.skip.is_some() && chosen.is_none();
        let wanted: &[(&str, LossChoice)] = match must_choose {
            true => &[("skip", LossChoice::Skip), ("roll-back", LossChoice::RollBack)],
            false => &[("yes", choice)],
        };
        let words: Vec<&str> = wanted.iter().map(|(word, _)| *word).collect();
        let words = words.join(" or ");
        context.monitor.warn(&format!("{pool}: type {words} to repair it all the same"));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
        let answer = wanted.iter().find(|(word, _)| *word == answer.trim());
        answer.map(|(_, choice)| *choice).ok_or_else(|| bad_input(anyhow!("nothing was repaired")))
    }
}

/// Sees to it that nothing shares contents that were found damaged. Where the pool cannot be written
/// nothing can be shared either.
fn record(pool: &Path, report: &CheckReport, context: &Context) {
    if report.damaged_blocks.is_empty() {
        return;
    }
    let recorded = PoolDirectory::lock(pool)
        .and_then(|directory| record_damage(&directory.disks(), &report.damaged_blocks));
    if let Err(error) = recorded {
        context.monitor.warn(&format!(
            "the damaged blocks could not be marked in the pool, so that new writes of their contents may \
             be shared with them: {error}"
        ));
    }
}

/// A line for settings that make no sense, if they do not.
fn settings_line(settings: Option<&Failure>) -> String {
    settings.map_or_else(String::new, |failure| format!("wrong: {failure}\n"))
}

fn show_idle(
    arguments: &Arguments,
    checked: &Checked,
    settings: Option<&Failure>,
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
    if !is_repaired {
        text += &describe(outlook);
    }
    text += match (report.is_clean(), *is_repaired) {
        (true, _) if settings.is_some() => {
            "the disks are what they should be, the settings are not\n"
        }
        (true, _) => "the pool is what it should be\n",
        (false, true) => "repaired: check again to see what is left\n",
        (false, false) => "the pool is damaged: --repair writes anew what can be\n",
    };
    context.print(&text)?;
    let loses =
        report.more_problems > 0 || report.problems.iter().any(|problem| problem.loses_data);
    let is_good = report.is_clean() || *is_repaired && !loses;
    Ok(if is_good && settings.is_none() { Outcome::Done } else { Outcome::Partial })
}

const fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn contents(checked: u64) -> String {
    format!("{} compared with their checksums\n", format_counted(checked, "content"))
}

fn show_served(
    report: &CheckedReport,
    settings: Option<&Failure>,
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
    text += if report.is_clean() {
        "the counts of the served pool are right; pages on disk are checked when nobody serves it\n"
    } else {
        "the pool is damaged: stop the server and run this again with --repair\n"
    };
    context.print(&text)?;
    Ok(if report.is_clean() && settings.is_none() { Outcome::Done } else { Outcome::Partial })
}
