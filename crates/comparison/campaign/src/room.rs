//! The free space that the runs of a campaign need.

use crate::error::CampaignError;
use crate::plan::Plan;
use crate::schedule::Pair;
use crate::selection::Selection;
use gemelo_record::{Outcome, RunRecord};
use std::path::{Path, PathBuf};

/// The text of the error of a full disk (strerror(3)), which all programs print.
const NO_SPACE: &str = "No space left on device";

/// The directory in which runs make their targets, and the space that one of them needs.
#[derive(Debug)]
pub(crate) struct Room {
    path: PathBuf,
    needed_bytes: Option<u64>,
}

impl Room {
    /// Returns the room that a plan needs for a campaign in this directory, which need not exist.
    pub(crate) fn of(plan: &Plan, selection: &Selection, directory: &Path) -> Self {
        let path = plan.settings.work.clone().unwrap_or_else(|| directory.to_owned());
        Self { path, needed_bytes: needed_bytes(plan, selection) }
    }

    /// Checks that a run has room.
    ///
    /// # Errors
    /// Fails if less is free than the largest target needs.
    pub(crate) fn check(&self) -> Result<(), CampaignError> {
        let Some((needed_bytes, free_bytes)) = self.needed_bytes.zip(free_bytes(&self.path)) else {
            return Ok(());
        };
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(CampaignError::NoRoom { path: self.path.clone(), needed_bytes, free_bytes })
    }

    /// Checks that a run did not fail for lack of space, as all further runs would.
    ///
    /// # Errors
    /// Fails if the run did.
    pub(crate) fn check_after(&self, run: &RunRecord) -> Result<(), CampaignError> {
        match &run.outcome {
            Outcome::Failed { reason } if reason.contains(NO_SPACE) => {
                Err(CampaignError::Full { run: run.id.clone(), reason: reason.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the most space that a run needs at a time: the limit of its target, or the data of the
/// load on a target without a limit. If that is unknown of a pair, the plan may state it.
pub(crate) fn needed_bytes(plan: &Plan, selection: &Selection) -> Option<u64> {
    let of_pair = |pair: &Pair| {
        let target = plan.targets.get(pair.target)?;
        let data_bytes = || plan.workloads.get(pair.workload)?.data_bytes;
        target.target.space_bytes().or_else(data_bytes)
    };
    let known: Vec<Option<u64>> = selection.pairs.iter().map(of_pair).collect();
    let stated = plan.settings.space_bytes.filter(|_| known.contains(&None));
    known.into_iter().flatten().chain(stated).max()
}

/// Returns the free space of the file system below a directory or its next parent that exists.
fn free_bytes(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|parent| parent.exists())?;
    let file_system = rustix::fs::statvfs(there).ok()?;
    // A file system without blocks, such as /proc, does not tell.
    let tells = file_system.f_blocks > 0;
    tells.then(|| file_system.f_bavail.saturating_mul(file_system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CampaignError;
    use gemelo_base::{Classified, FailureKind};

    fn plan(space: &str) -> Plan {
        let text = format!(
            "[campaign]\nname = 'x'\n{space}\n[[target]]\nname = 't'\ndirectory = {{}}\n\
             [[target]]\nname = 'v'\nvolume = {{ size = '64m', capacity = '80m' }}\n\
             [[workload]]\nname = 'w'\nbench = {{ file-size = '100m', processes = 2, time = '1s' }}\n"
        );
        Plan::read(&text, Path::new("."), &[]).unwrap()
    }

    #[test]
    fn a_plan_that_does_not_fit_is_refused_before_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let room = |text: &str| {
            let plan = plan(text);
            Room::of(&plan, &Selection::of(&plan), &directory.path().join("not-yet"))
        };
        assert_eq!(room("").needed_bytes, Some(200 << 20), "the data of the load");
        assert_eq!(room("space = '1000t'").needed_bytes, Some(200 << 20), "all is known");
        let large = Room { needed_bytes: Some(1 << 60), ..room("") };
        let error = large.check().unwrap_err();
        assert_eq!(error.kind(), FailureKind::Exhausted);
        assert!(matches!(error, CampaignError::NoRoom { .. }), "{error}");
    }
}
