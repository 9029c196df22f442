//! A server of block devices: listens, negotiates, and turns what clients send into batches of requests.
//!
//! Each connection has a thread, which receives everything that its client has sent with one system call, has the device
//! do it as one batch, and sends all replies with one more. What a device is, and what its requests do, is the device's
//! business (`gemelo_device`); which devices there are is said by [`Exports`].

mod batch;
mod check;
mod complaints;
mod counters;
mod exports;
mod handshake;
mod intake;
mod listener;
mod memory;
mod patience;
mod registry;
mod session;
mod silence;
mod status;
mod stream;
mod tls;
mod transmission;

pub use crate::certificates::TlsError;
pub use counters::ServerCounts;
pub use exports::{Export, ExportTable, Exports};
pub use listener::{ListenAddress, ListenError, Listener, UnknownAddress};
pub use memory::Memory;
pub use tls::{TlsPolicy, tls_from_files};

use crate::socket::Socket;
use complaints::Complaints;
use counters::Counters;
use gemelo_base::{Monitor, StopFlag};
use registry::{Entry, Registry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use session::{Complaint, Seat, SessionError};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// How often a server that waits for connections looks at its stop flag.
const STOP_CHECKED_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long connections get to end after their sockets were closed. What takes longer is a device that hangs.
const END_WAIT: Duration = Duration::from_secs(1);

/// The most connections that are accepted at one listener before the next one has its turn: a few milliseconds.
const ACCEPTED_IN_TURN: usize = 16;

/// How long to wait after the system has refused a connection (too many open files), so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The listener's number under which adopted connections are counted. No list of listeners is that long.
const ADOPTED: usize = usize::MAX;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The most connections at a time by listener, once their clients have chosen an export; more are closed at once.
    /// Each takes a thread.
    pub most_connections: usize,
    /// The most connections at a time by listener whose clients have not chosen an export. Of more, the oldest ends.
    pub most_handshakes: usize,
    /// What connections receive into and reply from.
    pub memory: Memory,
    /// How long a client may take to choose an export.
    pub handshake_timeout: Duration,
    /// How long a client may be silent between requests; [`None`] for ever.
    pub idle_timeout: Option<Duration>,
    /// How long a client may be silent within a request; [`None`] for ever.
    pub receive_timeout: Option<Duration>,
    /// How long a client may take nothing of its replies; [`None`] for ever.
    pub send_timeout: Option<Duration>,
    /// How long clients get, when the server stops, to take the replies to what they have sent.
    pub stop_timeout: Duration,
    /// How long a connection waits for the next request without sleeping, while that pays; zero for never.
    pub busy_wait: Duration,
    /// Whether sessions are encrypted.
    pub tls: TlsPolicy,
    /// Whether sessions over the network need no encryption.
    pub allow_insecure: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            most_connections: 256,
            most_handshakes: 64,
            memory: Memory::default(),
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: None,
            receive_timeout: Some(Duration::from_secs(60)),
            send_timeout: Some(Duration::from_secs(60)),
            stop_timeout: Duration::from_secs(10),
            busy_wait: Duration::ZERO,
            tls: TlsPolicy::Off,
            allow_insecure: false,
        }
    }
}

/// Why a server did not serve, or not to the end.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An address that the network reaches, without encryption.
    #[error("{0} can be reached from the network: require TLS, or allow insecure connections")]
    Insecure(ListenAddress),
    /// Waiting for connections failed.
    #[error("cannot wait for connections")]
    Wait(#[source] io::Error),
    /// Connections whose device does not come back.
    #[error("{connections} connections did not end in time")]
    Unfinished {
        /// How many.
        connections: usize,
    },
}

struct Shared {
    exports: Arc<dyn Exports>,
    config: ServerConfig,
    monitor: Arc<dyn Monitor>,
    complaints: Complaints<Complaint>,
    counters: Counters,
    registry: Registry,
}

/// A server. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// A server of these exports. `monitor` hears of clients that break the protocol.
    #[must_use]
    pub fn new(exports: Arc<dyn Exports>, config: ServerConfig, monitor: Arc<dyn Monitor>) -> Self {
        let counters = Counters::default();
        let registry = Registry::new(config.most_connections, config.most_handshakes);
        let complaints = Complaints::new(Arc::clone(&monitor));
        Self {
            shared: Arc::new(Shared { exports, config, monitor, complaints, counters, registry }),
        }
    }

    /// Serves until the flag is raised; then takes no more connections, does and answers what clients have sent,
    /// flushes, and returns.
    ///
    /// # Errors
    /// At once if an address is not safe; later if waiting fails, or if connections do not end.
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
        self.shared.complaints.tell_counted(true);
        waited.map_err(ServeError::Wait)?;
        if connections > 0 { Err(ServeError::Unfinished { connections }) } else { Ok(()) }
    }

    /// Begins a session on a connection that is there, such as one that was used for something else before. `peer` is
    /// its name in warnings. It ends with [`Self::serve`].
    pub fn adopt(&self, stream: UnixStream, peer: &str) {
        self.shared.complaints.tell_counted(false);
        self.start(stream.into(), peer, ADOPTED);
    }

    /// How many clients are connected to an export, or, without a name, at all.
    #[must_use]
    pub fn connections(&self, export: Option<&str>) -> usize {
        self.shared.registry.count(export)
    }

    /// Has the connections to an export end when what has arrived is done. Call it after the export was removed.
    pub fn disconnect(&self, export: &str) {
        self.shared.registry.drain(Some(export));
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> ServerCounts {
        self.shared.counters.now()
    }

    fn accept_until(&self, stop: &StopFlag, listeners: &[Listener]) -> io::Result<()> {
        let mut waited_for: Vec<_> =
            listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        while !stop.is_raised() {
            self.shared.complaints.tell_counted(false);
            match poll(&mut waited_for, Some(&STOP_CHECKED_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            for (gate, listener) in listeners.iter().enumerate() {
                self.accept_some(gate, listener);
            }
        }
        Ok(())
    }

    /// Accepts connections of one listener: enough to empty its queue, and not so many that others wait.
    fn accept_some(&self, gate: usize, listener: &Listener) {
        for _ in 0..ACCEPTED_IN_TURN {
            match listener.accept() {
                Ok(Some((socket, peer))) => self.start(socket, &peer, gate),
                Ok(None) => return,
                Err(error) => {
                    let message = format!("{}: no connection: {error}", listener.address());
                    self.shared.complaints.tell(Complaint::NotAccepted, message);
                    return std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Gives a connection its thread.
    fn start(&self, socket: Socket, peer: &str, gate: usize) {
        let shared = Arc::clone(&self.shared);
        shared.counters.count_accepted();
        let refused = |complaint: Complaint, what: &str| {
            shared.counters.count_turned_away();
            shared.complaints.tell(complaint, format!("{peer}: {what}"));
        };
        let id = match shared.registry.enter(socket.clone(), gate) {
            Entry::Entered(id) => id,
            Entry::Displacing(id) => {
                refused(
                    Complaint::Displaced,
                    "connected, and the oldest client that chooses no export was ended",
                );
                id
            }
            Entry::Full => {
                return refused(
                    Complaint::TurnedAway,
                    "turned away, there are too many connections",
                );
            }
        };
        let seat = Seat::new(Arc::clone(&shared), id);
        let name = peer.to_owned();
        let session = move || seat.serve(socket, &name);
        if let Err(error) = std::thread::Builder::new().name("nbd".to_owned()).spawn(session) {
            refused(
                Complaint::NoThread,
                &format!("turned away, there is no thread for it: {error}"),
            );
        }
    }
}
