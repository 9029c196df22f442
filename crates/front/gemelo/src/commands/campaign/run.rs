//! `gemelo campaign run`.

use super::outlook_text;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::files;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::units::{format_counted, format_line};
use gemelo_campaign::{Environment, Plan, PlanError, SetValue, Summary};
use gemelo_record::Provenance;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The plan: a file, or the name of a plan that ships
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Directory of the campaign, which is created: its plan, its runs and their results
    #[arg(long, value_name = "DIR", required_unless_present = "plan_only")]
    out: Option<PathBuf>,
    /// Set a parameter of the plan; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<SetValue>,
    /// Print what would run, in which order, how long and with how much space; do not run it
    #[arg(long = "plan", id = "plan_only")]
    plan_only: bool,
    /// Go on with the campaign in the directory: repeat runs that were interrupted or have failed,
    /// and make those that are missing
    #[arg(long, conflicts_with = "plan_only")]
    resume: bool,
    /// Wait before runs until no other programs keep the machine busy
    #[arg(long, conflicts_with = "plan_only")]
    wait_for_quiet: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let plan = match Plan::open(&arguments.plan, &arguments.set) {
        // These errors name the file themselves.
        Err(error @ (PlanError::Read { .. } | PlanError::NoSuchPlan { .. })) => {
            return Err(error).or_bad_input();
        }
        opened => opened.with_context(|| arguments.plan.shown().to_string()).or_bad_input()?,
    };
    let out = match &arguments.out {
        Some(out) if !arguments.plan_only => out,
        _ => {
            context.print(&outlook_text::text(&plan.outlook()))?;
            return Ok(Outcome::Done);
        }
    };
    files::check_directory(out)?;
    plan.work().map_or(Ok(()), files::check_directory)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let environment = Environment {
        program: &program,
        clock: context.clock,
        monitor: context.monitor.as_ref(),
        stop: &context.stop,
        provenance: Provenance::of_this_process(context.started_at),
        waits_for_quiet: arguments.wait_for_quiet,
    };
    let summary = gemelo_campaign::run(&plan, out, arguments.resume, &environment)?;
    context.print(&text(&summary, out))?;
    let is_complete =
        summary.failed.is_empty() && !summary.is_interrupted && summary.left.is_empty();
    Ok(if is_complete { Outcome::Done } else { Outcome::Partial })
}

fn text(summary: &Summary, out: &std::path::Path) -> String {
    let out = out.shown();
    let mut text = String::new();
    // The cause comes first: one cause often fails many runs.
    if let Some((run, reason)) = summary.failed.first() {
        let failed = format_counted(summary.failed.len() as u64, "run");
        let _ = writeln!(text, "{failed} failed, the first is {run}: {}", format_line(reason));
        let _ = writeln!(text, "--resume repeats them");
    }
    let _ = writeln!(text, "{} complete in {out}", format_counted(summary.done as u64, "run"));
    for left in &summary.left {
        let _ = writeln!(text, "left: {left}: run `gemelo campaign clean {out}`");
    }
    if summary.is_interrupted {
        let _ = writeln!(text, "interrupted: go on with --resume");
    }
    text
}
