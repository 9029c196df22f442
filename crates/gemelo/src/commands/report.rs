//! `gemelo report` makes a page of result files.

use crate::context::Context;
use crate::exit::Outcome;
use crate::files;
use crate::report_option::write_page;
use clap::Args;
use gemelo_page::Report;
use std::path::PathBuf;

/// Make a page with the figures and pictures of results.
///
/// The page is one HTML file that needs no other file and no network. The jobs of several files
/// stand side by side.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Result files of bench, suite, replay, filebench, scan, pool stat or fio, and files of
    /// --access-log
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name of the page; a name that ends in .md gets Markdown, - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Overwrite an existing page
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let Arguments { files, output, force } = arguments;
    files::check_new(output, *force)?;
    let report = Report::of_results(files)?;
    context.monitor.finish();
    write_page(output, *force, &report)?;
    Ok(Outcome::Done)
}
