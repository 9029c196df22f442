//! One connection from its handshake to its end, and what is told of one that ends otherwise than by its client's wish.

use super::Shared;
use super::handshake::Handshake;
use super::stream::Stream;
use super::transmission::Transmission;
use crate::socket::Socket;
use crate::wire::WireError;
use gemelo_device::DeviceError;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why a session ended otherwise than by the client's wish.
#[derive(Debug, Error)]
pub(super) enum SessionError {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("unknown client flags {0:#x}")]
    ClientFlags(u32),
    #[error("too many options")]
    TooManyOptions,
    #[error("an option with {0} bytes of data")]
    OptionTooLong(u32),
    #[error("an export was asked for without encryption")]
    NotEncrypted,
    #[error("an export was asked for that does not exist")]
    NoSuchExport,
    #[error("turned away, there are too many connections")]
    TooManyClients,
    #[error("a write of {0} bytes")]
    WriteTooLong(u32),
    #[error("ended, it has sent a part of a request and then nothing for {} s", .0.as_secs_f32())]
    HalfSent(Duration),
    #[error("ended, it has taken nothing of its replies for {} s", .0.as_secs_f32())]
    NotTaken(Duration),
    #[error("ended, a long read failed after its first part was sent")]
    ReadFailed,
    #[error("what was written could not be flushed")]
    LastFlush(#[source] DeviceError),
}

/// The kinds of what is told of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Complaint {
    NotAccepted,
    TurnedAway,
    Displaced,
    NoThread,
    Ended(Discriminant<SessionError>),
}

/// A connection's place among all; it is free again when this is dropped, also by a panic.
pub(super) struct Seat {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.registry.leave(self.id);
    }
}

impl Seat {
    pub(super) fn new(shared: Arc<Shared>, id: u64) -> Self {
        Self { shared, id }
    }

    pub(super) fn serve(&self, socket: Socket, peer: &str) {
        let Err(error) = self.run(socket) else { return };
        let Shared { counters, complaints, monitor, .. } = &*self.shared;
        match &error {
            SessionError::TooManyClients => counters.count_turned_away(),
            _ => counters.count_broken(),
        }
        let is_of_the_day = matches!(&error, SessionError::Io(error) if matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ));
        if is_of_the_day {
            return;
        }
        let cause =
            std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let message = format!("{peer}: {error}{cause}");
        match &error {
            // A loss of data, and no client's fault.
            SessionError::LastFlush(_) => monitor.warn(&message),
            error => complaints.tell(Complaint::Ended(discriminant(error)), message),
        }
    }

    fn run(&self, socket: Socket) -> Result<(), SessionError> {
        let config = &self.shared.config;
        let mut stream = Stream::Plain(socket);
        let timeout_ns = u64::try_from(config.handshake_timeout.as_nanos()).unwrap_or(u64::MAX);
        stream.set_deadline_after(Some(timeout_ns));
        let enter = |export: &str| self.shared.registry.establish(self.id, export);
        let handshake = Handshake::new(stream, &*self.shared.exports, &config.tls, &enter);
        let (stream, chosen) = handshake.run()?;
        let Some(chosen) = chosen else {
            stream.close();
            return Ok(());
        };
        Transmission::new(stream, chosen, config, &self.shared.counters)?.run()
    }
}
