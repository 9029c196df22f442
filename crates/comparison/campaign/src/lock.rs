//! The lock of a campaign's directory: one process at a time runs or cleans it.

use crate::error::CampaignError;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Name of the file that is locked.
pub(crate) const LOCK_FILE: &str = "lock";

/// The lock, which ends with the process at the latest.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The time for which another holder is waited for: the child of a process that was killed has its
/// lock until it runs its own program.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes the lock of a directory that exists.
    pub(crate) fn take(directory: &Path) -> Result<Self, CampaignError> {
        Self::take_within(directory, PATIENCE)
    }

    fn take_within(directory: &Path, patience: Duration) -> Result<Self, CampaignError> {
        let path = directory.join(LOCK_FILE);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(CampaignError::io("open", &path))?;
        let mut left = patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if left.is_zero() => {
                    return Err(CampaignError::Locked(directory.to_owned()));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    gemelo_base::pause(PAUSE);
                    left = left.saturating_sub(PAUSE);
                }
                Err(error) => return Err(CampaignError::io("lock", path)(error.into())),
            }
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
        let second = Lock::take_within(place.path(), PAUSE);
        assert!(matches!(second, Err(CampaignError::Locked(_))));
        drop(lock);
        Lock::take_within(place.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_lock_that_is_held_for_a_moment_is_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let lock = Lock::take(place.path()).unwrap();
        let path = place.path().canonicalize().unwrap().join(LOCK_FILE);
        let dropped = std::thread::spawn(move || {
            gemelo_tools::wait_until("another one has opened the lock", || {
                let opened = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
                let targets = opened.filter_map(|entry| std::fs::read_link(entry.path()).ok());
                targets.filter(|target| *target == path).count() == 2
            });
            drop(lock);
        });
        Lock::take_within(place.path(), Duration::from_secs(60)).unwrap();
        dropped.join().unwrap();
    }
}
