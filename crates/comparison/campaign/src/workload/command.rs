//! A command of the user, whose time is measured. It may print further figures, and leave result
//! files of this program or of `fio`, whose figures are taken over.

use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::result;
use crate::target::PlaceKind;
use gemelo_base::text_of_name;
use gemelo_record::{Better, Stats};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most figures that a command may print.
const MAX_FIGURES: usize = 1000;

#[derive(Debug)]
struct ShellCommand {
    script: String,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> ActionResult {
    let script = keys.required_text(kind)?;
    Ok(Box::new(ShellCommand { script }))
}

impl Action for ShellCommand {
    fn description(&self) -> String {
        let line = self.script.trim().lines().next().unwrap_or_default();
        format!("command '{line}'")
    }

    fn accepts(&self, _place: PlaceKind) -> bool {
        // This program's own commands take every kind of place.
        true
    }

    fn main_figure(&self) -> Option<String> {
        Some(result::ELAPSED.to_owned())
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let results = stage.site.results.clone();
        let result = results.join(format!("{}.json", stage.name));
        let before = result_files(&results)?;
        let mut command = Command::new("sh");
        command.args(["-c", &self.script]).envs(stage.environment()).env("RESULT", &result);
        command.current_dir(&stage.site.work);
        let clock = stage.site.clock;
        let start_ns = clock.now_ns();
        let status = stage.site.run_logged(&mut command, &stage.name, stage.limit)?;
        let elapsed_ns = clock.now_ns().saturating_sub(start_ns);
        if !status.success() {
            return Err(result::failure(stage, &command, status));
        }
        let [out, err] = ["out", "err"].map(|ending| format!("{}.{ending}", stage.name));
        let printed = std::fs::read_to_string(stage.site.results.join(&out));
        let mut figures = figures_of(&printed.unwrap_or_default());
        result::set(&mut figures, result::ELAPSED, elapsed_ns as f64, Better::Lower);
        let mut measured = Measured { figures, files: vec![out, err], ..Measured::default() };
        for file in result_files(&results)?.difference(&before) {
            take_over(&mut measured, file, &result);
        }
        Ok(measured)
    }
}

/// Returns the JSON files in the directory of the results.
fn result_files(results: &Path) -> Result<BTreeSet<PathBuf>, StepError> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(results).map_err(StepError::io("list", results))? {
        let path = entry.map_err(StepError::io("list", results))?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            files.insert(path);
        }
    }
    Ok(files)
}

/// Adds the figures of a result file. Those of other files than `$RESULT` have the name of the file
/// in front. A file in another format stays beside the record, with a warning.
fn take_over(measured: &mut Measured, file: &Path, result: &Path) {
    let name = |part: Option<&std::ffi::OsStr>| part.map(text_of_name).unwrap_or_default();
    match gemelo_figures::read(file) {
        Ok(raw) => {
            let prefix = (file != result).then(|| name(file.file_stem()));
            for figure in &raw.figures.figures {
                let of_figure = prefix.as_ref().map(|prefix| format!("{prefix}.{}", figure.name));
                let of_figure = of_figure.unwrap_or_else(|| figure.name.clone());
                result::set(&mut measured.figures, &of_figure, figure.value, figure.better);
            }
            measured.warnings.extend(raw.warnings);
            if prefix.is_none() {
                measured.figures.curves.extend(raw.figures.curves);
                measured.figures.series.extend(raw.figures.series);
            }
        }
        Err(error) => measured.warnings.push(StepError::chain(&error)),
    }
    measured.files.push(name(file.file_name()));
}

/// Returns the figures of lines such as `write/bytes_per_s=1.5e8`. Other lines are ignored.
fn figures_of(text: &str) -> Stats {
    let mut figures = Stats::default();
    for line in text.lines() {
        let Some((name, value)) = line.trim().split_once('=') else { continue };
        let is_name = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter));
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        if is_name && figures.value(name).is_none() && figures.figures.len() < MAX_FIGURES {
            figures.push(name, value, better(name));
        }
    }
    figures
}

/// Returns the direction in which a figure improves, by its unit.
fn better(name: &str) -> Better {
    if name.ends_with("_per_s") {
        Better::Higher
    } else if ["_ns", "_bytes"].iter().any(|unit| name.ends_with(unit)) {
        Better::Lower
    } else {
        Better::Neither
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_files_are_taken_over_under_their_names() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures/tests/data");
        let mut measured = Measured::default();
        take_over(&mut measured, &data.join("bench.json"), &data.join("bench.json"));
        take_over(&mut measured, &data.join("replay.json"), &data.join("bench.json"));
        take_over(&mut measured, &data.join("none.json"), &data.join("bench.json"));
        let value = |name| measured.figures.value(name);
        assert!(value("write/operations_per_s").is_some(), "{:?}", measured.figures);
        assert!(value("replay.write/operations_per_s").is_some(), "{:?}", measured.figures);
        assert!(measured.warnings.iter().any(|warning| warning.contains("none.json")));
        assert_eq!(measured.files, ["bench.json", "replay.json", "none.json"]);
    }

    #[test]
    fn lines_with_a_name_and_a_number_are_figures() {
        let text = "begin\nwrite/bytes_per_s = 5\nwrite/bytes_per_s=1.5e8\ntar/time_ns=12\nA=1\nx=y\nn=3\n";
        let figures = figures_of(text);
        let all: Vec<_> =
            figures.figures.iter().map(|f| (f.name.as_str(), f.value, f.better)).collect();
        assert_eq!(
            all,
            [
                ("write/bytes_per_s", 1.5e8, Better::Higher),
                ("tar/time_ns", 12.0, Better::Lower),
                ("n", 3.0, Better::Neither)
            ]
        );
    }
}
