//! `gemelo volume copy`: sends a snapshot to a pool of this or of another host.
//!
//! The program over there is `gemelo volume receive`, and `gemelo volume ls` before it, from which
//! the snapshots are known that both pools have.

use super::end::{Connection, End, output_of};
use super::mode::Mode;
use super::send::Compressing;
use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, Outcome, failed, refused};
use crate::pipes::Pipe;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::units::{format_duration_ns, format_size};
use gemelo_base::values::Size;
use gemelo_base::{Clock, SystemClock};
use gemelo_format::{DedupMode, Origin, SnapshotId};
use gemelo_place::VolumePath;
use gemelo_serve::{CopiedReport, KeepRule, PoolAccess, PoolRequest, Purpose, Reply, StatReport};
use gemelo_volume::VolumeSummary;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::process::Stdio;

/// Bytes of a stream that are gathered before they are passed on.
const BUFFER_BYTES: usize = 256 << 10;
/// Snapshots that both pools have and that are compared with the one to be sent.
const MAX_COMPARED: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The snapshot: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/SNAPSHOT", value_parser = volume_path_parser())]
    snapshot: VolumePath,
    /// The copy: POOL/NAME here, or HOST:POOL/NAME on another host
    #[arg(value_name = "[HOST:]POOL/NAME")]
    destination: String,
    /// The snapshot from which on only differences are sent: auto takes the one that both pools
    /// have and from which the least differs, none sends everything
    #[arg(long, value_name = "auto|none|POOL/EARLIER", default_value = "auto")]
    since: String,
    /// Most bytes of the stream a second [default: no limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
    #[command(flatten)]
    compressing: Compressing,
    /// Mode of deduplication of a copy that is sent as a whole
    #[arg(long, value_name = "MODE", default_value = "inline")]
    dedup: Mode,
    /// Then remove copies of earlier snapshots of the volume, except the last one of each of so
    /// many hours, days, weeks, months and years, such as '24h,7d,4w', and those that are held
    #[arg(long, value_name = "RULE")]
    keep: Option<KeepRule>,
    #[command(flatten)]
    connection: Connection,
}

/// The parts of the output of `gemelo volume ls --json` that are read here.
#[derive(Deserialize)]
struct Listed {
    result: ListedVolumes,
}

#[derive(Deserialize)]
struct ListedVolumes {
    volumes: Vec<ListedVolume>,
}

#[derive(Deserialize)]
struct ListedVolume {
    identity: Option<SnapshotId>,
}

/// The snapshots of the pool of the copy.
fn snapshots(destination: &End, context: &Context) -> crate::Result<HashSet<SnapshotId>> {
    let pool = destination.pool()?;
    let output = destination.run(&["volume", "ls", &pool, "--json", "-"], &context.stop)?;
    let listed: Listed = serde_json::from_slice(&output.stdout)
        .or_failed()
        .context("the list of the snapshots of the other pool makes no sense")?;
    Ok(listed.result.volumes.into_iter().filter_map(|volume| volume.identity).collect())
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Arguments { snapshot, .. } = arguments;
    let destination = End::of(&arguments.destination, &arguments.connection)?;
    arguments.connection.check(&[&destination])?;
    let pool = destination.pool()?;
    if !destination.is_far() && pool == snapshot.pool.to_string() {
        return Err(refused!(
            "{} is in the pool of the snapshot: clone it there with 'gemelo volume clone'",
            arguments.destination
        ));
    }
    let access = pools::open(&snapshot.pool, Purpose::Send, context)?;
    let sent = arguments.send(&access, &destination, context);
    let closed = access.close();
    let (sent, since) = sent?;
    closed?;
    if let Some(keep) = arguments.keep {
        prune(&destination, keep, context)?;
    }
    let what = since.map_or_else(
        || format!("a copy of {snapshot}"),
        |since| format!("a copy of {snapshot}, sent as what differs from {since}"),
    );
    let known = match sent.known_bytes {
        0 => String::new(),
        bytes => format!(", without {} that were there", format_size(bytes)),
    };
    context.print(&format!(
        "{}: {what}: a stream of {}{known}{}\n",
        arguments.destination,
        format_size(sent.stream_bytes),
        rests(sent.rested_ns)
    ))?;
    Ok(Outcome::Done)
}

/// Tells for how long clients were given way.
pub(super) fn rests(rested_ns: u64) -> String {
    match rested_ns {
        0 => String::new(),
        rested_ns => format!(", and rests of {} for clients", format_duration_ns(rested_ns)),
    }
}

/// Removes copies of earlier snapshots at the destination.
fn prune(destination: &End, keep: KeepRule, context: &Context) -> crate::Result<()> {
    let keep = keep.to_string().replace(' ', ",");
    let words = ["volume", "prune", destination.volume(), "--keep", &keep];
    let output = destination.run(&words, &context.stop);
    let output = output.context("the copy was made, and old ones were not removed")?;
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let said = line.trim_start_matches("gemelo: ").trim_start_matches("warning: ");
        context.monitor.warn(said);
    }
    Ok(())
}

impl Arguments {
    /// Sends the snapshot. Also returns the name of the one from which on differences were sent.
    fn send(
        &self,
        access: &PoolAccess,
        destination: &End,
        context: &Context,
    ) -> crate::Result<(CopiedReport, Option<String>)> {
        let report = self.report(access, context)?;
        let since = self.base((access, &report), destination, context)?;
        let dedup = DedupMode::from(self.dedup).name();
        let words =
            ["volume", "receive", destination.volume(), "--dedup", dedup, "--answers", "--quiet"];
        let mut child = destination.start(&words, Stdio::piped())?;
        let input = child.stdin.take().ok_or_else(|| failed!("the program has no input"))?;
        let input = Pipe::to(input, &context.stop);
        let mut out = Limited::new(BufWriter::with_capacity(BUFFER_BYTES, input), self.rate);
        let answers = child.stdout.take().ok_or_else(|| failed!("the program has no output"))?;
        let answers = Some(Box::new(Pipe::new(answers, &context.stop)) as _);
        let progress = (&*context.monitor, &context.stop);
        let what = (&*self.snapshot.name, since.as_deref(), self.compressing.compress);
        let sent = access.send(what, &mut out, answers, progress);
        let flushed = out.flush();
        drop(out);
        let output = output_of(child, &context.stop).context("cannot wait for the receiver")?;
        // A receiver that refuses the stream tells why, and the sender only that it is gone.
        if sent.is_err() || flushed.is_err() {
            let was_refused = output.status.code().is_some_and(|code| code != 0)
                && !String::from_utf8_lossy(&output.stderr).contains("the sender gave up");
            if was_refused {
                destination.check(&output)?;
            }
        }
        let sent = sent?;
        destination.check(&output)?;
        Ok((sent, since))
    }

    /// The figures of the pool, if it has the snapshot.
    fn report(&self, access: &PoolAccess, context: &Context) -> crate::Result<StatReport> {
        let report = pools::stat_of(access, context)?;
        match self.own(&report).map(|own| own.identity) {
            None => Err(refused!("{}: there is no such volume", self.snapshot)),
            Some(None) => Err(refused!(
                "{} takes writes: make a snapshot with 'gemelo volume snapshot', and copy that",
                self.snapshot
            )),
            Some(Some(_)) => Ok(report),
        }
    }

    /// The snapshot among the volumes of its pool.
    fn own<'r>(&self, report: &'r StatReport) -> Option<&'r VolumeSummary> {
        let mut volumes = report.volumes.iter().map(|volume| &volume.summary);
        volumes.find(|volume| volume.record.name == self.snapshot.name)
    }

    /// The snapshot from which on differences are sent.
    fn base(
        &self,
        (access, report): (&PoolAccess, &StatReport),
        destination: &End,
        context: &Context,
    ) -> crate::Result<Option<String>> {
        match self.since.as_str() {
            "none" => Ok(None),
            "auto" => self.nearest((access, report), destination, context),
            path => {
                let since = path.parse::<VolumePath>().or_failed();
                let since = since.context("--since").or_bad_input()?;
                if since.pool != self.snapshot.pool {
                    return Err(refused!(
                        "{since} is of another pool than {}: name a snapshot of the same pool",
                        self.snapshot
                    ));
                }
                Ok(Some(since.name))
            }
        }
    }

    /// The snapshot that both pools have and from which the least differs; [`None`] if all that the
    /// snapshot holds is less.
    fn nearest(
        &self,
        (access, report): (&PoolAccess, &StatReport),
        destination: &End,
        context: &Context,
    ) -> crate::Result<Option<String>> {
        let Some(own) = self.own(report) else { return Ok(None) };
        let block_bytes = u64::from(report.pool.block_bytes);
        let there = snapshots(destination, context)?;
        let volumes = report.volumes.iter().map(|volume| &volume.summary);
        let mut common: Vec<&VolumeSummary> = volumes
            .filter(|one| one.record.id != own.record.id)
            .filter(|one| one.identity.is_some_and(|identity| there.contains(&identity)))
            .collect();
        // Those of the same volume come first, and of them the latest.
        common.sort_by_key(|one| {
            let is_related = source_of(one).is_some() && source_of(one) == source_of(own);
            Reverse((is_related, one.record.birth.created_s, one.record.id))
        });
        let mut best = (own.mapped_blocks * block_bytes, None);
        for one in common.into_iter().take(MAX_COMPARED) {
            let name = &one.record.name;
            let bytes = self.differing_bytes(access, name, best.0, context)?;
            if bytes < best.0 {
                best = (bytes, Some(name.clone()));
            }
        }
        Ok(best.1)
    }

    /// The bytes that are not zeros and differ from a snapshot, or more than `most`.
    fn differing_bytes(
        &self,
        access: &PoolAccess,
        since: &str,
        most: u64,
        context: &Context,
    ) -> crate::Result<u64> {
        let (mut bytes, mut from_bytes) = (0, 0);
        loop {
            let (name, since) = (self.snapshot.name.clone(), since.to_owned());
            let request = PoolRequest::DifferingRanges { name, since, from_bytes };
            let Reply::DifferingRanges(some) = pools::ask(access, &request, context)? else {
                return Err(pools::other_version());
            };
            let data = some.ranges.iter().filter(|range| range.kind.is_data());
            bytes += data.map(|range| range.length_bytes).sum::<u64>();
            if bytes > most || some.end_bytes >= some.size_bytes || some.end_bytes <= from_bytes {
                return Ok(bytes);
            }
            from_bytes = some.end_bytes;
        }
    }
}

/// The volume of which a snapshot was made.
fn source_of(snapshot: &VolumeSummary) -> Option<u32> {
    match &snapshot.record.birth.origin {
        Origin::Clone { volume, .. } => Some(volume.0),
        _ => None,
    }
}

/// An output that takes so many bytes a second.
struct Limited<W> {
    out: W,
    max_bytes_per_s: Option<u64>,
    clock: SystemClock,
    bytes: u64,
}

impl<W> Limited<W> {
    fn new(out: W, rate: Option<Size>) -> Self {
        let max_bytes_per_s = rate.map(|rate| rate.0.max(1));
        Self { out, max_bytes_per_s, clock: SystemClock::new(), bytes: 0 }
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(max_bytes_per_s) = self.max_bytes_per_s else { return self.out.write(bytes) };
        let due_ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(max_bytes_per_s);
        self.clock.sleep_until_ns(u64::try_from(due_ns).unwrap_or(u64::MAX));
        // A tenth of a second at a time.
        let most = usize::try_from(max_bytes_per_s / 10 + 1).unwrap_or(usize::MAX);
        let taken = self.out.write(bytes.get(..most).unwrap_or(bytes))?;
        self.bytes += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
