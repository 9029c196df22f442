//! Running this program's own measuring commands, and reading result files.

use crate::error::StepError;
use crate::process;
use crate::workload::{ActionSite, Measured};
use gemelo_record::{Better, Stats};
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Name of the figure that every action has: the time it took.
pub(crate) const ELAPSED: &str = "run/elapsed_ns";

/// Runs a command of this program with `--json` and reads its figures. The target was made for this
/// run, so the command may overwrite it.
pub(crate) fn run(
    stage: &mut ActionSite<'_, '_>,
    mut command: Command,
) -> Result<Measured, StepError> {
    let file = format!("{}.json", stage.name);
    let path = stage.site.results.join(&file);
    // The space in use is asked for while the files are there.
    command.arg("--json").arg(&path).args(["--force", "--keep"]);
    run_with_result(stage, command, &file)
}

/// Runs a command that writes a result file into the directory of the results.
pub(crate) fn run_with_result(
    stage: &mut ActionSite<'_, '_>,
    mut command: Command,
    file: &str,
) -> Result<Measured, StepError> {
    let path = stage.site.results.join(file);
    let clock = stage.site.clock;
    let start_ns = clock.now_ns();
    let status = stage.site.run_logged(&mut command, &stage.name, stage.limit)?;
    let elapsed_ns = clock.now_ns().saturating_sub(start_ns);
    // A load that was killed leaves a file that is not a result.
    let mut measured = match read(&path) {
        Ok(measured) => measured,
        Err(_) if !status.success() || !path.exists() => {
            return Err(failure(stage, &command, status));
        }
        Err(error) => return Err(error),
    };
    measured.files = vec![file.to_owned(), format!("{}.err", stage.name)];
    measured.failure = (!status.success()).then(|| failure(stage, &command, status));
    if measured.figures.value(ELAPSED).is_none() {
        measured.figures.push(ELAPSED, elapsed_ns as f64, Better::Lower);
    }
    Ok(measured)
}

/// Makes the error of a program that has failed.
pub(crate) fn failure(
    stage: &ActionSite<'_, '_>,
    command: &Command,
    status: ExitStatus,
) -> StepError {
    stage.site.failure(&process::name_of(command), &stage.name, status)
}

/// Reads the figures of a result file.
fn read(path: &Path) -> Result<Measured, StepError> {
    let wrong =
        |error| StepError::Result { path: path.to_owned(), reason: StepError::chain(&error) };
    let result = gemelo_figures::read(path).map_err(wrong)?;
    Ok(Measured { figures: result.figures, warnings: result.warnings, ..Measured::default() })
}

/// Sets a figure. It replaces one of the same name.
pub(crate) fn set(figures: &mut Stats, name: &str, value: f64, better: Better) {
    figures.figures.retain(|figure| figure.name != name);
    figures.push(name, value, better);
}
