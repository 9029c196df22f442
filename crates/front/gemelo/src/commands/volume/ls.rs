//! `gemelo volume ls`.

use super::{birth, limits};
use crate::context::Context;
use crate::dates;
use crate::exit::Outcome;
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::table::Table;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::{format_line, format_size};
use gemelo_format::{DedupMode, Holds, Origin, SnapshotId, VolumeLimits, VolumeRecord};
use gemelo_place::PoolPlace;
use gemelo_record::ResultFile;
use gemelo_serve::{StatReport, VolumeReport};
use gemelo_volume::{UnfinishedCopy, VolumeSpace};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Also compute the space that only each volume holds and the space that it shares
    ///
    /// Removing a volume frees its exclusive space. The computation reads the maps of all volumes.
    /// Requests of clients go on meanwhile.
    #[arg(long)]
    space: bool,
    #[command(flatten)]
    json: JsonOutput,
}

const KIND: Kind<ResultFile<Input<'static>, VolumeList<'static>>> =
    Kind::new("gemelo.volume-list/1", "Result of gemelo volume ls");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// Directory of the pool.
    pool: &'a PoolPlace,
    /// `true` if --space was given.
    space: bool,
}

#[derive(JsonSchema, Serialize)]
struct VolumeList<'a> {
    /// The volumes, by name.
    volumes: &'a [VolumeRow<'a>],
    /// Copies of snapshots of other pools that are not whole, by name.
    unfinished_copies: &'a [UnfinishedCopy],
}

#[derive(JsonSchema, Serialize)]
struct VolumeRow<'a> {
    /// The name of the volume.
    name: &'a str,
    /// The size of the volume in bytes.
    size_bytes: u64,
    /// Bytes of the blocks that hold data.
    mapped_bytes: u64,
    /// Bytes of the blocks that only this volume refers to; absent unless it was asked for.
    exclusive_bytes: Option<u64>,
    /// Bytes of the blocks that other volumes refer to as well; absent unless it was asked for.
    shared_bytes: Option<u64>,
    /// The time of deduplication.
    dedup: DedupMode,
    /// `true` if the volume takes no writes.
    read_only: bool,
    /// Connected clients; absent unless the pool is served.
    clients: Option<u64>,
    /// Seconds since 1970, UTC; [`None`] if unknown.
    created_s: Option<u64>,
    /// Identity of a snapshot, which copies in other pools keep; absent for a volume that takes
    /// writes.
    #[schemars(with = "Option<String>")]
    identity: Option<SnapshotId>,
    /// Origin of the volume.
    origin: &'a Origin,
    /// Limits of the volume's load and space.
    limits: VolumeLimits,
    /// The holds of a snapshot, each with its tag.
    holds: &'a Holds,
    #[serde(skip)]
    record: &'a VolumeRecord,
}

/// The columns that a table has beside the usual ones.
#[derive(Clone, Copy)]
struct ListColumns {
    space: bool,
    limits: bool,
    holds: bool,
}

impl ListColumns {
    /// Limits and holds have columns where a volume has them.
    fn of(rows: &[VolumeRow<'_>], space: bool) -> Self {
        let limits = rows.iter().any(|row| row.limits != VolumeLimits::default());
        Self { space, limits, holds: rows.iter().any(|row| !row.holds.is_empty()) }
    }

    fn names(self) -> Vec<&'static str> {
        let space: &[&str] = if self.space { &["exclusive", "shared"] } else { &[] };
        let limits: &[&str] = if self.limits { &["limits"] } else { &[] };
        let holds: &[&str] = if self.holds { &["holds"] } else { &[] };
        let [first, last] = [
            &["volume", "size", "mapped"][..],
            &["dedup", "access", "clients", "origin", "created"],
        ];
        [first, space, last, limits, holds].concat()
    }
}

impl VolumeRow<'_> {
    fn cells(&self, columns: ListColumns) -> Vec<String> {
        let size_of = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), format_size);
        let mut cells = vec![
            self.name.to_owned(),
            format_size(self.size_bytes),
            format_size(self.mapped_bytes),
        ];
        if columns.space {
            cells.extend([size_of(self.exclusive_bytes), size_of(self.shared_bytes)]);
        }
        cells.extend([
            self.dedup.name().to_owned(),
            if self.read_only { "read" } else { "write" }.to_owned(),
            self.clients.map_or_else(|| "-".to_owned(), |clients| clients.to_string()),
        ]);
        cells.extend([birth::origin(self.record), birth::created(self.record)]);
        if columns.limits {
            cells.push(limits::in_short(self.limits));
        }
        if columns.holds {
            let tags: Vec<&str> = self.holds.tags().collect();
            cells.push(if tags.is_empty() { "-".to_owned() } else { tags.join(", ") });
        }
        cells
    }
}

fn rows<'a>(report: &'a StatReport, spaces: &BTreeMap<String, VolumeSpace>) -> Vec<VolumeRow<'a>> {
    let block_bytes = u64::from(report.pool.block_bytes);
    let row = |VolumeReport { summary, connections }: &'a VolumeReport| {
        let record = &summary.record;
        let space = spaces.get(&record.name);
        VolumeRow {
            name: &record.name,
            size_bytes: record.size_bytes,
            mapped_bytes: summary.mapped_blocks * block_bytes,
            exclusive_bytes: space.map(|space| space.exclusive_blocks * block_bytes),
            shared_bytes: space.map(|space| space.shared_blocks * block_bytes),
            dedup: record.mode,
            read_only: record.read_only,
            clients: *connections,
            created_s: record.birth.created_s,
            identity: summary.identity,
            origin: &record.birth.origin,
            limits: record.limits,
            holds: &record.holds,
            record,
        }
    };
    report.volumes.iter().map(row).collect()
}

fn table(rows: &[VolumeRow<'_>], with_space: bool) -> Table {
    let (mut table, columns) = (Table::new(), ListColumns::of(rows, with_space));
    table.row(columns.names());
    rows.iter().for_each(|row| table.row(row.cells(columns)));
    table
}

/// A line about a copy that is not whole.
fn unfinished_line(copy: &UnfinishedCopy) -> String {
    let UnfinishedCopy { name, size_bytes, received_bytes, is_receiving, kept_until_s } = copy;
    let (received, size) = (format_size(*received_bytes), format_size(*size_bytes));
    let until = match *is_receiving {
        true => "being received".to_owned(),
        false => format!(
            "kept until {}: 'gemelo volume copy' goes on, 'gemelo volume rm' gives it up",
            dates::utc(Some(*kept_until_s))
        ),
    };
    format!("unfinished copy '{}': {received} of {size}, {until}\n", format_line(name))
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let Arguments { pool, space, .. } = arguments;
    let access = pools::open(pool, pools::purpose_of_stat(*space), context)?;
    let report = pools::stat_of(&access, context)?;
    let spaces =
        if *space { pools::volume_space(&access, None, context)? } else { BTreeMap::new() };
    access.close()?;
    let rows = rows(&report, &spaces);
    let input = Input { pool, space: *space };
    let unfinished_copies = &*report.unfinished_copies;
    let mut text = table(&rows, *space).render(0);
    unfinished_copies.iter().for_each(|copy| text += &unfinished_line(copy));
    let list = VolumeList { volumes: &rows, unfinished_copies };
    arguments.json.finish(context, KIND.made(input, list, Vec::new()), &text)?;
    Ok(Outcome::Done)
}
