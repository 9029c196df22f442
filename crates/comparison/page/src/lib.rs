//! The report of a campaign, or of single results: HTML, Markdown, CSV and pictures.
//!
//! A source of reports makes a document, which is data: sections with text, tables and pictures.
//! The document is then written as one HTML file that needs no other file and no network, as
//! Markdown, as plain text, and as files of pictures. This crate returns the files as bytes and
//! writes nothing.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod accesses;
mod campaign;
mod chart;
mod csv;
mod document;
mod html;
mod markdown;
mod origin;
mod pictures;
mod plain;
#[cfg(feature = "png")]
mod png;
mod quantity;
mod single;
mod thin;
mod written;

pub use chart::DrawError;

use document::Document;
use gemelo_base::Classified;
use gemelo_compare::SettingsError;
use gemelo_figures::{AnyResult, FiguresError};
use gemelo_record::RecordError;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Name of the page in the directory of a campaign.
pub const PAGE_FILE: &str = "report.html";

/// Name of the report as Markdown in the directory of a campaign.
pub const MARKDOWN_FILE: &str = "report.md";

/// Name of the file with all figures of all runs in the directory of a campaign.
pub const FIGURES_FILE: &str = "figures.csv";

/// A report, from which the files in all formats are made.
#[derive(Debug)]
pub struct Report {
    document: Document,
    figures: Option<String>,
}

impl Report {
    /// Reads the campaign in a directory and makes its report.
    ///
    /// # Errors
    /// Fails if the plan or the record of a run cannot be read.
    pub fn of_campaign(directory: &Path) -> Result<Self, PageError> {
        let data = campaign::read(directory)?;
        let document = campaign::document(&data, directory)?;
        Ok(Self { document, figures: Some(csv::figures(&data)) })
    }

    /// Reads result files of `bench`, `suite`, `replay`, `filebench`, `scan`, `pool stat` and
    /// `fio`, and access logs of `bench`, and makes one report of all.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is of another kind.
    pub fn of_results(files: &[PathBuf]) -> Result<Self, PageError> {
        Ok(Self { document: single::of_files(files)?, figures: None })
    }

    /// Makes the report of a result in memory, which names the file of the result if it has one.
    #[must_use]
    pub fn of_result(result: AnyResult, file: Option<&Path>) -> Self {
        Self { document: single::of_result(result, file), figures: None }
    }

    /// Returns the report as one HTML file that stands alone, without links to files of pictures.
    ///
    /// # Errors
    /// Fails if a chart cannot be drawn.
    pub fn page(&self) -> Result<String, PageError> {
        Ok(html::page(&self.document, false)?)
    }

    /// Returns the report as Markdown that stands alone: tables in the place of pictures.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::markdown(&self.document, false)
    }

    /// Returns the report as plain text for a terminal, without pictures and long tables.
    #[must_use]
    pub fn text(&self) -> String {
        plain::text(&self.document)
    }

    /// Returns the answer of the report as plain text for a terminal.
    #[must_use]
    pub fn answer(&self) -> String {
        plain::answer(&self.document)
    }

    /// Returns all files of the report: the page, Markdown, all figures, and the pictures.
    ///
    /// # Errors
    /// Fails if a chart cannot be drawn or encoded.
    pub fn files(&self) -> Result<Vec<File>, PageError> {
        let file = |path: &str, text: String| File { path: path.into(), bytes: text.into_bytes() };
        let mut files = vec![
            file(PAGE_FILE, html::page(&self.document, true)?),
            file(MARKDOWN_FILE, markdown::markdown(&self.document, true)),
        ];
        files.extend(self.figures.clone().map(|figures| file(FIGURES_FILE, figures)));
        files.extend(pictures::files(&self.document)?);
        Ok(files)
    }
}

/// A file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path, relative to the directory of the report.
    pub path: PathBuf,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
}

/// The reason why a report cannot be made.
#[derive(Debug, Error, Classified)]
#[kind(Bug)]
pub enum PageError {
    /// The plan or the record of a run cannot be read.
    #[kind(source)]
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The record of the campaign has an invalid level or margin.
    #[kind(source)]
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A result file cannot be read.
    #[kind(source)]
    #[error(transparent)]
    Stats(#[from] FiguresError),
    /// The library could not draw a chart.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// A picture could not be made as PNG.
    #[error("the picture {picture} cannot be made as PNG: {reason}")]
    Png {
        /// Name of the picture.
        picture: String,
        /// Message of the library.
        reason: String,
    },
}

/// Returns a name as it is used in the addresses of parts of the page.
pub(crate) fn anchor(kind: &str, name: &str) -> String {
    let name: String = name
        .chars()
        .map(
            |letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' },
        )
        .collect();
    format!("{kind}-{name}")
}
