//! Plans: TOML with parameters, targets, workloads and claims, checked before anything is touched.

mod claims;
mod error;
pub(crate) mod keys;
mod matrix;
pub(crate) mod parameters;
pub(crate) mod scope;
mod settings;

pub use error::PlanError;
pub use parameters::SetValue;
pub(crate) use settings::Settings;

use crate::target::TargetPlan;
use crate::workload::WorkloadPlan;
use gemelo_record::{ClaimRecord, Paper};
use keys::Keys;
use parameters::Sets;
use scope::Scope;
use std::path::{Path, PathBuf};

/// Most targets and most workloads of a plan after matrices were expanded.
const MAX_MEMBERS: usize = 1000;

/// A plan that was read and checked.
#[derive(Debug)]
pub struct Plan {
    /// The text, with the values that the user has set.
    pub(crate) text: String,
    pub(crate) settings: Settings,
    pub(crate) paper: Option<Paper>,
    pub(crate) targets: Vec<TargetPlan>,
    pub(crate) workloads: Vec<WorkloadPlan>,
    pub(crate) claims: Vec<ClaimRecord>,
}

/// The surroundings in which the tables of a plan are read.
pub(crate) struct Reading<'a> {
    /// Directory to which relative paths refer.
    pub(crate) base: &'a Path,
    pub(crate) time_limit: std::time::Duration,
}

impl Reading<'_> {
    /// Returns a path of the plan as seen from anywhere.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.base.join(text)
    }
}

impl Plan {
    /// Returns the directory that the plan names for the targets of its runs.
    #[must_use]
    pub fn work(&self) -> Option<&Path> {
        self.settings.work.as_deref()
    }

    /// Reads the text of a plan. `set` replaces values of its parameters, and relative paths refer
    /// to `base`.
    ///
    /// # Errors
    /// Fails with the first fault and its line.
    pub fn read(text: &str, base: &Path, set: &[SetValue]) -> Result<Self, PlanError> {
        let text = parameters::with_values(text, set)?;
        let document = parameters::document(&text)?;
        let keys = Keys::new("the plan", &text, &document, &Scope::default());
        let scope = parameters::scope(keys.table("parameters")?.as_ref())?;
        let keys = keys.in_scope(scope);
        let sets = parameters::sets(keys.table("sets")?.as_ref())?;
        let campaign = keys.table("campaign")?.ok_or_else(|| PlanError::MissingKey {
            line: 1,
            place: "the plan".to_owned(),
            key: "campaign".to_owned(),
        })?;
        // The tables were asked for in another scope.
        let _ = keys.has("parameters");
        let settings = Settings::read(&campaign)?;
        let reading = Reading { base, time_limit: settings.time_limit };
        let targets = members(&keys.tables("target", "[[target]]")?, &sets, |keys, _| {
            TargetPlan::read(keys, &reading)
        })?;
        let workloads = members(&keys.tables("workload", "[[workload]]")?, &sets, |keys, at| {
            WorkloadPlan::read(keys, at, &reading)
        })?;
        let claims = keys.tables("claims", "[[claims]]")?;
        let claims = claims::claims(&claims, &settings.least, &targets, &workloads)?;
        let paper = claims::paper(keys.table("paper")?.as_ref())?;
        keys.finish()?;
        check_names(&keys, "target", targets.iter().map(|target| &target.name))?;
        check_names(&keys, "workload", workloads.iter().map(|workload| &workload.name))?;
        check_baseline(&campaign, &settings, &targets)?;
        drop((keys, campaign));
        drop(document);
        Ok(Self { text, settings, paper, targets, workloads, claims })
    }
}

/// Reads the tables of a kind, each once for every combination of its matrix.
fn members<T>(
    tables: &[Keys<'_>],
    sets: &Sets,
    read: impl Fn(&Keys<'_>, &matrix::Combination) -> Result<T, PlanError>,
) -> Result<Vec<T>, PlanError> {
    let mut members = Vec::new();
    for table in tables {
        for combination in matrix::combinations(table, sets)? {
            let keys = table.in_scope(matrix::scope_of(table.scope(), &combination));
            let _ = keys.has("matrix");
            members.push(read(&keys, &combination)?);
            keys.finish()?;
            if members.len() > MAX_MEMBERS {
                return Err(PlanError::TooMany { most: MAX_MEMBERS, what: "targets or workloads" });
            }
        }
    }
    Ok(members)
}

/// Refuses names that cannot be part of a directory's name, equal names, and a plan without names.
fn check_names<'a>(
    keys: &Keys<'_>,
    kind: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), PlanError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        let is_valid = !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
            && !name.starts_with('.');
        if !is_valid {
            return Err(keys.wrong(
                kind,
                format_args!(
                    "'{name}' is not a name: use at most {MAX_NAME_BYTES} letters, digits, \
                     hyphens, underscores and dots"
                ),
            ));
        }
        if !seen.insert(name) {
            return Err(keys.wrong(
                kind,
                format_args!(
                    "two have the name '{name}': use the names of the matrix in it, as in \
                     'v-{{mode}}'"
                ),
            ));
        }
    }
    if seen.is_empty() {
        return Err(keys.wrong(kind, "the plan has none"));
    }
    Ok(())
}

/// Longest name of a target or a workload. Two of them are in the name of a directory.
const MAX_NAME_BYTES: usize = 100;

fn check_baseline(
    keys: &Keys<'_>,
    settings: &Settings,
    targets: &[TargetPlan],
) -> Result<(), PlanError> {
    let Some(baseline) = &settings.baseline else { return Ok(()) };
    if targets.iter().any(|target| &target.name == baseline) {
        return Ok(());
    }
    let known: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
    Err(keys.wrong(
        "baseline",
        format_args!("no target is named '{baseline}': there are {}", known.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAN: &str = "[parameters]\nn = 2\n[sets]\nmodes = ['off', 'inline']\n\
        [campaign]\nname = 'x'\nrepetitions = '{n}'\nbaseline = 'v-off-1'\n\
        [[target]]\nname = 'v-{mode}-{k}'\nmatrix = { mode = 'modes', k = [1, 2] }\n\
        volume = { mode = '{mode}', size = '{k}g' }\n\
        [[workload]]\nname = 'w-{e}'\nmatrix = { e = [0, 8] }\nset = 'e'\n\
        targets = ['v-*-1']\nbench = { entropy = '{e}', time = '5s' }\n";

    fn read(text: &str) -> Result<Plan, PlanError> {
        Plan::read(text, Path::new("."), &[])
    }

    #[test]
    fn matrices_make_every_combination_in_the_order_of_the_plan() {
        let plan = read(PLAN).unwrap();
        let names: Vec<_> = plan.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["v-off-1", "v-off-2", "v-inline-1", "v-inline-2"]);
        assert_eq!(plan.settings.repetitions, 2);
        let sets: Vec<_> = plan.workloads.iter().map(|load| load.set.clone().unwrap()).collect();
        assert_eq!(sets, [("e".to_owned(), "0".to_owned()), ("e".to_owned(), "8".to_owned())]);
        assert!(
            plan.workloads.iter().all(|load| load.is_for("v-off-1") && !load.is_for("v-off-2"))
        );
    }

    #[test]
    fn a_size_of_nothing_is_refused_with_its_place() {
        let error = read(&PLAN.replace("size = '{k}g'", "size = '0'")).err().unwrap().to_string();
        assert_eq!(error, "line 12: [[target]] 'volume' 'size': must be above 0");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(
            at in 0..PLAN.len(), length in 0..20_usize, with in "\\PC{0,12}"
        ) {
            let end = (at + length).min(PLAN.len());
            let mut text = PLAN.to_owned();
            text.replace_range(at..end, &with);
            let _ = read(&text);
        }
    }
}
