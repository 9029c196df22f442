//! The places of pools: a directory of this host, or a member of a domain in a shared store.
//!
//! [`PoolPlace`] is parsed once, and opens, creates and removes pools alike in both. An open pool
//! is a [`PlacedPool`]: with a member comes the right to serve it, which ends with a lease. The
//! engine ([`gemelo_volume`]) knows disks and no places.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod creation;
mod domain_check;
mod domain_repair;
mod error;
mod member;
mod open;
mod place;
mod removal;
mod runtime;
mod sharing;
mod volume_path;

pub use domain_check::DomainCheck;
pub use error::PlaceError;
pub use gemelo_member::{StoreTraffic, TrafficStat};
pub use member::MemberPlace;
pub use open::{HeldDisks, PlacedPool, Use};
pub use place::PoolPlace;
pub use removal::MemberRemoval;
pub use sharing::SharingStat;
pub use volume_path::{VolumePath, VolumePathError};

pub use gemelo_domain::Repaired;
pub use gemelo_store::PoolDisks;
