//! `gemelo distribution`: commands on distributions of duplicates.

mod check;
mod columns;
mod compare;
mod convert;
mod figures;
mod fit;
mod scale;
mod show;

use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::files;
use crate::json::JsonOption;
use crate::kind::{Described, Kind};
use clap::{Args, Subcommand};
use gemelo_content::Profile;
use gemelo_job::distributions::formats::DistributionFormat;
use gemelo_record::ResultFile;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Show, compare, check, scale, convert and fit distributions of duplicates.
///
/// A distribution is named by a built-in name (personal, primary, debian-usr, unique or
/// all-duplicates), by a file, or by - for standard input. The file has the DEDISbench format (each
/// line is `DUPLICATES CONTENTS`), or is a profile (TOML or JSON) or a CSV file.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the summary figures, and the share of blocks by their duplicates
    Show(show::Arguments),
    /// Compare distributions side by side, with their largest difference
    Compare(compare::Arguments),
    /// Check files for malformed lines and oddities
    Check(check::Arguments),
    /// Print the distribution that a data set of a given size will have
    Scale(scale::Arguments),
    /// Convert a distribution to another format
    Convert(convert::Arguments),
    Fit(fit::Arguments),
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> crate::Result<Outcome> {
    match arguments.action {
        Action::Show(arguments) => show::run(&arguments, context),
        Action::Compare(arguments) => compare::run(&arguments, context),
        Action::Check(arguments) => check::run(&arguments, context),
        Action::Scale(arguments) => scale::run(&arguments, context),
        Action::Convert(arguments) => convert::run(&arguments, context),
        Action::Fit(arguments) => fit::run(&arguments, context),
    }
}

/// The output of a distribution.
#[derive(Debug, Args)]
struct DistributionOutput {
    /// Write the distribution to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the output [default: by the ending of the file's name: .toml for profile, .json,
    /// .csv, else text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<DistributionFormat>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

impl DistributionOutput {
    fn check(&self) -> crate::Result<()> {
        self.check_with(None)
    }

    /// Refuses outputs that exist or cannot be written, and a format for no output.
    fn check_with(&self, json: Option<&JsonOption>) -> crate::Result<()> {
        if self.output.is_none() && self.to.is_some() {
            return Err(refused!("--to sets the format of --output: give --output as well"));
        }
        let json = json.and_then(JsonOption::path);
        files::check_all_new(self.output.as_deref().into_iter().chain(json), self.force)
    }

    /// Returns whether the distribution goes to standard output.
    fn is_standard_output(&self) -> bool {
        files::is_some_standard_output(self.output.as_deref())
    }

    fn write(&self, profile: &Profile) -> crate::Result<()> {
        let Some(path) = &self.output else { return Ok(()) };
        let format = self.to.unwrap_or_else(|| DistributionFormat::of_name(path));
        files::write_whole(path, self.force, format.write(profile)?.as_bytes())
    }
}

/// The distributions, as the user named them.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Input<'a> {
    /// The one that was scaled.
    Scaled(&'a str),
    /// Those that are shown.
    Shown(&'a [String]),
}

/// The figures of distributions.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
enum Figures<'a> {
    /// The figures of one distribution.
    Alone([&'a figures::DistributionFigures; 1]),
    /// Distributions side by side. Differences are from the first.
    Compared(&'a columns::Columns),
}

const KIND: Kind<ResultFile<Input<'static>, Figures<'static>>> =
    Kind::new("gemelo.distribution/1", "Result of gemelo distribution show, compare and scale");

/// The kind of results of these commands.
pub(crate) const KINDS: [Described; 1] = [KIND.described()];
