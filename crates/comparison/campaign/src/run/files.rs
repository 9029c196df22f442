//! The files of a campaign's directory: creating it, and writing its records.

use super::WARM_UP_DIRECTORY;
use crate::error::CampaignError;
use crate::journal::JOURNAL_FILE;
use crate::lock::LOCK_FILE;
use crate::plan::Plan;
use gemelo_record::{CAMPAIGN_FILE, CampaignRecord, RUNS_DIRECTORY, read_campaign};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the copy of the plan, with the parameters that were set.
const PLAN_FILE: &str = "plan.toml";

/// Name of the directory in which runs make their targets, unless the plan names another place.
pub(super) const WORK_DIRECTORY: &str = "work";

/// Name of the file that proves that the directory of a run was made by a run, and of which.
const RUN_MARK: &str = ".gemelo-run";

/// Creates the directory of a campaign, or finds it, and returns its absolute path.
pub(super) fn prepare(
    plan: &Plan,
    directory: &Path,
    resume: bool,
) -> Result<PathBuf, CampaignError> {
    let exists = directory.join(CAMPAIGN_FILE).exists();
    match (exists, resume) {
        (true, false) => return Err(CampaignError::Exists(directory.to_owned())),
        (false, true) => return Err(CampaignError::Absent(directory.to_owned())),
        (false, false) => refuse_files_of_others(plan, directory)?,
        (true, true) => {}
    }
    let runs = directory.join(RUNS_DIRECTORY);
    std::fs::create_dir_all(&runs)
        .map_err(|source| CampaignError::Directory { path: directory.to_owned(), source })?;
    directory.canonicalize().map_err(CampaignError::io("find", directory))
}

/// Refuses a directory that has something of another origin under a name of a campaign. Whatever a
/// start that was killed early leaves is accepted: empty files and directories, and the same plan.
fn refuse_files_of_others(plan: &Plan, directory: &Path) -> Result<(), CampaignError> {
    let is_taken = |name: &str| {
        let path = directory.join(name);
        let Ok(status) = path.symlink_metadata() else { return false };
        match name {
            WORK_DIRECTORY => plan.settings.work.is_none(),
            PLAN_FILE => std::fs::read(&path).ok().as_deref() != Some(plan.text.as_bytes()),
            RUNS_DIRECTORY | WARM_UP_DIRECTORY => {
                !status.is_dir() || std::fs::read_dir(&path).is_ok_and(|mut e| e.next().is_some())
            }
            _ => !status.is_file() || status.len() > 0,
        }
    };
    let names =
        [WORK_DIRECTORY, PLAN_FILE, RUNS_DIRECTORY, WARM_UP_DIRECTORY, JOURNAL_FILE, LOCK_FILE];
    let taken = names.into_iter().find(|name| is_taken(name));
    taken.map_or(Ok(()), |name| Err(CampaignError::Taken(directory.join(name))))
}

/// Makes the directory for the results of a run. That of an earlier attempt is replaced, if it has
/// the mark of the run.
pub(super) fn make_results(results: &Path, run: &str) -> Result<(), CampaignError> {
    let mark = results.join(RUN_MARK);
    let parent = results.parent().unwrap_or(results);
    std::fs::create_dir_all(parent).map_err(CampaignError::io("create", parent))?;
    if let Err(error) = std::fs::create_dir(results) {
        if error.kind() != std::io::ErrorKind::AlreadyExists {
            return Err(CampaignError::io("create", results)(error));
        }
        if std::fs::read(&mark).ok().as_deref() == Some(run.as_bytes()) {
            std::fs::remove_dir_all(results).map_err(CampaignError::io("remove", results))?;
        } else if std::fs::remove_dir(results).is_err() {
            return Err(CampaignError::Taken(results.to_owned()));
        }
        std::fs::create_dir(results).map_err(CampaignError::io("create", results))?;
    }
    // Nothing is put into the directory before, so one without the mark is empty.
    std::fs::write(&mark, run).map_err(CampaignError::io("write", mark))
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
    name.push(format!(".part-{:016x}", gemelo_base::random::fresh_word()));
    let part = path.with_file_name(name);
    let written = File::create_new(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, path).inspect_err(|_| {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&part);
        })
    });
    written.map_err(CampaignError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_replaced_only_if_a_run_made_them() {
        let place = tempfile::tempdir().unwrap();
        let results = place.path().join("runs/0001-a");
        make_results(&results, "0001-a").unwrap();
        std::fs::write(results.join("measure.out"), "").unwrap();
        make_results(&results, "0001-a").unwrap();
        assert!(!results.join("measure.out").exists());
        // A kill before the mark leaves an empty directory.
        std::fs::remove_file(results.join(RUN_MARK)).unwrap();
        make_results(&results, "0001-a").unwrap();
        for mark in [None, Some("0002-b")] {
            std::fs::remove_file(results.join(RUN_MARK)).unwrap();
            mark.iter().for_each(|mark| std::fs::write(results.join(RUN_MARK), mark).unwrap());
            std::fs::write(results.join("thesis"), "precious").unwrap();
            let error = make_results(&results, "0001-a").unwrap_err();
            assert!(matches!(error, CampaignError::Taken(_)), "{error}");
            assert!(results.join("thesis").exists());
            std::fs::write(results.join(RUN_MARK), "").unwrap();
        }
    }

    #[test]
    fn a_file_that_is_written_takes_no_file_of_a_similar_name() {
        let place = tempfile::tempdir().unwrap();
        let neighbour = place.path().join("plan.toml.part");
        std::fs::write(&neighbour, "precious").unwrap();
        write(&place.path().join("plan.toml"), b"new").unwrap();
        assert_eq!(std::fs::read(&neighbour).unwrap(), b"precious");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2);
    }
}
