//! The byte stream under a session: a socket, or TLS over one.

use crate::socket::Socket;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// A plain or encrypted stream.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Stream {
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Goes on encrypted. Nothing that came before is taken for a part of it: the handshake reads exactly what it
    /// needs, so nothing is buffered here.
    pub(crate) fn start_tls(self, config: Arc<ServerConfig>) -> io::Result<Self> {
        let Self::Plain(mut socket) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    /// As [`Socket::set_deadline_after`].
    pub(crate) fn set_deadline_after(&mut self, after_ns: Option<u64>) {
        match self {
            Self::Plain(socket) => socket.set_deadline_after(after_ns),
            Self::Tls(stream) => stream.sock.set_deadline_after(after_ns),
        }
    }

    /// As [`Socket::set_receive_timeout`].
    pub(crate) fn set_receive_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        self.socket().set_receive_timeout(after)
    }

    /// As [`Socket::set_send_timeout`].
    pub(crate) fn set_send_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        self.socket().set_send_timeout(after)
    }

    /// As [`Socket::received_bytes`]: encrypted, more than what is read here.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.socket().received_bytes()
    }

    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Waits for bytes and reads what there is; 0 is the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Reads what there is; [`None`] if that is nothing, or cannot be told without waiting.
    pub(crate) fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => socket.receive_now(buffer),
            Self::Tls(_) => Ok(None),
        }
    }

    pub(crate) fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.read_exact(buffer),
            Self::Tls(stream) => stream.read_exact(buffer),
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    /// Tells the peer that nothing follows.
    pub(crate) fn close(mut self) {
        if let Self::Tls(stream) = &mut self {
            stream.conn.send_close_notify();
            // The peer may be gone already; then there is nobody to tell.
            let _ = stream.flush();
        }
    }
}
