//! The client of the control socket.

use super::chunks::Chunks;
use super::frame::Frames;
use super::{ControlAddress, LOOK_NAME, MAX_REPLY_BYTES, Message, NAME};
use crate::failure::RequestFailure;
use crate::request::{PoolRequest, Reply};
use gemelo_base::{Monitor, Silent, StopFlag, Unit};
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

/// Bytes of a stream that are passed on at once.
const COPIED_AT_ONCE: usize = 256 << 10;

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
    let frames = begin(directory, &PoolRequest::Connect, (&Silent, &StopFlag::new()))?;
    frames.into_stream().map_err(|error| lost(&error))
}

/// Has the process that serves a pool send a snapshot, and writes the stream to `out`. The answers
/// of the receiver, if there are any, are passed to it.
pub(crate) fn send(
    directory: &Path,
    request: &PoolRequest,
    (out, answers): (&mut dyn Write, Option<Box<dyn Read + Send>>),
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Reply, RequestFailure> {
    let mut frames = begin(directory, request, (monitor, stop))?;
    if let Some(answers) = answers {
        let stream = frames.stream().try_clone().map_err(|error| lost(&error))?;
        pass_on(answers, stream, stop.clone()).map_err(|error| lost(&error))?;
    }
    let told = Mutex::new(None);
    let tell = |total: u64, done: u64| {
        let before = told.lock().replace((total, done));
        if before.is_none() {
            monitor.begin("Sending", Unit::Bytes, None);
        }
        let (total_before, done_before) = before.unwrap_or_default();
        if total != total_before {
            monitor.set_total(total);
        }
        monitor.advance(done.saturating_sub(done_before));
    };
    let chunks = Chunks::new(frames.stream(), stop).map_err(|error| lost(&error))?;
    let (mut chunks, mut buffer) = (chunks.telling(&tell), vec![0; COPIED_AT_ONCE]);
    loop {
        let count = chunks.read(&mut buffer).map_err(|error| lost(&error))?;
        if count == 0 {
            break;
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        // A receiver that is asked gets the question before the next bytes come.
        out.write_all(bytes)
            .and_then(|()| out.flush())
            .map_err(|error| RequestFailure::of("cannot write the stream", &error))?;
    }
    monitor.finish();
    await_reply(&mut frames, monitor, stop)
}

/// Passes answers to the process that serves the pool, in a thread that ends when the receiver
/// does, or at the first answer that nobody takes.
fn pass_on(
    mut answers: Box<dyn Read + Send>,
    stream: UnixStream,
    stop: StopFlag,
) -> io::Result<()> {
    let pass = move || {
        let Ok(mut chunks) = Chunks::new(&stream, &stop) else { return };
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = answers.read(&mut buffer) {
            if chunks.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
                return;
            }
        }
        // The server learns that nothing more comes.
        let _ = chunks.end();
    };
    let thread = std::thread::Builder::new().name("gemelo-answers".into());
    thread.spawn(pass).map_err(gemelo_base::threads::refused).map(drop)
}

/// Gives a stream to the process that serves a pool, which makes a snapshot of it. Its answers to
/// the sender go to `answers`.
///
/// The input is read by another thread: a sender waits for answers, and would wait for ever if this
/// one waited for the sender while the server goes away.
pub(crate) fn receive(
    directory: &Path,
    request: &PoolRequest,
    (input, answers): (Box<dyn Read + Send>, Option<&mut (dyn Write + Send)>),
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Reply, RequestFailure> {
    let mut frames = begin(directory, request, (monitor, stop))?;
    let stream = frames.stream().try_clone().map_err(|error| lost(&error))?;
    let failed = pass_to_server(input, stream, stop.clone()).map_err(|error| lost(&error))?;
    let told = answers.map_or(Ok(()), |answers| tell(frames.stream(), answers, stop));
    let reply = told.map_err(|error| lost(&error));
    let reply = reply.and_then(|()| await_reply(&mut frames, monitor, stop));
    match failed.try_recv() {
        _ if reply.is_ok() => reply,
        _ if stop.is_raised() => Err(RequestFailure::midway("stopped before the end")),
        Ok(failure) => Err(failure),
        Err(_) => reply,
    }
}

/// Passes the answers of the server on to the sender until the last one. A sender that is gone gets
/// none, and what it has sent ends there.
fn tell(stream: &UnixStream, answers: &mut dyn Write, stop: &StopFlag) -> io::Result<()> {
    let mut chunks = Chunks::new(stream, stop)?;
    let (mut buffer, mut is_heard) = ([0; 4096], true);
    loop {
        let count = chunks.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        is_heard = is_heard && answers.write_all(bytes).and_then(|()| answers.flush()).is_ok();
    }
}

/// Passes a stream to the server, in a thread that ends with it. Returns the place to which it
/// tells that the input failed, before it ends the connection.
fn pass_to_server(
    mut input: Box<dyn Read + Send>,
    stream: UnixStream,
    stop: StopFlag,
) -> io::Result<Receiver<RequestFailure>> {
    let (failed, failure) = channel();
    let pass = move || {
        let Ok(mut chunks) = Chunks::new(&stream, &stop) else { return };
        let mut buffer = vec![0; COPIED_AT_ONCE];
        loop {
            let count = match input.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let _ = failed.send(RequestFailure::of("cannot read the stream", &error));
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
                Ok(count) => count,
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            let sent = if count == 0 { chunks.end() } else { chunks.write_all(bytes) };
            // A server that refuses the stream says so, and takes no more of it.
            if count == 0 || sent.is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("gemelo-stream".into());
    thread.spawn(pass).map_err(gemelo_base::threads::refused)?;
    Ok(failure)
}

/// Sends a request whose reply is followed by something else on the same connection.
fn begin(
    directory: &Path,
    request: &PoolRequest,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Frames, RequestFailure> {
    let mut frames = connect(directory, HolderKind::Server).map_err(|error| lost(&error))?;
    converse(&mut frames, request, monitor, stop)?;
    Ok(frames)
}

fn lost(error: &io::Error) -> RequestFailure {
    RequestFailure::of("the process that serves the pool went away", error)
}

fn converse(
    frames: &mut Frames,
    request: &PoolRequest,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Reply, RequestFailure> {
    frames.send(request).map_err(|error| lost(&error))?;
    await_reply(frames, monitor, stop)
}

fn await_reply(
    frames: &mut Frames,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Reply, RequestFailure> {
    loop {
        match frames.receive(MAX_REPLY_BYTES, stop, None).map_err(|error| lost(&error))? {
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
