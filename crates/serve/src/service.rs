//! A served pool, from its opening to its close.

use crate::access::{self, open_patiently};
use crate::control::{self, Asked, Control};
use crate::failure::{Failure, Remedy};
use crate::metrics::{MetricsServer, render};
use crate::open_pool::{OpenError, OpenPool, VolumeExports};
use crate::report::Thresholds;
use crate::{systemd, watch};
use gemelo_base::units::format_size;
use gemelo_base::{Monitor, StopFlag};
use gemelo_nbd::server::{ListenAddress, Listener, Memory, Server, ServerConfig, TlsPolicy};
use gemelo_volume::Tuning;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections at a time of commands that import and export volumes of the served pool.
const MOST_ATTACHED: usize = 64;
/// How long such a command may do nothing within a request: a user may have suspended it.
const ATTACHED_TIMEOUT: Duration = Duration::from_secs(600);

/// What is served, and how.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// Where to listen, besides at the sockets that this process was started with.
    pub listen: Vec<ListenAddress>,
    /// Only these volumes; all, also those made later, if there are none.
    pub volumes: Vec<String>,
    /// How the pool behaves; read-only refuses all changes.
    pub tuning: Tuning,
    /// How the server behaves; its memory is that of `memory_bytes`.
    pub server: ServerConfig,
    /// The bound for the memory that clients' requests and replies take; as usual if it is not set.
    pub memory_bytes: Option<u64>,
    /// Where figures are had over HTTP.
    pub metrics: Option<SocketAddr>,
    /// When to warn of little space.
    pub thresholds: Thresholds,
}

/// Where a service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub nbd: Vec<ListenAddress>,
    /// For scrapers of figures.
    pub metrics: Option<SocketAddr>,
}

/// Serves a pool until `stop` is raised: then takes no more clients, does what they have sent, flushes and closes it. `ready`
/// hears where it listens.
///
/// # Errors
/// If the pool cannot be opened or closed, or an address not be listened at.
pub fn serve(
    directory: &Path,
    options: &ServeOptions,
    monitor: Arc<dyn Monitor>,
    stop: &StopFlag,
    ready: impl FnOnce(&Addresses),
) -> Result<(), Failure> {
    let service = Service::start(directory, options, monitor, stop)?;
    let Parts { listeners, addresses } = service.0;
    let service = service.1;
    ready(&addresses);
    systemd::notify("READY=1");
    let served = service.server.serve(listeners, stop);
    systemd::notify("STOPPING=1");
    let closed = service.close();
    served.map_err(|error| Failure::of_error(&error).found_midway())?;
    closed
}

struct Parts {
    listeners: Vec<Listener>,
    addresses: Addresses,
}

struct Service {
    pool: Arc<OpenPool>,
    server: Server,
    attached: Server,
    /// None if the pool's directory cannot be written, or another server that only reads has it.
    control: Option<Control>,
    helpers: Vec<JoinHandle<()>>,
    closing: StopFlag,
}

impl Service {
    fn start(
        directory: &Path,
        options: &ServeOptions,
        monitor: Arc<dyn Monitor>,
        stop: &StopFlag,
    ) -> Result<(Parts, Self), Failure> {
        let about = |failure: Failure| failure.about(&directory.display().to_string());
        memory(options, options.listen.len())?;
        let open = || {
            OpenPool::open(directory, options.tuning, options.thresholds.clone())
                .map_err(OpenError::Pool)
        };
        let is_served = || control::is_answering(directory, Asked::Server);
        let pool = open_patiently(stop, open, is_served).map_err(|error| about(error.into()))?;
        let pool = Arc::new(pool);
        for damage in pool.damage() {
            monitor.warn(&damage);
        }
        if pool.is_read_only() && !options.tuning.read_only {
            monitor.warn(
                "the pool is damaged and served read-only: stop, and repair it with `pool check --repair`",
            );
        }
        for name in &options.volumes {
            pool.device(name).map_err(|error| about(error.into()))?;
        }
        let listeners = listeners(options)?;
        let exports = VolumeExports { pool: Arc::downgrade(&pool), only: options.volumes.clone() };
        let memory = memory(options, listeners.len())?;
        let config = ServerConfig { memory: memory.clone(), ..options.server.clone() };
        let server = Server::new(Arc::new(exports), config, Arc::clone(&monitor));
        pool.set_server(server.clone());
        let all = VolumeExports { pool: Arc::downgrade(&pool), only: Vec::new() };
        let config = ServerConfig {
            most_connections: MOST_ATTACHED,
            memory,
            receive_timeout: Some(ATTACHED_TIMEOUT),
            send_timeout: Some(ATTACHED_TIMEOUT),
            ..ServerConfig::default()
        };
        let attached = Server::new(Arc::new(all), config, Arc::clone(&monitor));
        let metrics = options.metrics.map(MetricsServer::bind).transpose();
        let metrics = metrics.map_err(|error| Failure::of_error(&error))?;
        let addresses = Addresses {
            nbd: listeners.iter().map(|listener| listener.address().clone()).collect(),
            metrics: metrics.as_ref().map(MetricsServer::address),
        };
        let failed = |error: std::io::Error| Failure::of("cannot start to serve", &error);
        let control = match open_control(directory, &pool, &attached, &monitor) {
            Ok(control) => Some(control),
            Err(error) if options.tuning.read_only => {
                monitor.warn(&format!(
                    "{}: no socket for commands, which open the pool by themselves: {error}",
                    directory.display()
                ));
                None
            }
            Err(error) => return Err(about(failed(error))),
        };
        let closing = StopFlag::new();
        let mut helpers =
            vec![watch::start(Arc::clone(&pool), monitor, stop.clone()).map_err(failed)?];
        if let Some(metrics) = metrics {
            helpers
                .push(start_metrics(metrics, Arc::clone(&pool), closing.clone()).map_err(failed)?);
        }
        let service = Self { pool, server, attached, control, helpers, closing };
        Ok((Parts { listeners, addresses }, service))
    }

    /// Ends everything but the clients, who have been seen off.
    fn close(self) -> Result<(), Failure> {
        let Self { pool, server, attached, control, helpers, closing } = self;
        if let Some(control) = control {
            control.close();
        }
        closing.raise();
        // Without listeners it only sees its clients off.
        let seen_off = attached.serve(Vec::new(), &closing);
        for helper in helpers {
            // A panic in it has been reported.
            let _ = helper.join();
        }
        drop((server, attached));
        access::close(pool).map_err(|error| Failure::from(error).found_midway())?;
        seen_off.map_err(|error| Failure::of_error(&error).found_midway())
    }
}

/// Opens the control socket, unless another server, which shares the pool because both only read,
/// has it.
fn open_control(
    directory: &Path,
    pool: &Arc<OpenPool>,
    attached: &Server,
    monitor: &Arc<dyn Monitor>,
) -> std::io::Result<Control> {
    if control::is_answering(directory, Asked::Server) {
        return Err(std::io::ErrorKind::AddrInUse.into());
    }
    Control::open(directory, Arc::clone(pool), attached.clone(), Arc::clone(monitor))
}

fn start_metrics(
    metrics: MetricsServer,
    pool: Arc<OpenPool>,
    closing: StopFlag,
) -> std::io::Result<JoinHandle<()>> {
    let text =
        move || pool.stat().map_or_else(|error| format!("# {error}\n"), |report| render(&report));
    std::thread::Builder::new()
        .name("gemelo-metrics".into())
        .spawn(move || metrics.run(&closing, text))
}

/// The memory for clients at this many listeners.
fn memory(options: &ServeOptions, listeners: usize) -> Result<Memory, Failure> {
    let clients = listeners.saturating_mul(options.server.most_connections);
    let connections = clients.saturating_add(MOST_ATTACHED);
    let asked = options.memory_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let bytes = asked.unwrap_or_else(|| Memory::usual_bytes(connections));
    let least = Memory::least_bytes(connections);
    if bytes < least {
        let text = format!(
            "{} of memory are too little for {} clients at each of {listeners} addresses, which need \
             at least {}",
            format_size(bytes as u64),
            options.server.most_connections,
            format_size(least as u64)
        );
        return Err(Failure::refused(text).with_remedy(Remedy::Memory));
    }
    Ok(Memory::new(bytes, connections))
}

/// The sockets handed over, and those that were asked for. An address that is not safe is refused before the pool is served.
fn listeners(options: &ServeOptions) -> Result<Vec<Listener>, Failure> {
    let mut listeners = systemd::listeners().map_err(|error| {
        Failure::refused(format!("a socket that was handed over cannot be used: {error}"))
    })?;
    for address in &options.listen {
        listeners.extend(Listener::bind_all(address).map_err(|error| Failure::of_error(&error))?);
    }
    let needs_tls = |address: &ListenAddress| matches!(address, ListenAddress::Tcp(address) if !address.ip().to_canonical().is_loopback());
    let is_safe =
        options.server.allow_insecure || matches!(options.server.tls, TlsPolicy::Required(_));
    let exposed = listeners.iter().map(Listener::address).find(|address| needs_tls(address));
    if let (Some(address), false) = (exposed, is_safe) {
        let text = format!("{address} can be reached from the network, and nothing is encrypted");
        return Err(Failure::refused(text).with_remedy(Remedy::Encrypt));
    }
    if listeners.is_empty() {
        return Err(
            Failure::refused("no address to listen at is given").with_remedy(Remedy::Listen)
        );
    }
    Ok(listeners)
}
