//! Answering clients, a thread for each. Clients that have asked nothing yet are limited apart from the others, so that
//! silent ones hold up nobody.

use super::frame::Frames;
use super::notes::Notes;
use super::{MOST_REQUEST_BYTES, Message, NAME, Place};
use crate::failure::Failure;
use crate::open_pool::OpenPool;
use crate::request::{Reply, Request};
use gemelo_base::{Monitor, StopFlag};
use gemelo_nbd::server::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::Permissions;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Requests at a time; further clients wait in the socket's queue.
const MOST_REQUESTS: usize = 128;
/// Clients at a time that have not asked anything; of more, the oldest is ended.
const MOST_SILENT: usize = 16;
/// How often the socket looks whether it is to close.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a client may take to say what it wants.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the server looks whether one of too many clients has gone.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(20);

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

/// A client that is connected.
struct Client {
    thread: JoinHandle<()>,
    stream: UnixStream,
    /// Its request has arrived, or it was ended.
    is_known: Arc<AtomicBool>,
}

impl Client {
    fn is_silent(&self) -> bool {
        !self.is_known.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        // It may have gone by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn accept_until_closing(self: &Arc<Self>, listener: &UnixListener) {
        // The oldest first.
        let mut clients: VecDeque<Client> = VecDeque::new();
        while !self.closing.is_raised() {
            clients.retain(|client| !client.thread.is_finished());
            if clients.len() >= MOST_REQUESTS {
                std::thread::sleep(LOOK_FOR_ROOM);
                continue;
            }
            let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&LOOK));
            if !matches!(ready, Ok(count) if count > 0) {
                continue;
            }
            let Ok((stream, _)) = listener.accept() else {
                // Too many open files, or a client that has gone again.
                std::thread::sleep(LOOK_FOR_ROOM);
                continue;
            };
            if clients.iter().filter(|client| client.is_silent()).count() >= MOST_SILENT
                && let Some(oldest) = clients.iter().find(|client| client.is_silent())
            {
                oldest.end();
            }
            match self.start(stream) {
                Ok(client) => clients.push_back(client),
                Err(error) => {
                    self.monitor.warn(&format!("a control connection gets no thread: {error}"));
                }
            }
        }
        for client in clients {
            // A panic in it has been reported.
            let _ = client.thread.join();
        }
    }

    /// Gives a client its thread.
    fn start(self: &Arc<Self>, stream: UnixStream) -> io::Result<Client> {
        let is_known = Arc::new(AtomicBool::new(false));
        let kept = stream.try_clone()?;
        let (shared, asked) = (Arc::clone(self), Arc::clone(&is_known));
        let answer = move || {
            // A client that goes away while it is answered is its own business.
            let _ = shared.answer(stream, &asked);
        };
        let thread = std::thread::Builder::new().name("gemelo-control".into()).spawn(answer)?;
        Ok(Client { thread, stream: kept, is_known })
    }

    fn answer(&self, stream: UnixStream, asked: &AtomicBool) -> io::Result<()> {
        let is_ours = is_of_our_user(&stream);
        let mut frames = Frames::new(stream)?;
        let within = Some(REQUEST_TIMEOUT);
        let Some(request) = frames.receive::<Request>(MOST_REQUEST_BYTES, &self.closing, within)?
        else {
            return Ok(());
        };
        asked.store(true, Ordering::Relaxed);
        if !is_ours {
            let failure = Failure::refused("the pool is served by another user");
            return frames.send(&Message::Failure(failure));
        }
        if request == Request::Attach {
            frames.send(&Message::Reply(Reply::Done))?;
            self.attached.adopt(frames.into_stream()?, "control socket");
            return Ok(());
        }
        let notes = Notes::new(frames, self.closing.clone());
        let answer = self.pool.perform(&request, &notes, notes.stop());
        let mut frames = notes.finish()?;
        frames.send(&match answer {
            Ok(reply) => Message::Reply(reply),
            Err(failure) => Message::Failure(failure),
        })
    }
}

/// Whether a peer has the rights of this process: the same user, or root.
fn is_of_our_user(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
}
