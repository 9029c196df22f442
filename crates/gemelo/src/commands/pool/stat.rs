//! `gemelo pool stat`.

use super::stat_text;
use crate::context::Context;
use crate::exit::Outcome;
use crate::{files, pools};
use clap::Args;
use gemelo_report::{Provenance, ResultFile};
use serde::Serialize;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "gemelo.pool/1";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    /// Write the figures as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Overwrite the JSON file
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Input<'a> {
    pool: &'a Path,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    if let Some(path) = &arguments.json {
        files::check_new(path, arguments.force)?;
    }
    let report = pools::stat(&arguments.pool, context)?;
    if let Some(path) = &arguments.json {
        let result = ResultFile {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::of_this_process(context.started_at),
            input: Input { pool: &arguments.pool },
            warnings: report.warnings.clone(),
            result: &report,
        };
        files::write_json(path, arguments.force, &result)?;
    }
    if !files::is_some_standard_output(arguments.json.as_deref()) {
        context.print(&stat_text::text(&report))?;
    }
    report.warnings.iter().for_each(|warning| context.monitor.warn(warning));
    Ok(Outcome::Done)
}
