//! The server of the control socket, with a thread for each client.
//!
//! Clients that have sent no request have a limit of their own, so that silent clients cannot
//! exclude others.

use super::chunks::{ChunkProgress, Chunks};
use super::frame::Frames;
use super::notes::Notes;
use super::{ControlAddress, MAX_REQUEST_BYTES, Message, NAME};
use crate::failure::RequestFailure;
use crate::open_pool::OpenPool;
use crate::request::{CopiedReport, PoolRequest, Reply};
use gemelo_base::{Monitor, Silent, StopFlag};
use gemelo_device::{MadeSocket, Transfers, remove_left_socket};
use gemelo_format::DedupMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::Permissions;
use std::io::{self, BufReader, BufWriter, IntoInnerError, Read};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most clients at a time. Further clients wait in the socket's queue.
const MAX_CLIENTS: usize = 128;

/// Most files that the control socket has open at a time: the listener, and two descriptors of each
/// client's connection.
pub(crate) const MAX_OPEN_FILES: u64 = 1 + 2 * MAX_CLIENTS as u64;

/// Most clients at a time that have sent no request. A further client ends the oldest of them.
const MAX_SILENT: usize = 16;

/// Interval at which the server checks its stop flag.
const STOP_CHECKED_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Longest time that a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before the server checks again whether one of too many clients has left, or whether the
/// system accepts connections again.
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes of a stream that are gathered before they are passed on.
const STREAM_BUFFER_BYTES: usize = 256 << 10;

/// State that the threads of all clients share.
struct Shared {
    pool: Arc<OpenPool>,
    transfers: Option<Arc<dyn Transfers>>,
    monitor: Arc<dyn Monitor>,
    /// Ends the service.
    stop: StopFlag,
    closing: StopFlag,
}

/// The control socket of a pool, which answers requests until it is closed.
pub(crate) struct Control {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    /// Removes the socket file when it is dropped.
    made: MadeSocket,
}

impl Control {
    /// Opens the control socket of a pool. This process has the pool, so a socket that is already
    /// there belongs to a dead process and is replaced.
    ///
    /// The socket serves its own user and root only, whatever `--socket-mode` says: its requests
    /// remove volumes.
    pub(crate) fn open(
        directory: &Path,
        pool: Arc<OpenPool>,
        transfers: Option<Arc<dyn Transfers>>,
        (monitor, stop): (Arc<dyn Monitor>, StopFlag),
    ) -> io::Result<Self> {
        let path = directory.join(NAME);
        remove_left_socket(&path)?;
        let listener = UnixListener::bind(ControlAddress::of(directory)?.address)?;
        let made = MadeSocket::at(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared { pool, transfers, monitor, stop, closing: StopFlag::new() });
        let answering = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("gemelo-control".into())
            .spawn(move || answering.accept_until_closing(&listener))
            .map_err(gemelo_base::threads::refused)?;
        Ok(Self { shared, thread, made })
    }

    /// Accepts no more requests, stops those in progress, and closes the socket.
    pub(crate) fn close(self) {
        self.shared.closing.raise();
        // A client that comes now finds no socket.
        drop(self.made);
        // The panic hook has reported a panic of the thread.
        let _ = self.thread.join();
    }
}

/// The connection of a client of the control socket.
struct Client {
    thread: JoinHandle<()>,
    stream: UnixStream,
    /// Set once its request has arrived, or once it was ended.
    is_known: Arc<AtomicBool>,
}

impl Client {
    fn is_silent(&self) -> bool {
        !self.is_known.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        // An error means that the client has closed the connection already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn accept_until_closing(self: &Arc<Self>, listener: &UnixListener) {
        // In the order of their connections, the oldest first.
        let mut clients: VecDeque<Client> = VecDeque::new();
        while !self.closing.is_raised() {
            clients.retain(|client| !client.thread.is_finished());
            if clients.len() >= MAX_CLIENTS {
                gemelo_base::pause(PAUSE);
                continue;
            }
            let ready =
                poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&STOP_CHECKED_EVERY));
            if !matches!(ready, Ok(count) if count > 0) {
                continue;
            }
            let Ok((stream, _)) = listener.accept() else {
                // Too many files are open, or the client has left again.
                gemelo_base::pause(PAUSE);
                continue;
            };
            if clients.iter().filter(|client| client.is_silent()).count() >= MAX_SILENT
                && let Some(oldest) = clients.iter().find(|client| client.is_silent())
            {
                oldest.end();
            }
            match self.start(stream) {
                Ok(client) => clients.push_back(client),
                Err(error) => {
                    self.monitor.warn(&format!(
                        "cannot start a thread for a client of the control socket: {error}"
                    ));
                }
            }
        }
        for client in clients {
            // The panic hook has reported a panic of the thread.
            let _ = client.thread.join();
        }
    }

    /// Starts the thread of a client.
    fn start(self: &Arc<Self>, stream: UnixStream) -> io::Result<Client> {
        let is_known = Arc::new(AtomicBool::new(false));
        let kept = stream.try_clone()?;
        let (shared, asked) = (Arc::clone(self), Arc::clone(&is_known));
        let answer = move || {
            // An error means that the client has left before its answer.
            let _ = shared.answer(stream, &asked);
        };
        let thread = std::thread::Builder::new()
            .name("gemelo-control".into())
            .spawn(answer)
            .map_err(gemelo_base::threads::refused)?;
        Ok(Client { thread, stream: kept, is_known })
    }

    fn answer(&self, stream: UnixStream, asked: &AtomicBool) -> io::Result<()> {
        let is_ours = is_of_our_user(&stream);
        let mut frames = Frames::new(stream)?;
        let within = Some(REQUEST_TIMEOUT);
        let Some(request) =
            frames.receive::<PoolRequest>(MAX_REQUEST_BYTES, &self.closing, within)?
        else {
            return Ok(());
        };
        asked.store(true, Ordering::Relaxed);
        if !is_ours {
            let failure = RequestFailure::refused("the pool is served by another user");
            return frames.send(&Message::Failure(failure));
        }
        if request == PoolRequest::Connect {
            return self.connect(frames);
        }
        if request == PoolRequest::HandOver {
            let reply = frames.send(&Message::Reply(Reply::Done));
            self.stop.raise();
            return reply;
        }
        if let PoolRequest::Send { name, since, is_exchange, level, tells_progress } = &request {
            let wanted = (*is_exchange, *level, *tells_progress);
            return self.send(frames, (name, since.as_deref()), wanted);
        }
        if let PoolRequest::Receive { name, mode, is_exchange } = &request {
            return self.receive(frames, (name, *mode), *is_exchange);
        }
        let notes = Notes::new(frames, self.closing.clone());
        let answer = self.pool.perform(&request, &notes, notes.stop());
        let mut frames = notes.finish()?;
        frames.send(&match answer {
            Ok(reply) => Message::Reply(reply),
            Err(failure) => Message::Failure(failure),
        })
    }

    fn send(
        &self,
        mut frames: Frames,
        (name, since): (&str, Option<&str>),
        (is_exchange, level, tells_progress): (bool, Option<u8>, bool),
    ) -> io::Result<()> {
        let outgoing = match self.pool.outgoing(name, since) {
            Ok(outgoing) => outgoing,
            Err(failure) => return frames.send(&Message::Failure(failure)),
        };
        frames.send(&Message::Reply(Reply::Done))?;
        let chunks = Chunks::new(frames.stream(), &self.closing)?;
        let mut out = BufWriter::with_capacity(STREAM_BUFFER_BYTES, chunks);
        let mut answers = Chunks::new(frames.stream(), &self.closing)?;
        let answers = is_exchange.then_some(&mut answers as _);
        let beside = Chunks::new(frames.stream(), &self.closing)?;
        let progress = ChunkProgress::new(&beside);
        let monitor: &dyn Monitor = if tells_progress { &progress } else { &Silent };
        let sent = self.pool.send(&outgoing, (&mut out, answers), level, (monitor, &self.closing));
        out.into_inner().map_err(IntoInnerError::into_error)?.end()?;
        frames.set_timeouts()?;
        frames.send(&message_of(sent))
    }

    fn receive(
        &self,
        mut frames: Frames,
        (name, mode): (&str, DedupMode),
        is_exchange: bool,
    ) -> io::Result<()> {
        frames.send(&Message::Reply(Reply::Done))?;
        let chunks = Chunks::new(frames.stream(), &self.closing)?;
        let mut input = BufReader::with_capacity(STREAM_BUFFER_BYTES, chunks);
        let mut answers = Chunks::new(frames.stream(), &self.closing)?;
        let way_back = is_exchange.then_some(&mut answers as _);
        let streams: (&mut dyn Read, _) = (&mut input, way_back);
        let received = self.pool.receive(name, mode, streams, (&Silent, &self.closing));
        drop(input);
        if is_exchange {
            answers.end()?;
        }
        frames.set_timeouts()?;
        frames.send(&message_of(received))
    }

    /// Gives the connection to the front end that moves the data of volumes.
    fn connect(&self, mut frames: Frames) -> io::Result<()> {
        let Some(transfers) = &self.transfers else {
            let failure = RequestFailure::refused(
                "no front end of this server can move the data of volumes: stop the server first",
            );
            return frames.send(&Message::Failure(failure));
        };
        frames.send(&Message::Reply(Reply::Done))?;
        transfers.adopt(frames.into_stream()?, "control socket");
        Ok(())
    }
}

fn message_of(copied: Result<CopiedReport, RequestFailure>) -> Message {
    match copied {
        Ok(report) => Message::Reply(Reply::Copied(report)),
        Err(failure) => Message::Failure(failure),
    }
}

/// Returns whether the peer has the rights of this process: the same user, or root.
fn is_of_our_user(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
}
