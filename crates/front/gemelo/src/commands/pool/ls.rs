//! `gemelo pool ls`.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::table::Table;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_size;
use gemelo_disk::pool_part;
use gemelo_place::PoolPlace;
use gemelo_record::ResultFile;
use gemelo_serve::{Health, StatReport};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Pools, directories that contain pools, and members of domains
    #[arg(
        value_name = "DIR",
        default_value = ".",
        value_parser = pool_place_parser(),
        value_hint = ValueHint::AnyPath
    )]
    directories: Vec<PoolPlace>,
    #[command(flatten)]
    json: JsonOutput,
}

const KIND: Kind<ResultFile<Input<'static>, &'static [PoolRow]>> =
    Kind::new("gemelo.pool-list/1", "Result of gemelo pool ls");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// The pools, and the directories of pools.
    directories: &'a [PoolPlace],
}

#[derive(JsonSchema, Serialize)]
struct PoolRow {
    /// Directory of the pool.
    pool: PoolPlace,
    /// The state of the pool.
    state: State,
    /// The health; absent if the pool cannot be opened.
    health: Option<Health>,
    /// The process that uses the pool; absent if it is idle.
    process_id: Option<u32>,
    /// Absent if the pool cannot be opened.
    figures: Option<PoolFigures>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Idle,
    Served,
    InUse,
    Damaged,
    Unusable,
}

#[derive(JsonSchema, Serialize)]
struct PoolFigures {
    /// Size of the data store.
    capacity_bytes: u64,
    /// Bytes of the data store that take contents.
    used_bytes: u64,
    /// Logical blocks divided by physical blocks.
    dedup_ratio: f64,
    /// The number of volumes.
    volumes: u64,
}

impl PoolRow {
    fn of(pool: PoolPlace, report: &StatReport) -> Self {
        let (state, process_id) = match (&report.server, report.holder_process_id) {
            _ if !report.damage.is_empty() => (State::Damaged, None),
            (Some(server), _) => (State::Served, Some(server.process_id)),
            (None, Some(process)) => (State::InUse, Some(process)),
            (None, None) => (State::Idle, None),
        };
        let stat = &report.pool;
        let block_bytes = u64::from(stat.block_bytes);
        let figures = PoolFigures {
            capacity_bytes: (stat.capacity_blocks + stat.reserved_blocks) * block_bytes,
            used_bytes: stat.data_blocks() * block_bytes,
            dedup_ratio: report.dedup_ratio,
            volumes: stat.volumes,
        };
        let health = Some(report.health.clone());
        Self { pool, state, health, process_id, figures: Some(figures) }
    }

    const fn unusable(pool: PoolPlace) -> Self {
        Self { pool, state: State::Unusable, health: None, process_id: None, figures: None }
    }

    fn cells(&self) -> [String; 7] {
        let process = self.process_id.map_or_else(String::new, |process| process.to_string());
        let state = match self.state {
            State::Idle => "idle".to_owned(),
            State::Served => format!("served by process {process}"),
            State::InUse => format!("in use by process {process}"),
            State::Damaged => "damaged".to_owned(),
            State::Unusable => "unusable".to_owned(),
        };
        let health = self.health.as_ref().map_or_else(String::new, Health::to_string);
        let of =
            |text: fn(&PoolFigures) -> String| self.figures.as_ref().map_or_else(String::new, text);
        [
            self.pool.to_string(),
            of(|figures| format_size(figures.capacity_bytes)),
            of(|figures| format_size(figures.used_bytes)),
            of(|figures| format!("{:.4}", figures.dedup_ratio)),
            of(|figures| figures.volumes.to_string()),
            state,
            health,
        ]
    }
}

/// The disks in the directory of a pool.
const DISKS: [&str; 2] = ["metadata", "data"];

/// Returns whether a directory is a pool: whether it has files or links of both names. The device
/// of a link may be missing.
///
/// # Errors
/// Fails if the user may not look into it.
fn is_pool(directory: &Path) -> crate::Result<bool> {
    let cannot = || format!("cannot look into {}", directory.shown());
    let has = |name: &str| match directory.join(name).symlink_metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        found => found.map(|_| true).with_context(cannot).or_bad_input(),
    };
    Ok(has(DISKS[0])? && has(DISKS[1])?)
}

/// Returns whether a directory has a disk of a pool: of one elsewhere, or all that is left of one.
fn has_disk(directory: &Path) -> bool {
    DISKS.iter().any(|name| pool_part(&directory.join(name)).is_some())
}

/// The pools that were found, and the directories into which the user may not look.
#[derive(Default)]
struct Found {
    pools: Vec<PoolPlace>,
    closed: Vec<String>,
}

impl Found {
    /// Adds the place if it is a pool, or else the pools in it.
    fn add(&mut self, place: &PoolPlace) -> crate::Result<()> {
        let directory = match place.directory() {
            Some(directory) if !is_pool(directory)? => directory,
            _ => {
                self.pools.push(place.clone());
                return Ok(());
            }
        };
        let cannot = || format!("cannot read {}", directory.shown());
        let entries = std::fs::read_dir(directory).with_context(cannot).or_bad_input()?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.with_context(cannot)?.path());
        }
        paths.sort();
        let before = self.pools.len();
        for path in paths {
            match is_pool(&path) {
                Ok(true) => self.pools.push(PoolPlace::Directory(path)),
                Ok(false) => (),
                Err(error) => self.closed.push(error.message()),
            }
        }
        if self.pools.len() == before && has_disk(directory) {
            self.pools.push(place.clone());
        }
        Ok(())
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let mut found = Found::default();
    for directory in &arguments.directories {
        found.add(directory)?;
    }
    let Found { pools: found, closed: mut warnings } = found;
    let mut outcome = if warnings.is_empty() { Outcome::Done } else { Outcome::Partial };
    let mut rows = Vec::new();
    for pool in found {
        rows.push(match pools::stat(&pool, context) {
            Ok(report) => PoolRow::of(pool, &report),
            Err(error) => {
                warnings.push(error.message());
                outcome = Outcome::Partial;
                PoolRow::unusable(pool)
            }
        });
    }
    let mut table = Table::new();
    table.row(["pool", "capacity", "in use", "dedup ratio", "volumes", "state", "health"]);
    rows.iter().for_each(|row| table.row(row.cells()));
    let input = Input { directories: &arguments.directories };
    let made = KIND.made(input, &rows, warnings);
    arguments.json.finish(context, made, &table.render(0))?;
    Ok(outcome)
}
