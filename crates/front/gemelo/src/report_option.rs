//! The option `--report`, which is the same for every command that measures.

use crate::files;
use clap::Args;
use gemelo_figures::AnyResult;
use gemelo_page::Report;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// The option `--report`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReportOption {
    /// Write a page with the figures and pictures of the result to this file (HTML; Markdown if
    /// the name ends in .md); - writes to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ReportOption {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    /// Returns whether the page takes the place of the text.
    pub(crate) fn is_standard_output(&self) -> bool {
        files::is_some_standard_output(self.path())
    }

    /// Writes the page if the option was given. It names the file `saved`, if the result has one.
    pub(crate) fn write(
        &self,
        force: bool,
        result: &(impl Clone + Into<AnyResult>),
        saved: Option<&Path>,
    ) -> crate::Result<()> {
        let Some(path) = self.path() else { return Ok(()) };
        write_page(path, force, &Report::of_result(result.clone().into(), saved))
    }
}

/// Writes a report to one file: HTML, or Markdown if the name ends in `.md`. A terminal gets plain
/// text.
pub(crate) fn write_page(path: &Path, force: bool, report: &Report) -> crate::Result<()> {
    let is_markdown = path.extension().is_some_and(|ending| ending == "md");
    let is_terminal = files::is_some_standard_output(Some(path)) && std::io::stdout().is_terminal();
    let text = match (is_terminal, is_markdown) {
        (true, _) => report.text(),
        (false, true) => report.markdown(),
        (false, false) => report.page()?,
    };
    files::write_whole(path, force, text.as_bytes())
}
