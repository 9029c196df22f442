//! A connection from its handshake to its end. It reports sessions that do not end at the client's
//! wish.

use super::Shared;
use super::handshake::{Handshake, LONGEST_SKIPPED_BYTES, MOST_OPTIONS};
use super::stream::Stream;
use super::transmission::{LONGEST_DROPPED_BYTES, Transmission};
use crate::socket::Socket;
use crate::wire::WireError;
use gemelo_device::DeviceError;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The reason why a session ended against the client's wish.
#[derive(Debug, Error)]
pub(super) enum SessionError {
    #[error("connection lost")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("disconnected: it sent unknown client flags {0:#x}")]
    ClientFlags(u32),
    #[error("disconnected: it sent more than {MOST_OPTIONS} options in its handshake")]
    TooManyOptions,
    #[error(
        "disconnected: it sent an option with {0} bytes of data, more than the limit of \
         {LONGEST_SKIPPED_BYTES}"
    )]
    OptionTooLong(u32),
    #[error("disconnected: it selected an export without encryption, which this server requires")]
    NotEncrypted,
    #[error("disconnected: it selected an export that does not exist")]
    NoSuchExport,
    #[error("refused, because there are too many connections")]
    TooManyClients,
    #[error(
        "disconnected: it sent a write of {0} bytes, more than the limit of {LONGEST_DROPPED_BYTES}"
    )]
    WriteTooLong(u32),
    #[error(
        "disconnected: it sent a part of a request and then nothing for {} s",
        .0.as_secs_f32()
    )]
    HalfSent(Duration),
    #[error("disconnected: it accepted nothing of its replies for {} s", .0.as_secs_f32())]
    NotTaken(Duration),
    #[error("disconnected: a long read failed after its first part was sent")]
    ReadFailed,
    #[error("data is lost: the last writes cannot be flushed")]
    LastFlush(#[source] DeviceError),
}

/// The kinds of reports about clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Complaint {
    NotAccepted,
    TurnedAway,
    Displaced,
    NoThread,
    Ended(Discriminant<SessionError>),
}

/// A connection's entry in the registry. Dropping it removes the entry, also after a panic.
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
            // This is a loss of data, and not caused by a client.
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
