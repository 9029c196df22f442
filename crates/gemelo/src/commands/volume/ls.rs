//! `gemelo volume ls`.

use super::mode::name_of;
use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::table::Table;
use clap::Args;
use gemelo_base::units::format_size;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory
    #[arg(value_name = "POOL")]
    pool: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let report = pools::stat(&arguments.pool, context)?;
    let block_bytes = u64::from(report.pool.block_bytes);
    let mut table = Table::new();
    table.row(["volume", "size", "mapped", "dedup", "access", "clients"]);
    for (at, volume) in report.volumes.iter().enumerate() {
        let clients = report.server.as_ref().and_then(|server| server.volume_connections.get(at));
        table.row([
            volume.record.name.clone(),
            format_size(volume.record.size_bytes),
            format_size(volume.mapped_blocks * block_bytes),
            name_of(volume.record.mode).to_owned(),
            if volume.record.read_only { "read" } else { "write" }.to_owned(),
            clients.map_or_else(|| "-".to_owned(), u64::to_string),
        ]);
    }
    context.print(&table.render(0))?;
    Ok(Outcome::Done)
}
