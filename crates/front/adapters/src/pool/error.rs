//! Errors of volumes as targets.

use super::PoolVolume;
use gemelo_base::Classified;
use gemelo_place::{PlaceError, PoolPlace};
use gemelo_target::{AdapterError, TargetError};
use thiserror::Error;

/// The reason why a volume of a pool is refused as a target, or cannot be opened or closed.
#[derive(Debug, Error, Classified)]
pub enum PoolTargetError {
    /// The name does not give both a pool and a volume.
    #[kind(BadInput)]
    #[error(
        "invalid target 'pool:{place}': give pool:DIRECTORY/VOLUME, or \
         pool:rados:POOL/NAMESPACE/MEMBER/VOLUME for a member of a domain"
    )]
    Shape {
        /// The text after `pool:`.
        place: String,
    },
    /// The pool cannot be opened.
    #[kind(source, untouched)]
    #[error("cannot open the pool {place}")]
    Open {
        /// The place of the pool.
        place: PoolPlace,
        /// The error with which the pool refused.
        source: Box<PlaceError>,
    },
    /// Another process has opened the pool.
    #[kind(InUse)]
    #[error(
        "the pool {} is in use by {holder}: if that process serves the pool, give the export as \
         target, nbd+unix:///{}?socket=PATH; if not, wait until it has ended",
        place.0.pool, place.0.name
    )]
    InUse {
        /// The volume as the target names it.
        place: PoolVolume,
        /// The process that has opened the pool.
        holder: String,
    },
    /// The pool has no volume of this name.
    #[kind(BadInput)]
    #[error(
        "the pool {} has no volume '{}': it has {known}",
        place.0.pool, place.0.name
    )]
    NoVolume {
        /// The volume as the target names it.
        place: PoolVolume,
        /// The names of the pool's volumes, or "none".
        known: String,
    },
    /// The search for duplicates failed.
    #[kind(source, midway)]
    #[error("cannot look for duplicates in the pool {place}")]
    Settle {
        /// The place of the pool.
        place: PoolPlace,
        /// The error with which the pool refused.
        source: PlaceError,
    },
    /// Closing the pool failed, so the latest writes may not be durable.
    #[kind(source, midway)]
    #[error("cannot close the pool {place}")]
    Close {
        /// The place of the pool.
        place: PoolPlace,
        /// The error with which the pool refused.
        source: PlaceError,
    },
}

impl From<PoolTargetError> for TargetError {
    fn from(error: PoolTargetError) -> Self {
        AdapterError::new(error).into()
    }
}
