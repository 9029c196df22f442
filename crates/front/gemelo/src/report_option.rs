//! The option `--report`, which is the same for every command that measures.

use crate::files;
use anyhow::Context as _;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_page::Report;
use serde::{Deserialize, Serialize};
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

/// The key of a result that tells its kind.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

impl ReportOption {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    /// Returns whether the page takes the place of the text.
    pub(crate) fn is_standard_output(&self) -> bool {
        files::is_some_standard_output(self.path())
    }

    /// Writes the page if the option was given. The page is made from the text of the result file
    /// `saved`, so that it is the same as that of `gemelo report`. Without such a file it names
    /// none.
    pub(crate) fn write(
        &self,
        force: bool,
        result: &impl Serialize,
        saved: Option<&Path>,
    ) -> anyhow::Result<()> {
        let Some(path) = self.path() else { return Ok(()) };
        let cannot = || format!("cannot make the report {}", path.shown());
        let text = gemelo_record::to_json(result)?;
        let Head { schema } = serde_json::from_str(&text)?;
        let kind = schema.split(['.', '/']).nth(1).unwrap_or("result");
        let directory = tempfile::tempdir().with_context(cannot)?;
        let name = saved.and_then(Path::file_name);
        let file = directory.path().join(name.unwrap_or(kind.as_ref()));
        std::fs::write(&file, text).with_context(cannot)?;
        let report = match name {
            Some(_) => Report::of_results(&[file]),
            None => Report::of_unsaved_result(file),
        };
        let report = report.with_context(cannot)?;
        write_page(path, force, &report)
    }
}

/// Writes a report to one file: HTML, or Markdown if the name ends in `.md`. A terminal gets plain
/// text.
pub(crate) fn write_page(path: &Path, force: bool, report: &Report) -> anyhow::Result<()> {
    let is_markdown = path.extension().is_some_and(|ending| ending == "md");
    let is_terminal = files::is_some_standard_output(Some(path)) && std::io::stdout().is_terminal();
    let text = match (is_terminal, is_markdown) {
        (true, _) => report.text(),
        (false, true) => report.markdown(),
        (false, false) => report.page()?,
    };
    files::write_whole(path, force, text.as_bytes())
}
