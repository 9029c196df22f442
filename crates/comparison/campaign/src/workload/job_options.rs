//! Options of this program's own commands as keys of a plan.
//!
//! The keys go through the definition of the command's options, so a plan has the same names and
//! values as the command line, and a wrong one is found before anything runs.

use crate::plan::PlanError;
use crate::plan::keys::{Keys, Text};
use clap::{Arg, Args, Command};
use gemelo_base::units::parse_size;
use gemelo_job::nearest::nearest;

/// An option and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobOption {
    pub(super) name: String,
    pub(super) value: String,
    /// `false` for an option that stands alone on the command line.
    takes_value: bool,
}

impl JobOption {
    /// Returns the option as a word of a command line; nothing for one that is not set.
    pub(super) fn word(&self) -> Option<String> {
        match (self.takes_value, self.value.as_str()) {
            (true, value) => Some(format!("--{}={value}", self.name)),
            (false, "true") => Some(format!("--{}", self.name)),
            (false, _) => None,
        }
    }

    /// Returns the option as a line of a job file.
    pub(super) fn line(&self) -> String {
        format!("{} = {}\n", self.name, toml::Value::String(self.value.clone()))
    }
}

/// Reads the keys of a table that nobody has asked for as options of `T`. `own` are options that
/// the campaign sets itself.
pub(super) fn read<T: Args>(keys: &Keys<'_>, own: &[&str]) -> Result<Vec<JobOption>, PlanError> {
    let command = T::augment_args(Command::new("options").no_binary_name(true))
        .disable_help_flag(true)
        .allow_negative_numbers(true)
        .mut_args(|argument| argument.required(false));
    let mut options = Vec::new();
    for (name, line, values) in keys.other_texts()? {
        for value in values {
            options.push(option(&command, own, (&name, line), &value)?);
        }
    }
    Ok(options)
}

/// Reads the keys of a run on several hosts, and returns them as words of a command line.
pub(super) fn host_words(keys: &Keys<'_>) -> Result<Vec<String>, PlanError> {
    let mut words = Vec::new();
    for name in ["hosts", "connect", "program", "host-timeout"] {
        words.extend(keys.text(name)?.map(|value| format!("--{name}={value}")));
    }
    for name in ["copy", "own-targets"] {
        if keys.flag(name)? {
            words.push(format!("--{name}"));
        }
    }
    if !words.is_empty() && keys.text("hosts")?.is_none() {
        return Err(keys.wrong("hosts", "is missing: name the hosts, such as \"a,b\""));
    }
    Ok(words)
}

fn option(
    command: &Command,
    own: &[&str],
    (name, line): (&str, usize),
    value: &Text,
) -> Result<JobOption, PlanError> {
    if own.contains(&name) {
        let message = format!("'{name}' is set by the campaign: remove it");
        return Err(PlanError::Value { line, message });
    }
    let Some(known) = command.get_arguments().find(|known| known.get_long() == Some(name)) else {
        let names = command.get_arguments().filter_map(Arg::get_long);
        return Err(PlanError::UnknownKey {
            line,
            place: "the job".to_owned(),
            key: name.to_owned(),
            nearest: nearest(name, names.filter(|name| !own.contains(name))),
        });
    };
    let takes_value = known.get_action().takes_values();
    let option = JobOption { name: name.to_owned(), value: value.text.clone(), takes_value };
    if !takes_value && !["true", "false"].contains(&value.text.as_str()) {
        let message = format!("'{name}' is true or false, not '{}'", value.text);
        return Err(PlanError::Value { line: value.line, message });
    }
    let parsed = command.clone().try_get_matches_from(option.word());
    parsed.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
        PlanError::Value { line: value.line, message }
    })?;
    Ok(option)
}

/// The options that make places and unique contents differ between repetitions. The seed of the
/// contents stays.
pub(super) const SEEDS: [&str; 2] = ["seed", "run-id"];

/// Returns the options that make places and contents follow from a seed, unless the plan sets them.
/// All targets get the same load in a repetition then.
pub(super) fn seeds(options: &[JobOption], seed: u64) -> Vec<String> {
    let unset = SEEDS.into_iter().filter(|name| value_of(options, name).is_none());
    unset.map(|name| format!("--{name}={seed}")).collect()
}

/// Returns an option with a value.
pub(super) fn option_with(name: &str, value: &str) -> JobOption {
    JobOption { name: name.to_owned(), value: value.to_owned(), takes_value: true }
}

/// Returns the value of an option, if it is set.
pub(super) fn value_of<'a>(options: &'a [JobOption], name: &str) -> Option<&'a str> {
    options.iter().rev().find(|option| option.name == name).map(|option| option.value.as_str())
}

/// Returns the bytes of the files or regions of a job, if its options tell them.
pub(super) fn data_bytes(options: &[JobOption]) -> Option<u64> {
    let size = parse_size(value_of(options, "file-size")?).ok()?;
    let processes = value_of(options, "processes").unwrap_or("1").parse::<u64>().ok()?;
    size.checked_mul(processes)
}
