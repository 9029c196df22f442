//! Runs of Filebench scripts, one or a sweep of several.

mod error;
pub mod hosts;
mod options;
mod sweep;

pub use error::FilebenchJobError;
pub use options::FilebenchOptions;

use crate::{JobEnvironment, Ran, Sweep, distributions};
use gemelo_base::ShowPath as _;
use gemelo_base::random::fresh_word;
use gemelo_base::with_causes;
use gemelo_filebench::sources::SourceSpec;
use gemelo_filebench::{Console, Options, Outcome, Program, Script, WorkloadResult};
use gemelo_record::ResultFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Schema name of a [`FilebenchFile`].
pub const SCHEMA: &str = "gemelo.filebench/1";

/// The results of a script, as a file keeps them.
pub type FilebenchFile = ResultFile<FilebenchInput, Vec<Point>>;

/// A resolved run of a script, as a result file keeps it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FilebenchInput {
    /// Path of the script.
    pub script: String,
    /// Text of the script.
    pub script_text: String,
    /// Directory that contains all filesets, if the options set one.
    pub dir: Option<String>,
    /// Variables that the options set.
    pub definitions: BTreeMap<String, String>,
    /// Data source of filesets without one.
    pub source: Option<String>,
    /// Name of the sweep.
    pub sweep: Option<String>,
    /// Seconds of every run, in place of the script's.
    pub time_s: Option<f64>,
    /// Number that separates the unique contents of different runs.
    pub run_id: u64,
}

/// The runs with one value of a sweep, or the only runs.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Point {
    /// The value of the sweep.
    pub value: Option<String>,
    /// All variables at the end of the script.
    pub variables: BTreeMap<String, String>,
    /// The runs of the script.
    pub runs: Vec<WorkloadResult>,
}

/// A script that is ready to run.
pub struct ResolvedScript {
    input: FilebenchInput,
    sweep: Option<Sweep>,
    seed: u64,
    programs: Vec<Planned>,
}

/// The runs of each value. An error ended them early.
pub type FilebenchRun = Ran<FilebenchInput, Vec<Point>, FilebenchJobError>;

/// A program with the options of its run.
struct Planned {
    value: Option<String>,
    program: Program,
    options: Options,
}

/// Resolves a script and its options. All programs are checked before any of them runs.
///
/// # Errors
/// Fails if the script has a fault, or if an option does not suit it. Nothing was touched.
pub fn resolve(job: &FilebenchOptions, text: String) -> Result<ResolvedScript, FilebenchJobError> {
    let script = Script::parse(&job.script.shown().to_string(), &text)?;
    let options = run_options(job)?;
    let definitions = definitions(job, &script)?;
    let programs = programs(job, &script, &options, &definitions)?;
    Ok(ResolvedScript {
        input: FilebenchInput {
            script: job.script.shown().to_string(),
            script_text: text,
            dir: options.dir.as_ref().map(|dir| dir.shown().to_string()),
            definitions: definitions.into_iter().collect(),
            source: options.source.as_ref().map(SourceSpec::to_text),
            sweep: job.sweep.as_ref().map(|sweep| sweep.name.clone()),
            time_s: options.run_s,
            run_id: options.run_id,
        },
        sweep: job.sweep.clone(),
        seed: options.seed,
        programs,
    })
}

fn absolute(dir: &Path) -> Result<std::path::PathBuf, FilebenchJobError> {
    std::path::absolute(dir).map_err(FilebenchJobError::Dir)
}

fn run_options(job: &FilebenchOptions) -> Result<Options, FilebenchJobError> {
    Ok(Options {
        dir: job.dir.as_deref().map(absolute).transpose()?,
        seed: job.seed,
        run_id: job.run_id.unwrap_or_else(fresh_word),
        force: job.force,
        keep: job.keep,
        run_s: job.time.map(|span| span.0.as_secs_f64()),
        source: job.source.as_deref().map(SourceSpec::parse).transpose()?,
        measure_stored: job.sweep.is_some(),
        source_attribute: None,
    })
}

type Definitions = Vec<(String, String)>;

fn definitions(job: &FilebenchOptions, script: &Script) -> Result<Definitions, FilebenchJobError> {
    let mut definitions = job.define.clone();
    if let Some((name, _)) = definitions.iter().find(|(name, _)| !script.mentions(name)) {
        let (name, script) = (name.clone(), job.script.clone());
        return Err(FilebenchJobError::NoVariable { name, script });
    }
    if let Some(dir) = &job.dir
        && script.mentions("dir")
    {
        let dir = absolute(dir)?;
        definitions.retain(|(name, _)| name != "dir");
        definitions.push(("dir".to_owned(), dir.shown().to_string()));
    }
    Ok(definitions)
}

fn programs(
    job: &FilebenchOptions,
    script: &Script,
    options: &Options,
    definitions: &Definitions,
) -> Result<Vec<Planned>, FilebenchJobError> {
    let compile = |definitions: &Definitions| {
        let program = script.compile(definitions)?.with_run();
        if program.steps.is_empty() {
            return Err(FilebenchJobError::NothingToDo { script: job.script.clone() });
        }
        Ok(program)
    };
    let Some(sweep) = &job.sweep else {
        let program = compile(definitions)?;
        return Ok(vec![Planned { value: None, program, options: options.clone() }]);
    };
    let plan = |value: &String| {
        let (mut definitions, mut options) = (definitions.clone(), options.clone());
        if script.mentions(&sweep.name) {
            definitions.retain(|(name, _)| *name != sweep.name);
            definitions.push((sweep.name.clone(), value.clone()));
        } else {
            options.source_attribute = Some((sweep.name.clone(), value.clone()));
        }
        let program = compile(&definitions)?;
        if options.source_attribute.is_some() {
            sweep.check_sources(&program, &options)?;
        }
        Ok(Planned { value: Some(value.clone()), program, options })
    };
    sweep.values.iter().map(plan).collect()
}

impl ResolvedScript {
    /// Runs all programs in order, until one fails or the user stops them.
    ///
    /// # Errors
    /// Fails if the first program is refused. A later failure is part of the result.
    pub fn run(
        self,
        console: &Arc<dyn Console>,
        environment: &JobEnvironment<'_>,
    ) -> Result<FilebenchRun, FilebenchJobError> {
        let Self { input, sweep, seed, programs } = self;
        let mut ran = FilebenchRun {
            schema: SCHEMA,
            target: input.dir.clone(),
            seed: Some(seed),
            input,
            result: Vec::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
            is_success: true,
        };
        for planned in programs {
            if let (Some(sweep), Some(value)) = (&sweep, &planned.value) {
                console.line(&format!("{} = {value}", sweep.name));
            }
            match planned.execute(console, environment) {
                Ok(outcome) => {
                    if !ran.add(planned, outcome) {
                        break;
                    }
                }
                // Nothing was measured yet, so nothing is lost.
                Err(error) if ran.result.is_empty() => return Err(error),
                Err(error) => {
                    ran.errors.push(error);
                    break;
                }
            }
        }
        ran.warnings = ended_early(&ran.result);
        Ok(ran)
    }
}

impl Planned {
    fn execute(
        &self,
        console: &Arc<dyn Console>,
        environment: &JobEnvironment<'_>,
    ) -> Result<Outcome, FilebenchJobError> {
        let distributions = |name: &str| {
            distributions::load(name)
                .map(|found| found.distribution)
                .map_err(|error| with_causes(&error))
        };
        let (monitor, held) = (environment.monitor, (environment.stop, environment.start));
        let Self { program, options, .. } = self;
        gemelo_filebench::execute(program, options, console, monitor, held, &distributions)
            .map_err(FilebenchJobError::Refused)
    }
}

impl FilebenchRun {
    /// Adds the outcome of a program, and returns whether the next one may run.
    fn add(&mut self, planned: Planned, outcome: Outcome) -> bool {
        let is_over = outcome.error.is_some() || outcome.interrupted;
        self.is_success &= !is_over && outcome.runs.iter().all(|run| run.complete);
        self.result.push(Point {
            value: planned.value,
            variables: planned.program.variables,
            runs: outcome.runs,
        });
        self.errors.extend(outcome.error.map(FilebenchJobError::Run));
        !is_over
    }
}

/// Returns why runs ended before their time.
fn ended_early(points: &[Point]) -> Vec<String> {
    let runs = points.iter().flat_map(|point| &point.runs);
    let mut reasons: Vec<String> = runs.filter_map(|run| run.ended_early.clone()).collect();
    reasons.dedup();
    reasons
}
