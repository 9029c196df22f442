//! A connected unix or TCP socket, with deadlines for the phases in which a silent peer must not be
//! waited for.

use gemelo_base::{Clock, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, UCred, recv, send, shutdown, sockopt,
};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// TCP keep-alive: silence before the first probe, time between probes, and number of unanswered
/// probes that end the connection. A peer that lost power is thus noticed after two minutes.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
const KEEP_ALIVE_QUESTIONS: u32 = 4;

fn keep_alive(stream: &TcpStream) {
    // A system that lacks one of these options uses its own times, and notices later.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_EVERY);
    let _ = sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_QUESTIONS);
}

/// A connected socket. Clones share one socket.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    descriptor: Arc<OwnedFd>,
    clock: SystemClock,
    deadline_ns: Option<u64>,
    /// Bytes received through this clone.
    received_bytes: u64,
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::new(stream.into())
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        // Replies are sent whole, so waiting for more data to fill a segment only costs time. A
        // socket that refuses the option is slower but works.
        let _ = stream.set_nodelay(true);
        keep_alive(&stream);
        Self::new(stream.into())
    }
}

impl Socket {
    fn new(descriptor: OwnedFd) -> Self {
        let (clock, deadline_ns, received_bytes) = (SystemClock::new(), None, 0);
        Self { descriptor: Arc::new(descriptor), clock, deadline_ns, received_bytes }
    }

    /// Makes reads and writes fail with [`io::ErrorKind::TimedOut`] once this time has passed.
    /// [`None`] removes the deadline.
    pub(crate) fn set_deadline_after(&mut self, after_ns: Option<u64>) {
        self.deadline_ns = after_ns.map(|after_ns| self.clock.now_ns().saturating_add(after_ns));
    }

    /// Makes [`Self::receive`] fail with [`io::ErrorKind::WouldBlock`] when nothing has arrived for
    /// this time. The timeout applies to all clones.
    pub(crate) fn set_receive_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.descriptor, sockopt::Timeout::Recv, after)?)
    }

    /// Makes writes fail with [`io::ErrorKind::TimedOut`] when the peer has accepted nothing for
    /// this time. The timeout applies to all clones.
    pub(crate) fn set_send_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.descriptor, sockopt::Timeout::Send, after)?)
    }

    /// Returns the user and the process that connected a unix socket, and [`None`] for TCP.
    pub(crate) fn peer_credentials(&self) -> Option<UCred> {
        match sockopt::socket_domain(&self.descriptor) {
            Ok(AddressFamily::UNIX) => sockopt::socket_peercred(&self.descriptor).ok(),
            _ => None,
        }
    }

    /// Returns the number of bytes received through this clone.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Receives available bytes, and waits if there are none; 0 means the end of the stream.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait_before_deadline(PollFlags::IN)?;
        self.receive_with(buffer, RecvFlags::empty())
    }

    /// Waits until bytes have arrived or the stream has ended, as [`Self::receive`] does, and
    /// receives nothing.
    pub(crate) fn wait_for_bytes(&self) -> io::Result<()> {
        self.wait_before_deadline(PollFlags::IN)?;
        loop {
            match recv(&self.descriptor, &mut [0; 1], RecvFlags::PEEK) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives available bytes without waiting; [`None`] means that there are none.
    pub(crate) fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.receive_with(buffer, RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }

    fn receive_with(&mut self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match recv(&self.descriptor, &mut *buffer, flags) {
                Ok((received, _)) => {
                    self.received_bytes += received as u64;
                    return Ok(received);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends as many bytes as fit now, without waiting; [`None`] means that none do.
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

    /// Waits until bytes can be received or sent. Returns `false` if the deadline came first.
    pub(crate) fn wait_for_either(&self) -> io::Result<bool> {
        let left_ns =
            self.deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(self.clock.now_ns()));
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
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / SECOND_NS) as i64,
            tv_nsec: (ns % SECOND_NS) as i64,
        });
        let mut waited_for = [PollFd::new(&self.descriptor, events)];
        loop {
            match poll(&mut waited_for, timeout.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends receiving: bytes that have arrived can still be read, then the stream ends. A waiting
    /// thread wakes.
    pub(crate) fn end_receiving(&self) {
        // This fails only on a socket that the peer has closed, which has the same effect.
        let _ = shutdown(&self.descriptor, Shutdown::Read);
    }

    /// Ends receiving and sending. Waiting threads wake.
    pub(crate) fn end(&self) {
        // This fails only on a socket that the peer has closed, which has the same effect.
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
            return self.send_with(bytes, SendFlags::empty()).map_err(|error| match error.kind() {
                // The timeout of `set_send_timeout` has passed.
                io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
                _ => error,
            });
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

/// A socket in non-blocking use: an operation that would wait fails with `WouldBlock`.
pub(crate) struct Now<'a>(pub(crate) &'a mut Socket);

fn would_block<T>(moved: Option<T>) -> io::Result<T> {
    moved.ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

impl Read for Now<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        would_block(self.0.receive_now(buffer)?)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        would_block(self.0.send_now(bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns [`None`] for an operation that would have waited.
pub(crate) fn unless_blocked<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn accepted_tcp_connections_are_kept_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::from(listener.accept().unwrap().0);
        assert!(sockopt::socket_keepalive(&socket.descriptor).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket.descriptor).unwrap(), KEEP_ALIVE_AFTER);
        assert_eq!(sockopt::tcp_keepintvl(&socket.descriptor).unwrap(), KEEP_ALIVE_EVERY);
        assert_eq!(sockopt::tcp_keepcnt(&socket.descriptor).unwrap(), KEEP_ALIVE_QUESTIONS);
    }

    #[test]
    fn a_peer_that_sends_or_takes_nothing_is_told_apart_from_one_that_went() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut socket = Socket::from(one);
        socket.set_receive_timeout(Some(Duration::from_millis(10))).unwrap();
        socket.set_send_timeout(Some(Duration::from_millis(10))).unwrap();
        assert_eq!(socket.receive(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let error = socket.write_all(&vec![0; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
