//! `gemelo volume hashes`: answers `gemelo volume verify` with hashes of the parts of a volume, one
//! line of JSON for each line of JSON.

use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, Outcome, refused};
use crate::pipes::Pipe;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_device::BlockDevice;
use gemelo_format::SnapshotId;
use gemelo_place::VolumePath;
use gemelo_serve::{
    HashedVolume, PART_BYTES, PoolAccess, PoolRequest, Purpose, RangeHash, Reply, StatReport,
};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::ops::Range;
use std::sync::Arc;

/// Connections to the volume. Each has a part in flight.
const THREADS: usize = 2;
/// Most parts of a question.
pub(super) const MAX_PARTS: u64 = 256;
/// Most parts of a question about units.
pub(super) const MAX_PARTS_OF_UNITS: u64 = 16;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The volume: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// An earlier snapshot of the pool, by its name or its identity
    #[arg(long, value_name = "EARLIER")]
    since: Option<String>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub(super) size_bytes: u64,
    pub(super) length_bytes: u64,
    /// Identity of the earlier snapshot.
    pub(super) since: Option<SnapshotId>,
    /// The parts in which the volume differs from it; [`None`] without one.
    pub(super) changed: Option<Vec<Range<u64>>>,
}

/// A question about some parts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) parts: Range<u64>,
    pub(super) of: Level,
}

/// What has a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    /// All parts together.
    Whole,
    /// Each part.
    Parts,
    /// Each unit of 4 KiB.
    Units,
}

/// The answer to a question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The hashes in hexadecimal digits.
    pub(super) hashes: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let access = pools::open(&arguments.volume.pool, Purpose::Send, context)?;
    let answered = arguments.answer_all(&access, context);
    let closed = access.close();
    answered?;
    closed?;
    Ok(Outcome::Done)
}

impl Arguments {
    fn answer_all(&self, access: &PoolAccess, context: &Context) -> crate::Result<()> {
        tell(&self.greeting(access, context)?)?;
        let name = &self.volume.name;
        let devices = (0..THREADS)
            .map(|_| access.device(name, gemelo_nbd::client::connect_device))
            .collect::<Result<Vec<Arc<dyn BlockDevice>>, _>>()?;
        let mut volume = HashedVolume::new(devices);
        for line in BufReader::new(Pipe::new(stdin(), &context.stop)).lines() {
            let line = line.context("cannot read the questions")?;
            let question: Question =
                serde_json::from_str(&line).or_failed().context("a question makes no sense")?;
            let hashes = hashes(&mut volume, &question, context)?;
            tell(&Answer { hashes: hashes.iter().map(hexadecimal).collect() })?;
        }
        Ok(())
    }

    fn greeting(&self, access: &PoolAccess, context: &Context) -> crate::Result<Greeting> {
        let (pool, name) = (&self.volume.pool, &self.volume.name);
        let report = pools::stat_of(access, context)?;
        let mut records = report.volumes.iter().map(|volume| &volume.summary.record);
        let Some(record) = records.find(|record| record.name == *name) else {
            return Err(refused!("{pool}: there is no volume '{name}'"));
        };
        let (size_bytes, length_bytes) = (record.size_bytes, record.length_bytes());
        let Some(since) = &self.since else {
            return Ok(Greeting { size_bytes, length_bytes, since: None, changed: None });
        };
        let (earlier, identity) = snapshot(&report, since).ok_or_else(|| {
            refused!("{pool} has no snapshot '{since}': name one that both pools have")
        })?;
        let changed = self.changed(access, &earlier, context)?;
        Ok(Greeting { size_bytes, length_bytes, since: Some(identity), changed: Some(changed) })
    }

    /// The parts in which the volume differs from a snapshot of its pool.
    fn changed(
        &self,
        access: &PoolAccess,
        since: &str,
        context: &Context,
    ) -> crate::Result<Vec<Range<u64>>> {
        let (mut parts, mut from_bytes): (Vec<Range<u64>>, u64) = (Vec::new(), 0);
        loop {
            let (name, since) = (self.volume.name.clone(), since.to_owned());
            let request = PoolRequest::DifferingRanges { name, since, from_bytes };
            let Reply::DifferingRanges(some) = pools::ask(access, &request, context)? else {
                return Err(pools::other_version());
            };
            for range in &some.ranges {
                let end = range.offset_bytes + range.length_bytes;
                add(&mut parts, range.offset_bytes / PART_BYTES..end.div_ceil(PART_BYTES));
            }
            if some.end_bytes >= some.size_bytes || some.end_bytes <= from_bytes {
                // What an earlier snapshot has behind the end is no part of the volume.
                let [one, other] = [some.size_bytes, some.since_size_bytes];
                let [start, end] =
                    [one.min(other) / PART_BYTES, one.max(other).div_ceil(PART_BYTES)];
                if one != other {
                    add(&mut parts, start..end);
                }
                return Ok(parts);
            }
            from_bytes = some.end_bytes;
        }
    }
}

/// Adds parts that come after all others, or together with the last ones.
pub(super) fn add(parts: &mut Vec<Range<u64>>, new: Range<u64>) {
    match parts.last_mut() {
        Some(last) if last.end >= new.start => last.end = last.end.max(new.end),
        _ => parts.push(new),
    }
}

/// The snapshot with this identity or this name, and its identity.
fn snapshot(report: &StatReport, text: &str) -> Option<(String, SnapshotId)> {
    let wanted = text.parse::<SnapshotId>().ok();
    let mut volumes = report.volumes.iter().map(|volume| &volume.summary);
    volumes.find_map(|volume| {
        let (name, identity) = (&volume.record.name, volume.identity?);
        let is_wanted = wanted.map_or(name == text, |wanted| wanted == identity);
        is_wanted.then(|| (name.clone(), identity))
    })
}

fn hashes(
    volume: &mut HashedVolume,
    question: &Question,
    context: &Context,
) -> crate::Result<Vec<RangeHash>> {
    let Question { parts, of } = question;
    let most = if *of == Level::Units { MAX_PARTS_OF_UNITS } else { MAX_PARTS };
    if parts.start > parts.end
        || parts.end - parts.start > most
        || parts.end > u64::MAX / PART_BYTES
    {
        return Err(refused!("a question has too many parts"));
    }
    let (parts, stop) = (parts.clone(), &context.stop);
    let hashes = match of {
        Level::Whole => volume.whole(parts, stop).map(|hash| vec![hash]),
        Level::Parts => volume.parts(parts, stop),
        Level::Units => {
            let each = parts.map(|part| volume.units(part)).collect::<Result<Vec<_>, _>>();
            each.map(|each| each.concat())
        }
    };
    hashes.context("cannot hash the volume")
}

fn hexadecimal(hash: &RangeHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tell(message: &impl Serialize) -> crate::Result<()> {
    let mut line = serde_json::to_string(message).or_failed().context("cannot answer")?;
    line.push('\n');
    let mut out = stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).context("cannot answer")
}
