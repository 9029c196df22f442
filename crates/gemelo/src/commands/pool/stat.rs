//! `gemelo pool stat`.

use super::stat_text;
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::{JsonOutput, Made};
use crate::pools;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "gemelo.pool/1";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    #[command(flatten)]
    json: JsonOutput,
}

#[derive(Serialize)]
struct Input<'a> {
    pool: &'a Path,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.json.check()?;
    let report = pools::stat(&arguments.pool, context)?;
    let input = Input { pool: &arguments.pool };
    let warnings = report.warnings.clone();
    let made = Made { schema: SCHEMA, input, result: &report, warnings };
    arguments.json.finish(context, made, &stat_text::text(&report))?;
    Ok(Outcome::Done)
}
