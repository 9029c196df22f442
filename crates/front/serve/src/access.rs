//! A pool as commands use it: opened by this process, or asked for through the socket of the
//! process that has it.

use crate::control::{self, HolderKind, LookServer};
use crate::failure::RequestFailure;
use crate::open_pool::{OpenError, OpenPool};
use crate::request::{CopiedReport, PoolRequest, Reply};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_device::{BlockDevice, Connect, ConnectError};
use gemelo_format::DedupMode;
use gemelo_place::{PlaceError, PoolPlace, Use};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest time to wait for a command that has the pool, or for a server that is not ready yet.
const WAIT_NS: u64 = 3_000_000_000;

/// Interval between two attempts to open the pool.
const ATTEMPT_EVERY_NS: u64 = 20_000_000;

/// The use that a command makes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Asks for figures. Every process that has the pool answers.
    Look,
    /// Reads volumes, or checks the pool.
    Read,
    /// Sends or compares snapshots, with little memory.
    Send,
    /// Changes the pool or a volume.
    Change,
    /// Makes a volume of a stream, with little memory.
    Receive,
}

impl Purpose {
    /// Returns whether the pool is only read.
    pub(crate) const fn is_to_read(self) -> bool {
        matches!(self, Self::Look | Self::Read | Self::Send)
    }

    /// Returns whether the pool is opened for a copy alone.
    pub(crate) const fn is_copy(self) -> bool {
        matches!(self, Self::Send | Self::Receive)
    }
}

/// A pool that performs requests, in this process or in another.
pub struct PoolAccess {
    place: PoolPlace,
    /// The directory of this host in which the process that has the pool listens.
    directory: PathBuf,
    had: PoolHolder,
}

/// The process that has the pool.
enum PoolHolder {
    /// This process. Others may ask it for figures meanwhile.
    Here(Arc<OpenPool>, Option<LookServer>),
    Elsewhere(HolderKind),
}

/// Opens a pool. While another process has it, tries again for up to three seconds, because
/// commands have a pool only for a while. Gives up earlier if `is_pointless` says that the other
/// process answers requests.
pub(crate) fn open_patiently<T>(
    stop: &StopFlag,
    mut open: impl FnMut() -> Result<T, OpenError>,
    is_pointless: impl Fn() -> bool,
) -> Result<T, OpenError> {
    let clock = SystemClock::new();
    loop {
        match open() {
            Err(OpenError::Pool(error))
                if error.is_in_use()
                    && !is_pointless()
                    && !stop.is_raised()
                    && clock.now_ns() <= WAIT_NS =>
            {
                clock.sleep_until_ns(clock.now_ns() + ATTEMPT_EVERY_NS);
            }
            other => return other,
        }
    }
}

/// Returns the kind of process that has the pool and answers requests for this purpose.
fn who_answers(directory: &Path, purpose: Purpose) -> Option<HolderKind> {
    let answers = |asked: &HolderKind| control::is_answering(directory, *asked);
    let can_be_asked =
        |asked: &HolderKind| *asked == HolderKind::Server || purpose == Purpose::Look;
    [HolderKind::Server, HolderKind::Command].into_iter().filter(can_be_asked).find(answers)
}

impl PoolAccess {
    /// Opens the pool, or connects to the process that has it. Waits up to 3 seconds for a process
    /// that does not answer requests.
    ///
    /// # Errors
    /// Fails if there is no such pool, if it cannot be opened, or if the process that has it does
    /// not answer.
    pub fn open(
        place: &PoolPlace,
        purpose: Purpose,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Self, RequestFailure> {
        let failed = |error: &PlaceError| RequestFailure::of_place(error).about_place(place);
        let directory = place.host_directory().map_err(|error| failed(&error))?;
        // A pool that is served read-only could be opened here as well, but only the server knows
        // its clients and figures.
        if purpose.is_to_read() && control::is_answering(&directory, HolderKind::Server) {
            let (place, had) = (place.clone(), PoolHolder::Elsewhere(HolderKind::Server));
            return Ok(Self { place, directory, had });
        }
        let used = if purpose == Purpose::Look { Use::Look } else { Use::Hold };
        let open = || OpenPool::open_as_set(place, used, purpose);
        let error = match open_patiently(stop, open, || who_answers(&directory, purpose).is_some())
        {
            Ok(pool) => {
                let warn = |damage: &String| monitor.warn(&format!("{place}: {damage}"));
                pool.damage().iter().for_each(warn);
                return Ok(Self::here(place, directory, pool, purpose));
            }
            Err(error) => error,
        };
        match (error, who_answers(&directory, purpose)) {
            // The serving process has read its settings; the present file does not matter.
            (OpenError::Pool(error), _) if !error.is_in_use() => Err(failed(&error)),
            (OpenError::Pool(_) | OpenError::Settings(_), Some(asked)) => {
                let (place, had) = (place.clone(), PoolHolder::Elsewhere(asked));
                Ok(Self { place, directory, had })
            }
            (OpenError::Pool(error), None) => Err(failed(&error)),
            (OpenError::Settings(failure), None) => Err(failure),
        }
    }

    fn here(place: &PoolPlace, directory: PathBuf, pool: OpenPool, purpose: Purpose) -> Self {
        let pool = Arc::new(pool);
        let weak = Arc::downgrade(&pool);
        let figures = move || Some(weak.upgrade()?.stat_for_others());
        // Others can open a pool that is only read. Without a socket they wait for a change.
        let looks = (!purpose.is_to_read())
            .then(|| LookServer::open(&directory, Box::new(figures)).ok())
            .flatten();
        Self { place: place.clone(), directory, had: PoolHolder::Here(pool, looks) }
    }

    /// Returns whether another process has the pool and answers for it.
    #[must_use]
    pub fn is_served(&self) -> bool {
        matches!(self.had, PoolHolder::Elsewhere(_))
    }

    /// Performs a request.
    ///
    /// # Errors
    /// Fails if the request is refused or fails.
    pub fn perform(
        &self,
        request: &PoolRequest,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Reply, RequestFailure> {
        let about = |failure: RequestFailure| failure.about_place(&self.place);
        let answer = match &self.had {
            PoolHolder::Here(pool, _) => pool.perform(request, monitor, stop),
            PoolHolder::Elsewhere(asked) => {
                control::ask(&self.directory, *asked, request, monitor, stop)
                    .map_err(|error| {
                        RequestFailure::of("the process that has the pool does not answer", &error)
                    })
                    .and_then(|answer| answer)
            }
        };
        answer.map_err(about)
    }

    /// Sends a snapshot as a stream: all of it, or what differs from the snapshot `since`,
    /// compressed if there is a `level`. With `answers`, the way back from the receiver, without
    /// the contents that it has.
    ///
    /// # Errors
    /// Fails if there is no such snapshot, or if the pool or the output fails.
    pub fn send(
        &self,
        (name, since, level): (&str, Option<&str>, Option<u8>),
        out: &mut dyn Write,
        answers: Option<Box<dyn Read + Send>>,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<CopiedReport, RequestFailure> {
        let sent = match &self.had {
            PoolHolder::Here(pool, _) => pool.outgoing(name, since).and_then(|outgoing| {
                let mut answers = answers;
                let answers = answers.as_mut().map(|answers| &mut **answers as _);
                pool.send(&outgoing, (out, answers), level, (monitor, stop))
            }),
            PoolHolder::Elsewhere(_) => {
                let (name, since) = (name.to_owned(), since.map(str::to_owned));
                let is_exchange = answers.is_some();
                let tells_progress = true;
                let request = PoolRequest::Send { name, since, is_exchange, level, tells_progress };
                let copied_to = (out, answers);
                control::send(&self.directory, &request, copied_to, (monitor, stop))
                    .and_then(copied)
            }
        };
        sent.map_err(|failure| failure.about_place(&self.place))
    }

    /// Makes a snapshot of a stream. The pool is as it was if that fails. `answers` is the way back
    /// to the sender.
    ///
    /// # Errors
    /// Fails if the stream is refused, or if the pool fails.
    pub fn receive(
        &self,
        name: &str,
        mode: DedupMode,
        mut input: Box<dyn Read + Send>,
        answers: Option<&mut (dyn Write + Send)>,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<CopiedReport, RequestFailure> {
        let received = match &self.had {
            PoolHolder::Here(pool, _) => {
                pool.receive(name, mode, (&mut *input, answers), (monitor, stop))
            }
            PoolHolder::Elsewhere(_) => {
                let (name, is_exchange) = (name.to_owned(), answers.is_some());
                let request = PoolRequest::Receive { name, mode, is_exchange };
                let copied_from = (input, answers);
                control::receive(&self.directory, &request, copied_from, (monitor, stop))
                    .and_then(copied)
            }
        };
        received.map_err(|failure| failure.about_place(&self.place))
    }

    /// Opens a volume to read and write it. A volume of a served pool gets a connection of its own,
    /// over which `connect` opens it.
    ///
    /// # Errors
    /// Fails if there is no volume of this name, or if the server does not answer.
    pub fn device(
        &self,
        name: &str,
        connect: Connect,
    ) -> Result<Arc<dyn BlockDevice>, RequestFailure> {
        let about = |failure: RequestFailure| failure.about_place(&self.place);
        match &self.had {
            PoolHolder::Here(pool, _) => pool.device(name).map_err(|error| about(error.into())),
            PoolHolder::Elsewhere(_) => attach(&self.directory, name, connect).map_err(about),
        }
    }

    /// Returns the numbers of the blocks of the data store that were found damaged, if this process
    /// has the pool only to read it and could not mark them. There are at most 1000.
    #[must_use]
    pub fn unmarked_damage(&self) -> Vec<u64> {
        match &self.had {
            PoolHolder::Here(pool, _) if pool.is_read_only() => {
                let blocks: BTreeSet<u64> =
                    pool.damaged_blocks().into_iter().map(|block| block.pbn).collect();
                blocks.into_iter().collect()
            }
            PoolHolder::Here(..) | PoolHolder::Elsewhere(_) => Vec::new(),
        }
    }

    /// Closes the pool, if this process has it.
    ///
    /// # Errors
    /// Fails if the last changes cannot be written.
    pub fn close(self) -> Result<(), RequestFailure> {
        let PoolHolder::Here(pool, looks) = self.had else { return Ok(()) };
        // The socket holds a reference to the pool, which only its last holder can close.
        drop(looks);
        close(pool).map_err(|error| RequestFailure::from(error).found_midway())
    }
}

fn copied(reply: Reply) -> Result<CopiedReport, RequestFailure> {
    match reply {
        Reply::Copied(report) => Ok(report),
        _ => Err(RequestFailure::midway(
            "the process that serves the pool is of another version of gemelo: restart it",
        )),
    }
}

/// Opens a volume of a pool that another process serves.
fn attach(
    directory: &Path,
    name: &str,
    connect: Connect,
) -> Result<Arc<dyn BlockDevice>, RequestFailure> {
    let stream = control::connect_front_end(directory)?;
    connect(stream, name).map_err(|error| match error {
        ConnectError::NoSuchExport => {
            RequestFailure::refused(format!("there is no volume '{name}'"))
        }
        ConnectError::Failed(error) => {
            RequestFailure::of("the process that serves the pool refuses the volume", &*error)
        }
    })
}

/// Closes a pool. If a thread that hangs still has a reference to it, writes a checkpoint instead,
/// so that the next opening is as quick.
pub(crate) fn close(pool: Arc<OpenPool>) -> Result<(), PlaceError> {
    match Arc::try_unwrap(pool) {
        Ok(pool) => pool.close(),
        Err(held) if held.is_read_only() => Ok(()),
        Err(held) => Ok(held.checkpoint()?),
    }
}
