//! The option `--json`, which is the same for every command. It writes a result file, or to
//! standard output in place of the text.

use crate::context::Context;
use crate::files;
use clap::Args;
use gemelo_report::{Provenance, ResultFile};
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

/// A result with the input that it was made from.
pub(crate) struct Made<Input, Output> {
    /// Kind and version of the result, such as `gemelo.scan/1`.
    pub(crate) schema: &'static str,
    pub(crate) input: Input,
    pub(crate) result: Output,
    pub(crate) warnings: Vec<String>,
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
    pub(crate) fn check(&self, force: bool) -> anyhow::Result<()> {
        self.path().map_or(Ok(()), |path| files::check_new(path, force))
    }

    /// Writes the result if the option was given.
    pub(crate) fn write<Input: Serialize, Output: Serialize>(
        &self,
        force: bool,
        context: &Context,
        made: Made<Input, Output>,
    ) -> anyhow::Result<()> {
        let Some(path) = self.path() else { return Ok(()) };
        context.monitor.finish();
        let Made { schema, input, result, warnings } = made;
        let file = ResultFile {
            schema: schema.to_owned(),
            provenance: Provenance::of_this_process(context.started_at),
            input,
            result,
            warnings,
        };
        files::write_json(path, force, &file)
    }
}

impl JsonOutput {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.option.check(self.force)
    }

    /// Writes the result as JSON if the option was given. Prints the text, unless the JSON goes to
    /// standard output. Prints the warnings.
    pub(crate) fn finish<Input: Serialize, Output: Serialize>(
        &self,
        context: &Context,
        made: Made<Input, Output>,
        text: &str,
    ) -> anyhow::Result<()> {
        let warnings = made.warnings.clone();
        self.option.write(self.force, context, made)?;
        if !self.option.is_standard_output() {
            context.print(text)?;
        }
        warnings.iter().for_each(|warning| context.monitor.warn(warning));
        Ok(())
    }
}
