//! Compiles commands to steps: variables are evaluated and names resolved. All checks precede the
//! first step.
//!
//! An attribute that is a variable gets the value that the variable has when files are created or
//! processes start, as in the original. So `set` also works after `define`.

use super::attributes::{Attributes, Evaluate};
use super::define::Definer;
use super::definitions::{Composite, Definitions, FilesetDefinition, ProcessDefinition};
use super::error::Fault;
use super::parse::Parsed;
use super::scope::Scope;
use super::syntax::{At, Command, Expression, StatsAction};
use super::values::Value;
use crate::model::{Step, WorkloadPlan};
use crate::script::syntax::QuitMode;
use gemelo_base::ShowPath as _;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds of a run for which the script gives no time.
pub const DEFAULT_RUN_S: f64 = 60.0;
/// Seconds between two statistics of `psrun` by default.
const DEFAULT_PERIOD_S: f64 = 10.0;
/// Longest run or sleep in seconds: one year.
const LONGEST_S: f64 = 366.0 * 86_400.0;
/// Most steps of one script; `foreach` multiplies steps.
const MAX_STEPS: usize = 100_000;

pub(crate) struct Compiled {
    pub(crate) steps: Vec<Step>,
    pub(crate) globals: BTreeMap<String, Value>,
    /// Definitions at the end of the script.
    pub(crate) plan: Arc<WorkloadPlan>,
}

struct Compiler<'a> {
    definitions: Definitions,
    overrides: &'a BTreeMap<String, Value>,
    steps: Vec<Step>,
}

pub(crate) fn compile(
    commands: &[At<Command>],
    overrides: &BTreeMap<String, Value>,
) -> Parsed<Compiled> {
    let definitions = Definitions { globals: overrides.clone(), ..Definitions::default() };
    let mut compiler = Compiler { definitions, overrides, steps: Vec::new() };
    for command in commands {
        compiler.command(command)?;
    }
    let plan = compiler.plan()?;
    Ok(Compiled { steps: compiler.steps, globals: compiler.definitions.globals, plan })
}

impl Compiler<'_> {
    fn with_scope<T>(&self, act: impl FnOnce(&Scope<'_>) -> Parsed<T>) -> Parsed<T> {
        act(&Scope { globals: &self.definitions.globals, locals: &BTreeMap::new() })
    }

    fn plan(&self) -> Parsed<Arc<WorkloadPlan>> {
        Definer { definitions: &self.definitions }.plan().map(Arc::new)
    }

    fn seconds(&self, expression: Option<&At<Expression>>, default: f64) -> Parsed<f64> {
        let Some(expression) = expression else { return Ok(default) };
        let seconds = self.with_scope(|scope| scope.number(expression))?;
        if seconds.abs() > LONGEST_S {
            return Err(Fault::new(expression.at, "a time is at most a year (31,622,400 seconds)"));
        }
        Ok(seconds)
    }

    fn run_seconds(&self, expression: Option<&At<Expression>>) -> Parsed<f64> {
        let seconds = self.seconds(expression, 0.0)?;
        if let Some(expression) = expression
            && seconds < 0.0
        {
            return Err(Fault::new(expression.at, "a time is 0 or more seconds"));
        }
        let endless = seconds == 0.0 && self.definitions.quit_mode != QuitMode::Timeout;
        Ok(if seconds == 0.0 && !endless { DEFAULT_RUN_S } else { seconds })
    }

    fn push(&mut self, step: Step, at: usize) -> Parsed<()> {
        if self.steps.len() >= MAX_STEPS {
            let message =
                format!("a script has at most {MAX_STEPS} steps: use fewer values in 'foreach'");
            return Err(Fault::new(at, message));
        }
        self.steps.push(step);
        Ok(())
    }

    fn command(&mut self, command: &At<Command>) -> Parsed<()> {
        let at = command.at;
        match &command.value {
            Command::Set { .. }
            | Command::SetMode(_)
            | Command::DefineFile(_)
            | Command::DefineFileset(_)
            | Command::DefineProcess { .. }
            | Command::DefineFlowop { .. }
            | Command::EventGenerator(_)
            | Command::EnableHistogram => self.definition(command),
            Command::ForEach { variable, values, body } => {
                for value in values {
                    let value = self.with_scope(|scope| scope.value(value))?;
                    self.set(variable, value);
                    for inner in body {
                        self.command(inner)?;
                    }
                }
                Ok(())
            }
            Command::Nothing => Ok(()),
            _ => {
                for step in self.step(&command.value, at)? {
                    self.push(step, at)?;
                }
                Ok(())
            }
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        if !self.overrides.contains_key(name) {
            self.definitions.globals.insert(name.to_owned(), value);
        }
    }

    fn definition(&mut self, command: &At<Command>) -> Parsed<()> {
        let at = command.at;
        match &command.value {
            Command::Set { name, value } => {
                let value = self.with_scope(|scope| scope.value(value))?;
                self.set(name, value);
            }
            Command::SetMode(mode) => self.definitions.quit_mode = *mode,
            Command::DefineFile(attributes) | Command::DefineFileset(attributes) => {
                let is_file = matches!(command.value, Command::DefineFile(_));
                self.definitions.filesets.push(FilesetDefinition {
                    at,
                    is_file,
                    attributes: attributes.clone(),
                });
            }
            Command::DefineProcess { attributes, threads } => {
                let (attributes, threads) = (attributes.clone(), threads.clone());
                self.definitions.processes.push(ProcessDefinition { at, attributes, threads });
            }
            Command::DefineFlowop { attributes, body } => {
                let name = self.with_scope(|scope| {
                    Attributes { list: attributes, scope, at }
                        .required_text("name", "a composite flowop")
                })?;
                if crate::flowop::KINDS.iter().any(|(known, _)| *known == name) {
                    return Err(Fault::new(
                        at,
                        format!("'{name}' is a flowop of the language: choose another name"),
                    ));
                }
                let composite = Composite { attributes: attributes.clone(), body: body.clone() };
                self.definitions.composites.insert(name, composite);
            }
            Command::EventGenerator(attributes) => {
                self.definitions.event_generator = Some((at, attributes.clone()));
            }
            _ => self.definitions.histogram = true,
        }
        Ok(())
    }

    fn step(&self, command: &Command, at: usize) -> Parsed<Vec<Step>> {
        let step = match command {
            Command::CreateFiles => Step::CreateFiles(self.plan()?),
            Command::CreateProcesses => Step::CreateProcesses(self.plan()?),
            Command::ShutdownProcesses => Step::ShutdownProcesses,
            Command::Run(time) => Step::Run(self.plan()?, self.run_seconds(time.as_ref())?),
            Command::PeriodicRun { period, time } => {
                let period_s = self.seconds(period.as_ref(), DEFAULT_PERIOD_S)?;
                let reset = period_s < 0.0;
                let period_s = if period_s == 0.0 { DEFAULT_PERIOD_S } else { period_s.abs() };
                Step::PeriodicRun {
                    plan: self.plan()?,
                    period_s,
                    reset,
                    time_s: self.run_seconds(time.as_ref())?,
                }
            }
            Command::Sleep(time) => Step::Sleep(self.seconds(Some(time), 0.0)?.max(0.0)),
            Command::Echo(text) => Step::Say(self.with_scope(|scope| Ok(scope.shown_text(text)))?),
            Command::System(text) => Step::System(self.with_scope(|scope| scope.text(text, at))?),
            Command::Stats(StatsAction::Clear) => Step::ClearStats,
            Command::Stats(_) => Step::SnapStats,
            Command::Version => {
                Step::Say(format!("gemelo filebench {}", env!("CARGO_PKG_VERSION")))
            }
            Command::ListFilesets => {
                let plan = self.plan()?;
                return Ok(plan
                    .filesets
                    .iter()
                    .map(|fileset| Step::Say(describe(fileset)))
                    .collect());
            }
            Command::ListFlowops => {
                let plan = self.plan()?;
                let threads = plan.processes.iter().flat_map(|process| &process.threads);
                let cells = threads.flat_map(|thread| &thread.cells);
                return Ok(cells
                    .map(|(name, _)| Step::Say(format!("flowop-list {name}")))
                    .collect());
            }
            _ => Step::Quit,
        };
        Ok(vec![step])
    }
}

fn describe(fileset: &crate::model::FilesetSpec) -> String {
    format!(
        "{}/{}: mean size {:.0}, {} entries, mean dir width {:.0}",
        fileset.path.shown(),
        fileset.name,
        fileset.size.mean(),
        fileset.entries,
        fileset.dir_width.mean()
    )
}
