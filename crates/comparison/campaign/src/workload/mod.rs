//! Workloads: what is done to each target. Each kind of action is a file of this module and one
//! line in [`KINDS`].

mod bench;
mod command;
mod filebench;
mod fio;
mod job_options;
mod pace;
mod replay;
mod suite;
mod tar;

use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::site::RunSite;
use crate::target::{LoadPlace, PlaceKind};
use gemelo_base::values::Span;
use gemelo_record::Stats;
use std::ffi::OsString;
use std::time::Duration;

/// Most steps before the measurement.
const MAX_STEPS: usize = 100;

/// Something that is done to a target and measured.
pub(crate) trait Action: std::fmt::Debug + Send + Sync {
    /// Returns one line about the action for a reader of the report.
    fn description(&self) -> String;

    /// Returns the reason why this machine cannot do it.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Returns whether it can be done at a place of this kind.
    fn accepts(&self, place: PlaceKind) -> bool;

    /// Returns the time that it takes, if that is known.
    fn expected_time(&self) -> Option<Duration> {
        None
    }

    /// Returns the bytes of the files or regions that it uses, if that is known.
    fn data_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the name of the figure by which targets are ranked.
    fn main_figure(&self) -> Option<String>;

    /// Returns the reason why no run of it can have this figure, if that is known.
    fn lacks(&self, _figure: &str) -> Option<String> {
        None
    }

    /// Does it. A failed action has no figures.
    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError>;
}

/// The surroundings of one action.
pub(crate) struct ActionSite<'a, 'b> {
    pub(crate) site: &'a mut RunSite<'b>,
    pub(crate) place: LoadPlace,
    /// Name of the step, and the start of the names of its result files.
    pub(crate) name: String,
    pub(crate) limit: Duration,
}

impl ActionSite<'_, '_> {
    /// Returns the variables of the environment by which commands of the user learn of the run.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = self.site.environment();
        variables.push(("PLACE", self.place.uri()));
        variables
    }
}

/// The results of an action.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) figures: Stats,
    /// The reason why the action is not complete; its figures describe the part before.
    pub(crate) failure: Option<StepError>,
    /// Result files, relative to the directory of the run.
    pub(crate) files: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// A step of a workload.
#[derive(Debug)]
pub(crate) enum Step {
    /// An action, such as a bench job or a shell command.
    Act(Box<dyn Action>),
    /// A pause, in which the background work of a target goes on.
    Idle(Duration),
    /// The off-line pass of the target.
    Settle,
    /// Dropping the caches of the system.
    DropCaches,
}

/// An action of a plan, as it was read.
type ActionResult = Result<Box<dyn Action>, PlanError>;

type ReadAction = fn(&Keys<'_>, &'static str, &Reading<'_>) -> ActionResult;

/// The kinds of actions: the key that selects each in a plan, and its reader.
const KINDS: [(&str, ReadAction); 8] = [
    ("bench", bench::read),
    ("probe", bench::read_probe),
    ("suite", suite::read),
    ("replay", replay::read),
    ("filebench", filebench::read),
    ("fio", fio::read),
    ("tar", tar::read),
    ("command", command::read),
];

/// A workload of a plan.
#[derive(Debug)]
pub(crate) struct WorkloadPlan {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) description: String,
    pub(crate) main_figure: Option<String>,
    /// `true` if the plan names the main figure; a run without it has failed then.
    pub(crate) names_main_figure: bool,
    pub(crate) set: Option<(String, String)>,
    /// Patterns of the names of targets; all targets if empty.
    targets: Vec<String>,
    /// Steps before the measurement.
    pub(crate) prepare: Vec<Step>,
    pub(crate) measure: Box<dyn Action>,
    /// `true` if the caches of the system are dropped before the measurement.
    pub(crate) drops_caches: Option<bool>,
    pub(crate) time_limit: Duration,
    /// The time that one run takes, if the plan states it.
    pub(crate) takes: Option<Duration>,
    /// Bytes of the files or regions of the load, if they are known.
    pub(crate) data_bytes: Option<u64>,
}

impl WorkloadPlan {
    pub(crate) fn read(
        keys: &Keys<'_>,
        combination: &[(String, String)],
        reading: &Reading<'_>,
    ) -> Result<Self, PlanError> {
        let name = keys.required_text("name")?;
        let span = |key| {
            let span = keys.parsed::<Span>(key, "a duration, such as 30s, 5m or 2h")?;
            Ok::<_, PlanError>(span.map(|span| span.0))
        };
        let (kind, measure) = action(keys, reading)?;
        let steps = keys.tables("prepare", "{ bench = { ... } }")?;
        if steps.len() > MAX_STEPS {
            return Err(PlanError::TooMany { most: MAX_STEPS, what: "steps before a measurement" });
        }
        let named = keys.text("main-figure")?;
        if let Some(reason) = named.as_deref().and_then(|figure| measure.lacks(figure)) {
            return Err(keys.wrong("main-figure", reason));
        }
        let stated = keys.size("data")?;
        let data_bytes = stated.or_else(|| measure.data_bytes());
        Ok(Self {
            name,
            kind,
            description: keys.text("description")?.unwrap_or_else(|| measure.description()),
            names_main_figure: named.is_some(),
            main_figure: named.or_else(|| measure.main_figure()),
            set: set(keys, combination)?,
            targets: keys.texts("targets")?,
            prepare: steps.iter().map(|keys| step(keys, reading)).collect::<Result<_, _>>()?,
            measure,
            drops_caches: keys.parsed("drop-caches", "true or false")?,
            time_limit: span("time-limit")?.unwrap_or(reading.time_limit),
            takes: span("takes")?,
            data_bytes,
        })
    }

    /// Returns whether the plan wants this workload on a target of this name.
    pub(crate) fn is_for(&self, target: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|pattern| matches(pattern, target))
    }

    /// Returns all actions, the measurement last.
    pub(crate) fn actions(&self) -> impl Iterator<Item = &dyn Action> {
        let of_steps = self.prepare.iter().filter_map(|step| match step {
            Step::Act(action) => Some(action.as_ref()),
            _ => None,
        });
        of_steps.chain([self.measure.as_ref()])
    }

    /// Returns the time of one run without making the target, if it is known.
    pub(crate) fn expected_time(&self) -> Option<Duration> {
        if self.takes.is_some() {
            return self.takes;
        }
        let of_steps = self.prepare.iter().map(|step| match step {
            Step::Act(action) => action.expected_time(),
            Step::Idle(length) => Some(*length),
            Step::Settle => None,
            Step::DropCaches => Some(Duration::ZERO),
        });
        of_steps.chain([self.measure.expected_time()]).sum()
    }
}

/// Reads the one action of a table.
fn action(
    keys: &Keys<'_>,
    reading: &Reading<'_>,
) -> Result<(&'static str, Box<dyn Action>), PlanError> {
    let (kind, read) = keys.one_of(&KINDS)?;
    Ok((kind, read(keys, kind, reading)?))
}

fn step(keys: &Keys<'_>, reading: &Reading<'_>) -> Result<Step, PlanError> {
    let idle = keys.parsed::<Span>("idle", "a duration, such as 30s, 5m or 2h")?;
    let (settles, drops) = (keys.flag("settle")?, keys.flag("drop-caches")?);
    let step = match (idle, settles, drops) {
        (Some(idle), false, false) => Step::Idle(idle.0),
        (None, true, false) => Step::Settle,
        (None, false, true) => Step::DropCaches,
        (None, false, false) => Step::Act(action(keys, reading)?.1),
        _ => return Err(keys.wrong("idle", "a step does one thing: make it several steps")),
    };
    keys.finish()?;
    Ok(step)
}

/// Reads the set that a workload belongs to: the name of one value of its matrix.
fn set(
    keys: &Keys<'_>,
    combination: &[(String, String)],
) -> Result<Option<(String, String)>, PlanError> {
    let Some(name) = keys.text("set")? else { return Ok(None) };
    match combination.iter().find(|(known, _)| *known == name) {
        Some(found) => Ok(Some(found.clone())),
        None => Err(keys.wrong("set", format_args!("'{name}' is not a name of the matrix"))),
    }
}

/// Returns whether a name fits a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("volume", "volume", true),
            ("volume", "volumes", false),
            ("volume-*", "volume-inline", true),
            ("*-log", "volume-inline-log", true),
            ("v*-inline-*g", "volume-inline-log", true),
            ("v*-off-*", "volume-inline-log", false),
            ("*", "", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
