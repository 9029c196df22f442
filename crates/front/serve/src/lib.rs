//! An open pool and its users: the requests of commands, the control socket, the volumes as
//! exports, metrics for Prometheus, import and export.
//!
//! [`PoolAccess`] is a pool as commands use it, opened by this process or served by another one.
//! Both perform a [`PoolRequest`] with the same code. [`serve`] serves a pool by front ends
//! ([`gemelo_device::FrontEnd`]), such as NBD. This crate knows no protocol of clients, and it
//! prints nothing.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod access;
mod control;
mod copying;
mod damage;
mod events;
mod exports;
mod failure;
mod figures;
mod health;
mod kept_text;
mod leased_volume;
mod looking;
mod metrics;
mod open_files;
mod open_pool;
mod patience;
mod report;
mod request;
mod schedule;
mod scrub;
mod scrub_thread;
mod service;
mod settings;
mod space;
mod systemd;
mod transfer;
mod volume_changes;
mod volume_since;
mod watch;
mod whole_volumes;

pub use access::{PoolAccess, Purpose};
pub use control::LookServer;
pub use damage::mark_damaged;
pub use events::unfit_for_events;
pub use failure::RequestFailure;
pub use health::{Health, HealthState};
pub use looking::let_look;
pub use metrics::{MetricsAddress, UnknownMetricsAddress};
pub use patience::await_store;
pub use report::{
    POOL_SCHEMA, PoolFigures, PoolFile, PoolInput, ServerStat, SpaceFigures, StatReport,
    Thresholds, VolumeReport,
};
pub use request::{
    CheckedReport, CopiedReport, DomainShare, FoundReport, PoolRequest, Reply, TickReport,
};
pub use scrub::{LastScrub, RunningScrub, ScrubSchedule, ScrubStat};
pub use service::{Addresses, MakeFrontEnds, ServeOptions, serve};
pub use settings::{
    Applies, FILE as SETTINGS_FILE, KeepRule, Kind, SETTINGS, Scope, Setting, SettingReport,
    SettingSource, Settings, Value, Values, setting,
};
pub use systemd::{InheritedSocket, handed_over};
pub use transfer::{
    BadRange, BadRanges, HashedVolume, OnBadBlock, PART_BYTES, RangeHash, Sink, Source,
    TransferError, Transferred, UNIT_BYTES, export, exported_length, import,
};
pub use whole_volumes::connected;

/// Names of the files and sockets that this crate makes in the directory of a pool.
pub const POOL_FILES: [&str; 8] = [
    control::NAME,
    control::LOOK_NAME,
    settings::FILE,
    "settings.toml.new",
    scrub::FILE,
    "scrub.json.new",
    schedule::FILE,
    "schedule.json.new",
];
