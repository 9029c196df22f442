//! The state that all connections of a server share.

use super::config::ServerConfig;
use super::connection_log::ConnectionLog;
use super::counters::Counters;
use super::registry::Registry;
use super::reports::Reports;
use super::session::ClientReport;
use gemelo_base::Monitor;
use gemelo_device::{Exports, Helpers};
use std::sync::Arc;

pub(super) struct Shared {
    pub(super) exports: Arc<dyn Exports>,
    pub(super) config: ServerConfig,
    pub(super) monitor: Arc<dyn Monitor>,
    pub(super) complaints: Reports<ClientReport>,
    /// [`None`] if connections are not logged.
    pub(super) connection_log: Option<ConnectionLog>,
    pub(super) counters: Arc<Counters>,
    pub(super) helpers: Arc<Helpers>,
    pub(super) registry: Registry,
}
