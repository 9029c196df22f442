//! Jobs that are repeated in one command: warm-up, repetitions, the median and its interval.

use super::Outputs;
use super::begun::Begun;
use crate::context::Context;
use crate::exit::{Failures, Outcome, refused};
use crate::kind::Kind;
use crate::table::Table;
use clap::Args;
use gemelo_base::units::format_counted;
use gemelo_compare::summarize;
use gemelo_figures::{REPEATED_SCHEMA, Repeated, RepeatedFile, RepeatedRun, Unit, of_bench};
use gemelo_job::JobOptions;
use gemelo_job::bench::{self, BenchFile, JobInput};
use gemelo_record::Provenance;
use std::ops::ControlFlow;

pub(super) const KIND: Kind<RepeatedFile> =
    Kind::new(REPEATED_SCHEMA, "Result of gemelo bench --repetitions");

/// The options of repetitions.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Repetitions {
    /// Run all jobs this many times, each with other places and contents, and print the median and
    /// the interval of each main figure
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000),
        conflicts_with_all = ["dry_run", "report", "brief"])]
    repetitions: Option<u32>,
    /// Runs before the first repetition that do not count [default: 1]
    #[arg(long, value_name = "N", requires = "repetitions",
        value_parser = clap::value_parser!(u32).range(0..=1000))]
    warm_up_runs: Option<u32>,
}

impl Repetitions {
    /// Returns whether the jobs are repeated.
    pub(super) fn are_wanted(self) -> bool {
        self.repetitions.is_some()
    }

    /// Returns the number of repetitions and of runs before them.
    fn counts(self) -> Counts {
        let warm_up_runs = self.warm_up_runs.unwrap_or(1);
        Counts { repetitions: self.repetitions.unwrap_or(1), warm_up_runs }
    }
}

struct Counts {
    repetitions: u32,
    warm_up_runs: u32,
}

/// Runs the jobs repeatedly, and prints or writes the summary.
pub(super) fn run(
    jobs: &[JobOptions],
    repetitions: Repetitions,
    outputs: &Outputs,
    context: &Context,
) -> crate::Result<Outcome> {
    if jobs.iter().any(|job| job.load.log.is_some() || job.load.access_log.is_some()) {
        return Err(refused!("--log and --access-log are of one run: leave out --repetitions"));
    }
    let force = jobs.iter().any(|job| job.load.force == Some(true));
    let json = &outputs.files.json;
    json.check(force)?;
    let counts = repetitions.counts();
    let mut runs: Vec<RepeatedRun> = Vec::new();
    let mut inputs: Vec<JobInput> = Vec::new();
    let mut warnings: Vec<String> = Vec::new();
    let mut failures = Failures::default();
    let mut begun = Begun::new(&outputs.files, force, context);
    for round in 0..counts.warm_up_runs + counts.repetitions {
        let file = one(jobs, round, &mut begun, context, &mut failures)?;
        let is_complete = !file.result.is_empty()
            && file.result.iter().all(gemelo_load::RunResult::is_success)
            && file.result.len() == file.input.len();
        if let Some(number) = (round + 1).checked_sub(counts.warm_up_runs).filter(|n| *n > 0) {
            let new = file.warnings.iter().filter(|one| !warnings.contains(one));
            warnings.extend(new.cloned().collect::<Vec<_>>());
            runs.push(RepeatedRun { number, is_complete, figures: of_bench(&file) });
        }
        inputs = file.input;
        if !is_complete {
            break;
        }
    }
    let is_complete =
        runs.len() as u32 == counts.repetitions && runs.iter().all(|run| run.is_complete);
    let summary = summarize(&runs);
    let repeated = Repeated { warm_up_runs: counts.warm_up_runs, repetitions: runs, summary };
    if !json.is_standard_output() {
        failures.note(context.print(&text(&repeated)), context.monitor.as_ref());
    }
    let file = RepeatedFile {
        schema: REPEATED_SCHEMA.to_owned(),
        provenance: provenance(&inputs, context),
        input: inputs,
        result: repeated,
        warnings,
    };
    failures.note(json.write_file(begun.may_overwrite(), &file), context.monitor.as_ref());
    failures.or(if is_complete { Outcome::Done } else { Outcome::Partial })
}

fn provenance(inputs: &[JobInput], context: &Context) -> Provenance {
    Provenance {
        target: inputs.first().map(|input| input.target.to_string()),
        seed: inputs.first().map(|input| input.job.seed),
        ..Provenance::of_this_process(context.started_at)
    }
}

/// Runs all jobs once. Each round has another seed, so that places and contents differ, and only
/// the first one asks whether the target is free: the others find what it has left.
fn one(
    jobs: &[JobOptions],
    round: u32,
    begun: &mut Begun<'_>,
    context: &Context,
    failures: &mut Failures,
) -> crate::Result<BenchFile> {
    let mut jobs = jobs.to_vec();
    for job in &mut jobs {
        for seed in [&mut job.content.seed, &mut job.content.content_seed] {
            let first = seed.unwrap_or(gemelo_job::contents::USUAL_SEED);
            *seed = Some(first.wrapping_add(u64::from(round)));
        }
        if round > 0 {
            job.load.force = Some(true);
        }
    }
    let environment = context.job_environment();
    let jobs = bench::resolve_all(jobs, &environment)?;
    if round == 0 {
        bench::check(&jobs)?;
    }
    let mut ran = bench::run_telling(
        jobs,
        &environment,
        |input, history| begun.note(input, history),
        |_, _| ControlFlow::Continue(()),
    );
    failures.note_all(&mut ran.errors, context.monitor.as_ref());
    Ok(ran.into_file(Provenance::of_this_process(context.started_at)))
}

fn text(repeated: &Repeated) -> String {
    let complete = repeated.complete().count();
    let mut text = format!(
        "{} after {}\n",
        format_counted(complete as u64, "repetition"),
        format_counted(u64::from(repeated.warm_up_runs), "warm-up run"),
    );
    let mut table = Table::new();
    table.row(["figure", "median", "95 % interval", "lowest", "highest"]);
    for one in &repeated.summary {
        let show = |value: f64| Unit::of_figure(&one.name).format(value);
        let interval = one.interval.map_or_else(
            || "unknown".to_owned(),
            |[low, high]| format!("{} to {}", show(low), show(high)),
        );
        let name = one.name.clone();
        table.row([name, show(one.median), interval, show(one.lowest), show(one.highest)]);
    }
    text += &table.render(0);
    text
}
