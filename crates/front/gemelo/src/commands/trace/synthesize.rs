//! `gemelo trace synthesize` makes a trace from a preset or from figures.

use super::input::for_each;
use super::output::TraceOutput;
use crate::context::Context;
use crate::exit::{Failure, OrFailure as _, Outcome, refused};
use crate::values::BlockSize;
use clap::Args;
use gemelo_base::units::{format_count, format_counted, format_duration_ns, format_percent};
use gemelo_base::values::{Percent, Size, Span};
use gemelo_job::distributions::{self, USUAL_BLOCK_BYTES};
use gemelo_trace::{
    Arrival, Pattern, Preset, RecordSource, Synthesis, SynthesisError, SynthesisSpec, TraceFormat,
    presets,
};

/// Synthesise a trace.
///
/// A preset has the published figures of a recorded trace. Each option replaces one of its figures.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Preset with the published figures of an FIU trace: web, mail or homes
    #[arg(long, value_name = "NAME", required_unless_present = "distribution")]
    preset: Option<String>,
    /// Distribution of the written contents: a built-in one, a DEDISbench file or a profile
    #[arg(long, value_name = "NAME|FILE")]
    distribution: Option<String>,
    /// Distribution of the contents that are read before they are written [default: the preset's,
    /// or that of --distribution]
    #[arg(long, value_name = "NAME|FILE")]
    read_distribution: Option<String>,
    /// Number of records, each of one block
    #[arg(long, value_name = "N", required_unless_present = "time")]
    records: Option<u64>,
    /// Length of the trace, in place of --records
    #[arg(long, value_name = "DURATION", conflicts_with = "records")]
    time: Option<Span>,
    /// Share of reads among all records, in percent [default: the preset's, or 50]
    #[arg(long, value_name = "PERCENT")]
    read_share: Option<Percent>,
    /// Access pattern: uniform, hotspot:ACCESSES/BLOCKS in percent, zipf:THETA, nurand[:A] or
    /// sequential [default: hotspot:80/20]
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<Pattern>,
    /// Size of the distinct places that are written [default: the preset's for this number of
    /// records, or half of the written data]
    #[arg(long, value_name = "SIZE")]
    written_places: Option<Size>,
    /// Size of the distinct places that are read [default: the preset's for this number of records,
    /// or half of the read data]
    #[arg(long, value_name = "SIZE")]
    read_places: Option<Size>,
    /// Mean size of a request; each of its blocks is a record [default: the preset's, or one block]
    #[arg(long, value_name = "SIZE")]
    request_size: Option<Size>,
    /// Mean number of records a second [default: the preset's, or 100]
    #[arg(long, value_name = "RECORDS")]
    rate: Option<f64>,
    /// Arrival process: poisson, bursty, or bursty:BUSY/BURST with the percentage of busy time and
    /// the length of a burst, such as bursty:10/10s [default: the preset's, or poisson]
    #[arg(long, value_name = "PROCESS")]
    arrival: Option<Arrival>,
    /// Size of a block [default: 4k]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<BlockSize>,
    /// Size of the data of one hash, 512 or 4096 bytes [default: the preset's, or 4096]
    #[arg(long, value_name = "SIZE")]
    hash_size: Option<Size>,
    /// Seed of all random choices; the same seed gives the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Format of the trace: fiu, or xmu, which joins hashes with dashes
    #[arg(long, value_name = "FORMAT", default_value = "fiu")]
    to: TraceFormat,
    #[command(flatten)]
    output: TraceOutput,
}

const USUAL_RECORDS_PER_S: f64 = 100.0;
const USUAL_READ_SHARE: f64 = 0.5;
const USUAL_PATTERN: Pattern = Pattern::Hotspot { accesses_percent: 80.0, blocks_percent: 20.0 };

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.output.check()?;
    if !arguments.to.carries_hashes() {
        return Err(refused!(
            "{} traces hold no contents: use --to fiu, and convert the trace",
            arguments.to
        ));
    }
    let spec = arguments.spec()?;
    let mut synthesis = Synthesis::new(&spec).or_bad_input()?;
    let mut writer = arguments.output.writer(arguments.to)?;
    let mut length_ns = 0;
    let phase = ("synthesizing", Some(spec.records));
    let is_complete = for_each(&mut synthesis, context, phase, |record, synthesis| {
        length_ns = record.time_ns;
        Ok(writer.write(record, synthesis.names())?)
    })?;
    let content = format!(
        "{} over {}, {} of them reads, in places of {} written and {} read blocks",
        format_counted(writer.records(), "record"),
        format_duration_ns(length_ns),
        format_percent(1.0 - spec.write_share),
        format_count(spec.written_places),
        format_count(spec.read_places),
    );
    arguments.output.finish(writer, is_complete, &content, context)
}

impl Arguments {
    fn spec(&self) -> crate::Result<SynthesisSpec> {
        let mut spec = match &self.preset {
            Some(name) => self.of_preset(name)?,
            None => self.of_figures()?,
        };
        if let Some(name) = &self.distribution {
            spec.written = distributions::load(name).or_bad_input()?.distribution;
        }
        if let Some(name) = &self.read_distribution {
            spec.populated = distributions::load(name).or_bad_input()?.distribution;
        }
        spec.pattern = self.pattern.unwrap_or(spec.pattern);
        spec.arrival = self.arrival.unwrap_or(spec.arrival);
        if let Some(size) = self.block_size {
            spec.block_bytes = size.0;
        }
        if let Some(size) = self.hash_size {
            spec.hash_bytes = u32::try_from(size.0).unwrap_or(u32::MAX);
        }
        if let Some(size) = self.request_size {
            spec.request_blocks = size.0 as f64 / spec.block_bytes as f64;
        }
        let places = |size: Size| (size.0 / spec.block_bytes).max(1);
        spec.written_places = self.written_places.map_or(spec.written_places, places);
        spec.read_places = self.read_places.map_or(spec.read_places, places);
        Ok(spec)
    }

    fn of_preset(&self, name: &str) -> crate::Result<SynthesisSpec> {
        let preset = Preset::named(name).ok_or_else(|| {
            let known: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
            refused!("'{name}' is not a preset: use one of {}", known.join(", "))
        })?;
        let sound = |error: SynthesisError| Failure::from(error).untouched();
        let published = preset.spec(preset.published_records(), self.seed).map_err(sound)?;
        let rate = self.rate.unwrap_or(published.records_per_s);
        let mut spec = preset.spec(self.records_at(rate)?, self.seed).map_err(sound)?;
        spec.records_per_s = rate;
        spec.write_share = self.read_share.map_or(spec.write_share, |share| 1.0 - share.0);
        Ok(spec)
    }

    fn of_figures(&self) -> crate::Result<SynthesisSpec> {
        let name = self.distribution.as_deref().unwrap_or_default();
        let distribution = distributions::load(name).or_bad_input()?.distribution;
        let records_per_s = self.rate.unwrap_or(USUAL_RECORDS_PER_S);
        let records = self.records_at(records_per_s)?;
        let write_share = 1.0 - self.read_share.map_or(USUAL_READ_SHARE, |share| share.0);
        let mut spec = SynthesisSpec {
            records,
            block_bytes: USUAL_BLOCK_BYTES,
            hash_bytes: USUAL_BLOCK_BYTES as u32,
            written: distribution.clone(),
            populated: distribution,
            write_share,
            pattern: USUAL_PATTERN,
            written_places: 1,
            read_places: 1,
            shared_places: u64::MAX,
            request_blocks: 1.0,
            arrival: Arrival::Poisson,
            records_per_s,
            seed: self.seed,
        };
        spec.written_places = (spec.written_blocks() / 2).max(1);
        spec.read_places = (records.saturating_sub(spec.written_blocks()) / 2).max(1);
        Ok(spec)
    }

    fn records_at(&self, per_s: f64) -> crate::Result<u64> {
        if !(per_s > 0.0 && per_s.is_finite()) {
            return Err(refused!(
                "--rate {per_s} is not valid: give a number of records a second above 0"
            ));
        }
        let of_time = self.time.map(|time| (time.0.as_secs_f64() * per_s).round() as u64);
        Ok(self.records.or(of_time).unwrap_or(0))
    }
}
