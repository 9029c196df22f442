//! The reasons why a session ends, and the limits of the protocol that clients may not exceed.

use crate::wire::WireError;
use gemelo_device::DeviceError;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Longest data of an option in bytes that is read and answered with an error. Longer data ends the
/// connection.
pub(super) const LONGEST_SKIPPED_BYTES: u32 = 1 << 20;
/// Most options of a handshake, so that a client cannot occupy a thread for ever.
pub(super) const MAX_OPTIONS: usize = 4096;
/// Longest data of a write, in bytes, that is received and dropped so that the write can be
/// answered with an error. A longer write ends the connection, because its client ignores the sizes
/// that it was told.
pub(super) const LONGEST_DROPPED_BYTES: u32 = 64 << 20;

/// The reason why a session ended against the client's wish.
#[derive(Debug, Error)]
pub(super) enum SessionError {
    #[error("connection lost")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("disconnected: it sent unknown client flags {0:#x}")]
    ClientFlags(u32),
    #[error("disconnected: it sent more than {MAX_OPTIONS} options in its handshake")]
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
    #[error("disconnected: the device panicked at a request, which is a defect of this program")]
    DevicePanic,
    #[error(
        "disconnected: the thread of the connection panicked, which is a defect of this program; \
         requests without a reply may have failed"
    )]
    Panicked,
    #[error("disconnected: this process may not answer for the device any more")]
    MayNotAnswer,
    #[error("data is lost: the last writes cannot be flushed")]
    LastFlush(#[source] DeviceError),
}
