//! The options `--json` and `--report` of a command that measures, and writing its result there.

use crate::context::Context;
use crate::exit::{Failure, Failures, Outcome};
use crate::files;
use crate::json::JsonOption;
use crate::report_option::ReportOption;
use clap::Args;
use gemelo_base::Monitor;
use gemelo_figures::AnyResult;
use gemelo_job::Ran;
use gemelo_record::{Provenance, ResultFile};
use serde::Serialize;
use std::path::Path;

/// The files of a result.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ResultOptions {
    #[command(flatten)]
    pub(crate) json: JsonOption,
    #[command(flatten)]
    pub(crate) report: ReportOption,
}

impl ResultOptions {
    /// Returns the files that were named.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.json.path().into_iter().chain(self.report.path())
    }

    /// Refuses files that cannot be written, and without `force` those that exist.
    pub(crate) fn check(&self, force: bool) -> crate::Result<()> {
        files::check_all_new(self.paths(), force)
    }

    /// Returns whether one of them takes the place of the text.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.json.is_standard_output() || self.report.is_standard_output()
    }

    /// Writes what is known when a run begins in the place of the JSON file, if that is a regular
    /// file: the result replaces it. Returns whether there is such a file now.
    pub(crate) fn begin(&self, force: bool, begun: &impl Serialize) -> crate::Result<bool> {
        let Some(path) = self.json.path().filter(|path| files::is_file_place(path)) else {
            return Ok(false);
        };
        files::write_json(path, force, begun)?;
        Ok(true)
    }

    /// Ends a command that ran a job: notes its failures, and writes its result.
    pub(crate) fn conclude<Input, Measured, Error: Into<Failure>>(
        &self,
        force: bool,
        mut ran: Ran<Input, Measured, Error>,
        mut failures: Failures,
        context: &Context,
    ) -> crate::Result<Outcome>
    where
        ResultFile<Input, Measured>: Serialize + Clone + Into<AnyResult>,
    {
        let monitor = context.monitor.as_ref();
        failures.note_all(&mut ran.errors, monitor);
        let outcome = if ran.is_success { Outcome::Done } else { Outcome::Partial };
        let file = ran.into_file(Provenance::of_this_process(context.started_at));
        self.write(force, &file, &mut failures, monitor);
        failures.or(outcome)
    }

    /// Writes those that were asked for. A failure of one does not prevent the other.
    pub(crate) fn write(
        &self,
        force: bool,
        result: &(impl Serialize + Clone + Into<AnyResult>),
        failures: &mut Failures,
        monitor: &dyn Monitor,
    ) {
        failures.note(self.json.write_file(force, result), monitor);
        let saved = self.json.path().filter(|_| !self.json.is_standard_output());
        failures.note(self.report.write(force, result, saved), monitor);
    }
}
