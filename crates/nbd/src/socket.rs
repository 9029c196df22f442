//! A connected stream socket of either family, with deadlines for those phases in which a silent peer is not waited for.

use gemelo_base::{Clock, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A connected socket. Clones are the same socket.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    descriptor: Arc<OwnedFd>,
    clock: SystemClock,
    deadline_ns: Option<u64>,
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::new(stream.into())
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        // Replies are sent whole, so waiting for more to fill a segment only costs time. A socket that refuses is
        // slower and otherwise right.
        let _ = stream.set_nodelay(true);
        Self::new(stream.into())
    }
}

impl Socket {
    fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor: Arc::new(descriptor), clock: SystemClock::new(), deadline_ns: None }
    }

    /// From now on reads and writes fail with [`io::ErrorKind::TimedOut`] when this time has passed; [`None`] waits
    /// for ever.
    pub(crate) fn set_deadline_after(&mut self, after_ns: Option<u64>) {
        self.deadline_ns = after_ns.map(|after_ns| self.clock.now_ns().saturating_add(after_ns));
    }

    /// Receives what is there, waiting for something to be there; 0 is the end of the stream.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait_before_deadline(PollFlags::IN)?;
        Self::receive_with(self.descriptor.as_fd(), buffer, RecvFlags::empty())
    }

    /// Receives what is there; [`None`] if nothing is.
    pub(crate) fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match Self::receive_with(self.descriptor.as_fd(), buffer, RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    fn receive_with(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match recv(socket, &mut *buffer, flags) {
                Ok((received, _)) => return Ok(received),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends a part of the bytes, as many as fit now; [`None`] if none do.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self.send_with(bytes, SendFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    fn send_with(&self, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
        loop {
            match send(&self.descriptor, bytes, flags | SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(sent),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is something to receive or room to send; `false` if the deadline came first.
    pub(crate) fn wait_for_either(&self) -> io::Result<bool> {
        let left_ns = self.deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(self.clock.now_ns()));
        self.poll(PollFlags::IN | PollFlags::OUT, left_ns)
    }

    fn wait_before_deadline(&self, events: PollFlags) -> io::Result<()> {
        let Some(deadline_ns) = self.deadline_ns else { return Ok(()) };
        let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
        if left_ns > 0 && self.poll(events, Some(left_ns))? {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    fn poll(&self, events: PollFlags, timeout_ns: Option<u64>) -> io::Result<bool> {
        const SECOND_NS: u64 = 1_000_000_000;
        let timeout = timeout_ns
            .map(|ns| Timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as i64 });
        let mut waited_for = [PollFd::new(&self.descriptor, events)];
        loop {
            match poll(&mut waited_for, timeout.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends receiving: what has arrived can be read, then the stream ends. Wakes a thread that waits.
    pub(crate) fn end_receiving(&self) {
        // Fails only on a socket that the peer has closed, which is what is wanted.
        let _ = shutdown(&self.descriptor, Shutdown::Read);
    }

    /// Ends receiving and sending. Wakes threads that wait.
    pub(crate) fn end(&self) {
        // As above.
        let _ = shutdown(&self.descriptor, Shutdown::Both);
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.deadline_ns.is_none() {
            return self.send_with(bytes, SendFlags::empty());
        }
        loop {
            self.wait_before_deadline(PollFlags::OUT)?;
            if let Some(sent) = self.send_now(bytes)? {
                return Ok(sent);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
