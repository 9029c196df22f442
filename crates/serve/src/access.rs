//! A pool as a command has it: opened by this process, or asked for through the socket of the process that serves it.

use crate::control::{self, Asked, Looks};
use crate::failure::Failure;
use crate::open_pool::{OpenError, OpenPool};
use crate::remote::RemoteDevice;
use crate::request::{Reply, Request};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_device::BlockDevice;
use gemelo_volume::VolumeError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long to wait for a command that has the pool, or for a server that is not ready yet.
const WAIT_NS: u64 = 3_000_000_000;
const LOOK_NS: u64 = 20_000_000;

/// What a command does with a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It asks for figures, which every process tells that has the pool.
    Look,
    /// It reads volumes, or proves the pool.
    Read,
    /// It changes something.
    Change,
}

/// A pool that can be asked.
pub struct Access {
    directory: PathBuf,
    had: Had,
}

/// By whom the pool is had.
enum Had {
    /// By this process; others may look at it meanwhile.
    Here(Arc<OpenPool>, Option<Looks>),
    Elsewhere(Asked),
}

/// Tries to open a pool until that is done, fails for another reason than that somebody has it, or
/// is pointless. Commands that have it are waited for.
pub(crate) fn open_patiently<T>(
    stop: &StopFlag,
    mut open: impl FnMut() -> Result<T, OpenError>,
    is_pointless: impl Fn() -> bool,
) -> Result<T, OpenError> {
    let clock = SystemClock::new();
    loop {
        match open() {
            Err(OpenError::Pool(VolumeError::InUse { .. }))
                if !is_pointless() && !stop.is_raised() && clock.now_ns() <= WAIT_NS =>
            {
                clock.sleep_until_ns(clock.now_ns() + LOOK_NS);
            }
            other => return other,
        }
    }
}

/// Who tells figures of a pool that this process cannot have, or does what is asked.
fn who_answers(directory: &Path, purpose: Purpose) -> Option<Asked> {
    let answers = |asked: &Asked| control::is_answering(directory, *asked);
    let can_be_asked = |asked: &Asked| *asked == Asked::Server || purpose == Purpose::Look;
    [Asked::Server, Asked::Command].into_iter().filter(can_be_asked).find(answers)
}

impl Access {
    /// Opens the pool, or finds the process that has it and answers. Others that have it are waited
    /// for, 3 seconds at most.
    ///
    /// # Errors
    /// If there is no such pool, it cannot be opened, or who has it does not answer.
    pub fn open(
        directory: &Path,
        purpose: Purpose,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Self, Failure> {
        let directory = directory.to_owned();
        // A server that only reads lets others read, but knows more: its clients, its figures.
        if purpose != Purpose::Change && control::is_answering(&directory, Asked::Server) {
            return Ok(Self { directory, had: Had::Elsewhere(Asked::Server) });
        }
        let open = || OpenPool::open_as_set(&directory, purpose != Purpose::Change);
        let error = match open_patiently(stop, open, || who_answers(&directory, purpose).is_some())
        {
            Ok(pool) => {
                pool.damage().iter().for_each(|damage| monitor.warn(damage));
                return Ok(Self::here(directory, pool, purpose));
            }
            Err(error) => error,
        };
        match (error, who_answers(&directory, purpose)) {
            // What it was opened with is what counts, whatever the file says by now.
            (OpenError::Pool(VolumeError::InUse { .. }) | OpenError::Settings(_), Some(asked)) => {
                Ok(Self { directory, had: Had::Elsewhere(asked) })
            }
            (OpenError::Pool(error), _) => {
                Err(Failure::of_opening(&error).about(&directory.display().to_string()))
            }
            (OpenError::Settings(failure), None) => Err(failure),
        }
    }

    fn here(directory: PathBuf, pool: OpenPool, purpose: Purpose) -> Self {
        let pool = Arc::new(pool);
        let weak = Arc::downgrade(&pool);
        let figures = move || Some(weak.upgrade()?.stat_for_others());
        // Without a socket others wait. A pool that is only read can be read by them as well.
        let looks = (purpose == Purpose::Change)
            .then(|| Looks::open(&directory, Box::new(figures)).ok())
            .flatten();
        Self { directory, had: Had::Here(pool, looks) }
    }

    /// Whether another process serves it.
    #[must_use]
    pub fn is_served(&self) -> bool {
        matches!(self.had, Had::Elsewhere(_))
    }

    /// Does what is asked.
    ///
    /// # Errors
    /// If it is refused or fails.
    pub fn perform(
        &self,
        request: &Request,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Reply, Failure> {
        let about = |failure: Failure| failure.about(&self.directory.display().to_string());
        let answer = match &self.had {
            Had::Here(pool, _) => pool.perform(request, monitor, stop),
            Had::Elsewhere(asked) => control::ask(&self.directory, *asked, request, monitor, stop)
                .map_err(|error| {
                    Failure::of("the process that has the pool does not answer", &error)
                })
                .and_then(|answer| answer),
        };
        answer.map_err(about)
    }

    /// A volume to be read and written; for a served pool on a connection of its own.
    ///
    /// # Errors
    /// If there is none of this name, or the server does not answer.
    pub fn device(&self, name: &str) -> Result<Arc<dyn BlockDevice>, Failure> {
        let about = |failure: Failure| failure.about(&self.directory.display().to_string());
        match &self.had {
            Had::Here(pool, _) => pool.device(name).map_err(|error| about(error.into())),
            Had::Elsewhere(_) => {
                Ok(Arc::new(RemoteDevice::attach(&self.directory, name).map_err(about)?))
            }
        }
    }

    /// Closes the pool, if this process has it.
    ///
    /// # Errors
    /// If what is left to be written cannot be.
    pub fn close(self) -> Result<(), Failure> {
        let Had::Here(pool, looks) = self.had else { return Ok(()) };
        // Nobody looks any more: the pool is this command's alone.
        drop(looks);
        close(pool).map_err(|error| Failure::from(error).found_midway())
    }
}

/// Closes a pool, or, if somebody hangs who has it, leaves it so that opening it again is as quick.
pub(crate) fn close(pool: Arc<OpenPool>) -> Result<(), VolumeError> {
    match Arc::try_unwrap(pool) {
        Ok(pool) => pool.close(),
        Err(held) if held.is_read_only() => Ok(()),
        Err(held) => held.checkpoint(),
    }
}
