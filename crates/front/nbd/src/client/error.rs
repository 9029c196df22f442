//! The errors of a client.

use crate::certificates::TlsError;
use crate::wire::{ErrorCode, OptionReplyKind, WireError};
use gemelo_base::Classified;
use std::io;
use thiserror::Error;

/// The reason why a connection or a request failed.
#[derive(Debug, Error, Classified)]
pub enum ClientError {
    /// The connection cannot be made, broke, or the server did not answer in time.
    #[kind(source)]
    #[error("the connection to the server failed")]
    Io(#[source] io::Error),
    /// The server closed the connection while it was waited for.
    #[kind(Failed)]
    #[error("the server closed the connection before it had answered")]
    Closed,
    /// The server sent an invalid message.
    #[kind(Failed)]
    #[error("the server breaks the protocol: {0}")]
    Wire(#[from] WireError),
    /// The server sent a message that is not valid at this point.
    #[kind(Failed)]
    #[error("the server breaks the protocol: it sent {0}")]
    Unexpected(&'static str),
    /// The server speaks an older form of the protocol.
    #[kind(BadInput)]
    #[error("the server does not support fixed newstyle negotiation, which this client needs")]
    OldServer,
    /// The server has no export of this name.
    #[kind(BadInput)]
    #[error("the server has no such export")]
    NoSuchExport,
    /// The server requires TLS.
    #[kind(BadInput)]
    #[error("the server requires TLS: use nbds:// or nbds+unix:// with tls-certificates=DIR")]
    TlsRequired,
    /// The server does not offer TLS, or refuses it to this client.
    #[kind(BadInput)]
    #[error("the server does not offer TLS: use nbd:// or nbd+unix://")]
    NoTls,
    /// The certificates in the address cannot be used.
    #[kind(BadInput)]
    #[error(transparent)]
    Certificates(#[from] TlsError),
    /// The host is not a name that a certificate can have.
    #[kind(BadInput)]
    #[error(
        "no certificate can have this host as its name: give the certificate's name with \
         tls-hostname=NAME"
    )]
    NoServerName,
    /// The server refuses an option.
    #[kind(Failed)]
    #[error("the server refuses an option of the handshake (error {number}): {message}")]
    Refused {
        /// Error number of the refusal.
        number: u32,
        /// The message that the server sent with its refusal.
        message: String,
    },
    /// The client has no slot left for another request.
    // The caller submits more requests than it said it would.
    #[kind(Bug)]
    #[error("too many requests are in flight: wait for a completion first")]
    QueueFull,
    /// The server failed to carry out a request.
    #[kind(Failed)]
    #[error("the server failed to carry out a request: {0}")]
    Request(ErrorCode),
    /// The server does not support the request.
    #[kind(BadInput)]
    #[error("the server does not support this request: {0}")]
    NotSupported(&'static str),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl ClientError {
    pub(super) fn refused(kind: OptionReplyKind, message: &str) -> Self {
        match kind {
            OptionReplyKind::ERR_UNKNOWN => Self::NoSuchExport,
            OptionReplyKind::ERR_TLS_REQUIRED => Self::TlsRequired,
            OptionReplyKind(number) => {
                Self::Refused { number: number & !(1 << 31), message: message.to_owned() }
            }
        }
    }
}
