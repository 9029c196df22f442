//! `gemelo support`: what others need to know of a pool to help with it, in one file.
//!
//! It has no contents. Names of volumes are replaced by numbers unless they are asked for, in the
//! figures and in every text that quotes one.

use crate::context::Context;
use crate::exit::{Failure, OrFailed as _, Outcome};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::units::format_counted;
use gemelo_check::{CheckOptions, CheckReport, MEMORY_BYTES, check_within};
use gemelo_disk::DiskAccess;
use gemelo_place::PoolPlace;
use gemelo_record::ResultFile;
use gemelo_serve::{PoolRequest, Purpose, Reply, SettingReport, SettingSource, StatReport};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const SCHEMA: &str = "gemelo.support/1";
const KIND: Kind<ResultFile<SupportInput, SupportFigures>> =
    Kind::new(SCHEMA, "Result of gemelo support");
/// The same with the names left out, which is no matter of types.
const WRITTEN: Kind<ResultFile<SupportInput, Value>> =
    Kind::new(SCHEMA, "Result of gemelo support");

pub(crate) const DESCRIBED: Described = KIND.described();

/// The files of a pool, which messages name.
const FILES: [&str; 5] = ["data", "metadata", "settings.toml", "scrub.json", "control"];
/// Lines of the log that are taken.
const LOG_LINES: &str = "500";

/// Collect what others need to know of a pool to help with it
///
/// The file has the versions of gemelo and of the system, the settings, the figures of the pool and
/// its volumes, the findings of a check of the metadata, and what could not be collected. It has no
/// contents and no names of volumes, but the path of the pool and the name of the host. With
/// --names, it has the names of volumes as well, and the last lines of the log of the unit that
/// serves the pool. Read it before you give it away.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Keep the names of volumes, and add the log of the unit, which has them
    #[arg(long)]
    names: bool,
    #[command(flatten)]
    json: JsonOutput,
}

#[derive(JsonSchema, Serialize)]
struct SupportInput {
    /// The pool, as the user named it.
    pool: String,
    /// `true` if names of volumes were kept.
    names: bool,
}

#[derive(JsonSchema, Serialize)]
struct SupportFigures {
    /// The settings of the pool that are not as built in.
    settings: Option<Vec<SettingReport>>,
    /// The figures of the pool and its volumes: the result of `gemelo pool stat`.
    stat: Option<Value>,
    /// The findings of the check of the metadata.
    check: Option<SupportCheck>,
    /// The last lines of the log of the unit, with --names and if there is one.
    log: Option<Vec<String>>,
    /// The parts that could not be collected, and why.
    missing: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct SupportCheck {
    /// `true` if the serving process counted again; pages on disk were not checked then.
    is_served: bool,
    /// The faults that were found, up to a limit.
    problems: Vec<String>,
    /// Problems beyond those that are listed.
    more_problems: u64,
    /// Blocks that were found damaged before.
    known_damaged_blocks: u64,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Arguments { pool, names, json } = arguments;
    json.check()?;
    let mut missing = Vec::new();
    let mut note = |what: &str, failure: Failure| missing.push(format!("{what}: {failure}"));
    let stat = pools::stat(pool, context).map_err(|failure| note("stat", failure)).ok();
    let settings = settings(pool, context).map_err(|failure| note("settings", failure)).ok();
    let check = check(pool, context).map_err(|failure| note("check", failure)).ok();
    if stat.is_none() && check.is_none() {
        // There is no pool, or none that this program knows: its error says more than a file.
        pools::stat(pool, context)?;
    }
    let log = if *names { log(pool) } else { None };
    let redaction = Redaction::of(pool, stat.as_ref());
    let health = stat.as_ref().map_or_else(|| "unknown".into(), |stat| stat.health.to_string());
    let stat = stat.as_ref().map(serde_json::to_value).transpose().or_failed()?;
    let figures = SupportFigures { settings, stat, check, log, missing };
    let text = text(arguments, &health, &figures);
    let mut value = serde_json::to_value(&figures).or_failed()?;
    if !names {
        redaction.apply(&mut value, None);
    }
    let input = SupportInput { pool: pool.to_string(), names: *names };
    json.finish(context, WRITTEN.made(input, value, Vec::new()), &text)?;
    let is_damaged = figures.check.is_some_and(|check| !check.problems.is_empty());
    Ok(if is_damaged { Outcome::FoundDamage } else { Outcome::Done })
}

fn settings(pool: &PoolPlace, context: &Context) -> crate::Result<Vec<SettingReport>> {
    let access = pools::open(pool, Purpose::Read, context)?;
    let reply = pools::ask(&access, &PoolRequest::Settings { volume: None }, context);
    access.close()?;
    let Reply::Settings(mut settings) = reply? else { return Err(pools::other_version()) };
    settings.retain(|one| one.source != SettingSource::BuiltIn);
    Ok(settings)
}

/// Checks the metadata, as `gemelo pool check` does.
fn check(pool: &PoolPlace, context: &Context) -> crate::Result<SupportCheck> {
    match pool.open_disks(DiskAccess::Shared) {
        Ok(held) => {
            let options = CheckOptions { data: false };
            let (monitor, stop) = (&*context.monitor, &context.stop);
            let found = check_within(MEMORY_BYTES, &held.disks(), options, monitor, stop);
            held.release()?;
            let CheckReport { problems, more_problems, marked_blocks, .. } = found?;
            let problems = problems.into_iter().map(|problem| problem.what).collect();
            let known_damaged_blocks = marked_blocks;
            Ok(SupportCheck { is_served: false, problems, more_problems, known_damaged_blocks })
        }
        Err(error) if error.is_in_use() => {
            let access = pools::open(pool, Purpose::Read, context)?;
            let reply = pools::ask(&access, &PoolRequest::Check { data: false }, context);
            access.close()?;
            let Reply::Checked(report) = reply? else { return Err(pools::other_version()) };
            Ok(SupportCheck {
                is_served: true,
                problems: report.differences,
                more_problems: 0,
                known_damaged_blocks: report.known_damaged,
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the last lines of the unit that serves a pool of this name, if it has any.
fn log(pool: &PoolPlace) -> Option<Vec<String>> {
    let name = pool.directory()?.canonicalize().ok()?.file_name()?.to_str()?.to_owned();
    let mut command = Command::new("journalctl");
    command.args(["--quiet", "--no-pager", "--output=short-iso", "--lines", LOG_LINES, "--unit"]);
    command.arg(format!("gemelo@{name}.service")).stdin(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    Some(lines).filter(|lines: &Vec<String>| !lines.is_empty())
}

fn text(arguments: &Arguments, health: &str, figures: &SupportFigures) -> String {
    let Arguments { pool, names, .. } = arguments;
    let check = figures.check.as_ref().map_or_else(
        || "not made".to_owned(),
        |check| format_counted(check.problems.len() as u64 + check.more_problems, "problem"),
    );
    let mut text = format!("pool    {pool}\nhealth  {health}\ncheck   {check}\n");
    text.extend(figures.missing.iter().map(|what| format!("missing {what}\n")));
    let kept = if *names { "with" } else { "without" };
    text + &format!("--json FILE writes all of it for others, {kept} names of volumes\n")
}

/// Replaces names of volumes.
struct Redaction {
    /// The path of the pool, which names of volumes follow.
    pool: String,
    /// What stands for each name.
    numbers: BTreeMap<String, String>,
}

impl Redaction {
    fn of(pool: &PoolPlace, stat: Option<&StatReport>) -> Self {
        let volumes = stat.map(|stat| &stat.volumes).into_iter().flatten();
        let numbered = |(number, volume): (usize, &gemelo_serve::VolumeReport)| {
            (volume.summary.record.name.clone(), format!("volume-{}", number + 1))
        };
        let numbers = volumes.enumerate().map(numbered).collect();
        Self { pool: format!("{pool}/"), numbers }
    }

    fn number(&self, name: &str) -> String {
        self.numbers.get(name).cloned().unwrap_or_else(|| "volume-?".to_owned())
    }

    /// Replaces the names in a value at this key.
    fn apply(&self, value: &mut Value, key: Option<&str>) {
        match value {
            Value::String(text) => *text = self.without_names(text),
            Value::Array(values) => values.iter_mut().for_each(|value| {
                if let (Some("volumes"), Some(Value::String(name))) = (key, value.get("name")) {
                    value["name"] = Value::String(self.number(name));
                }
                self.apply(value, None);
            }),
            Value::Object(values) => {
                for (key, value) in values {
                    if let ("origin", Some(Value::String(name))) = (key.as_str(), value.get("name"))
                    {
                        value["name"] = Value::String(self.number(name));
                    }
                    if let ("volume", Value::String(name)) = (key.as_str(), &*value) {
                        *value = Value::String(self.number(name));
                    }
                    self.apply(value, Some(key));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces what stands in quotes, where messages name volumes, and what follows the path of
    /// the pool. Commands in quotes stay, without the names that they have.
    fn without_names(&self, text: &str) -> String {
        let parts = text.split('\'').enumerate().map(|(number, part)| {
            let is_quoted = number % 2 == 1;
            if is_quoted && !part.starts_with("gemelo ") && !part.starts_with('/') {
                return self.number(part);
            }
            let mut pieces = part.split(self.pool.as_str());
            let mut kept = pieces.next().unwrap_or_default().to_owned();
            for piece in pieces {
                let end = piece.find([' ', ':', ',']).unwrap_or(piece.len());
                let (name, rest) = piece.split_at(end);
                let shown = if FILES.contains(&name) { name.to_owned() } else { self.number(name) };
                kept += &format!("{}{shown}{rest}", self.pool);
            }
            kept
        });
        parts.collect::<Vec<_>>().join("'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_commands_and_lose_names() {
        let numbers = [("payroll".to_owned(), "volume-1".to_owned())].into();
        let redaction = Redaction { pool: "/srv/p/".to_owned(), numbers };
        for (text, kept) in [
            ("block 0 of 'payroll': lost", "block 0 of 'volume-1': lost"),
            ("block 0 of 'gone' is lost", "block 0 of 'volume-?' is lost"),
            (
                "'gemelo volume rm /srv/p/payroll' frees it",
                "'gemelo volume rm /srv/p/volume-1' frees it",
            ),
            ("/srv/p/settings.toml: line 1", "/srv/p/settings.toml: line 1"),
            ("/srv/p/payroll: full, as /srv/p is", "/srv/p/volume-1: full, as /srv/p is"),
        ] {
            assert_eq!(redaction.without_names(text), kept);
        }
    }
}
