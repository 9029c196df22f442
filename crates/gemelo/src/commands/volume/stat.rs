//! `gemelo volume stat`.

use super::mode::name_of;
use super::name::VolumeName;
use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use crate::table::Table;
use crate::{files, pools};
use anyhow::anyhow;
use clap::Args;
use gemelo_base::units::{format_count, format_size};
use gemelo_report::{Provenance, ResultFile};
use gemelo_volume::VolumeSummary;
use serde::Serialize;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "gemelo.volume/1";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory and the volume's name
    #[arg(value_name = "POOL/NAME")]
    volume: VolumeName,
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
    volume: &'a str,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    if let Some(path) = &arguments.json {
        files::check_new(path, arguments.force)?;
    }
    let VolumeName { pool, name } = &arguments.volume;
    let report = pools::stat(pool, context)?;
    let block_bytes = u64::from(report.pool.block_bytes);
    let is_served = report.server.is_some();
    let Some(volume) = report.volumes.into_iter().find(|volume| volume.record.name == *name) else {
        return Err(bad_input(anyhow!("{}: there is no volume '{name}'", pool.display())));
    };
    if let Some(path) = &arguments.json {
        let result = ResultFile {
            schema: SCHEMA.to_owned(),
            provenance: Provenance::of_this_process(context.started_at),
            input: Input { pool, volume: name },
            warnings: Vec::new(),
            result: &volume,
        };
        files::write_json(path, arguments.force, &result)?;
    }
    if !files::is_some_standard_output(arguments.json.as_deref()) {
        context.print(&text(&volume, block_bytes, is_served))?;
    }
    Ok(Outcome::Done)
}

fn text(volume: &VolumeSummary, block_bytes: u64, is_served: bool) -> String {
    let mut table = Table::new();
    table.row(["size".to_owned(), format_size(volume.record.size_bytes)]);
    table.row(["mapped".to_owned(), format_size(volume.mapped_blocks * block_bytes)]);
    table.row(["dedup".to_owned(), name_of(volume.record.mode).to_owned()]);
    table.row([
        "access".to_owned(),
        if volume.record.read_only { "read" } else { "write" }.to_owned(),
    ]);
    if is_served {
        for (name, value) in volume.stat.named() {
            let value =
                if name.ends_with("_bytes") { format_size(value) } else { format_count(value) };
            table.row([name.trim_end_matches("_bytes").replace('_', " "), value]);
        }
    }
    format!("{}\n{}", volume.record.name, table.render(2))
}
