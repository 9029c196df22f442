//! Jobs whose rate follows from the target: a share of its peak rate, which gives a load curve, and
//! the highest rate that keeps a limit of the latency.
//!
//! Each run measures the peak of its own target first, so a run needs no other run.

use super::bench::Bench;
use super::job_options::{JobOption, option_with};
use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::PlanError;
use crate::plan::keys::Keys;
use crate::result;
use crate::target::PlaceKind;
use gemelo_base::values::{Percent, Span};
use gemelo_record::Better;
use std::time::Duration;

/// Rates that a search tries. Each halves the range, so the last range is 1.6 % of the peak rate.
const SEARCH_STEPS: u32 = 6;

/// Least share of the asked rate that a run must reach. Below it, the target does not keep up.
const MIN_REACHED_SHARE: f64 = 0.95;

/// Figure of the rate of the peak.
const PEAK: &str = "peak/operations_per_s";

/// Figure of the highest rate that keeps the limit.
const LIMIT: &str = "limit/operations_per_s";

/// The rule by which the rate is chosen.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// A share of the peak rate.
    Share(f64),
    /// The highest rate at which a percentile of the latency stays below a limit.
    Limit { percentile: f64, latency_ns: f64 },
}

/// A job with a rule for its rate.
#[derive(Debug)]
struct Paced {
    job: Bench,
    rule: Rule,
    /// Length of the measurement of the peak; that of the job if absent.
    peak_time: Option<Duration>,
}

/// Makes a job paced if its table has one of the keys `load` and `latency-limit`.
pub(super) fn paced(table: &Keys<'_>, job: Bench) -> ActionResult {
    let keys = PaceKeys::read(table)?;
    let Some(rule) = keys.rule else { return Ok(Box::new(job)) };
    if job.count() != 1 {
        return Err(table.wrong("job", "a rate by 'load' or 'latency-limit' is for one job"));
    }
    if job.value_of("time").is_none() {
        return Err(table.wrong("load", "needs 'time', because a peak has no fixed length"));
    }
    Ok(Box::new(Paced { job, rule, peak_time: keys.peak_time }))
}

/// The keys of a pace.
struct PaceKeys {
    rule: Option<Rule>,
    peak_time: Option<Duration>,
}

impl PaceKeys {
    fn read(table: &Keys<'_>) -> Result<Self, PlanError> {
        let span = |name| table.parsed::<Span>(name, "a duration, such as 500us, 5ms or 2s");
        let load = table.parsed::<Percent>("load", "a percentage of the peak, such as 30%")?;
        let limit = span("latency-limit")?;
        let percentile = table.parsed::<f64>("percentile", "a percentile, such as 99 or 99.9")?;
        let percentile = percentile.unwrap_or(99.0);
        if ![50.0, 90.0, 99.0, 99.9, 99.99].contains(&percentile) {
            return Err(table.wrong("percentile", "must be 50, 90, 99, 99.9 or 99.99"));
        }
        let rule = match (load, limit) {
            (Some(_), Some(_)) => {
                return Err(table.wrong("load", "cannot stand beside 'latency-limit'"));
            }
            (Some(load), None) if load.0 <= 0.0 => {
                return Err(table.wrong("load", "must be above 0 %"));
            }
            (Some(load), None) => Some(Rule::Share(load.0)),
            (None, Some(limit)) => {
                Some(Rule::Limit { percentile, latency_ns: limit.0.as_nanos() as f64 })
            }
            (None, None) => None,
        };
        Ok(Self { rule, peak_time: span("peak-time")?.map(|span| span.0) })
    }
}

/// Asks for the keys of a pace, so that they do not count as options of the job.
pub(super) fn ask(table: &Keys<'_>) -> Result<(), PlanError> {
    PaceKeys::read(table).map(drop)
}

impl Action for Paced {
    fn description(&self) -> String {
        let job = self.job.description();
        match self.rule {
            Rule::Share(share) => format!("{job}, at {:.0} % of the peak rate", 100.0 * share),
            Rule::Limit { percentile, latency_ns } => format!(
                "{job}, at the highest rate with {percentile} % of latencies below {:.2} ms",
                latency_ns / 1e6
            ),
        }
    }

    fn accepts(&self, place: PlaceKind) -> bool {
        self.job.accepts(place)
    }

    fn expected_time(&self) -> Option<Duration> {
        let once = self.job.expected_time()?;
        let times = if matches!(self.rule, Rule::Share(_)) { 1 } else { SEARCH_STEPS };
        Some(self.peak_time.unwrap_or(once) + once * times)
    }

    fn data_bytes(&self) -> Option<u64> {
        self.job.data_bytes()
    }

    fn main_figure(&self) -> Option<String> {
        match (self.rule, self.job.value_of("operation")) {
            (Rule::Limit { .. }, _) => Some(LIMIT.to_owned()),
            (Rule::Share(_), Some("read" | "mixed")) => Some("read/latency_p99_ns".to_owned()),
            (Rule::Share(_), _) => Some("write/latency_p99_ns".to_owned()),
        }
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let name = stage.name.clone();
        let time =
            self.peak_time.map(|time| option_with("time", &format!("{}ns", time.as_nanos())));
        stage.name = format!("{name}-peak");
        let peak = self.job.run_with(stage, time.as_slice())?;
        let per_s = |measured: &Measured| {
            let figures = &measured.figures;
            let names = ["all", "write", "read"].map(|kind| format!("{kind}/operations_per_s"));
            names.iter().find_map(|name| figures.value(name))
        };
        let (Some(peak_per_s), None) = (per_s(&peak), &peak.failure) else { return Ok(peak) };
        let mut measured = match self.rule {
            Rule::Share(share) => self.at_rate(stage, &name, peak_per_s * share)?,
            Rule::Limit { percentile, latency_ns } => {
                self.search(stage, &name, peak_per_s, |measured, rate| {
                    let reached = per_s(measured).unwrap_or(0.0) >= MIN_REACHED_SHARE * rate;
                    reached && keeps(measured, percentile, latency_ns)
                })?
            }
        };
        result::set(&mut measured.figures, PEAK, peak_per_s, Better::Higher);
        measured.files.extend(peak.files);
        Ok(measured)
    }
}

impl Paced {
    /// Runs the job at a rate of all its processes together.
    fn at_rate(
        &self,
        stage: &mut ActionSite<'_, '_>,
        name: &str,
        per_s: f64,
    ) -> Result<Measured, StepError> {
        let processes = self.job.value_of("processes").and_then(|count| count.parse::<f64>().ok());
        let rate: JobOption =
            option_with("rate", &format!("{:.3}", per_s / processes.unwrap_or(1.0).max(1.0)));
        stage.name = name.to_owned();
        self.job.run_with(stage, &[rate])
    }

    /// Finds the highest rate that fits by halving the range below the peak rate.
    fn search(
        &self,
        stage: &mut ActionSite<'_, '_>,
        name: &str,
        peak_per_s: f64,
        fits: impl Fn(&Measured, f64) -> bool,
    ) -> Result<Measured, StepError> {
        let (mut low, mut high) = (0.0, peak_per_s);
        let mut best = Measured::default();
        for step in 1..=SEARCH_STEPS {
            let rate = f64::midpoint(low, high);
            let measured = self.at_rate(stage, &format!("{name}-{step}"), rate)?;
            if measured.failure.is_some() {
                return Ok(measured);
            }
            let mut files = std::mem::take(&mut best.files);
            files.extend(measured.files.iter().cloned());
            if fits(&measured, rate) {
                low = rate;
                best = measured;
            } else {
                high = rate;
            }
            best.files = files;
        }
        result::set(&mut best.figures, LIMIT, low, Better::Higher);
        if low == 0.0 {
            best.warnings.push("no rate that was tried keeps the limit of the latency".to_owned());
        }
        Ok(best)
    }
}

/// Returns whether the latencies of all kinds of operations keep the limit.
fn keeps(measured: &Measured, percentile: f64, latency_ns: f64) -> bool {
    let names = ["write", "read"].map(|kind| format!("{kind}/latency_p{percentile}_ns"));
    let latencies: Vec<_> = names.iter().filter_map(|name| measured.figures.value(name)).collect();
    !latencies.is_empty() && latencies.iter().all(|latency| *latency <= latency_ns)
}
