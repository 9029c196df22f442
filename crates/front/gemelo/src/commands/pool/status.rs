//! `gemelo pool status`.

use crate::context::Context;
use crate::dates::utc;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::format_size;
use gemelo_place::PoolPlace;
use gemelo_record::ResultFile;
use gemelo_serve::{Health, HealthState, StatReport};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    #[command(flatten)]
    json: JsonOutput,
}

const KIND: Kind<ResultFile<PoolStatusInput, Health>> =
    Kind::new("gemelo.pool-status/1", "Result of gemelo pool status");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct PoolStatusInput {
    /// The pool, as the user named it.
    pool: String,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let report = pools::stat(&arguments.pool, context)?;
    let health = report.health.clone();
    let state = health.state;
    let text = text(&arguments.pool, &report, &health);
    let made = KIND.made(PoolStatusInput { pool: arguments.pool.to_string() }, health, Vec::new());
    arguments.json.finish(context, made, &text)?;
    Ok(match state {
        HealthState::Good => Outcome::Done,
        HealthState::FullSoon => Outcome::FullSoon,
        HealthState::Degraded | HealthState::ReadOnly => Outcome::Partial,
        HealthState::Damaged => Outcome::FoundDamage,
    })
}

/// Returns five lines: the pool, its health, since when, its space, and what to do.
fn text(pool: &PoolPlace, report: &StatReport, health: &Health) -> String {
    let of = match (&report.server, report.holder_process_id) {
        (Some(server), _) => format!("served by process {}", server.process_id),
        (None, Some(process)) => format!("in use by process {process}"),
        (None, None) => "idle".to_owned(),
    };
    let of = match (report.read_only && report.pool.stopped.is_none(), health.state) {
        _ if report.unknown_feature.is_some() => of + ", read-only for a feature that it has",
        (true, HealthState::Damaged) => of + ", read-only because it is damaged",
        (true, _) => of + ", read-only as its server was told with --read-only",
        (false, _) => of,
    };
    let block_bytes = u64::from(report.pool.block_bytes);
    let used = format_size(report.pool.data_blocks() * block_bytes);
    let percent = report.used_share * 100.0;
    let since = match health.since_utc_s {
        Some(since) => utc(Some(since)),
        None => "not known: no process serves the pool".to_owned(),
    };
    let action = if health.action.is_empty() { "nothing" } else { &health.action };
    let more = report.warnings.len().saturating_sub(1);
    let more =
        if more == 0 { String::new() } else { format!(" ('gemelo pool stat' has {more} more)") };
    format!(
        "pool    {pool}, {of}\nhealth  {health}\nsince   {since}\n\
         space   {used} in use, {percent:.0} % of what can be stored\nto do   {action}{more}\n"
    )
}
