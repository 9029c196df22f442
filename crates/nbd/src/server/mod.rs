//! A server of block devices: listens, negotiates, and turns what clients send into batches of requests.
//!
//! Each connection has a thread, which receives everything that its client has sent with one system call, has the device
//! do it as one batch, and sends all replies with one more. What a device is, and what its requests do, is the device's
//! business (`gemelo_device`); which devices there are is said by [`Exports`].

mod batch;
mod check;
mod counters;
mod exports;
mod handshake;
mod intake;
mod listener;
mod patience;
mod registry;
mod status;
mod stream;
mod tls;
mod transmission;

pub use crate::certificates::TlsError;
pub use counters::ServerCounts;
pub use exports::{Export, ExportTable, Exports};
pub use listener::{ListenAddress, ListenError, Listener, UnknownAddress};
pub use tls::{TlsPolicy, tls_from_files};

use crate::socket::Socket;
use crate::wire::WireError;
use counters::Counters;
use gemelo_base::{Monitor, StopFlag};
use gemelo_device::DeviceError;
use handshake::Handshake;
use registry::Registry;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use stream::Stream;
use thiserror::Error;
use transmission::Transmission;

/// How often a server that waits for connections looks at its stop flag.
const STOP_CHECKED_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long connections get to end after their sockets were closed. What takes longer is a device that hangs.
const END_WAIT: Duration = Duration::from_secs(1);

/// How long to wait after the system has refused a connection (too many open files), so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The most connections at a time; more are closed at once. Each takes a thread and up to 10 MiB, usually well
    /// below 1 MiB; while its client sends the longest requests, up to 100 MiB.
    pub most_connections: usize,
    /// How long a client may take to choose an export.
    pub handshake_timeout: Duration,
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
            handshake_timeout: Duration::from_secs(10),
            stop_timeout: Duration::from_secs(10),
            busy_wait: Duration::ZERO,
            tls: TlsPolicy::Off,
            allow_insecure: false,
        }
    }
}

/// Why a session ended otherwise than by the client's wish.
#[derive(Debug, Error)]
pub(crate) enum SessionError {
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
    #[error("a write of {0} bytes")]
    WriteTooLong(u32),
    #[error("what was written could not be flushed")]
    LastFlush(#[source] DeviceError),
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
        let registry = Registry::default();
        Self { shared: Arc::new(Shared { exports, config, monitor, counters, registry }) }
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
        waited.map_err(ServeError::Wait)?;
        if connections > 0 { Err(ServeError::Unfinished { connections }) } else { Ok(()) }
    }

    /// Begins a session on a connection that is there, such as one that was used for something else before. `peer` is
    /// its name in warnings. It ends with [`Self::serve`].
    pub fn adopt(&self, stream: UnixStream, peer: &str) {
        self.start(stream.into(), peer.to_owned());
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
            match poll(&mut waited_for, Some(&STOP_CHECKED_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            for listener in listeners {
                match listener.accept() {
                    Ok(Some((socket, peer))) => self.start(socket, peer),
                    Ok(None) => {}
                    Err(error) => {
                        self.shared.monitor.warn(&format!("{}: no connection: {error}", listener.address()));
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                }
            }
        }
        Ok(())
    }

    /// Gives a connection its thread.
    fn start(&self, socket: Socket, peer: String) {
        let shared = Arc::clone(&self.shared);
        shared.counters.count_accepted();
        let Some(id) = shared.registry.enter(socket.clone(), shared.config.most_connections) else {
            shared.counters.count_turned_away();
            shared.monitor.warn(&format!("{peer}: turned away, there are too many connections"));
            return;
        };
        let seat = Seat { shared, id };
        let session = move || seat.serve(socket, &peer);
        if let Err(error) = std::thread::Builder::new().name("nbd".to_owned()).spawn(session) {
            self.shared.monitor.warn(&format!("a connection gets no thread: {error}"));
        }
    }
}

/// A connection's place among all; it is free again when this is dropped, also by a panic.
struct Seat {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.registry.leave(self.id);
    }
}

impl Seat {
    fn serve(&self, socket: Socket, peer: &str) {
        let Err(error) = self.run(socket) else { return };
        self.shared.counters.count_broken();
        let is_of_the_day = matches!(&error, SessionError::Io(error) if matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ));
        if !is_of_the_day {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            self.shared.monitor.warn(&format!("{peer}: {error}{cause}"));
        }
    }

    fn run(&self, socket: Socket) -> Result<(), SessionError> {
        let config = &self.shared.config;
        let mut stream = Stream::Plain(socket);
        let timeout_ns = u64::try_from(config.handshake_timeout.as_nanos()).unwrap_or(u64::MAX);
        stream.set_deadline_after(Some(timeout_ns));
        let enter = |export: &str| self.shared.registry.set_export(self.id, export);
        let handshake = Handshake::new(stream, &*self.shared.exports, &config.tls, &enter);
        let (mut stream, chosen) = handshake.run()?;
        let Some(chosen) = chosen else {
            stream.close();
            return Ok(());
        };
        stream.set_deadline_after(None);
        Transmission::new(stream, chosen, config.busy_wait, &self.shared.counters).run()
    }
}
