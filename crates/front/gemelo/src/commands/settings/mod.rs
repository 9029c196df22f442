//! `gemelo pool set` and `get`, `gemelo volume set` and `get`, and `gemelo pool tick`.

use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pools;
use crate::setting_options::{OfPools, OfVolumes, SettingOptions};
use crate::values::{pool_place_parser, volume_path_parser};
use clap::{Args, ValueHint};
use gemelo_place::{PoolPlace, VolumePath};
use gemelo_record::ResultFile;
use gemelo_serve::{
    Applies, PoolRequest, Purpose, Reply, SETTINGS, SettingReport, SettingSource, setting,
};
use schemars::JsonSchema;
use serde::Serialize;

const KIND: Kind<ResultFile<SettingsInput, SettingsResult>> =
    Kind::new("gemelo.settings/1", "Result of gemelo pool get and gemelo volume get");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(JsonSchema, Serialize)]
struct SettingsInput {
    /// The pool, or the pool and the volume, as the user named them.
    of: String,
}

#[derive(JsonSchema, Serialize)]
struct SettingsResult {
    /// The settings, in the order of the table.
    settings: Vec<SettingReport>,
}

#[derive(Debug, Args)]
pub(crate) struct PoolSet {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    #[command(flatten)]
    settings: SettingOptions<OfPools>,
}

#[derive(Debug, Args)]
pub(crate) struct PoolGet {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    #[command(flatten)]
    wanted: Wanted,
}

#[derive(Debug, Args)]
pub(crate) struct VolumeSet {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    #[command(flatten)]
    settings: SettingOptions<OfVolumes>,
}

#[derive(Debug, Args)]
pub(crate) struct VolumeGet {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    #[command(flatten)]
    wanted: Wanted,
}

/// The settings that `get` shows.
#[derive(Debug, Args)]
struct Wanted {
    /// Show only these settings [default: all]
    #[arg(value_name = "SETTING")]
    names: Vec<String>,
    #[command(flatten)]
    json: JsonOutput,
}

pub(crate) fn set_pool(arguments: &PoolSet, context: &Context) -> crate::Result<Outcome> {
    let PoolSet { pool, settings } = arguments;
    let changes = settings.changes();
    let is_served = change(pool, &PoolRequest::Set { volume: None, changes }, context)?;
    let later = settings.settings().filter(|known| known.applies == Applies::NextOpening);
    let later: Vec<&str> = later.map(|known| known.name).collect();
    if is_served && !later.is_empty() {
        let (names, are) = (later.join(", "), if later.len() == 1 { "is" } else { "are" });
        context.print(&format!(
            "{pool}: {names} {are} in effect when the server is started again\n"
        ))?;
    }
    show(&pool.to_string(), &settings.changes()).map_or(Ok(()), |text| context.print(&text))?;
    Ok(Outcome::Done)
}

pub(crate) fn set_volume(arguments: &VolumeSet, context: &Context) -> crate::Result<Outcome> {
    let VolumeSet { volume, settings } = arguments;
    let changes = settings.changes();
    let request = PoolRequest::Set { volume: Some(volume.name.clone()), changes };
    change(&volume.pool, &request, context)?;
    show(&volume.to_string(), &settings.changes()).map_or(Ok(()), |text| context.print(&text))?;
    Ok(Outcome::Done)
}

/// Sends a request that changes settings. Returns whether a process serves the pool.
fn change(pool: &PoolPlace, request: &PoolRequest, context: &Context) -> crate::Result<bool> {
    if let PoolRequest::Set { changes, volume } = request
        && changes.is_empty()
    {
        let what = if volume.is_some() { "volume" } else { "pool" };
        return Err(refused!(
            "nothing to set: give an option such as --finder-delay 10s; 'gemelo {what} set --help' \
             lists them"
        ));
    }
    let access = pools::open(pool, Purpose::Change, context)?;
    let is_served = access.is_served();
    let reply = pools::ask(&access, request, context);
    let closed = access.close();
    reply?;
    closed?;
    Ok(is_served)
}

/// A line for each setting that was changed.
fn show(
    what: &str,
    changes: &std::collections::BTreeMap<String, Option<String>>,
) -> Option<String> {
    let line = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{what}: {name} {value}\n"),
        None => {
            let usual = setting(name).map_or("", |known| known.default);
            format!("{what}: {name} as by default, {usual}\n")
        }
    };
    (!changes.is_empty()).then(|| changes.iter().map(line).collect())
}

pub(crate) fn get_pool(arguments: &PoolGet, context: &Context) -> crate::Result<Outcome> {
    let PoolGet { pool, wanted } = arguments;
    get((pool, None), pool.to_string(), wanted, context)
}

pub(crate) fn get_volume(arguments: &VolumeGet, context: &Context) -> crate::Result<Outcome> {
    let VolumeGet { volume, wanted } = arguments;
    get((&volume.pool, Some(&volume.name)), volume.to_string(), wanted, context)
}

fn get(
    (pool, volume): (&PoolPlace, Option<&String>),
    of: String,
    wanted: &Wanted,
    context: &Context,
) -> crate::Result<Outcome> {
    wanted.json.check()?;
    let has = |name: &String| {
        let known = setting(name);
        known.is_some_and(|known| match volume {
            Some(_) => known.is_of_volumes(),
            None => known.is_of_pools(),
        })
    };
    if let Some(unknown) = wanted.names.iter().find(|name| !has(name)) {
        let what = if volume.is_some() { "volume" } else { "pool" };
        return Err(refused!(
            "no setting of a {what} is called '{unknown}': 'gemelo {what} get' without names lists \
             all"
        ));
    }
    let access = pools::open(pool, Purpose::Read, context)?;
    let request = PoolRequest::Settings { volume: volume.cloned() };
    let reply = pools::ask(&access, &request, context);
    access.close()?;
    let Reply::Settings(mut settings) = reply? else { return Err(pools::other_version()) };
    if !wanted.names.is_empty() {
        settings.retain(|one| wanted.names.contains(&one.name));
    }
    let text = text(&settings);
    let made = KIND.made(SettingsInput { of }, SettingsResult { settings }, Vec::new());
    wanted.json.finish(context, made, &text)?;
    Ok(Outcome::Done)
}

fn text(settings: &[SettingReport]) -> String {
    let width = |of: fn(&SettingReport) -> &String| {
        settings.iter().map(|one| of(one).chars().count()).max().unwrap_or_default()
    };
    let (names, values) = (width(|one| &one.name), width(|one| &one.value));
    let line = |one: &SettingReport| {
        let source = match one.source {
            SettingSource::BuiltIn => "built in",
            SettingSource::Pool => "pool",
            SettingSource::Volume => "volume",
            SettingSource::CommandLine => "command line",
        };
        let next = one.next.as_ref().map(|next| format!("; {next} from the next opening on"));
        let SettingReport { name, value, .. } = one;
        format!("{name:<names$}  {value:<values$}  {source}{}\n", next.unwrap_or_default())
    };
    settings.iter().map(line).collect()
}

#[derive(Debug, Args)]
pub(crate) struct Tick {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
}

pub(crate) fn tick(arguments: &Tick, context: &Context) -> crate::Result<Outcome> {
    let pool = &arguments.pool;
    let Reply::Ticked(report) = pools::change(pool, &PoolRequest::Tick, context)? else {
        return Err(pools::other_version());
    };
    let lines: String = report.lines().map(|line| format!("{pool}/{line}\n")).collect();
    let text = if lines.is_empty() { format!("{pool}: nothing was due\n") } else { lines };
    context.print(&text)?;
    for (name, why) in &report.left {
        context.monitor.warn(&format!("{pool}/{name}: not removed by the schedule: {why}"));
    }
    Ok(Outcome::Done)
}

/// Returns the table of all settings for the documents.
#[must_use]
pub fn documented() -> String {
    let line = |known: &gemelo_serve::Setting| {
        let of = match (known.is_of_pools(), known.is_of_volumes()) {
            (true, true) => "both",
            (true, false) => "pool",
            _ => "volume",
        };
        let later = if known.applies == Applies::NextOpening { "opening" } else { "at once" };
        format!("| `{}` | {of} | {} | {later} | {} |\n", known.name, known.default, known.about)
    };
    let head = "| setting | of | default | applies | |\n|---|---|---|---|---|\n".to_owned();
    SETTINGS.iter().map(line).fold(head, |text, line| text + &line)
}
