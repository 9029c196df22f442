//! `gemelo manual` writes the manual pages, one for each command, from the definition of the
//! command line.

use super::Arguments as CommandLine;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::files;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use gemelo_base::ShowPath as _;
use std::path::PathBuf;

/// Write the manual pages: gemelo.1, and one page for each command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The directory of the pages, which is created if it does not exist
    directory: PathBuf,
    /// Overwrite existing pages
    #[arg(long)]
    force: bool,
}

/// The file name of a page, and its text in roff.
type Page = (String, Vec<u8>);

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Arguments { directory, force } = arguments;
    files::check_directory(directory)?;
    let mut command = CommandLine::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    render(&command, &mut pages)?;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.shown()))
        .or_bad_input()?;
    let paths = pages.iter().map(|(name, _)| directory.join(name)).collect::<Vec<_>>();
    files::check_all_new(paths.iter().map(PathBuf::as_path), *force)?;
    for (path, (_, text)) in paths.iter().zip(&pages) {
        files::write_whole(path, *force, text)?;
    }
    context.print(&format!("{}: {} manual pages\n", directory.shown(), pages.len()))?;
    Ok(Outcome::Done)
}

/// Adds the pages of a command and of all commands below it.
fn render(command: &Command, pages: &mut Vec<Page>) -> crate::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        render(below, pages)?;
    }
    // The pages have no date, so that equal versions give equal pages.
    let page = Man::new(command.clone())
        .source(concat!("gemelo ", env!("CARGO_PKG_VERSION")))
        .manual("gemelo manual");
    let mut text = Vec::new();
    page.render(&mut text).context("cannot render a manual page")?;
    pages.push((page.get_filename(), text));
    Ok(())
}
