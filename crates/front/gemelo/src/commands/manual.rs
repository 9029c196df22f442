//! `gemelo manual` writes the manual pages, one for each command, from the definition of the
//! command line.

use super::Arguments as CommandLine;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::files;
use crate::help::sections;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use gemelo_base::ShowPath as _;
use std::io;
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
    render(&command, ("", &[]), &mut pages)?;
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

/// Adds the pages of a command and of all commands below it. `words` call it, and `others` are the
/// pages of the commands beside it and above.
fn render(
    command: &Command,
    (words, others): (&str, &[String]),
    pages: &mut Vec<Page>,
) -> crate::Result<()> {
    let below = || command.get_subcommands().filter(|below| !below.is_hide_set());
    let own = command.get_bin_name().unwrap_or("gemelo").replace(' ', "-");
    let of_below: Vec<String> =
        below().map(|below| format!("{own}-{}", below.get_name())).collect();
    for one in below() {
        let words = format!("{words} {}", one.get_name());
        let others = [&[own.clone()][..], &of_below].concat();
        render(one, (words.trim(), &others), pages)?;
    }
    // The pages have no date, so that equal versions give equal pages.
    let page = Man::new(command.clone().after_help("").help_template(""))
        .source(concat!("gemelo ", env!("CARGO_PKG_VERSION")))
        .manual("gemelo manual");
    let mut text = Vec::new();
    render_defined(&page, command, &mut text).context("cannot render a manual page")?;
    let others: Vec<String> =
        of_below.iter().chain(others).filter(|name| **name != own).cloned().collect();
    text.extend(sections(words, &others));
    pages.push((page.get_filename(), text));
    Ok(())
}

/// Writes the sections that follow from the definition of a command.
fn render_defined(page: &Man, command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    page.render_title(text)?;
    page.render_name_section(text)?;
    page.render_synopsis_section(text)?;
    page.render_description_section(text)?;
    page.render_options_section(text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(text)?;
    }
    Ok(())
}
