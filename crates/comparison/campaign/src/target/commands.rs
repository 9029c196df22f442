//! Any file system or device by the user's own commands.
//!
//! Each command is a script of `sh`. Scripts find the run in their environment: `WORK` is a fresh
//! directory, `RUN` a word that no other run has, and `PLACE` the place where the load goes.

use super::file_system::space_of_mount;
use super::{LoadPlace, MadeTarget, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::process;
use crate::resource::Resource;
use crate::site::RunSite;
use gemelo_base::{name_of_text, text_of_name};
use gemelo_record::Space;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Longest check whether the machine has the target.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// Longest off-line pass.
const SETTLE_LIMIT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
struct Commands {
    /// Succeeds if the machine has everything. Its last line of output is the reason otherwise.
    check: Option<String>,
    make: Option<String>,
    mount: Option<String>,
    /// Gives back what `mount` made. It also succeeds if nothing is mounted.
    unmount: Option<String>,
    /// Gives back what `make` made. It also succeeds if nothing exists.
    unmake: Option<String>,
    /// Prints the space in use.
    space: Option<String>,
    settle: Option<String>,
    /// The place of the load, in which `$WORK` stands for the run's directory, and `$RUN` for its
    /// mark.
    place: String,
    kind: PlaceKind,
    base: PathBuf,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> TargetResult {
    let table = keys.required_table(kind)?;
    let kind = match table.text("place-kind")?.as_deref() {
        None | Some("directory") => PlaceKind::Directory,
        Some("device") => PlaceKind::Device,
        Some("export") => PlaceKind::Export,
        Some(other) => {
            return Err(table.wrong(
                "place-kind",
                format_args!("'{other}' is none of directory, device, export"),
            ));
        }
    };
    let commands = Commands {
        check: table.text("check")?,
        make: table.text("make")?,
        mount: table.text("mount")?,
        unmount: table.text("unmount")?,
        unmake: table.text("unmake")?,
        space: table.text("space")?,
        settle: table.text("settle")?,
        place: table.text("place")?.unwrap_or_else(|| "$WORK/mount".to_owned()),
        kind,
        base: reading.base.to_owned(),
    };
    table.finish()?;
    for (does, undoes) in [("make", "unmake"), ("mount", "unmount")] {
        if table.has(does) && !table.has(undoes) {
            return Err(table.wrong(
                does,
                format_args!("needs '{undoes}' beside it, which also succeeds if nothing is there"),
            ));
        }
    }
    Ok(Box::new(commands))
}

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).into()
}

impl Target for Commands {
    fn description(&self) -> String {
        let script = self.mount.as_ref().or(self.make.as_ref());
        let line = script.and_then(|script| script.trim().lines().next()).unwrap_or(&self.place);
        format!("made by '{line}'")
    }

    fn missing(&self) -> Option<String> {
        let check = self.check.as_ref()?;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{check}")]).current_dir(&self.base);
        process::check(&mut command, CHECK_LIMIT)
    }

    fn place_kind(&self) -> PlaceKind {
        self.kind
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(1000)
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        let place = self.place.replace("$WORK", &text_of_name(site.work.as_os_str()));
        let place = place.replace("$RUN", &site.mark);
        let mut environment: BTreeMap<_, _> = site.environment().into_iter().collect();
        environment.insert("PLACE", name_of_text(&place));
        let runner = Runner { environment, base: self.base.clone() };
        runner.note(site, self.unmake.as_deref())?;
        runner.run(site, self.make.as_deref())?;
        let path = PathBuf::from(name_of_text(&place));
        if self.kind == PlaceKind::Directory && path.starts_with(&site.work) && !path.exists() {
            std::fs::create_dir_all(&path).map_err(StepError::io("create", &path))?;
        }
        runner.note(site, self.unmount.as_deref())?;
        runner.run(site, self.mount.as_deref())?;
        let place = match self.kind {
            PlaceKind::Directory => LoadPlace::Directory(path),
            PlaceKind::Device => LoadPlace::Device(path),
            PlaceKind::InProcess | PlaceKind::Export => LoadPlace::Uri(place),
        };
        let (space, settle) = (self.space.clone(), self.settle.clone());
        Ok(Box::new(MadeByCommands { runner, place, space, settle }))
    }
}

/// Runs the scripts of one target.
struct Runner {
    environment: BTreeMap<&'static str, OsString>,
    base: PathBuf,
}

impl Runner {
    fn run(&self, site: &RunSite<'_>, script: Option<&str>) -> Result<String, StepError> {
        script.map_or(Ok(String::new()), |script| site.run(&mut self.command(script)))
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).envs(&self.environment).current_dir(&self.base);
        command
    }

    /// Records the script that gives back what the next one makes.
    fn note(&self, site: &mut RunSite<'_>, script: Option<&str>) -> Result<(), StepError> {
        let Some(script) = script else { return Ok(()) };
        let texts = self.environment.iter();
        let texts = texts.map(|(name, value)| ((*name).to_owned(), text_of_name(value)));
        site.journal.note(Resource::Command {
            words: shell(script),
            environment: texts.collect(),
            directory: self.base.clone(),
        })
    }
}

struct MadeByCommands {
    runner: Runner,
    place: LoadPlace,
    space: Option<String>,
    settle: Option<String>,
}

impl MadeTarget for MadeByCommands {
    fn place(&self) -> LoadPlace {
        self.place.clone()
    }

    fn settle(&self, site: &mut RunSite<'_>) -> Result<bool, StepError> {
        let Some(script) = &self.settle else { return Ok(false) };
        let status = site.run_logged(&mut self.runner.command(script), "settle", SETTLE_LIMIT)?;
        if status.success() { Ok(true) } else { Err(site.failure("settle", "settle", status)) }
    }

    fn space(&self, site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        match (&self.space, &self.place) {
            (Some(script), _) => {
                let printed = self.runner.run(site, Some(script))?;
                space_of(&printed).map(Some).ok_or_else(|| StepError::Unexpected {
                    program: "space".to_owned(),
                    expected: "line data_bytes=NUMBER",
                })
            }
            (None, LoadPlace::Directory(path)) => space_of_mount(site, path).map(Some),
            _ => Ok(None),
        }
    }
}

/// Reads the lines that a script of the user has printed about space.
fn space_of(printed: &str) -> Option<Space> {
    let of = |wanted: &str| {
        let mut values = printed.lines().filter_map(|line| line.trim().split_once('='));
        let found = values.rfind(|(name, _)| name.trim() == wanted);
        found.and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    Some(Space {
        data_bytes: of("data_bytes")?,
        metadata_bytes: of("metadata_bytes"),
        logical_bytes: of("logical_bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_read_from_lines() {
        let space = space_of("used\ndata_bytes=5\nlogical_bytes = 10\n").unwrap();
        assert_eq!(
            (space.data_bytes, space.metadata_bytes, space.logical_bytes),
            (5, None, Some(10))
        );
        assert_eq!(space_of("data_bytes=much\n"), None);
    }
}
