//! The byte stream of a connection: a socket, or TLS over a socket. It can send and receive without
//! waiting.

use crate::socket::{Now, Socket, unless_blocked};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// A plain or encrypted connection.
#[derive(Debug)]
pub(super) enum Channel {
    Plain(Socket),
    Tls(Box<Tls>),
}

#[derive(Debug)]
pub(super) struct Tls {
    socket: Socket,
    connection: ClientConnection,
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Channel {
    fn socket_mut(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &mut tls.socket,
        }
    }

    /// As [`Socket::set_deadline_after`].
    pub(super) fn set_deadline_after(&mut self, after_ns: Option<u64>) {
        self.socket_mut().set_deadline_after(after_ns);
    }

    /// Starts TLS and verifies the server's certificate. The handshake reads exactly the bytes that
    /// it needs, so unencrypted bytes are never used as encrypted ones.
    pub(super) fn start_tls(
        &mut self,
        config: Arc<ClientConfig>,
        server: ServerName<'static>,
    ) -> io::Result<()> {
        let mut socket = self.socket_mut().clone();
        let mut connection = ClientConnection::new(config, server).map_err(broken)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        *self = Self::Tls(Box::new(Tls { socket, connection }));
        Ok(())
    }

    /// Accepts a part of the bytes to be sent, and returns its length; [`None`] means that there is
    /// no room now. The accepted bytes are sent when [`Channel::push_now`] returns `true`.
    pub(super) fn send_now(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => socket.send_now(bytes),
            Self::Tls(tls) => {
                if !tls.push_now()? {
                    return Ok(None);
                }
                let taken = tls.connection.writer().write(bytes)?;
                tls.push_now()?;
                Ok(Some(taken))
            }
        }
    }

    /// Sends as many of the accepted bytes as fit now. Returns whether all were sent.
    pub(super) fn push_now(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(tls) => tls.push_now(),
        }
    }

    /// Receives available bytes, and waits if there are none; 0 means the end of the stream.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.receive(buffer),
            Self::Tls(tls) => loop {
                if let Some(received) = unless_blocked(tls.connection.reader().read(buffer))? {
                    return Ok(received);
                }
                tls.connection.read_tls(&mut tls.socket)?;
                tls.connection.process_new_packets().map_err(broken)?;
            },
        }
    }

    /// Receives available bytes without waiting; [`None`] means that there are none.
    pub(super) fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(socket) => socket.receive_now(buffer),
            Self::Tls(tls) => loop {
                if let Some(received) = unless_blocked(tls.connection.reader().read(buffer))? {
                    return Ok(Some(received));
                }
                if unless_blocked(tls.connection.read_tls(&mut Now(&mut tls.socket)))?.is_none() {
                    return Ok(None);
                }
                tls.connection.process_new_packets().map_err(broken)?;
            },
        }
    }

    /// Waits until bytes can be received or sent. Returns `false` if the deadline came first.
    pub(super) fn wait_for_either(&mut self) -> io::Result<bool> {
        if let Self::Tls(tls) = self {
            let state = tls.connection.process_new_packets().map_err(broken)?;
            if state.plaintext_bytes_to_read() > 0 {
                return Ok(true);
            }
        }
        self.socket_mut().wait_for_either()
    }

    /// Tells the server that the stream ends, if that needs no waiting.
    pub(super) fn close(&mut self) {
        if let Self::Tls(tls) = self {
            tls.connection.send_close_notify();
            // The server may be gone already, so a failure does not matter.
            let _ = tls.push_now();
        }
    }
}

impl Tls {
    fn push_now(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            if unless_blocked(self.connection.write_tls(&mut Now(&mut self.socket)))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer)
    }
}

/// Waits for room. Only the handshake writes in this way.
impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => {
                let taken = tls.connection.writer().write(bytes)?;
                while tls.connection.wants_write() {
                    tls.connection.write_tls(&mut tls.socket)?;
                }
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
