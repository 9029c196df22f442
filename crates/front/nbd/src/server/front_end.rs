//! NBD as a front end of a server of exports.

use super::{
    Door, ListenAddress, ListenError, Listener, Server, ServerConfig, ServerCounts, TlsPolicy,
};
use gemelo_base::units::format_size;
use gemelo_base::{Classified, FailureKind, Monitor, StopFlag};
use gemelo_device::{
    Exports, FrontEnd, FrontEndError, FrontEndStats, Listening, Memory, SocketAccess, Transfers,
};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// Most connections at a time that move volumes for commands.
const MAX_TRANSFERS: usize = 64;

/// Longest silence of such a connection within a request. Users suspend commands.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);

/// NBD with its addresses and limits.
#[derive(Debug, Default)]
pub struct NbdFrontEnd {
    /// Sockets that already listen.
    pub handed_over: Vec<Listener>,
    /// Addresses to listen at.
    pub listen: Vec<Door>,
    /// Permissions of the socket files that are made for `listen`.
    pub socket_access: SocketAccess,
    /// Limits and options. The front end sets the memory itself, from `memory_bytes`.
    pub config: ServerConfig,
    /// Most bytes of memory for the requests and replies of all clients; [`None`] for the usual
    /// limit.
    pub memory_bytes: Option<u64>,
}

/// The reason why the configuration cannot be used.
#[derive(Debug, Error)]
enum NbdRefusal {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(
        "a mode or group is given for unix sockets, and no address is one; a service manager has \
         options of its own for sockets that it hands over (SocketMode=, SocketGroup=)"
    )]
    NoSocketFile,
    #[error("{0} can be reached from the network, and connections need not be encrypted")]
    Exposed(ListenAddress),
    #[error(
        "{} of memory are too little for {clients} clients at each of {listeners} addresses, which \
         need at least {}",
        format_size(*given_bytes),
        format_size(*min_bytes)
    )]
    Memory { given_bytes: u64, min_bytes: u64, clients: usize, listeners: usize },
}

impl From<NbdRefusal> for FrontEndError {
    fn from(refusal: NbdRefusal) -> Self {
        match &refusal {
            NbdRefusal::Listen(error) if error.kind() == FailureKind::InUse => {
                Self::InUse(refusal.into())
            }
            NbdRefusal::Listen(_) => Self::Refused(refusal.into()),
            NbdRefusal::NoSocketFile => Self::NoSocketFile(refusal.into()),
            NbdRefusal::Exposed(_) => Self::Exposed(refusal.into()),
            NbdRefusal::Memory { .. } => Self::LittleMemory(refusal.into()),
        }
    }
}

impl NbdFrontEnd {
    /// Makes the memory for the clients of this number of listeners and for transfers.
    fn memory(&self, listeners: usize) -> Result<Memory, NbdRefusal> {
        let clients = self.config.max_connections;
        let connections = listeners.saturating_mul(clients).saturating_add(MAX_TRANSFERS);
        let given = self.memory_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let bytes = given.unwrap_or_else(|| Memory::usual_bytes(connections));
        let least = Memory::min_bytes(connections);
        if bytes < least {
            let (given_bytes, min_bytes) = (bytes as u64, least as u64);
            return Err(NbdRefusal::Memory { given_bytes, min_bytes, clients, listeners });
        }
        Ok(Memory::new(bytes, connections))
    }

    /// Binds the addresses. An address that the network reaches needs encryption.
    fn bind(&mut self) -> Result<Vec<Listener>, NbdRefusal> {
        let mut listeners = std::mem::take(&mut self.handed_over);
        for Door { address, access } in &self.listen {
            let bound = Listener::bind_all(address, &self.socket_access)?;
            listeners.extend(bound.into_iter().map(|one| one.with_access(access.clone())));
        }
        let is_safe =
            self.config.allow_insecure || matches!(self.config.tls, TlsPolicy::Required(_));
        match listeners.iter().find(|listener| listener.is_open_to_the_network()) {
            Some(exposed) if !is_safe => Err(NbdRefusal::Exposed(exposed.address().clone())),
            _ => Ok(listeners),
        }
    }
}

impl FrontEnd for NbdFrontEnd {
    fn check(&self) -> Result<(), FrontEndError> {
        let has_file = self.listen.iter().any(|at| matches!(at.address, ListenAddress::Unix(_)));
        if self.socket_access.is_given() && !has_file {
            return Err(NbdRefusal::NoSocketFile.into());
        }
        let listeners = self.handed_over.len() + self.listen.len();
        self.memory(listeners).map(|_| ()).map_err(Into::into)
    }

    fn listen(
        mut self: Box<Self>,
        exports: Arc<dyn Exports>,
        monitor: Arc<dyn Monitor>,
    ) -> Result<Arc<dyn Listening>, FrontEndError> {
        let listeners = self.bind()?;
        let memory = self.memory(listeners.len())?;
        let config = ServerConfig { memory: memory.clone(), ..self.config };
        let per_listener = config.max_connections + max_half_open(&config);
        Ok(Arc::new(NbdListening {
            addresses: listeners.iter().map(|listener| listener.address().to_string()).collect(),
            max_open_files: listeners.len() * (1 + per_listener),
            log_connections: config.log_connections,
            server: Server::new(exports, config, Arc::clone(&monitor)),
            listeners: Mutex::new(listeners),
            memory,
            monitor,
        }))
    }
}

/// Returns the most connections of a listener whose clients have not selected an export: those that
/// may, and as many that were ended for newer ones and have not left yet.
fn max_half_open(config: &ServerConfig) -> usize {
    2 * config.max_handshakes
}

struct NbdListening {
    addresses: Vec<String>,
    max_open_files: usize,
    log_connections: bool,
    server: Server,
    /// [`Listening::run`] takes the listeners.
    listeners: Mutex<Vec<Listener>>,
    memory: Memory,
    monitor: Arc<dyn Monitor>,
}

impl NbdListening {
    fn transfer_config(&self) -> ServerConfig {
        ServerConfig {
            max_connections: MAX_TRANSFERS,
            memory: self.memory.clone(),
            receive_timeout: Some(TRANSFER_TIMEOUT),
            send_timeout: Some(TRANSFER_TIMEOUT),
            log_connections: self.log_connections,
            ..ServerConfig::default()
        }
    }
}

impl Listening for NbdListening {
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn run(&self, stop: &StopFlag) -> Result<(), FrontEndError> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = std::mem::take(&mut *listeners);
        self.server.serve(listeners, stop).map_err(FrontEndError::failed)
    }

    fn connections(&self, export: Option<&str>) -> usize {
        self.server.connections(export)
    }

    fn disconnect(&self, export: &str) {
        self.server.disconnect(export);
    }

    fn figures(&self) -> FrontEndStats {
        let ServerCounts { accepted, turned_away, broken, .. } = self.server.counts();
        FrontEndStats {
            accepted,
            refused: turned_away,
            broken,
            memory_bytes: self.memory.used_bytes() as u64,
            memory_limit_bytes: self.memory.limit_bytes() as u64,
        }
    }

    fn max_open_files(&self) -> u64 {
        let transfers = MAX_TRANSFERS + max_half_open(&self.transfer_config());
        (self.max_open_files + transfers) as u64
    }

    fn transfers(&self, exports: Arc<dyn Exports>) -> Option<Arc<dyn Transfers>> {
        let server = Server::new(exports, self.transfer_config(), Arc::clone(&self.monitor));
        Some(Arc::new(NbdTransfers { server }))
    }
}

struct NbdTransfers {
    server: Server,
}

impl Transfers for NbdTransfers {
    fn adopt(&self, stream: UnixStream, peer: &str) {
        self.server.adopt(stream, peer);
    }

    fn finish(&self) -> Result<(), FrontEndError> {
        // A server without listeners only ends its connections.
        let stop = StopFlag::new();
        stop.raise();
        self.server.serve(Vec::new(), &stop).map_err(FrontEndError::failed)
    }
}

#[cfg(test)]
mod tests;
