//! The client of the control socket.

use super::frame::Frames;
use super::{ControlAddress, LOOK_NAME, MAX_REPLY_BYTES, Message, NAME};
use crate::failure::RequestFailure;
use crate::request::{PoolRequest, Reply};
use gemelo_base::{Monitor, Silent, StopFlag};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The kind of process that has the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HolderKind {
    /// A process that serves the pool, and performs all requests.
    Server,
    /// A command that has the pool for a while, and only answers requests for figures.
    Command,
}

fn connect(directory: &Path, asked: HolderKind) -> io::Result<Frames> {
    let name = match asked {
        HolderKind::Server => NAME,
        HolderKind::Command => LOOK_NAME,
    };
    Frames::new(UnixStream::connect(ControlAddress::named(directory, name)?.address)?)
}

/// Returns whether such a process accepts connections.
pub(crate) fn is_answering(directory: &Path, asked: HolderKind) -> bool {
    connect(directory, asked).is_ok()
}

/// Sends a request and waits for the reply. The outer error says that there is no such process.
/// Progress goes to the monitor. Raising `stop` closes the connection, which stops the work.
pub(crate) fn ask(
    directory: &Path,
    asked: HolderKind,
    request: &PoolRequest,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> io::Result<Result<Reply, RequestFailure>> {
    let mut frames = connect(directory, asked)?;
    Ok(converse(&mut frames, request, monitor, stop))
}

/// Opens a connection to a front end of the process that serves a pool. It exports all volumes.
pub(crate) fn connect_front_end(directory: &Path) -> Result<UnixStream, RequestFailure> {
    let lost = |error: io::Error| {
        RequestFailure::of("the process that serves the pool does not answer", &error)
    };
    let mut frames = connect(directory, HolderKind::Server).map_err(lost)?;
    converse(&mut frames, &PoolRequest::Connect, &Silent, &StopFlag::new())?;
    frames.into_stream().map_err(lost)
}

fn converse(
    frames: &mut Frames,
    request: &PoolRequest,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Reply, RequestFailure> {
    let lost =
        |error: io::Error| RequestFailure::of("the process that serves the pool went away", &error);
    frames.send(request).map_err(lost)?;
    loop {
        match frames.receive(MAX_REPLY_BYTES, stop, None).map_err(lost)? {
            None => return Err(RequestFailure::midway("stopped before the end")),
            Some(Message::Begin { phase, unit, total }) => {
                monitor.begin(&phase, unit.into(), total);
            }
            Some(Message::Total { total }) => monitor.set_total(total),
            Some(Message::Advance { amount }) => monitor.advance(amount),
            Some(Message::Warn { message }) => monitor.warn(&message),
            Some(Message::Finish) => monitor.finish(),
            Some(Message::Reply(reply)) => return Ok(reply),
            Some(Message::Failure(failure)) => return Err(failure),
        }
    }
}
