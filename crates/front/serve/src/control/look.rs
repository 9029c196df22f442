//! The socket of a command that has a pool for a while. Other processes may ask it for figures.
//!
//! Its name differs from that of a server's socket. A process that wants to change the pool does
//! not find it, and waits until the command is done.

use super::frame::Frames;
use super::{ControlAddress, LOOK_NAME, MAX_REQUEST_BYTES, Message};
use crate::failure::RequestFailure;
use crate::report::StatReport;
use crate::request::{PoolRequest, Reply};
use gemelo_base::StopFlag;
use gemelo_device::{MadeSocket, remove_left_socket};
use gemelo_volume::VolumeError;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest time that a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause before the system is asked again for a connection that it has refused.
const PAUSE: Duration = Duration::from_millis(20);

/// Makes a report; returns [`None`] if the pool is being closed.
type MakeReport = Box<dyn Fn() -> Option<Result<StatReport, VolumeError>> + Send>;

/// Answers requests for figures until it is dropped.
pub struct LookServer {
    /// Removes the socket file when it is dropped.
    made: Option<MadeSocket>,
    closing: StopFlag,
    /// Closing it wakes the thread.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl LookServer {
    /// Opens the socket in the directory of a pool. This process has the pool alone, so a socket
    /// that is already there belongs to a dead process and is replaced.
    ///
    /// # Errors
    /// Fails if the directory cannot be written.
    pub(crate) fn open(directory: &Path, figures: MakeReport) -> io::Result<Self> {
        let path = directory.join(LOOK_NAME);
        remove_left_socket(&path)?;
        let listener = UnixListener::bind(ControlAddress::named(directory, LOOK_NAME)?.address)?;
        // From here on, an error removes the socket.
        let made = MadeSocket::at(&path)?;
        let closing = StopFlag::new();
        let (wake, woken) = UnixStream::pair()?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let told = closing.clone();
        let thread = std::thread::Builder::new()
            .name("gemelo-look".into())
            .spawn(move || answer_until_closed(&listener, &woken, &figures, &told))
            .map_err(gemelo_base::threads::refused)?;
        Ok(Self { made: Some(made), closing, wake: Some(wake), thread: Some(thread) })
    }
}

impl Drop for LookServer {
    fn drop(&mut self) {
        self.made = None;
        self.closing.raise();
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn answer_until_closed(
    listener: &UnixListener,
    woken: &UnixStream,
    figures: &MakeReport,
    closing: &StopFlag,
) {
    while !closing.is_raised() {
        let mut files = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        match listener.accept() {
            // An error means that the client has left before its answer.
            Ok((stream, _)) => drop(answer(stream, figures, closing)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Too many files are open, or the client has left again.
            Err(_) => gemelo_base::pause(PAUSE),
        }
    }
}

fn answer(stream: UnixStream, figures: &MakeReport, closing: &StopFlag) -> io::Result<()> {
    let mut frames = Frames::new(stream)?;
    let within = Some(REQUEST_TIMEOUT);
    let Some(request) = frames.receive::<PoolRequest>(MAX_REQUEST_BYTES, closing, within)? else {
        return Ok(());
    };
    frames.send(&match (request, figures()) {
        (PoolRequest::Stat, Some(Ok(report))) => Message::Reply(Reply::Stat(Box::new(report))),
        (PoolRequest::Stat, Some(Err(error))) => Message::Failure(error.into()),
        _ => Message::Failure(RequestFailure::refused(format!(
            "process {} has the pool: try again when it has ended",
            std::process::id()
        ))),
    })
}
