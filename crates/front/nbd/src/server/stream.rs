//! The byte stream of a session: a socket, or TLS over a socket.

use crate::socket::Socket;
use rustix::net::UCred;
use rustls::{ProtocolVersion, ServerConfig, ServerConnection, StreamOwned};
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

    /// Starts TLS. The handshake reads exactly the bytes that it needs, so no unencrypted bytes are
    /// buffered and used as encrypted ones.
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

    /// As [`Socket::received_bytes`]. An encrypted stream receives more bytes than are read from
    /// it.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.socket().received_bytes()
    }

    /// As [`Socket::peer_credentials`].
    pub(crate) fn peer_credentials(&self) -> Option<UCred> {
        self.socket().peer_credentials()
    }

    /// Returns the version of TLS, and [`None`] if the stream is not encrypted.
    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        let Self::Tls(stream) = self else { return None };
        Some(match stream.conn.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            _ => "TLS",
        })
    }

    /// Returns the socket of a stream that is not encrypted, for other threads to send on.
    pub(crate) fn plain_socket(&self) -> Option<Socket> {
        let Self::Plain(socket) = self else { return None };
        let mut socket = socket.clone();
        socket.set_deadline_after(None);
        Some(socket)
    }

    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Waits for bytes and reads those available; 0 means the end of the stream.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Reads available bytes without waiting. Returns [`None`] if there are none, or if the stream
    /// cannot tell without waiting.
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

    /// Tells the peer that the stream ends.
    pub(crate) fn close(&mut self) {
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
            // The peer may be gone already, so a failure does not matter.
            let _ = stream.flush();
        }
    }
}
