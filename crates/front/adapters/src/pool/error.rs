//! Errors of volumes as targets.

use super::PoolVolume;
use gemelo_base::{Classified, FailureKind};
use gemelo_place::{PlaceError, PoolPlace};
use gemelo_target::{AdapterError, TargetError};
use thiserror::Error;

/// The reason why a volume of a pool is refused as a target, or cannot be opened or closed.
#[derive(Debug, Error)]
pub enum PoolTargetError {
    /// The name does not give both a pool and a volume.
    #[error(
        "invalid target 'pool:{place}': give pool:DIRECTORY/VOLUME, or \
         pool:rados:POOL/NAMESPACE/MEMBER/VOLUME for a member of a domain"
    )]
    Shape {
        /// The text after `pool:`.
        place: String,
    },
    /// The pool cannot be opened.
    #[error("cannot open the pool {place}")]
    Open {
        /// The place of the pool.
        place: PoolPlace,
        /// The error with which the pool refused.
        source: Box<PlaceError>,
    },
    /// Another process has opened the pool.
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
    #[error("cannot look for duplicates in the pool {place}")]
    Settle {
        /// The place of the pool.
        place: PoolPlace,
        /// The error with which the pool refused.
        source: PlaceError,
    },
    /// Closing the pool failed, so the latest writes may not be durable.
    #[error("cannot close the pool {place}")]
    Close {
        /// The place of the pool.
        place: PoolPlace,
        /// The error with which the pool refused.
        source: PlaceError,
    },
}

impl Classified for PoolTargetError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Shape { .. } | Self::NoVolume { .. } => FailureKind::BadInput,
            Self::Open { source, .. } => source.kind().untouched(),
            Self::InUse { .. } => FailureKind::InUse,
            Self::Settle { source, .. } | Self::Close { source, .. } => source.kind().midway(),
        }
    }
}

impl From<PoolTargetError> for TargetError {
    fn from(error: PoolTargetError) -> Self {
        AdapterError::new(error).into()
    }
}
