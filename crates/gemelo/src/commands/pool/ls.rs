//! `gemelo pool ls`.

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use crate::pools;
use crate::table::Table;
use anyhow::Context as _;
use clap::Args;
use gemelo_base::units::format_size;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Pools, and directories that pools are in
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,
}

fn is_pool(directory: &Path) -> bool {
    directory.join("metadata").exists() && directory.join("data").exists()
}

/// The pools among the directory and what is in it.
fn pools_in(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if is_pool(directory) {
        return Ok(vec![directory.to_owned()]);
    }
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))
        .or_bad_input()?;
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_pool(path)).collect();
    found.sort();
    Ok(found)
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let mut found = Vec::new();
    for directory in &arguments.directories {
        found.extend(pools_in(directory)?);
    }
    let mut table = Table::new();
    table.row(["pool", "capacity", "in use", "dedup ratio", "volumes", "state"]);
    let mut outcome = Outcome::Done;
    for pool in found {
        let name = pool.display().to_string();
        match pools::stat(&pool, context) {
            Ok(report) => {
                let block_bytes = u64::from(report.pool.block_bytes);
                let state = match (&report.server, report.holder_process_id) {
                    _ if !report.damage.is_empty() => "damaged".to_owned(),
                    (Some(server), _) => format!("served by process {}", server.process_id),
                    (None, Some(process)) => format!("in use by process {process}"),
                    (None, None) => "idle".to_owned(),
                };
                table.row([
                    name,
                    format_size(report.pool.capacity_blocks * block_bytes),
                    format_size(report.pool.physical_blocks * block_bytes),
                    format!("{:.4}", report.dedup_ratio),
                    report.pool.volumes.to_string(),
                    state,
                ]);
            }
            Err(error) => {
                context.monitor.warn(&format!("{error:#}"));
                outcome = Outcome::Partial;
                table.row([
                    name,
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    "unusable".into(),
                ]);
            }
        }
    }
    context.print(&table.render(0))?;
    Ok(outcome)
}
