//! `gemelo distribution check` checks files of distributions and reports their oddities.

use crate::context::Context;
use crate::exit::{Failure, Outcome};
use clap::Args;
use gemelo_base::units::{format_counted, format_counted_as, format_line};
use gemelo_content::built_in;
use gemelo_job::distributions::{self, formats};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Distributions to check
    #[arg(required = true, value_name = "NAME|FILE")]
    distributions: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let mut problems = Vec::new();
    for name in &arguments.distributions {
        match check(name) {
            Ok(report) => context.print(&report)?,
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() {
        return Ok(Outcome::Done);
    }
    Err(Failure::lines(&problems).untouched())
}

/// Returns the report on a valid distribution, or the problems of an invalid one, one on each line.
fn check(name: &str) -> Result<String, Vec<String>> {
    let lines = |error| vec![Failure::from(error).to_string()];
    let named = if built_in(name).is_some() {
        distributions::load(name).map_err(lines)?
    } else {
        let text = distributions::read(name).map_err(lines)?;
        let problems = formats::DistributionFormat::of(&text).problems(&text);
        if !problems.is_empty() {
            return Err(problems.iter().map(|problem| problem.at(name)).collect());
        }
        distributions::parse(name, &text).map_err(|problem| vec![problem])?
    };
    let mut report: String =
        named.notes.iter().map(|note| formats::note_at(name, note) + "\n").collect();
    report += &format!(
        "{}: sound, {}, {}\n",
        format_line(name),
        format_counted_as(named.distribution.classes().len() as u64, "class", "classes"),
        format_counted(named.distribution.blocks(), "block")
    );
    Ok(report)
}
