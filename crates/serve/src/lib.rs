//! An open pool and all who work with it: requests of commands, its control socket, its volumes as NBD exports, figures
//! for Prometheus, import and export. Prints nothing.
//!
//! [`Access`] is a pool as a command has it, opened here or served by another process: both do a [`Request`] with the same
//! code. [`serve`] is the process that serves.

mod access;
mod control;
mod failure;
mod metrics;
mod open_pool;
mod remote;
mod report;
mod request;
mod service;
mod settings;
mod systemd;
mod transfer;
mod watch;

pub use access::{Access, Purpose};
pub use control::Looks;
pub use failure::{Failure, Remedy};
pub use open_pool::{connected, let_look};
pub use report::{ServerStat, StatReport, Thresholds};
pub use request::{CheckedReport, Reply, Request};
pub use service::{Addresses, ServeOptions, serve};
pub use settings::Settings;
pub use transfer::{
    BadRange, BadRanges, OnBadBlock, Sink, Source, TransferError, Transferred, export, import,
};
