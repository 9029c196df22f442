//! An encrypted stream that one thread reads from while others send on it.
//!
//! Copies share one connection of `rustls`, behind a lock. A thread that waits for the peer to send
//! does not hold it. A thread that sends does, so that records are not mixed.

use crate::socket::{Now, Socket, unless_blocked};
use rustls::{ProtocolVersion, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An encrypted stream.
#[derive(Clone)]
pub(crate) struct Records {
    connection: Arc<Mutex<ServerConnection>>,
    pub(super) socket: Socket,
}

/// Sends the records that are ready.
fn push(connection: &mut ServerConnection, socket: &mut Socket) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(socket)?;
    }
    Ok(())
}

impl Records {
    /// Makes the handshake of a server.
    pub(super) fn accept(mut socket: Socket, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        push(&mut connection, &mut socket)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), socket })
    }

    fn lock(connection: &Mutex<ServerConnection>) -> MutexGuard<'_, ServerConnection> {
        connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn version(&self) -> &'static str {
        match Self::lock(&self.connection).protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            _ => "TLS",
        }
    }

    /// The DNS names of the peer's certificate, which an authority has signed, in lower case.
    pub(super) fn peer_names(&self) -> Vec<String> {
        let connection = Self::lock(&self.connection);
        let certificate = connection.peer_certificates().and_then(|chain| chain.first());
        let read = certificate.and_then(|der| webpki::EndEntityCert::try_from(der).ok());
        let names = read.iter().flat_map(|certificate| certificate.valid_dns_names());
        names.map(str::to_ascii_lowercase).collect()
    }

    /// Waits for bytes and reads those available; 0 means the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(read) = self.read_now(buffer)? {
                return Ok(read);
            }
            self.socket.wait_for_bytes()?;
        }
    }

    /// Reads available bytes without waiting. Returns [`None`] if there are none.
    pub(super) fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut connection = Self::lock(&self.connection);
        loop {
            if let Some(read) = unless_blocked(connection.reader().read(buffer))? {
                return Ok(Some(read));
            }
            let received = connection.read_tls(&mut Now(&mut self.socket));
            if unless_blocked(received)?.is_none() {
                return Ok(None);
            }
            let processed = connection.process_new_packets();
            // An alert for the peer, or an answer of the protocol itself.
            let sent = push(&mut connection, &mut self.socket);
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            sent?;
        }
    }

    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let mut connection = Self::lock(&self.connection);
        while !bytes.is_empty() {
            let taken = connection.writer().write(bytes)?;
            assert!(taken <= bytes.len(), "no more is taken than there is");
            bytes = bytes.split_at(taken).1;
            push(&mut connection, &mut self.socket)?;
        }
        Ok(())
    }

    /// Tells the peer that the stream ends.
    pub(super) fn close(&mut self) {
        let mut connection = Self::lock(&self.connection);
        connection.send_close_notify();
        // The peer may be gone already, so a failure does not matter.
        let _ = push(&mut connection, &mut self.socket);
    }
}
