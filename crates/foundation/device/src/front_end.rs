//! The seam between a server of exports and the protocols by which clients reach them.
//!
//! A front end has three stages. A [`FrontEnd`] is configured and has no sockets. A [`Listening`]
//! front end has bound its addresses and serves clients in [`Listening::run`]. After the stop flag
//! was raised, `run` ends the connections in good order and returns.

use crate::{BlockDevice, Exports};
use gemelo_base::background::TaskStat;
use gemelo_base::{Classified, FailureKind, Monitor, StopFlag};
use std::error::Error;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use thiserror::Error;

/// The reason why a front end does not listen, or did not end in good order.
#[derive(Debug, Error, Classified)]
pub enum FrontEndError {
    /// The configuration cannot be used. No client was served.
    #[kind(BadInput)]
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
    /// Another process listens at the address.
    #[kind(InUse)]
    #[error(transparent)]
    InUse(Box<dyn Error + Send + Sync>),
    /// Clients would be served from the network without encryption.
    #[kind(BadInput, remedy = Encrypt)]
    #[error(transparent)]
    Exposed(Box<dyn Error + Send + Sync>),
    /// The memory that is granted is too little for the connections that are allowed.
    #[kind(BadInput, remedy = MemoryForClients)]
    #[error(transparent)]
    LittleMemory(Box<dyn Error + Send + Sync>),
    /// Rights for the file of a socket are given, and no address is a file.
    #[kind(BadInput, remedy = ListenAtFile)]
    #[error(transparent)]
    NoSocketFile(Box<dyn Error + Send + Sync>),
    /// The front end failed while it served clients.
    #[kind(Failed)]
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl FrontEndError {
    /// Makes the error of a configuration that cannot be used.
    pub fn refused(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(error.into())
    }

    /// Makes the error of a configuration or a request, by the kind of its failure.
    pub fn of(error: impl Classified + Send + Sync + 'static) -> Self {
        match error.kind() {
            FailureKind::InUse => Self::InUse(error.into()),
            FailureKind::BadInput => Self::refused(error),
            _ => Self::failed(error),
        }
    }

    /// Makes the error of a front end that has served clients.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// A protocol by which clients reach exports, configured and without sockets.
pub trait FrontEnd: Send {
    /// Checks what can be checked of the configuration before the exports exist.
    ///
    /// # Errors
    /// Fails if the configuration cannot be used.
    fn check(&self) -> Result<(), FrontEndError>;

    /// Binds the addresses. Clients may connect from now on, and wait until [`Listening::run`].
    /// `monitor` receives reports about clients.
    ///
    /// # Errors
    /// Fails if an address cannot be listened at, or if clients must not be served there.
    fn listen(
        self: Box<Self>,
        exports: Arc<dyn Exports>,
        monitor: Arc<dyn Monitor>,
    ) -> Result<Arc<dyn Listening>, FrontEndError>;
}

/// A front end with bound addresses.
pub trait Listening: Send + Sync {
    /// Returns the addresses in the form that users write them, with the ports that were taken.
    fn addresses(&self) -> Vec<String>;

    /// Serves clients until the flag is raised. The front end then accepts no more connections,
    /// executes and answers the requests that clients have sent, flushes, and returns.
    ///
    /// # Errors
    /// Fails if waiting for clients fails, or if connections do not end.
    fn run(&self, stop: &StopFlag) -> Result<(), FrontEndError>;

    /// Returns the number of clients connected to an export, or, without a name, of all clients.
    fn connections(&self, export: Option<&str>) -> usize;

    /// Ends the connections to an export once they have executed the requests that have arrived.
    /// The export must have been removed before.
    fn disconnect(&self, export: &str);

    /// Returns the figures so far.
    fn figures(&self) -> FrontEndStats;

    /// Returns the most files that the front end has open at a time, within its limits of
    /// connections.
    fn max_open_files(&self) -> u64;

    /// Makes a service for connections that another protocol has opened. It serves `exports`, which
    /// may be more than the front end does. Returns [`None`] if the protocol needs more than a
    /// stream of bytes.
    fn transfers(&self, exports: Arc<dyn Exports>) -> Option<Arc<dyn Transfers>>;

    /// Returns the way to make devices of this host, if the front end makes such instead of serving
    /// clients that come by themselves.
    fn devices(&self) -> Option<&dyn Devices> {
        None
    }
}

/// A front end that makes devices of this host, on request.
pub trait Devices: Send + Sync {
    /// Returns the word by which requests name the driver that makes the devices.
    fn driver(&self) -> &'static str;

    /// Returns the task that makes the devices which should be there, and fails while one is
    /// missing. There is none unless some should be.
    fn task(&self) -> Option<TaskStat>;

    /// Has the device of an export show its size. Returns what keeps it from doing so.
    fn follow_size(&self, export: &str) -> Option<String>;

    /// Makes a device of an export. Returns its path.
    ///
    /// # Errors
    /// Fails if there is no such export, if it is a device already, or if the system refuses it.
    fn attach(&self, export: &str) -> Result<String, FrontEndError>;

    /// Removes the device of an export. `force` removes one in use as well, whose requests fail.
    ///
    /// # Errors
    /// Fails if the export is no device, if the device is in use, or if the system refuses it.
    fn detach(&self, export: &str, force: bool) -> Result<(), FrontEndError>;
}

/// The figures of a front end since it began to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrontEndStats {
    /// Connections that were accepted, those that have ended included.
    pub accepted: u64,
    /// Connections closed because there were too many.
    pub refused: u64,
    /// Connections that ended with an error or a breach of the protocol.
    pub broken: u64,
    /// Bytes of memory that requests and replies take at present.
    pub memory_bytes: u64,
    /// Most bytes of memory that requests and replies may take.
    pub memory_limit_bytes: u64,
}

/// A service for connections that another protocol has opened: commands move the data of volumes
/// over them. [`Connect`] is the other side.
pub trait Transfers: Send + Sync {
    /// Serves a connection. `peer` is its name in reports.
    fn adopt(&self, stream: UnixStream, peer: &str);

    /// Ends the connections in good order, as [`Listening::run`] does.
    ///
    /// # Errors
    /// Fails if connections do not end.
    fn finish(&self) -> Result<(), FrontEndError>;
}

/// Opens an export, by its name, over a connection that [`Transfers`] serves on its other side.
pub type Connect = fn(UnixStream, &str) -> Result<Arc<dyn BlockDevice>, ConnectError>;

/// The reason why an export cannot be opened over a connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The other side has no export of this name.
    #[error("the server has no such export")]
    NoSuchExport,
    /// The connection failed, or the other side refused it.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}
