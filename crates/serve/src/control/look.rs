//! Figures of a pool that a command has for a while: others may look at it meanwhile, and change
//! nothing.
//!
//! The socket is another one than a server's: who wants to change something does not find it, and
//! waits until the command is done.

use super::frame::Frames;
use super::{LOOK_NAME, MOST_REQUEST_BYTES, Message, Place};
use crate::failure::Failure;
use crate::report::StatReport;
use crate::request::{Reply, Request};
use gemelo_base::StopFlag;
use gemelo_volume::VolumeError;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long somebody who asks may take to say what.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The figures of now; nothing if the pool is being closed.
type Figures = Box<dyn Fn() -> Option<Result<StatReport, VolumeError>> + Send>;

/// Answers who asks for figures, until it is dropped.
pub struct Looks {
    path: PathBuf,
    closing: StopFlag,
    /// Closed, it wakes the thread.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Looks {
    /// Opens the socket in the directory of a pool that this process has for itself: one that is
    /// there is a dead process's.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(crate) fn open(directory: &Path, figures: Figures) -> io::Result<Self> {
        let path = directory.join(LOOK_NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(Place::named(directory, LOOK_NAME)?.address)?;
        let closing = StopFlag::new();
        let (wake, woken) = UnixStream::pair()?;
        // From here on the socket is removed again.
        let mut looks = Self { path, closing: closing.clone(), wake: Some(wake), thread: None };
        std::fs::set_permissions(&looks.path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let thread = std::thread::Builder::new()
            .name("gemelo-look".into())
            .spawn(move || answer_until_closed(&listener, &woken, &figures, &closing))?;
        looks.thread = Some(thread);
        Ok(looks)
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = std::fs::remove_file(&self.path);
        self.closing.raise();
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported.
            let _ = thread.join();
        }
    }
}

fn answer_until_closed(
    listener: &UnixListener,
    woken: &UnixStream,
    figures: &Figures,
    closing: &StopFlag,
) {
    while !closing.is_raised() {
        let mut files = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if let Ok((stream, _)) = listener.accept() {
            // Somebody who goes away without hearing the answer did not need it.
            let _ = answer(stream, figures, closing);
        }
    }
}

fn answer(stream: UnixStream, figures: &Figures, closing: &StopFlag) -> io::Result<()> {
    let mut frames = Frames::new(stream)?;
    let within = Some(REQUEST_TIMEOUT);
    let Some(request) = frames.receive::<Request>(MOST_REQUEST_BYTES, closing, within)? else {
        return Ok(());
    };
    frames.send(&match (request, figures()) {
        (Request::Stat, Some(Ok(report))) => Message::Reply(Reply::Stat(Box::new(report))),
        (Request::Stat, Some(Err(error))) => Message::Failure(error.into()),
        _ => Message::Failure(Failure::refused(format!(
            "process {} has the pool: try again when it is done",
            std::process::id()
        ))),
    })
}
