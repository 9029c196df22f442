//! Errors of exports as targets.

use gemelo_base::Classified;
use gemelo_nbd::client::{ClientError, NbdUri, UriError};
use gemelo_target::{AdapterError, TargetError};
use thiserror::Error;

/// The reason why an export of an NBD server is refused as a target, or cannot be opened.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ExportError {
    /// The address of the export is invalid.
    #[error(transparent)]
    Uri(UriError),
    /// The server cannot be reached, or it does not offer the export.
    #[kind(source, untouched)]
    #[error("cannot use {uri}")]
    Client {
        /// Address of the export.
        uri: Box<NbdUri>,
        /// The error of the NBD client.
        source: ClientError,
    },
    /// The job needs several connections, and the server does not promise that they see each
    /// other's writes.
    #[error(
        "the server of {uri} allows one connection at a time (it lacks multi-conn), but the job \
         has {wanted} processes: use one process"
    )]
    Connections {
        /// Address of the export.
        uri: Box<NbdUri>,
        /// Number of processes of the job; each needs a connection.
        wanted: u32,
    },
}

impl From<ExportError> for TargetError {
    fn from(error: ExportError) -> Self {
        AdapterError::new(error).into()
    }
}
