//! `gemelo campaign ls`.

use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_base::units::{format_duration_ns, format_size};
use gemelo_campaign::ShippedPlan;

#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let plans = gemelo_campaign::shipped()?;
    let lines = plans.iter().map(line);
    let heading =
        format!("{:<18}{:<7}{:>12}{:>12}  {}\n", "plan", "root", "time", "space", "title");
    context.print(&[heading].into_iter().chain(lines).collect::<String>())?;
    Ok(Outcome::Done)
}

fn line(plan: &ShippedPlan) -> String {
    let nanoseconds =
        |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let unknown = || "unknown".to_owned();
    format!(
        "{:<18}{:<7}{:>12}{:>12}  {}\n",
        plan.name,
        if plan.needs_root { "partly" } else { "no" },
        plan.takes.map_or_else(unknown, |time| format_duration_ns(nanoseconds(time))),
        plan.space_bytes.map_or_else(unknown, format_size),
        plan.title
    )
}
