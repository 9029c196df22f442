//! The lock of a campaign's directory: one process at a time runs or cleans it.

use crate::error::CampaignError;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// Name of the file that is locked.
const LOCK_FILE: &str = "lock";

/// The lock, which ends with the process at the latest.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a directory that exists.
    pub(crate) fn take(directory: &Path) -> Result<Self, CampaignError> {
        let path = directory.join(LOCK_FILE);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(CampaignError::io("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(CampaignError::Locked(directory.to_owned())),
            Err(error) => Err(CampaignError::io("lock", path)(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let lock = Lock::take(place.path()).unwrap();
        assert!(matches!(Lock::take(place.path()), Err(CampaignError::Locked(_))));
        drop(lock);
        Lock::take(place.path()).unwrap();
    }
}
