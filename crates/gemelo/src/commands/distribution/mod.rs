//! `gemelo distribution`: what duplicate distributions say, whether they are sound, and how they look at another size
//! or in another format.

mod check;
mod columns;
mod compare;
mod convert;
mod figures;
mod fit;
mod scale;
mod show;

use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use crate::files;
use anyhow::anyhow;
use clap::{Args, Subcommand};
use gemelo_content::Profile;
use gemelo_job::distributions::formats::Format;
use std::path::PathBuf;

/// Wherever a distribution is named: a built-in one (personal, primary, debian-usr, unique, all-duplicates), a file in the
/// DEDISbench format (a line is `DUPLICATES CONTENTS`), a profile (TOML or JSON), a CSV file, or - for standard input.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the summary figures and the share of blocks by duplicates
    Show(show::Arguments),
    /// Put distributions side by side and tell the largest difference
    Compare(compare::Arguments),
    /// Find malformed lines and oddities
    Check(check::Arguments),
    /// Print what a data set of a given size will have
    Scale(scale::Arguments),
    /// Write a distribution in another format
    Convert(convert::Arguments),
    /// Make a distribution from summary figures
    Fit(fit::Arguments),
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match arguments.action {
        Action::Show(arguments) => show::run(&arguments, context),
        Action::Compare(arguments) => compare::run(&arguments, context),
        Action::Check(arguments) => check::run(&arguments, context),
        Action::Scale(arguments) => scale::run(&arguments, context),
        Action::Convert(arguments) => convert::run(&arguments, context),
        Action::Fit(arguments) => fit::run(&arguments, context),
    }
}

/// Where a distribution is written.
#[derive(Debug, Args)]
struct OutputOptions {
    /// Write the distribution to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the output [default: by the file's name: .toml is profile, .json, .csv, else text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Format>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

impl OutputOptions {
    fn check(&self) -> anyhow::Result<()> {
        self.check_with(None)
    }

    /// Refuses outputs that exist or cannot be written, and a format for no output.
    fn check_with(&self, json: Option<&JsonOption>) -> anyhow::Result<()> {
        if self.output.is_none() && self.to.is_some() {
            return Err(bad_input(anyhow!(
                "--to is the format of --output: name the file with --output"
            )));
        }
        let json = json.and_then(|json| json.json.as_deref());
        files::check_all_new(self.output.as_deref().into_iter().chain(json), self.force)
    }

    /// Whether standard output belongs to the distribution.
    fn is_standard_output(&self) -> bool {
        files::is_some_standard_output(self.output.as_deref())
    }

    fn write(&self, profile: &Profile) -> anyhow::Result<()> {
        let Some(path) = &self.output else { return Ok(()) };
        let format = self.to.unwrap_or_else(|| Format::of_name(path));
        files::write_whole(path, self.force, format.write(profile)?.as_bytes())
    }
}

/// Where the figures are written as JSON.
#[derive(Debug, Args)]
struct JsonOption {
    /// Write the figures as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonOption {
    fn check(&self, force: bool) -> anyhow::Result<()> {
        self.json.iter().try_for_each(|path| files::check_new(path, force))
    }

    fn is_standard_output(&self) -> bool {
        files::is_some_standard_output(self.json.as_deref())
    }

    fn write<Input: serde::Serialize, Measured: serde::Serialize>(
        &self,
        force: bool,
        context: &Context,
        input: Input,
        result: Measured,
        warnings: &[String],
    ) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let file = gemelo_report::ResultFile {
            schema: SCHEMA.to_owned(),
            provenance: gemelo_report::Provenance::of_this_process(context.started_at),
            input,
            result,
            warnings: warnings.to_vec(),
        };
        files::write_json(path, force, &file)
    }
}

/// The layout of the figures in JSON: a list of [`figures::Figures`], the first being what others differ from.
const SCHEMA: &str = "gemelo.distribution/1";
