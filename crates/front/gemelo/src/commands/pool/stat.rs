//! `gemelo pool stat`.

use super::stat_text;
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::{JsonOutput, Made};
use crate::pools;
use crate::report_option::ReportOption;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_place::PoolPlace;
use gemelo_serve::StatReport;
use gemelo_volume::SnapshotSpace;
use serde::Serialize;

const SCHEMA: &str = "gemelo.pool/1";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Also compute the dedup ratio without snapshots and the space that snapshots take
    ///
    /// The computation reads the maps of all volumes. Requests of clients go on meanwhile.
    #[arg(long)]
    space: bool,
    #[command(flatten)]
    json: JsonOutput,
    #[command(flatten)]
    report: ReportOption,
}

#[derive(Serialize)]
struct Input<'a> {
    pool: &'a PoolPlace,
    space: bool,
}

#[derive(Serialize)]
struct Stats<'a> {
    #[serde(flatten)]
    report: &'a StatReport,
    /// Absent unless it was asked for.
    space: Option<Space>,
}

#[derive(Serialize)]
struct Space {
    #[serde(flatten)]
    blocks: SnapshotSpace,
    dedup_ratio: f64,
    dedup_ratio_without_snapshots: f64,
}

impl From<SnapshotSpace> for Space {
    fn from(blocks: SnapshotSpace) -> Self {
        Self {
            blocks,
            dedup_ratio: blocks.dedup_ratio(),
            dedup_ratio_without_snapshots: blocks.dedup_ratio_without_snapshots(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.json.check_with(&arguments.report)?;
    let Arguments { pool, space: with_space, .. } = arguments;
    let access = pools::open(pool, pools::purpose_of_stat(*with_space), context)?;
    let report = pools::stat_of(&access, context)?;
    let space = with_space.then(|| pools::snapshot_space(&access, context)).transpose()?;
    access.close()?;
    let warnings = report.warnings.clone();
    let text = stat_text::text(&report, space.as_ref());
    let input = Input { pool, space: *with_space };
    let result = Stats { report: &report, space: space.map(Space::from) };
    let made = Made { schema: SCHEMA, input, result, warnings };
    arguments.json.finish_with(&arguments.report, context, made, &text)?;
    Ok(Outcome::Done)
}
