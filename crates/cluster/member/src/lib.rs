//! Members of a domain: pools whose disks are objects of a shared store, served by one process at
//! a time.
//!
//! A [`Service`] has the tenure of a member: it holds the lock, has fenced the process before it,
//! and renews its lease. Its disks are [`ObjectDisk`]s. When the lease is over, or when the fate of
//! a change is unknown, its [`LeaseState`] ends, and nothing is written or answered any more.
//! `docs/internals/domain.md` describes the objects. Volumes are left to the engine.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod client;
mod cut;
mod disk;
mod error;
mod flight;
mod home;
mod lease_renewer;
mod lease_state;
mod marks;
mod service;
mod traffic;
mod transfer;
mod uri;
mod watched;

pub use client::{DomainClient, Inspection, MemberLook, NewDomain, remove_domain};
pub use cut::OBJECT_BYTES;
pub use disk::{MemberDisk, ObjectDisk};
pub use error::MemberError;
pub use home::superblock_of;
pub use lease_renewer::on_loss;
pub use lease_state::{Ended, LeaseState};
pub use service::Service;
pub use traffic::{StoreTraffic, Traffic, TrafficStat};
pub use uri::{DomainUri, MemberUri, SCHEME, UriError};
