//! Jobs of `gemelo bench`, from the keys of the plan or from a job file.
//!
//! The jobs run in a process of their own. A crash or an end by force then loses one run, the
//! monitor sees the processor time and memory of the load apart from the campaign's own, and the
//! result file is the one that a user gets from the same command.

use super::job_options::{self, JobOption, SEEDS, data_bytes, option_with, value_of};
use super::{Action, ActionResult, ActionSite, Measured, pace};
use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::result;
use crate::target::PlaceKind;
use gemelo_base::ShowPath as _;
use gemelo_base::units::{parse_duration, parse_size};
use gemelo_figures::name_parts;
use gemelo_job::JobOptions;
use std::path::PathBuf;
use std::time::Duration;

/// Options that the campaign sets: each run has a target of its own, and makes it anew.
const OWN: [&str; 4] = ["target", "force", "keep", "json"];

/// Most jobs of one action, as in a job file.
const MAX_JOBS: usize = 1000;

#[derive(Debug)]
pub(super) struct Bench {
    /// Options of all jobs.
    common: Vec<JobOption>,
    /// Options of each job; one job without a name if empty.
    jobs: Vec<Vec<JobOption>>,
    /// `true` for a latency probe, whose main figure is a latency.
    is_probe: bool,
    /// Words of the command line for a run on several hosts.
    hosts: Vec<String>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> ActionResult {
    if !keys.is_table(kind) {
        return Ok(Box::new(JobFile { path: reading.path(&keys.required_text(kind)?) }));
    }
    let table = keys.required_table(kind)?;
    let tables = table.tables("job", "job = [{ ... }]")?;
    if tables.len() > MAX_JOBS {
        return Err(PlanError::TooMany { most: MAX_JOBS, what: "jobs in one action" });
    }
    pace::ask(&table)?;
    let hosts = job_options::host_words(&table)?;
    let options = |keys: &Keys<'_>| job_options::read::<JobOptions>(keys, &OWN);
    let jobs = tables.iter().map(options).collect::<Result<_, _>>()?;
    pace::paced(&table, Bench { common: options(&table)?, jobs, is_probe: false, hosts })
}

/// Options of a latency probe without those of the plan: few random accesses at set times, so that
/// the latency is that of the target and not that of a queue.
const PROBE: [(&str, &str); 5] = [
    ("operation", "mixed"),
    ("pattern", "uniform"),
    ("read-rate", "50"),
    ("write-rate", "50"),
    ("time", "10s"),
];

/// Reads a latency probe: a job with the options of [`PROBE`], which the plan may replace.
pub(super) fn read_probe(
    keys: &Keys<'_>,
    kind: &'static str,
    _reading: &Reading<'_>,
) -> ActionResult {
    let table = keys.required_table(kind)?;
    let of_plan = job_options::read::<JobOptions>(&table, &OWN)?;
    let is_free = |name: &str| {
        let is_rate = ["read-rate", "write-rate"].contains(&name);
        let sets_rate = value_of(&of_plan, "rate").is_some()
            || value_of(&of_plan, "operation").is_some_and(|operation| operation != "mixed");
        value_of(&of_plan, name).is_none() && !(is_rate && sets_rate)
    };
    let usual = PROBE.into_iter().filter(|(name, _)| is_free(name));
    let mut common: Vec<_> = usual.map(|(name, value)| option_with(name, value)).collect();
    common.extend(of_plan);
    Ok(Box::new(Bench { common, jobs: Vec::new(), is_probe: true, hosts: Vec::new() }))
}

impl Bench {
    /// Returns the options of each job.
    fn all_jobs(&self) -> Vec<Vec<JobOption>> {
        if self.jobs.is_empty() {
            return vec![self.common.clone()];
        }
        let with_common = |job: &Vec<JobOption>| [self.common.as_slice(), job].concat();
        self.jobs.iter().map(with_common).collect()
    }

    /// Returns the jobs as a job file. Places and contents follow from the seed of the repetition,
    /// so all targets get the same load.
    /// `replaced` takes the place of options of the plan.
    fn job_file(&self, seed: u64, replaced: &[JobOption]) -> String {
        let stays = |option: &&JobOption| !replaced.iter().any(|other| other.name == option.name);
        let mut text = String::new();
        for name in SEEDS {
            if value_of(&self.common, name).is_none() {
                text += &format!("{name} = \"{seed}\"\n");
            }
        }
        text.extend(replaced.iter().chain(self.common.iter().filter(stays)).map(JobOption::line));
        for job in &self.jobs {
            text += "\n[[job]]\n";
            text.extend(job.iter().filter(stays).map(JobOption::line));
        }
        text
    }

    /// Returns the number of jobs.
    pub(super) fn count(&self) -> usize {
        self.jobs.len().max(1)
    }

    /// Returns the value of an option of the last job.
    pub(super) fn value_of(&self, name: &str) -> Option<&str> {
        let of_job = self.jobs.last().and_then(|job| value_of(job, name));
        of_job.or_else(|| value_of(&self.common, name))
    }

    /// Runs the jobs with some options replaced.
    pub(super) fn run_with(
        &self,
        stage: &mut ActionSite<'_, '_>,
        replaced: &[JobOption],
    ) -> Result<Measured, StepError> {
        let file = format!("{}.toml", stage.name);
        let path = stage.site.results.join(&file);
        std::fs::write(&path, self.job_file(stage.site.seed, replaced))
            .map_err(StepError::io("write", &path))?;
        let mut command = stage.site.gemelo(&["bench"]);
        command.arg(&path).arg("--target").arg(stage.place.uri()).args(&self.hosts);
        let mut measured = result::run(stage, command)?;
        measured.files.insert(0, file);
        Ok(measured)
    }
}

impl Action for Bench {
    fn description(&self) -> String {
        let of_job = |job: Vec<JobOption>| {
            let said = |name, usual| value_of(&job, name).unwrap_or(usual).to_owned();
            let operation = said("operation", "write");
            let contents = said("distribution", "personal");
            format!("{} {operation}, contents {contents}", said("pattern", "sequential"))
        };
        self.all_jobs().into_iter().map(of_job).collect::<Vec<_>>().join("; ")
    }

    fn accepts(&self, _place: PlaceKind) -> bool {
        true
    }

    fn expected_time(&self) -> Option<Duration> {
        self.all_jobs().iter().map(|job| Some(PROCESS + expected_time(job)?)).sum()
    }

    fn data_bytes(&self) -> Option<u64> {
        self.all_jobs()
            .iter()
            .map(|job| data_bytes(job))
            .try_fold(0, |most, bytes| Some(bytes?.max(most)))
    }

    fn main_figure(&self) -> Option<String> {
        let jobs = self.all_jobs();
        let last = jobs.last()?;
        let kind = match value_of(last, "operation").unwrap_or("write") {
            "mixed" => "all",
            other => other,
        };
        let figure = match (self.is_probe, kind) {
            (true, "write") => "write/latency_p99_ns".to_owned(),
            (true, _) => "read/latency_p99_ns".to_owned(),
            (false, kind) => format!("{kind}/operations_per_s"),
        };
        match (value_of(last, "name"), jobs.len()) {
            (Some(name), 2..) => Some(format!("{name}.{figure}")),
            (None, 2..) => None,
            _ => Some(figure),
        }
    }

    fn lacks(&self, figure: &str) -> Option<String> {
        let bare = name_parts(figure).bare;
        let (kind, _) = bare.split_once('/')?;
        let jobs = self.all_jobs();
        let mut operations = jobs.iter().map(|job| value_of(job, "operation").unwrap_or("write"));
        match kind {
            "read" | "write" => {
                let is_done = operations.any(|operation| operation == kind || operation == "mixed");
                (!is_done).then(|| {
                    format!("no run has '{figure}', because no job has the operation {kind}")
                })
            }
            kind if KINDS_OF_FIGURES.contains(&kind) => None,
            _ => Some(format!("a run of bench has no figure '{figure}'")),
        }
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        self.run_with(stage, &[])
    }
}

/// The parts before the slash of all figures of a run of `bench`, besides reads and writes.
const KINDS_OF_FIGURES: [&str; 17] = [
    "all", "mixed", "trim", "sync", "run", "usage", "verify", "written", "populate", "space",
    "settle", "system", "target", "monitor", "pool", "hosts", "slowest",
];

/// The time that a process of the load takes besides its load, about: its start, its result file,
/// and asking the target for the space in use.
const PROCESS: Duration = Duration::from_millis(60);

/// Rates by which the time of a job without a time limit, and of filling its files, is expected.
/// They are those of contents that are written to memory and flushed.
const EXPECTED_BYTES_PER_S: f64 = 250e6;

/// Returns the time of the load of a job.
fn expected_time(job: &[JobOption]) -> Option<Duration> {
    let at_rate = |bytes: u64| Duration::from_secs_f64(bytes as f64 / EXPECTED_BYTES_PER_S);
    let reads = value_of(job, "operation").is_some_and(|operation| operation != "write");
    let fills = value_of(job, "populate").map_or(reads, |populate| populate != "none");
    let filling = if fills { at_rate(data_bytes(job)?) } else { Duration::ZERO };
    let limit = match (value_of(job, "time"), value_of(job, "bytes")) {
        // With a limit of bytes as well, the run may end earlier.
        (Some(time), _) => parse_duration(time).ok()?,
        (None, Some(bytes)) => at_rate(parse_size(bytes).ok()?),
        (None, None) => at_rate(data_bytes(job)?),
    };
    Some(filling + limit)
}

/// A job file of the user, whose target is replaced.
#[derive(Debug)]
struct JobFile {
    path: PathBuf,
}

impl Action for JobFile {
    fn description(&self) -> String {
        format!("jobs of {}", self.path.shown())
    }

    fn missing(&self) -> Option<String> {
        (!self.path.is_file()).then(|| format!("the job file {} is missing", self.path.shown()))
    }

    fn accepts(&self, _place: PlaceKind) -> bool {
        true
    }

    fn main_figure(&self) -> Option<String> {
        None
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let mut command = stage.site.gemelo(&["bench"]);
        command.arg(&self.path).arg("--target").arg(stage.place.uri());
        result::run(stage, command)
    }
}
