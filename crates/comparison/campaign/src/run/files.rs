//! The files of a campaign's directory: creating it, and writing its records.

use crate::error::CampaignError;
use crate::plan::Plan;
use gemelo_record::{CAMPAIGN_FILE, CampaignRecord, RUNS_DIRECTORY, read_campaign};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the copy of the plan, with the parameters that were set.
const PLAN_FILE: &str = "plan.toml";

/// Creates the directory of a campaign, or finds it, and returns its absolute path.
pub(super) fn prepare(directory: &Path, resume: bool) -> Result<PathBuf, CampaignError> {
    let exists = directory.join(CAMPAIGN_FILE).exists();
    match (exists, resume) {
        (true, false) => return Err(CampaignError::Exists(directory.to_owned())),
        (false, true) => return Err(CampaignError::Absent(directory.to_owned())),
        _ => {}
    }
    let runs = directory.join(RUNS_DIRECTORY);
    std::fs::create_dir_all(&runs)
        .map_err(|source| CampaignError::Directory { path: directory.to_owned(), source })?;
    directory.canonicalize().map_err(CampaignError::io("find", directory))
}

/// Writes the record of a new campaign, or reads that of one that goes on.
pub(super) fn record(
    plan: &Plan,
    directory: &Path,
    resume: bool,
    fresh: impl FnOnce() -> CampaignRecord,
) -> Result<CampaignRecord, CampaignError> {
    if resume {
        let record = read_campaign(directory)?;
        if record.plan_text != plan.text {
            return Err(CampaignError::OtherPlan(directory.to_owned()));
        }
        return Ok(record);
    }
    let record = fresh();
    write(&directory.join(PLAN_FILE), plan.text.as_bytes())?;
    write_json(&directory.join(CAMPAIGN_FILE), &record)?;
    Ok(record)
}

/// Writes a record as JSON.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CampaignError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| CampaignError::io("write", path)(error.into()))?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// Writes a file so that it is complete or absent after a crash.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CampaignError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&part, path)).map_err(CampaignError::io("write", path))
}
