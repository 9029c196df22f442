//! A server of block devices. It listens, negotiates, and turns the requests of its clients into
//! batches.
//!
//! Each connection has a thread. The thread receives all that its client has sent with one system
//! call, executes it on the device as one batch, and sends all replies with one more system call.
//! Requests that the device leaves, because they would wait for the medium or for other machines,
//! are executed by further threads meanwhile (`gemelo_device::Lanes`).
//! The device decides how a request is carried out (`gemelo_device`), and [`Exports`] names the
//! devices. [`NbdFrontEnd`] makes a front end of the server.

mod answers;
mod batch;
mod check;
mod config;
mod connection_log;
mod counters;
mod door;
mod error;
mod exports;
mod front_end;
mod handshake;
mod intake;
mod listener;
mod records;
mod registry;
mod reports;
mod session;
mod shared;
mod silence;
mod status;
mod stream;
mod tls;
mod transmission;

pub use crate::certificates::TlsError;
pub use config::ServerConfig;
pub use counters::ServerCounts;
pub use door::{Door, TlsClient, UnknownDoor};
pub use front_end::NbdFrontEnd;
pub use listener::{ListenAddress, ListenError, Listener, UnknownAddress};
pub use tls::{TlsPolicy, tls_from_files};

use crate::socket::Socket;
use connection_log::ConnectionLog;
use counters::Counters;
use gemelo_base::{Classified, Monitor, StopFlag};
use gemelo_device::{ExportAccess, Exports, Helpers};
use registry::{Registration, Registry};
use reports::Reports;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use session::{ClientReport, Session};
use shared::Shared;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Interval at which a server that waits for connections checks its stop flag.
const STOP_CHECKED_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Time that connections have to end after their sockets were closed. A connection that takes
/// longer is held up by its device.
const END_WAIT: Duration = Duration::from_secs(1);

/// Most connections that one listener accepts before the next listener has its turn. They take a
/// few milliseconds.
const ACCEPTED_IN_TURN: usize = 16;

/// Pause after the system has refused a connection (too many open files), so that the server does
/// not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Number of the listener under which adopted connections are counted. No list of listeners is this
/// long.
const ADOPTED: usize = usize::MAX;

/// The reason why a server did not start, or did not end in order.
#[derive(Debug, Error, Classified)]
pub enum ServeError {
    /// The address can be reached from the network, and sessions are not encrypted.
    #[kind(BadInput)]
    #[error("{0} can be reached from the network: require TLS, or allow insecure connections")]
    Insecure(ListenAddress),
    /// Waiting for connections failed.
    #[kind(source)]
    #[error("waiting for connections failed")]
    Wait(#[source] io::Error),
    /// Connections whose device did not complete its requests.
    #[kind(Failed)]
    #[error("{connections} connections did not end in time, because their devices hang")]
    Unfinished {
        /// Number of these connections.
        connections: usize,
    },
}

/// A server. Clones share one server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Makes a server of these exports. `monitor` is told of clients that break the protocol.
    #[must_use]
    pub fn new(exports: Arc<dyn Exports>, config: ServerConfig, monitor: Arc<dyn Monitor>) -> Self {
        let counters = Arc::new(Counters::default());
        let helpers = Arc::new(Helpers::new(config.max_helpers));
        let registry = Registry::new(config.max_connections, config.max_handshakes);
        let complaints = Reports::warnings(Arc::clone(&monitor));
        let connection_log =
            config.log_connections.then(|| ConnectionLog::new(Arc::clone(&monitor)));
        Self {
            shared: Arc::new(Shared {
                exports,
                config,
                monitor,
                complaints,
                connection_log,
                counters,
                helpers,
                registry,
            }),
        }
    }

    /// Serves until the flag is raised. The server then accepts no more connections, executes and
    /// answers the requests that clients have sent, flushes, and returns.
    ///
    /// # Errors
    /// Fails at once if an address needs encryption and has none. Fails later if waiting fails, or
    /// if connections do not end.
    pub fn serve(&self, listeners: Vec<Listener>, stop: &StopFlag) -> Result<(), ServeError> {
        let config = &self.shared.config;
        let is_exposed = |listener: &&Listener| {
            listener.is_open_to_the_network() && !config.tls.is_required() && !config.allow_insecure
        };
        if let Some(exposed) = listeners.iter().find(is_exposed) {
            return Err(ServeError::Insecure(exposed.address().clone()));
        }
        let waited = self.accept_until(stop, &listeners);
        drop(listeners);
        let registry = &self.shared.registry;
        registry.drain(None);
        if registry.wait_until_empty(config.stop_timeout) > 0 {
            registry.end_all();
        }
        let connections = registry.wait_until_empty(END_WAIT);
        self.tell_counted(true);
        waited.map_err(ServeError::Wait)?;
        if connections > 0 { Err(ServeError::Unfinished { connections }) } else { Ok(()) }
    }

    /// Starts a session on an open connection, such as one that carried another protocol before.
    /// `peer` is its name in warnings. The session ends with [`Self::serve`].
    pub fn adopt(&self, stream: UnixStream, peer: &str) {
        self.tell_counted(false);
        self.start(stream.into(), peer, (ADOPTED, &ExportAccess::default()));
    }

    /// Returns the number of clients connected to an export, or, without a name, of all clients.
    #[must_use]
    pub fn connections(&self, export: Option<&str>) -> usize {
        self.shared.registry.count(export)
    }

    /// Ends the connections to an export once they have executed the requests that have arrived.
    /// The export must have been removed before.
    pub fn disconnect(&self, export: &str) {
        self.shared.registry.drain(Some(export));
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        self.shared.counters.now()
    }

    /// Writes the numbers of reports that were not written, if they are due.
    fn tell_counted(&self, is_end: bool) {
        self.shared.complaints.tell_counted(is_end);
        if let Some(log) = &self.shared.connection_log {
            log.tell_counted(is_end);
        }
    }

    fn accept_until(&self, stop: &StopFlag, listeners: &[Listener]) -> io::Result<()> {
        let mut waited_for: Vec<_> =
            listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        while !stop.is_raised() {
            self.tell_counted(false);
            match poll(&mut waited_for, Some(&STOP_CHECKED_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            for (listener_number, listener) in listeners.iter().enumerate() {
                self.accept_some(listener_number, listener);
            }
        }
        Ok(())
    }

    /// Accepts connections of one listener, up to a limit, so that the other listeners have their
    /// turn.
    fn accept_some(&self, listener_number: usize, listener: &Listener) {
        for _ in 0..ACCEPTED_IN_TURN {
            match listener.accept() {
                Ok(Some((socket, peer))) => {
                    self.start(socket, &peer, (listener_number, listener.access()));
                }
                Ok(None) => return,
                Err(error) => {
                    let message =
                        format!("{}: cannot accept a connection: {error}", listener.address());
                    self.shared.complaints.tell(ClientReport::NotAccepted, message);
                    return gemelo_base::pause(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Starts the thread of a connection.
    fn start(&self, socket: Socket, peer: &str, (listener_number, access): (usize, &ExportAccess)) {
        let shared = Arc::clone(&self.shared);
        shared.counters.count_accepted();
        let refused = |complaint: ClientReport, what: &str| {
            shared.counters.count_turned_away();
            shared.complaints.tell(complaint, format!("{peer}: {what}"));
        };
        let id = match shared.registry.enter(socket.clone(), listener_number) {
            Registration::Entered(id) => id,
            Registration::Displacing(id) => {
                refused(
                    ClientReport::Displaced,
                    "connected in place of the oldest client that has selected no export",
                );
                id
            }
            Registration::Full => {
                return refused(
                    ClientReport::TurnedAway,
                    "refused, because there are too many connections",
                );
            }
        };
        let session = Session::new(Arc::clone(&shared), id, access.clone());
        let name = peer.to_owned();
        let serve = move || session.serve(socket, &name);
        if let Err(error) = std::thread::Builder::new().name("nbd".to_owned()).spawn(serve) {
            refused(
                ClientReport::NoThread,
                &format!("refused, because no thread can be started: {error}"),
            );
        }
    }
}
