//! Running this program's own measuring commands, and reading their result files.

use crate::error::StepError;
use crate::process;
use crate::workload::{Measured, Stage};
use gemelo_record::Better;
use std::process::Command;

/// Name of the figure that every action has: the time it took.
pub(crate) const ELAPSED: &str = "run/elapsed_ns";

/// Runs a command with `--json` and reads its figures. The target was made for this run, so the
/// command may overwrite it.
pub(crate) fn run(stage: &mut Stage<'_, '_>, mut command: Command) -> Result<Measured, StepError> {
    let file = format!("{}.json", stage.name);
    let path = stage.site.results.join(&file);
    command.arg("--json").arg(&path).arg("--force");
    let clock = stage.site.clock;
    let start_ns = clock.now_ns();
    let status = stage.site.run_logged(&mut command, &stage.name, stage.limit)?;
    let elapsed_ns = clock.now_ns().saturating_sub(start_ns);
    let log = format!("{}.err", stage.name);
    let said = std::fs::read_to_string(stage.site.results.join(&log)).unwrap_or_default();
    let failed = || {
        let (program, output) = (process::name_of(&command), process::end_of(&said));
        StepError::Program { program, status: status.to_string(), output }
    };
    if !path.exists() {
        return Err(failed());
    }
    let mut measured = read(&path)?;
    measured.files = vec![file, log];
    measured.failure = (!status.success()).then(failed);
    if measured.figures.value(ELAPSED).is_none() {
        measured.figures.push(ELAPSED, elapsed_ns as f64, Better::Lower);
    }
    Ok(measured)
}

/// Reads the figures of a result file.
fn read(path: &std::path::Path) -> Result<Measured, StepError> {
    let wrong = |reason: String| StepError::Result { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(StepError::io("read", path))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let mut measured = Measured::default();
    for (kind, name) in [("writes", "write"), ("reads", "read")] {
        let rate = value.pointer(&format!("/result/0/total/{kind}/operations_per_s"));
        if let Some(rate) = rate.and_then(serde_json::Value::as_f64) {
            measured.figures.push(format!("{name}/operations_per_s"), rate, Better::Higher);
        }
    }
    Ok(measured)
}
