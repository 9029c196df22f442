//! A served pool, from its opening to its close.

use crate::exports::{PoolExports, Selection};
use gemelo_base::{Monitor, StopFlag, SystemClock};
use gemelo_nbd::server::{ListenAddress, ListenError, Listener, ServeError, Server, ServerConfig};
use gemelo_volume::{Pool, Tuning, VolumeError};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// What is served, and how.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// Where to listen.
    pub listen: Vec<ListenAddress>,
    /// Refuse writes.
    pub read_only: bool,
    /// Only these volumes; all if there are none.
    pub volumes: Vec<String>,
    /// How the pool behaves.
    pub tuning: Tuning,
    /// How the server behaves.
    pub server: ServerConfig,
}

/// Why a pool was not served, or not to the end.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The pool cannot be opened or closed.
    #[error(transparent)]
    Pool(#[from] VolumeError),
    /// An address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The server did not run.
    #[error(transparent)]
    Server(#[from] ServeError),
}

/// Serves a pool until `stop` is raised: then drains, flushes and closes it. `ready` hears where the server listens.
///
/// # Errors
/// If the pool cannot be opened or closed, or an address not be listened at.
pub fn serve(
    directory: &Path,
    options: &ServeOptions,
    monitor: Arc<dyn Monitor>,
    stop: &StopFlag,
    ready: impl FnOnce(&[ListenAddress]),
) -> Result<(), ServiceError> {
    let pool = Arc::new(Pool::open(directory, options.tuning, Arc::new(SystemClock::new()))?);
    for damage in pool.damage() {
        monitor.warn(damage);
    }
    let selection = Selection { volumes: options.volumes.clone(), read_only: options.read_only };
    let exports = PoolExports::new(Arc::clone(&pool), selection);
    let server = Server::new(exports.table(), options.server.clone(), monitor);
    let listeners = options.listen.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<ListenAddress> = listeners.iter().map(|listener| listener.address().clone()).collect();
    ready(&addresses);
    let served = server.serve(listeners, stop);
    drop((server, exports));
    // Connections that did not end hold the pool; then it is left as after a crash.
    if let Some(pool) = Arc::into_inner(pool) {
        pool.close()?;
    }
    Ok(served?)
}
