//! `gemelo pool stat`.

use super::stat_text;
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::report_option::ReportOption;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_place::PoolPlace;
use gemelo_serve::{POOL_SCHEMA, PoolFigures, PoolFile, PoolInput, SpaceFigures};

const KIND: Kind<PoolFile> = Kind::new(POOL_SCHEMA, "Result of gemelo pool stat");

pub(crate) const DESCRIBED: Described = KIND.described();

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

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check_with(&arguments.report)?;
    let Arguments { pool, space: with_space, .. } = arguments;
    let access = pools::open(pool, pools::purpose_of_stat(*with_space), context)?;
    let report = pools::stat_of(&access, context)?;
    let space = with_space.then(|| pools::snapshot_space(&access, context)).transpose()?;
    access.close()?;
    let warnings = report.warnings.clone();
    let text = stat_text::text(&report, space.as_ref());
    let input = PoolInput { pool: pool.to_string(), space: *with_space };
    let result = PoolFigures { report, space: space.map(SpaceFigures::from) };
    let made = KIND.made(input, result, warnings);
    arguments.json.finish_with(&arguments.report, context, made, &text)?;
    Ok(Outcome::Done)
}
