//! `fio`: a job file, or the options of one job as keys.

use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::result;
use crate::system;
use crate::target::{LoadPlace, PlaceKind};
use gemelo_base::units::parse_duration;
use gemelo_base::{ShowPath as _, text_of_name};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[derive(Debug)]
struct Fio {
    file: Option<PathBuf>,
    /// Options of all jobs. `fio` itself refuses wrong ones.
    options: Vec<(String, String)>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> ActionResult {
    if !keys.is_table(kind) {
        let file = Some(reading.path(&keys.required_text(kind)?));
        return Ok(Box::new(Fio { file, options: Vec::new() }));
    }
    let table = keys.required_table(kind)?;
    let file = table.text("file")?.map(|file| reading.path(&file));
    let mut options = Vec::new();
    for (name, _, values) in table.other_texts()? {
        options.extend(values.into_iter().map(|value| (name.clone(), value.text)));
    }
    Ok(Box::new(Fio { file, options }))
}

impl Fio {
    fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Returns an option with a path, byte for byte.
fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

impl Action for Fio {
    fn description(&self) -> String {
        let file = self.file.as_ref().and_then(|file| file.file_name());
        let file = file.map(text_of_name).unwrap_or_default();
        let words = self.options.iter().map(|(name, value)| format!("{name}={value}"));
        let words = words.collect::<Vec<_>>().join(" ");
        format!("fio {file} {words}").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn missing(&self) -> Option<String> {
        let file = self.file.as_ref().filter(|file| !file.is_file());
        let missing = file.map(|file| format!("the job file {} is missing", file.shown()));
        missing.or_else(|| system::missing(&["fio"], false, &[]))
    }

    fn accepts(&self, place: PlaceKind) -> bool {
        place != PlaceKind::InProcess
    }

    fn expected_time(&self) -> Option<Duration> {
        parse_duration(self.option("runtime").filter(|_| self.file.is_none())?).ok()
    }

    fn main_figure(&self) -> Option<String> {
        // `fio` reads without the option. A colon precedes the length of a sequential stretch.
        let named = self.option("rw").or_else(|| self.option("readwrite")).unwrap_or("read");
        let kind = match named.split(':').next() {
            _ if self.file.is_some() => "all",
            Some("rw" | "readwrite" | "randrw") => "all",
            Some("read" | "randread") => "read",
            _ => "write",
        };
        Some(format!("{kind}/operations_per_s"))
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let file = format!("{}.json", stage.name);
        let mut command = Command::new("fio");
        command.envs(stage.environment());
        command.arg("--output-format=json+");
        command.arg(option("--output=", &stage.site.results.join(&file)));
        command.arg(format!("--randseed={}", stage.site.seed));
        match &stage.place {
            LoadPlace::Directory(path) => command.arg(option("--directory=", path)),
            LoadPlace::Device(path) => command.arg(option("--filename=", path)),
            LoadPlace::Uri(uri) => {
                command.args(["--ioengine=nbd".to_owned(), format!("--uri={uri}")])
            }
        };
        if self.file.is_none() {
            command.arg("--name=fio");
        }
        command.args(self.options.iter().map(|(name, value)| format!("--{name}={value}")));
        command.args(&self.file).current_dir(&stage.site.work);
        result::run_with_result(stage, command, &file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_figure_is_of_the_operations_that_the_job_does() {
        for (name, value, kind) in [
            ("rw", "randwrite", "write"),
            ("rw", "read", "read"),
            ("rw", "randread:8", "read"),
            ("rw", "randrw", "all"),
            ("rw", "readwrite", "all"),
            ("readwrite", "rw:4k", "all"),
            ("bs", "4k", "read"),
        ] {
            let options = vec![(name.to_owned(), value.to_owned())];
            let figure = Fio { file: None, options }.main_figure();
            assert_eq!(figure, Some(format!("{kind}/operations_per_s")), "{name}={value}");
        }
    }
}
