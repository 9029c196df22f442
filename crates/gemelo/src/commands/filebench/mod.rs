//! `gemelo filebench`: runs a script of Filebench's workload language.

mod console;
mod sweep;

use crate::context::Context;
use crate::exit::{Failures, OrBadInput, Outcome, bad_input};
use crate::values::Span;
use crate::{distributions, files};
use anyhow::{Context as _, anyhow};
use clap::Args;
use console::Lines;
use gemelo_base::random::fresh_word;
use gemelo_filebench::sources::SourceSpec;
use gemelo_filebench::{Console, Options, Program, RunResult, Script};
use gemelo_report::{Provenance, ResultFile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use sweep::Sweep;

/// Runs a script of Filebench's workload language on files, with data of a chosen entropy or distribution. All
/// processes of the script are threads of this one. Errors point into the script.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The script
    script: PathBuf,
    /// Set a variable, whatever the script sets it to
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = pair)]
    define: Vec<(String, String)>,
    /// Do everything below this folder: the script's $dir [default: what the script says]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Length of every run [default: the script's, or 60s]
    #[arg(long, value_name = "DURATION")]
    time: Option<Span>,
    /// Data source of filesets that have none: entro, duplicates, random or file, with attributes
    #[arg(long, value_name = "NAME,ATTRIBUTE=VALUE,...")]
    source: Option<String>,
    /// Run once for each value of a variable or of a data source's attribute: entropy=0,1,...,8
    #[arg(long, value_name = "NAME=VALUE,...")]
    sweep: Option<Sweep>,
    /// Decides shapes, sizes, places and contents [default: 1]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    seed: u64,
    /// Tells unique contents of runs and hosts apart [default: random]
    #[arg(long, value_name = "N")]
    run_id: Option<u64>,
    /// Check the script and do nothing
    #[arg(long, conflicts_with_all = ["json", "keep"])]
    check: bool,
    /// Keep the files that the run made
    #[arg(long)]
    keep: bool,
    /// Remove existing trees where filesets will be, and overwrite results
    #[arg(long)]
    force: bool,
    /// Write the results to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let name = name.trim().trim_start_matches('$');
    if name.is_empty() {
        return Err("expected a name before '='".to_owned());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// What was run.
#[derive(Debug, Serialize)]
struct Input {
    script: String,
    script_text: String,
    dir: Option<String>,
    definitions: BTreeMap<String, String>,
    source: Option<String>,
    sweep: Option<String>,
    time_s: Option<f64>,
    run_id: u64,
}

/// One value of a sweep, or the only run.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    value: Option<String>,
    /// All variables at the end of the script.
    variables: BTreeMap<String, String>,
    runs: Vec<RunResult>,
}

struct Session<'a> {
    arguments: &'a Arguments,
    context: &'a Context,
    script: Script,
    options: Options,
    definitions: Vec<(String, String)>,
    console: Arc<dyn Console>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let text = files::read_text(&arguments.script)?;
    let script = Script::parse(&arguments.script.display().to_string(), &text).or_bad_input()?;
    if let Some(json) = &arguments.json {
        files::check_new(json, arguments.force)?;
    }
    let to_stderr = files::is_some_standard_output(arguments.json.as_deref());
    let session = Session {
        arguments,
        context,
        options: options(arguments)?,
        definitions: definitions(arguments, &script)?,
        console: Arc::new(Lines::new(to_stderr, Arc::clone(&context.monitor))),
        script,
    };
    let programs = session.programs()?;
    if arguments.check {
        context.print(&format!("{}: nothing wrong\n", arguments.script.display()))?;
        return Ok(Outcome::Done);
    }
    session.run_all(&programs, text)
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    let source = arguments
        .source
        .as_deref()
        .map(SourceSpec::parse)
        .transpose()
        .context("--source")
        .or_bad_input()?;
    let dir = arguments
        .dir
        .as_deref()
        .map(std::path::absolute)
        .transpose()
        .context("--dir")
        .or_bad_input()?;
    Ok(Options {
        dir,
        seed: arguments.seed,
        run_id: arguments.run_id.unwrap_or_else(fresh_word),
        force: arguments.force,
        keep: arguments.keep,
        run_s: arguments.time.map(|span| span.0.as_secs_f64()),
        source,
        measure_stored: arguments.sweep.is_some(),
        source_attribute: None,
    })
}

fn definitions(arguments: &Arguments, script: &Script) -> anyhow::Result<Vec<(String, String)>> {
    let mut definitions = arguments.define.clone();
    if let Some((name, _)) = definitions.iter().find(|(name, _)| !script.mentions(name)) {
        return Err(bad_input(anyhow!(
            "-D {name}: {} has no variable ${name}",
            arguments.script.display()
        )));
    }
    if let Some(dir) = &arguments.dir
        && script.mentions("dir")
    {
        let dir = std::path::absolute(dir).context("--dir").or_bad_input()?;
        definitions.retain(|(name, _)| name != "dir");
        definitions.push(("dir".to_owned(), dir.display().to_string()));
    }
    Ok(definitions)
}

/// A program to run and with what.
struct Planned {
    value: Option<String>,
    program: Program,
    options: Options,
}

impl Session<'_> {
    /// Everything that will run, checked before anything does.
    fn programs(&self) -> anyhow::Result<Vec<Planned>> {
        let Some(sweep) = &self.arguments.sweep else {
            let program = self.compile(&self.definitions)?;
            return Ok(vec![Planned { value: None, program, options: self.options.clone() }]);
        };
        let mut planned = Vec::new();
        for value in &sweep.values {
            let mut definitions = self.definitions.clone();
            let mut options = self.options.clone();
            if self.script.mentions(&sweep.name) {
                definitions.retain(|(name, _)| *name != sweep.name);
                definitions.push((sweep.name.clone(), value.clone()));
            } else {
                options.source_attribute = Some((sweep.name.clone(), value.clone()));
            }
            let program = self.compile(&definitions)?;
            if options.source_attribute.is_some() {
                sweep.check_sources(&program, &options)?;
            }
            planned.push(Planned { value: Some(value.clone()), program, options });
        }
        Ok(planned)
    }

    fn compile(&self, definitions: &[(String, String)]) -> anyhow::Result<Program> {
        let program = self.script.compile(definitions).or_bad_input()?.with_run();
        if program.steps.is_empty() {
            let script = self.arguments.script.display();
            return Err(bad_input(anyhow!(
                "{script} says nothing to do: it defines no process and has no command"
            )));
        }
        Ok(program)
    }

    fn run_all(&self, programs: &[Planned], text: String) -> anyhow::Result<Outcome> {
        let mut points = Vec::new();
        let mut failures = Failures::default();
        let monitor = self.context.monitor.as_ref();
        let mut complete = true;
        for planned in programs {
            if let (Some(sweep), Some(value)) = (&self.arguments.sweep, &planned.value) {
                self.console.line(&format!("{} = {value}", sweep.name));
            }
            let outcome = match self.execute(planned) {
                Ok(outcome) => outcome,
                // Nothing was measured yet, so nothing is lost.
                Err(error) if points.is_empty() => return Err(error),
                Err(error) => {
                    failures.note(Err(error), monitor);
                    break;
                }
            };
            complete &= outcome.error.is_none() && outcome.runs.iter().all(|run| run.complete);
            complete &= !outcome.interrupted;
            points.push(Point {
                value: planned.value.clone(),
                variables: planned.program.variables.clone(),
                runs: outcome.runs,
            });
            let is_over = outcome.error.is_some() || outcome.interrupted;
            if let Some(error) = outcome.error {
                let error = anyhow::Error::from(error);
                failures.note(
                    Err(error.context("the run failed; what was measured before is kept")),
                    monitor,
                );
            }
            if is_over {
                break;
            }
        }
        if let Some(sweep) = &self.arguments.sweep {
            self.console.line(&format!("\n{}", sweep.table(&points)));
        }
        failures.note(self.write_json(text, points), monitor);
        failures.or(if complete { Outcome::Done } else { Outcome::Partial })
    }

    fn execute(&self, planned: &Planned) -> anyhow::Result<gemelo_filebench::Outcome> {
        let distributions = |name: &str| {
            distributions::load(name)
                .map(|found| found.distribution)
                .map_err(|error| format!("{error:#}"))
        };
        let Planned { program, options, .. } = planned;
        let (monitor, stop) = (self.context.monitor.as_ref(), &self.context.stop);
        gemelo_filebench::execute(program, options, &self.console, monitor, stop, &distributions)
            .or_bad_input()
    }

    fn write_json(&self, script_text: String, points: Vec<Point>) -> anyhow::Result<()> {
        let Some(path) = &self.arguments.json else { return Ok(()) };
        let mut warnings: Vec<String> = points
            .iter()
            .flat_map(|point| &point.runs)
            .filter_map(|run| run.ended_early.clone())
            .collect();
        warnings.dedup();
        let mut provenance = Provenance::of_this_process(self.context.started_at);
        provenance.seed = Some(self.options.seed);
        let dir = self.options.dir.as_ref().map(|dir| dir.display().to_string());
        provenance.target.clone_from(&dir);
        let input = Input {
            script: self.arguments.script.display().to_string(),
            script_text,
            dir,
            definitions: self.definitions.iter().cloned().collect(),
            source: self.options.source.as_ref().map(SourceSpec::to_text),
            sweep: self.arguments.sweep.as_ref().map(|sweep| sweep.name.clone()),
            time_s: self.options.run_s,
            run_id: self.options.run_id,
        };
        let result = ResultFile {
            schema: "gemelo.filebench/1".to_owned(),
            provenance,
            input,
            result: points,
            warnings,
        };
        files::write_json(path, self.arguments.force, &result)
    }
}
