//! The limits and options of a server.

use super::door::TlsClient;
use super::tls::TlsPolicy;
use gemelo_device::{Memory, Spin};
use std::time::Duration;

/// Usual number of threads beside those of connections: enough for eight busy clients. Threads that
/// wait cost little.
const USUAL_HELPERS: usize = 128;

/// Limits and options of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Most connections of each listener whose clients have selected an export. Further connections
    /// are closed at once. Each connection takes a thread.
    pub max_connections: usize,
    /// Most connections of each listener whose clients have not selected an export yet. A further
    /// connection ends the oldest one.
    pub max_handshakes: usize,
    /// The memory of all connections' buffers.
    pub memory: Memory,
    /// Most threads beside those of connections. They execute requests that complete later.
    pub max_helpers: usize,
    /// Longest time for selecting an export.
    pub handshake_timeout: Duration,
    /// Longest silence of a client between requests; [`None`] for no limit.
    pub idle_timeout: Option<Duration>,
    /// Longest silence of a client within a request; [`None`] for no limit.
    pub receive_timeout: Option<Duration>,
    /// Longest time in which a client accepts nothing of its replies; [`None`] for no limit.
    pub send_timeout: Option<Duration>,
    /// Time that clients have, when the server stops, to accept the replies to the requests that
    /// they sent.
    pub stop_timeout: Duration,
    /// Longest time for which a connection looks for the next request before it sleeps, if requests
    /// come that soon; zero to sleep at once.
    pub busy_wait: Duration,
    /// `true` to acknowledge a change when it is durable, as if its client had sent it with FUA. A
    /// client that connects again by itself, after another process took over, may not repeat what
    /// it has not flushed.
    pub write_through: bool,
    /// Encryption of sessions.
    pub tls: TlsPolicy,
    /// The exports that clients may open by the names of their certificates; if it is empty, the
    /// certificate does not matter.
    pub clients: Vec<TlsClient>,
    /// `true` if sessions over the network may be unencrypted.
    pub allow_insecure: bool,
    /// `true` if the monitor's log gets a line when a client connects and when it leaves.
    pub log_connections: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_connections: 256,
            max_handshakes: 64,
            memory: Memory::default(),
            max_helpers: USUAL_HELPERS,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: None,
            receive_timeout: Some(Duration::from_secs(60)),
            send_timeout: Some(Duration::from_secs(60)),
            stop_timeout: Duration::from_secs(10),
            busy_wait: Spin::USUAL,
            write_through: false,
            tls: TlsPolicy::Off,
            clients: Vec::new(),
            allow_insecure: false,
            log_connections: false,
        }
    }
}
