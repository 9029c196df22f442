//! `gemelo volume ls`.

use super::mode::name_of;
use crate::context::Context;
use crate::exit::Outcome;
use crate::json::{JsonOutput, Made};
use crate::pools;
use crate::table::Table;
use clap::Args;
use gemelo_base::units::format_size;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
    #[command(flatten)]
    json: JsonOutput,
}

const SCHEMA: &str = "gemelo.volume-list/1";

#[derive(Serialize)]
struct Input<'a> {
    pool: &'a Path,
}

/// A volume of the list.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    size_bytes: u64,
    mapped_bytes: u64,
    dedup: &'static str,
    read_only: bool,
    /// Connected clients; absent unless the pool is served.
    clients: Option<u64>,
}

impl Row<'_> {
    fn cells(&self) -> [String; 6] {
        [
            self.name.to_owned(),
            format_size(self.size_bytes),
            format_size(self.mapped_bytes),
            self.dedup.to_owned(),
            if self.read_only { "read" } else { "write" }.to_owned(),
            self.clients.map_or_else(|| "-".to_owned(), |clients| clients.to_string()),
        ]
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.json.check()?;
    let report = pools::stat(&arguments.pool, context)?;
    let block_bytes = u64::from(report.pool.block_bytes);
    let connections = report.server.as_ref().map(|server| &server.volume_connections);
    let rows: Vec<Row<'_>> = report
        .volumes
        .iter()
        .enumerate()
        .map(|(at, volume)| Row {
            name: &volume.record.name,
            size_bytes: volume.record.size_bytes,
            mapped_bytes: volume.mapped_blocks * block_bytes,
            dedup: name_of(volume.record.mode),
            read_only: volume.record.read_only,
            clients: connections.and_then(|connections| connections.get(at).copied()),
        })
        .collect();
    let mut table = Table::new();
    table.row(["volume", "size", "mapped", "dedup", "access", "clients"]);
    rows.iter().for_each(|row| table.row(row.cells()));
    let input = Input { pool: &arguments.pool };
    let made = Made { schema: SCHEMA, input, result: &rows, warnings: Vec::new() };
    arguments.json.finish(context, made, &table.render(0))?;
    Ok(Outcome::Done)
}
