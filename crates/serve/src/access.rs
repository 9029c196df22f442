//! A pool as a command has it: opened by this process, or asked for through the socket of the process that serves it.

use crate::control;
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

/// Whether a command changes a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It only looks.
    Look,
    /// It changes something.
    Change,
}

/// A pool that can be asked.
pub struct Access {
    directory: PathBuf,
    open: Option<OpenPool>,
}

impl Access {
    /// Opens the pool, or finds the process that serves it. A short command that has it is waited for.
    ///
    /// # Errors
    /// If there is no such pool, it cannot be opened, or who has it does not serve it.
    pub fn open(
        directory: &Path,
        purpose: Purpose,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Self, Failure> {
        let about = |failure: Failure| failure.about(&directory.display().to_string());
        let clock = SystemClock::new();
        loop {
            match OpenPool::open_as_set(directory, purpose == Purpose::Look) {
                Ok(pool) => {
                    for damage in pool.damage() {
                        monitor.warn(&damage);
                    }
                    return Ok(Self { directory: directory.to_owned(), open: Some(pool) });
                }
                Err(OpenError::Pool(error @ VolumeError::InUse { .. })) => {
                    if control::is_answering(directory) {
                        return Ok(Self { directory: directory.to_owned(), open: None });
                    }
                    if stop.is_raised() || clock.now_ns() > WAIT_NS {
                        return Err(about(Failure::of_opening(&error)));
                    }
                    clock.sleep_until_ns(clock.now_ns() + LOOK_NS);
                }
                Err(OpenError::Pool(error)) => return Err(about(Failure::of_opening(&error))),
                Err(OpenError::Settings(failure)) => return Err(failure),
            }
        }
    }

    /// Whether another process serves it.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.open.is_none()
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
        let answer = match &self.open {
            Some(pool) => pool.perform(request, monitor, stop),
            None => control::ask(&self.directory, request, monitor, stop)
                .map_err(|error| Failure::of("the process that serves the pool does not answer", &error))
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
        match &self.open {
            Some(pool) => pool.device(name).map_err(|error| about(error.into())),
            None => Ok(Arc::new(RemoteDevice::attach(&self.directory, name).map_err(about)?)),
        }
    }

    /// Closes the pool, if this process has it.
    ///
    /// # Errors
    /// If what is left to be written cannot be.
    pub fn close(self) -> Result<(), Failure> {
        match self.open {
            Some(pool) => pool.close().map_err(|error| Failure { is_refusal: false, ..error.into() }),
            None => Ok(()),
        }
    }
}
