//! `gemelo report` makes a page of result files.

use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::files;
use crate::report_option::write_page;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_page::Report;
use std::path::PathBuf;

/// Make a page with the figures and pictures of results.
///
/// The page is one HTML file that needs no other file and no network. The jobs of several files
/// stand side by side. `gemelo campaign report` also writes the figures and pictures of a campaign
/// as files.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Result files of bench, suite, replay, filebench, scan, pool stat or fio, and files of
    /// --access-log; or the directory of a campaign
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Name of the page; a name that ends in .md gets Markdown, - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Overwrite an existing page
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Arguments { files, output, force } = arguments;
    files::check_new(output, *force)?;
    let report = match files.as_slice() {
        [directory] if directory.is_dir() => Report::of_campaign(directory)?,
        files => match files.iter().find(|file| file.is_dir()) {
            Some(directory) => {
                return Err(refused!(
                    "{} is a directory: give the directory of one campaign and nothing else, or \
                     result files",
                    directory.shown()
                ));
            }
            None => Report::of_results(files)?,
        },
    };
    context.monitor.finish();
    write_page(output, *force, &report)?;
    Ok(Outcome::Done)
}
