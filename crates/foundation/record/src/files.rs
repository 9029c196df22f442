//! The files of a campaign's directory: their names, and reading them.

use crate::result_file::SchemaOnly;
use crate::{CAMPAIGN_SCHEMA, CampaignRecord, RUN_SCHEMA, RunRecord};
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Name of the file that holds the plan of a campaign.
pub const CAMPAIGN_FILE: &str = "campaign.json";

/// Name of the file that holds the record of a run.
pub const RUN_FILE: &str = "run.json";

/// Name of the directory that holds a directory for each run.
pub const RUNS_DIRECTORY: &str = "runs";

/// The reason why the record of a campaign cannot be read.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum RecordError {
    /// The directory has no plan of a campaign.
    #[error("{} is not the directory of a campaign: it has no {CAMPAIGN_FILE}", .0.shown())]
    NoCampaign(PathBuf),
    /// Reading the file failed.
    #[error("cannot read {}", path.shown())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The text is not JSON, or its structure is not that of the schema.
    #[error("{} does not have the layout {expected}", path.shown())]
    Layout {
        /// Path of the file.
        path: PathBuf,
        /// Schema that the file should have.
        expected: &'static str,
        /// Error of the parser, with its line and column.
        source: serde_json::Error,
    },
    /// The file is of another kind or version.
    #[error("{} has schema '{found}', but '{expected}' is needed", path.shown())]
    Schema {
        /// Path of the file.
        path: PathBuf,
        /// Schema that the file names.
        found: String,
        /// Schema that is needed.
        expected: &'static str,
    },
}

/// Returns the directory of the run `id` in the campaign's directory.
#[must_use]
pub fn run_directory(campaign: &Path, id: &str) -> PathBuf {
    campaign.join(RUNS_DIRECTORY).join(id)
}

/// Reads the plan of the campaign in `directory`.
///
/// # Errors
/// Fails if `campaign.json` is missing, is not JSON, or has another schema.
pub fn read_campaign(directory: &Path) -> Result<CampaignRecord, RecordError> {
    let is_absent = |source: &io::Error| {
        matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    match read(directory.join(CAMPAIGN_FILE), CAMPAIGN_SCHEMA) {
        Err(RecordError::Read { source, .. }) if is_absent(&source) => {
            Err(RecordError::NoCampaign(directory.to_owned()))
        }
        outcome => outcome,
    }
}

/// Reads the record of the run `id`.
///
/// # Errors
/// Fails if `run.json` is missing, is not JSON, or has another schema.
pub fn read_run(campaign: &Path, id: &str) -> Result<RunRecord, RecordError> {
    read(run_directory(campaign, id).join(RUN_FILE), RUN_SCHEMA)
}

/// Reads the records of all planned runs that have one, in the order of the plan.
///
/// # Errors
/// Fails if a record exists and cannot be read.
pub fn read_runs(
    directory: &Path,
    campaign: &CampaignRecord,
) -> Result<Vec<RunRecord>, RecordError> {
    let mut records = Vec::with_capacity(campaign.runs.len());
    for run in &campaign.runs {
        match read_run(directory, &run.id) {
            Ok(record) => records.push(record),
            Err(RecordError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

fn read<T: DeserializeOwned>(path: PathBuf, expected: &'static str) -> Result<T, RecordError> {
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(RecordError::Read { path, source }),
    };
    let parsed = serde_json::from_str::<SchemaOnly>(&text);
    let SchemaOnly { schema: found } = match parsed {
        Ok(parsed) => parsed,
        Err(source) => return Err(RecordError::Layout { path, expected, source }),
    };
    if found != expected {
        return Err(RecordError::Schema { path, found, expected });
    }
    serde_json::from_str(&text).map_err(|source| RecordError::Layout { path, expected, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_kind_is_refused_by_its_schema() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CAMPAIGN_FILE), r#"{"schema": "gemelo.bench/1"}"#)
            .unwrap();
        let error = read_campaign(directory.path()).unwrap_err();
        assert!(
            matches!(error, RecordError::Schema { ref found, .. } if found == "gemelo.bench/1")
        );
    }

    #[test]
    fn a_missing_campaign_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let error = read_campaign(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("campaign.json"), "{error}");
    }
}
