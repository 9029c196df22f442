//! The byte stream of a session: a socket, or TLS over a socket.

use super::records::Records;
use crate::socket::Socket;
use rustix::net::UCred;
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A plain or encrypted stream. One thread reads from it, and others may send by their own copies.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Records),
}

impl Stream {
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Starts TLS. The handshake reads exactly the bytes that it needs, so no unencrypted bytes are
    /// buffered and used as encrypted ones.
    pub(crate) fn start_tls(self, config: Arc<ServerConfig>) -> io::Result<Self> {
        let Self::Plain(socket) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        Ok(Self::Tls(Records::accept(socket, config)?))
    }

    /// Returns a copy for other threads to send by, without a deadline.
    pub(crate) fn to_send(&self) -> Self {
        let mut copy = match self {
            Self::Plain(socket) => Self::Plain(socket.clone()),
            Self::Tls(records) => Self::Tls(records.clone()),
        };
        copy.set_deadline_after(None);
        copy
    }

    /// As [`Socket::set_deadline_after`].
    pub(crate) fn set_deadline_after(&mut self, after_ns: Option<u64>) {
        match self {
            Self::Plain(socket) => socket.set_deadline_after(after_ns),
            Self::Tls(records) => records.socket.set_deadline_after(after_ns),
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
        let Self::Tls(records) = self else { return None };
        Some(records.version())
    }

    /// Returns the DNS names of the certificate that the client has shown, in lower case.
    pub(crate) fn peer_names(&self) -> Vec<String> {
        match self {
            Self::Plain(_) => Vec::new(),
            Self::Tls(records) => records.peer_names(),
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(records) => &records.socket,
        }
    }

    /// Waits for bytes and reads those available; 0 means the end of the stream.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(records) => records.read(buffer),
        }
    }

    /// Reads available bytes without waiting. Returns [`None`] if there are none.
    pub(crate) fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => socket.receive_now(buffer),
            Self::Tls(records) => records.read_now(buffer),
        }
    }

    /// Reads as many bytes as the buffer has.
    pub(crate) fn read_exact(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read(buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = buffer.split_at_mut(read).1;
        }
        Ok(())
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => io::Write::write_all(socket, bytes),
            Self::Tls(records) => records.write_all(bytes),
        }
    }

    /// Tells the peer that the stream ends.
    pub(crate) fn close(&mut self) {
        if let Self::Tls(records) = self {
            records.close();
        }
    }
}
