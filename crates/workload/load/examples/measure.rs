//! Runs one job and prints its figures, for measuring the library by itself.
//!
//! `measure TARGET [KEY=VALUE...]`. The keys are operation (write, read, mixed), pattern, block,
//! file, processes, depth, engine, sync (none, direct, fsync), time (seconds), bytes (of each
//! process), populate (none, content), distribution (`<duplicates> <contents>` pairs separated by
//! commas), verify (none, online, final, both).

use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_content::{ContentSpec, Distribution};
use gemelo_load::{
    Contents, Environment, Job, JobOperation, JobSpec, Populate, SyncPolicy, Verify, run,
};
use gemelo_target::{TargetUri, Targets};
use std::error::Error;
use std::io::Write;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let target: TargetUri = arguments.next().ok_or("measure TARGET [KEY=VALUE...]")?.into();
    let mut spec = JobSpec { process_bytes: None, ..JobSpec::default() };
    let mut distribution = "0 750,1 125".to_owned();
    for argument in arguments {
        let (key, value) = argument.split_once('=').ok_or("expected KEY=VALUE")?;
        if key == "distribution" {
            value.clone_into(&mut distribution);
        } else {
            set(&mut spec, key, value)?;
        }
    }
    if spec.time_ns.is_none() && spec.process_bytes.is_none() {
        spec.process_bytes = Some(spec.file_bytes);
    }
    let distribution = Distribution::parse(&distribution.replace(',', "\n"))?;
    let contents = ContentSpec::new(distribution, spec.block_bytes, 1);
    measure(&target, &Job::new(spec)?, &contents)
}

fn set(spec: &mut JobSpec, key: &str, value: &str) -> Outcome<()> {
    let size = || gemelo_base::units::parse_size(value);
    match key {
        "operation" => {
            spec.operation = match value {
                "read" => JobOperation::Read,
                "mixed" => JobOperation::Mixed,
                _ => JobOperation::Write,
            }
        }
        "pattern" => spec.pattern = value.parse()?,
        "block" => spec.block_bytes = usize::try_from(size()?)?,
        "file" => spec.file_bytes = size()?,
        "processes" => spec.processes = value.parse()?,
        "depth" => spec.queue_depth = value.parse()?,
        "engine" => spec.engine = value.parse()?,
        "sync" => {
            spec.sync = match value {
                "direct" => SyncPolicy::Direct,
                "fsync" => SyncPolicy::Fsync,
                _ => SyncPolicy::None,
            }
        }
        "time" => spec.time_ns = Some(gemelo_base::units::parse_duration(value)?.as_nanos() as u64),
        "bytes" => spec.process_bytes = Some(size()?),
        "populate" => {
            spec.populate = if value == "content" { Populate::Content } else { Populate::None }
        }
        "verify" => {
            spec.verify = match value {
                "online" => Verify::Online,
                "final" => Verify::Final,
                "both" => Verify::Both,
                _ => Verify::None,
            }
        }
        _ => return Err(format!("unknown key '{key}'").into()),
    }
    Ok(())
}

fn measure(uri: &TargetUri, job: &Job, spec: &ContentSpec) -> Outcome<()> {
    let contents = Contents::new(spec, job)?;
    let mut target = Targets::new().storage(uri)?.plan(&job.layout(true))?.prepare()?;
    let (clock, stop) = (SystemClock::new(), StopFlag::new());
    let environment =
        Environment { clock: &clock, monitor: &Silent, stop: &stop, start: &gemelo_base::AtOnce };
    let result = run(job, &contents, target.as_ref(), None, &environment, None)?;
    target.finish(false)?;
    let mut out = std::io::stdout().lock();
    for (name, side) in [("read", &result.total.reads), ("write", &result.total.writes)] {
        let Some(side) = side else { continue };
        let p = |percent| side.latency.summary.percentile_ns(percent).unwrap_or(0);
        writeln!(
            out,
            "{name}: {:.0} ops/s, {:.1} MB/s, mean {:.0} ns, p50 {} p99 {} p99.99 {} max {}",
            side.operations_per_s,
            side.bytes_per_s / 1e6,
            side.latency.summary.mean_ns,
            p(50.0),
            p(99.0),
            p(99.99),
            side.latency.summary.max_ns
        )?;
    }
    writeln!(
        out,
        "generating {:.1} %, elapsed {:.3} s, user {:.2} s, system {:.2} s, peak {} MiB",
        result.total.generating_share * 100.0,
        result.elapsed_ns as f64 / 1e9,
        result.usage.user_ns as f64 / 1e9,
        result.usage.system_ns as f64 / 1e9,
        result.usage.peak_memory_bytes >> 20
    )?;
    writeln!(out, "ended {:?}, failure {:?}", result.ended, result.failure)?;
    if let Some(verification) = &result.verification {
        writeln!(out, "{verification:?}")?;
    }
    result.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
    Ok(())
}
