//! Asking the process that serves a pool.

use super::frame::Frames;
use super::{LOOK_NAME, MOST_REPLY_BYTES, Message, NAME, Place};
use crate::failure::Failure;
use crate::request::{Reply, Request};
use gemelo_base::{Monitor, Silent, StopFlag};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The process that serves the pool.
    Server,
    /// A command that has the pool for a while: it tells figures, and nothing else.
    Command,
}

fn connect(directory: &Path, asked: Asked) -> io::Result<Frames> {
    let name = match asked {
        Asked::Server => NAME,
        Asked::Command => LOOK_NAME,
    };
    Frames::new(UnixStream::connect(Place::named(directory, name)?.address)?)
}

/// Whether a process answers for the pool.
pub(crate) fn is_answering(directory: &Path, asked: Asked) -> bool {
    connect(directory, asked).is_ok()
}

/// Asks; the outer error says that there is nobody to ask. Progress goes to the monitor; if `stop` is raised, the connection
/// ends, which stops the work.
pub(crate) fn ask(
    directory: &Path,
    asked: Asked,
    request: &Request,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> io::Result<Result<Reply, Failure>> {
    let mut frames = connect(directory, asked)?;
    Ok(converse(&mut frames, request, monitor, stop))
}

/// A connection to the NBD server of the process that serves a pool; it exports all volumes.
pub(crate) fn attach(directory: &Path) -> Result<UnixStream, Failure> {
    let lost =
        |error: io::Error| Failure::of("the process that serves the pool does not answer", &error);
    let mut frames = connect(directory, Asked::Server).map_err(lost)?;
    converse(&mut frames, &Request::Attach, &Silent, &StopFlag::new())?;
    frames.into_stream().map_err(lost)
}

fn converse(
    frames: &mut Frames,
    request: &Request,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Reply, Failure> {
    let lost = |error: io::Error| Failure::of("the process that serves the pool went away", &error);
    frames.send(request).map_err(lost)?;
    loop {
        match frames.receive(MOST_REPLY_BYTES, stop, None).map_err(lost)? {
            None => return Err(Failure::midway("stopped before the end")),
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
