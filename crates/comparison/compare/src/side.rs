//! One side of a comparison: result files, or a campaign.

use crate::{CompareError, Groups, Place, Repetition};
use gemelo_base::ShowPath as _;
use gemelo_figures::{Kind, read};
use gemelo_record::{Outcome, read_campaign, read_runs};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most result files of a side.
pub const MAX_FILES: usize = 1000;

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The runs. Those of result files have one place without names.
    pub groups: Groups,
    /// Names of the machines on which the side was measured.
    pub hosts: BTreeSet<String>,
    /// Remarks on runs that were left out.
    pub warnings: Vec<String>,
    /// `true` if the side is a campaign.
    pub is_campaign: bool,
}

impl Side {
    /// Reads a side: the directory of one campaign, or result files, each of which is a repetition
    /// or has several.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if a directory is given together with other files.
    pub fn read(paths: &[PathBuf]) -> Result<Self, CompareError> {
        match paths {
            [path] if path.is_dir() => Self::read_campaign(path),
            paths => Self::read_files(paths),
        }
    }

    fn read_files(paths: &[PathBuf]) -> Result<Self, CompareError> {
        if !(1..=MAX_FILES).contains(&paths.len()) {
            return Err(CompareError::Count { count: paths.len() });
        }
        let mut side = Self::empty(false);
        let mut number = 0;
        for path in paths {
            if path.is_dir() {
                return Err(CompareError::DirectoryAmongFiles { path: path.clone() });
            }
            let raw = read(path)?;
            if !raw.is_complete {
                side.warnings.push(format!(
                    "{} is the result of an incomplete run, and is compared all the same",
                    path.shown()
                ));
            }
            // Those of gemelo's own results were told when they were made.
            if raw.kind == Kind::Fio {
                side.warnings.extend(raw.warnings);
            }
            side.hosts.extend(raw.provenance.map(|provenance| provenance.host));
            let several =
                if raw.repetitions.is_empty() { vec![raw.figures] } else { raw.repetitions };
            for figures in several {
                number += 1;
                let repetition = Repetition { number, figures, measured_ns: None };
                side.groups.add(Place::default(), repetition);
            }
        }
        Ok(side)
    }

    fn read_campaign(directory: &Path) -> Result<Self, CompareError> {
        let campaign = read_campaign(directory)?;
        let runs = read_runs(directory, &campaign)?;
        let mut side = Self::empty(true);
        side.hosts.insert(campaign.provenance.host.clone());
        let left_out =
            campaign.runs.len() - runs.iter().filter(|run| run.outcome == Outcome::Done).count();
        if left_out > 0 {
            side.warnings.push(format!(
                "{}: {left_out} of {} planned runs are not complete, and are left out",
                directory.shown(),
                campaign.runs.len()
            ));
        }
        side.groups = Groups::of_runs(&runs);
        Ok(side)
    }

    fn empty(is_campaign: bool) -> Self {
        Self {
            groups: Groups::default(),
            hosts: BTreeSet::new(),
            warnings: Vec::new(),
            is_campaign,
        }
    }
}
