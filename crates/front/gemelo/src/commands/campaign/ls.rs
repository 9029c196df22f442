//! `gemelo campaign ls`.

use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_base::units::{format_duration_ns, format_size};
use gemelo_campaign::ShippedPlan;

#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let plans = gemelo_campaign::shipped()?;
    let lines = plans.iter().map(line);
    let heading =
        format!("{:<18}{:<7}{:>12}{:>12}  {}\n", "plan", "root", "time", "space", "title");
    context.print(&[heading].into_iter().chain(lines).collect::<String>())?;
    Ok(Outcome::Done)
}

/// Returns the expected time, which is a lower bound if the length of some runs is unknown.
fn time(plan: &ShippedPlan) -> String {
    let known_ns = u64::try_from(plan.known_time.as_nanos()).unwrap_or(u64::MAX);
    let text = format_duration_ns(known_ns);
    if plan.unknown_runs > 0 { format!("over {text}") } else { text }
}

fn line(plan: &ShippedPlan) -> String {
    let unknown = || "unknown".to_owned();
    format!(
        "{:<18}{:<7}{:>12}{:>12}  {}\n",
        plan.name,
        if plan.needs_root { "partly" } else { "no" },
        time(plan),
        plan.space_bytes.map_or_else(unknown, format_size),
        plan.title
    )
}
