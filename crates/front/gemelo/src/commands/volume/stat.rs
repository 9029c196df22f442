//! `gemelo volume stat`.

use super::{birth, limits};
use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::table::Table;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::units::{format_count, format_percent, format_size};
use gemelo_base::{Stat, StatTable};
use gemelo_place::{PoolPlace, VolumePath};
use gemelo_record::ResultFile;
use gemelo_volume::VolumeSummary;
use schemars::JsonSchema;
use serde::Serialize;

const KIND: Kind<ResultFile<Input<'static>, &'static VolumeFigures<'static>>> =
    Kind::new("gemelo.volume/1", "Result of gemelo volume stat");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Also compute the space that only this volume holds and the space that it shares
    ///
    /// Removing the volume frees the exclusive space. The computation reads the whole map of the
    /// volume. Requests of clients go on meanwhile.
    #[arg(long)]
    space: bool,
    #[command(flatten)]
    json: JsonOutput,
}

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// The pool.
    pool: &'a PoolPlace,
    /// The name of the volume.
    volume: &'a str,
    /// `true` if --space was given.
    space: bool,
}

#[derive(JsonSchema, Serialize)]
struct VolumeFigures<'a> {
    #[serde(flatten)]
    volume: &'a VolumeSummary,
    /// Share of neighbouring blocks that are neighbours in the store, from a sample; absent if the
    /// volume has no neighbouring blocks.
    sequential_share: Option<f64>,
    /// Bytes of the blocks that only this volume refers to; absent unless it was asked for.
    exclusive_bytes: Option<u64>,
    /// Bytes of the blocks that other volumes refer to as well; absent unless it was asked for.
    shared_bytes: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let VolumePath { pool, name } = &arguments.volume;
    let access = pools::open(pool, pools::purpose_of_stat(arguments.space), context)?;
    let report = pools::stat_of(&access, context)?;
    let block_bytes = u64::from(report.pool.block_bytes);
    let is_served = report.server.is_some();
    let mut volumes = report.volumes.iter().map(|volume| &volume.summary);
    let Some(volume) = volumes.find(|volume| volume.record.name == *name) else {
        return Err(refused!("{pool}: there is no volume '{name}'"));
    };
    let space = if arguments.space {
        pools::volume_space(&access, Some(name), context)?.remove(name)
    } else {
        None
    };
    access.close()?;
    let figures = VolumeFigures {
        volume,
        sequential_share: volume.layout.sequential_share(),
        exclusive_bytes: space.map(|space| space.exclusive_blocks * block_bytes),
        shared_bytes: space.map(|space| space.shared_blocks * block_bytes),
    };
    let input = Input { pool, volume: name, space: arguments.space };
    let text = text(&figures, block_bytes, is_served);
    let made = KIND.made(input, &figures, Vec::new());
    arguments.json.finish(context, made, &text)?;
    Ok(Outcome::Done)
}

fn text(figures: &VolumeFigures<'_>, block_bytes: u64, is_served: bool) -> String {
    let VolumeFigures { volume, sequential_share, exclusive_bytes, shared_bytes } = figures;
    let record = &volume.record;
    let mut table = Table::new();
    table.row(["size".to_owned(), format_size(record.size_bytes)]);
    if record.padding_bytes > 0 {
        let length = format!("{} bytes", format_count(record.length_bytes()));
        table.row(["imported length".to_owned(), length]);
    }
    table.row(["mapped".to_owned(), format_size(volume.mapped_blocks * block_bytes)]);
    for (name, bytes) in [("exclusive", exclusive_bytes), ("shared", shared_bytes)] {
        if let Some(bytes) = bytes {
            table.row([name.to_owned(), format_size(*bytes)]);
        }
    }
    if let Some(share) = sequential_share {
        table.row(["stored in order".to_owned(), format_percent(*share)]);
    }
    table.row(["dedup", record.mode.name()]);
    table.row(["compression".to_owned(), record.compression.to_string()]);
    table.row(["access", if record.read_only { "read" } else { "write" }]);
    limits::rows(record.limits).into_iter().for_each(|row| table.row(row));
    if !record.holds.is_empty() {
        table.row(["holds".to_owned(), record.holds.tags().collect::<Vec<_>>().join(", ")]);
    }
    table.row(["origin".to_owned(), birth::origin(record)]);
    table.row(["created".to_owned(), birth::created(record)]);
    if is_served {
        for Stat { name, value, .. } in volume.stat.table() {
            let value =
                if name.ends_with("_bytes") { format_size(value) } else { format_count(value) };
            table.row([name.trim_end_matches("_bytes").replace('_', " "), value]);
        }
    }
    format!("{}\n{}", record.name, table.render(2))
}
