//! The option `--json`, which is the same for every command. It writes a result file, or to
//! standard output in place of the text.

use crate::context::Context;
use crate::files;
use crate::kind::Kind;
use crate::report_option::ReportOption;
use clap::Args;
use gemelo_figures::AnyResult;
use gemelo_record::{HostsFile, Provenance, ResultFile};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The option `--json`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct JsonOption {
    /// Write the result as JSON to this file; - writes it to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// [`JsonOption`] with `--force`, for commands that have no other output file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct JsonOutput {
    #[command(flatten)]
    option: JsonOption,
    /// Overwrite an existing JSON file
    #[arg(long)]
    force: bool,
}

/// A result with the input that it was made from. [`Kind::made`] makes one.
pub(crate) struct MadeResult<Input, Output> {
    schema: &'static str,
    input: Input,
    result: Output,
    warnings: Vec<String>,
}

impl<Input, Output> Kind<ResultFile<Input, Output>> {
    pub(crate) fn made(
        self,
        input: Input,
        result: Output,
        warnings: Vec<String>,
    ) -> MadeResult<Input, Output> {
        MadeResult { schema: self.schema(), input, result, warnings }
    }
}

impl<Input, Output> Kind<HostsFile<Input, Output>> {
    pub(crate) fn made(
        self,
        input: Input,
        result: Output,
        warnings: Vec<String>,
    ) -> MadeResult<Input, Output> {
        MadeResult { schema: self.schema(), input, result, warnings }
    }
}

impl<Input: Serialize, Output: Serialize> MadeResult<Input, Output> {
    /// Adds the provenance of this process.
    pub(crate) fn into_file(self, context: &Context) -> ResultFile<Input, Output> {
        let Self { schema, input, result, warnings } = self;
        ResultFile {
            schema: schema.to_owned(),
            provenance: Provenance::of_this_process(context.started_at),
            input,
            result,
            warnings,
        }
    }
}

impl JsonOption {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Returns whether the JSON takes the place of the text.
    pub(crate) fn is_standard_output(&self) -> bool {
        files::is_some_standard_output(self.path())
    }

    /// Refuses a file that cannot be written, and without `force` one that exists.
    pub(crate) fn check(&self, force: bool) -> crate::Result<()> {
        self.path().map_or(Ok(()), |path| files::check_new(path, force))
    }

    /// Writes the result if the option was given.
    pub(crate) fn write<Input: Serialize, Output: Serialize>(
        &self,
        force: bool,
        context: &Context,
        made: MadeResult<Input, Output>,
    ) -> crate::Result<()> {
        context.monitor.finish();
        self.write_file(force, &made.into_file(context))
    }

    /// Writes a result file if the option was given.
    pub(crate) fn write_file(&self, force: bool, file: &impl Serialize) -> crate::Result<()> {
        self.path().map_or(Ok(()), |path| files::write_json(path, force, file))
    }
}

impl JsonOutput {
    /// Combines the option with the `--force` of a command that has a wider meaning for it.
    pub(crate) fn new(option: &JsonOption, force: bool) -> Self {
        Self { option: option.clone(), force }
    }

    pub(crate) fn check(&self) -> crate::Result<()> {
        self.option.check(self.force)
    }

    /// Refuses the files of this option and of `report` as [`JsonOption::check`] does.
    pub(crate) fn check_with(&self, report: &ReportOption) -> crate::Result<()> {
        files::check_all_new(self.option.path().into_iter().chain(report.path()), self.force)
    }

    /// Writes the result as JSON if the option was given. Prints the text, unless the JSON goes to
    /// standard output. Prints the warnings.
    pub(crate) fn finish<Input: Serialize, Output: Serialize>(
        &self,
        context: &Context,
        made: MadeResult<Input, Output>,
        text: &str,
    ) -> crate::Result<()> {
        self.conclude(context, made, (text, false), |_, _| Ok(()))
    }

    /// Does the same as [`JsonOutput::finish`], and writes the page.
    pub(crate) fn finish_with<Input: Serialize, Output: Serialize>(
        &self,
        report: &ReportOption,
        context: &Context,
        made: MadeResult<Input, Output>,
        text: &str,
    ) -> crate::Result<()>
    where
        ResultFile<Input, Output>: Clone + Into<AnyResult>,
    {
        self.conclude(context, made, (text, report.is_standard_output()), |file, saved| {
            report.write(self.force, file, saved)
        })
    }

    fn conclude<Input: Serialize, Output: Serialize>(
        &self,
        context: &Context,
        made: MadeResult<Input, Output>,
        (text, is_replaced): (&str, bool),
        write_report: impl FnOnce(&ResultFile<Input, Output>, Option<&Path>) -> crate::Result<()>,
    ) -> crate::Result<()> {
        let warnings = made.warnings.clone();
        context.monitor.finish();
        let file = made.into_file(context);
        self.option.write_file(self.force, &file)?;
        let saved = self.option.path().filter(|_| !self.option.is_standard_output());
        write_report(&file, saved)?;
        if !self.option.is_standard_output() && !is_replaced {
            context.print(text)?;
        }
        warnings.iter().for_each(|warning| context.monitor.warn(warning));
        Ok(())
    }
}
