//! Answering those who ask, a thread for each.

use super::frame::Frames;
use super::{MOST_REQUEST_BYTES, Message, NAME, Place};
use crate::failure::Failure;
use crate::open_pool::OpenPool;
use crate::request::{Reply, Request};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use gemelo_nbd::server::Server;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections at a time; further ones wait in the socket's queue.
const MOST_CONNECTIONS: usize = 32;
/// How often the socket looks whether it is to close.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a client may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How often progress is sent.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
const PROGRESS_EVERY_NS: u64 = 100_000_000;

/// What connections are answered from.
struct Shared {
    pool: Arc<OpenPool>,
    /// Has the connections that were attached.
    attached: Server,
    monitor: Arc<dyn Monitor>,
    closing: StopFlag,
}

/// A pool's control socket, until it is closed.
pub(crate) struct Control {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    path: PathBuf,
}

impl Control {
    /// Opens the socket of the pool that this process has: one that is there is a dead process's.
    pub(crate) fn open(
        directory: &Path,
        pool: Arc<OpenPool>,
        attached: Server,
        monitor: Arc<dyn Monitor>,
    ) -> io::Result<Self> {
        let path = directory.join(NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(Place::of(directory)?.address)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared { pool, attached, monitor, closing: StopFlag::new() });
        let answering = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("gemelo-control".into())
            .spawn(move || answering.accept_until_closing(&listener))?;
        Ok(Self { shared, thread, path })
    }

    /// Takes no more requests, stops those under way, and ends.
    pub(crate) fn close(self) {
        self.shared.closing.raise();
        // Who comes now finds nobody; an error means that somebody else has removed it.
        let _ = std::fs::remove_file(&self.path);
        // A panic in it has been reported.
        let _ = self.thread.join();
    }
}

impl Shared {
    fn accept_until_closing(self: &Arc<Self>, listener: &UnixListener) {
        let mut connections: Vec<JoinHandle<()>> = Vec::new();
        while !self.closing.is_raised() {
            connections.retain(|connection| !connection.is_finished());
            if connections.len() >= MOST_CONNECTIONS {
                std::thread::sleep(PROGRESS_EVERY);
                continue;
            }
            let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&LOOK));
            if !matches!(ready, Ok(count) if count > 0) {
                continue;
            }
            let Ok((stream, _)) = listener.accept() else { continue };
            let shared = Arc::clone(self);
            let answer = move || {
                // A client that goes away while it is answered is its own business.
                let _ = shared.answer(stream);
            };
            match std::thread::Builder::new().name("gemelo-control".into()).spawn(answer) {
                Ok(thread) => connections.push(thread),
                Err(error) => self.monitor.warn(&format!("a control connection gets no thread: {error}")),
            }
        }
        for connection in connections {
            // As above.
            let _ = connection.join();
        }
    }

    fn answer(&self, stream: UnixStream) -> io::Result<()> {
        let is_ours = is_of_our_user(&stream);
        let mut frames = Frames::new(stream)?;
        let within = Some(REQUEST_TIMEOUT);
        let Some(request) = frames.receive::<Request>(MOST_REQUEST_BYTES, &self.closing, within)? else {
            return Ok(());
        };
        if !is_ours {
            let failure = Failure::refused("the pool is served by another user");
            return frames.send(&Message::Failure(failure));
        }
        if request == Request::Attach {
            frames.send(&Message::Reply(Reply::Done))?;
            self.attached.adopt(frames.into_stream()?, "control socket");
            return Ok(());
        }
        let notes = Notes::new(frames.try_clone()?, self.closing.clone());
        let answer = self.pool.perform(&request, &notes, &notes.stop);
        frames.send(&match answer {
            Ok(reply) => Message::Reply(reply),
            Err(failure) => Message::Failure(failure),
        })
    }
}

/// Whether a peer has the rights of this process: the same user, or root.
fn is_of_our_user(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
}

/// Sends progress to a client. If it is gone, or the server is closing, the work is stopped.
struct Notes {
    /// With when progress was sent last, and how much was not.
    frames: Mutex<(Frames, u64, u64)>,
    clock: SystemClock,
    stop: StopFlag,
    closing: StopFlag,
}

impl Notes {
    fn new(frames: Frames, closing: StopFlag) -> Self {
        Self { frames: Mutex::new((frames, 0, 0)), clock: SystemClock::new(), stop: StopFlag::new(), closing }
    }

    fn send(&self, message: &Message) {
        let mut held = self.frames.lock();
        self.send_with(&mut held.0, message);
    }

    fn send_with(&self, frames: &mut Frames, message: &Message) {
        if self.closing.is_raised() || frames.send(message).is_err() {
            self.stop.raise();
        }
    }
}

impl Monitor for Notes {
    fn begin(&self, phase: &str, unit: Unit, total: Option<u64>) {
        self.send(&Message::Begin { phase: phase.to_owned(), unit: unit.into(), total });
    }

    fn set_total(&self, total: u64) {
        self.send(&Message::Total { total });
    }

    fn advance(&self, amount: u64) {
        let mut held = self.frames.lock();
        let (frames, sent_ns, unsent) = &mut *held;
        *unsent += amount;
        let now_ns = self.clock.now_ns();
        if now_ns >= *sent_ns + PROGRESS_EVERY_NS || self.closing.is_raised() {
            let amount = std::mem::take(unsent);
            *sent_ns = now_ns;
            self.send_with(frames, &Message::Advance { amount });
        }
    }

    fn warn(&self, message: &str) {
        self.send(&Message::Warn { message: message.to_owned() });
    }

    fn finish(&self) {
        self.send(&Message::Finish);
    }
}
