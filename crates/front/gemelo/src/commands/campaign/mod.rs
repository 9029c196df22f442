//! `gemelo campaign` runs plans of targets, workloads and repetitions.

mod clean;
mod ls;
mod outlook_text;
mod report;
mod run;

use crate::context::Context;
use crate::exit::Outcome;
use crate::kind::{Described, Kind};
use clap::Subcommand;
use gemelo_record::{CAMPAIGN_SCHEMA, CampaignRecord, RUN_SCHEMA, RunRecord};

/// The kinds of records of a campaign.
pub(crate) const KINDS: [Described; 2] = [
    Kind::<CampaignRecord>::new(CAMPAIGN_SCHEMA, "campaign.json of a campaign").described(),
    Kind::<RunRecord>::new(RUN_SCHEMA, "runs/ID/run.json of a campaign").described(),
];

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a plan: every workload on every target, several times
    ///
    /// Each target is made fresh for each run and given back afterwards. Ctrl-C ends the campaign
    /// in good order, and --resume goes on with it. The failure of one run loses no other run.
    Run(run::Arguments),
    /// Write the report of a campaign into its directory
    ///
    /// report.html answers which target is better, by how much, and how sure that is. report.md,
    /// figures.csv and pictures/ have the same for other programs. Files of an earlier report are
    /// replaced.
    Report(report::Arguments),
    /// Give back everything that a campaign has left: mounts, loop devices, processes, directories
    Clean(clean::Arguments),
    /// List the plans that ship, with the time and the space that they need
    Ls(ls::Arguments),
}

pub(crate) fn run(action: &Action, context: &Context) -> crate::Result<Outcome> {
    match action {
        Action::Run(arguments) => run::run(arguments, context),
        Action::Report(arguments) => report::run(arguments, context),
        Action::Clean(arguments) => clean::run(arguments, context),
        Action::Ls(arguments) => ls::run(arguments, context),
    }
}
