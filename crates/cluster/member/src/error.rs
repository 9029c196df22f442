//! The errors of members and of names of domains.

use crate::lease_state::Ended;
use gemelo_base::{Classified, FailureKind};
use gemelo_domain::DomainError;
use gemelo_objects::ObjectError;
use gemelo_objects::rados::ConnectError;
use std::io;
use thiserror::Error;

/// The reason why a member cannot be opened, changed or handed over.
#[derive(Debug, Error)]
pub enum MemberError {
    /// The domain refuses or fails.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// No connection to the cluster is made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The pool for contents only grows.
    #[error(
        "the Ceph pool '{pool}' is erasure-coded and does not let objects be overwritten: run \
         'ceph osd pool set {pool} allow_ec_overwrites true', or name another pool for contents"
    )]
    NoOverwrites {
        /// Name of the Ceph pool.
        pool: String,
    },
    /// The pool for the index has no keys.
    #[error(
        "the Ceph pool '{pool}' cannot hold the index of a domain, because it is erasure-coded: \
         name a replicated pool, and give this one as the pool for contents"
    )]
    NoKeys {
        /// Name of the Ceph pool.
        pool: String,
    },
    /// The member is registered, and has no pool yet.
    #[error("the member '{name}' has no pool: create it with 'gemelo pool create'")]
    NoPool {
        /// Name of the member.
        name: String,
    },
    /// The object of a member that has a pool is lost, or the lengths of the disks in it.
    #[error(
        "the member '{name}' has a pool, and its object '{object}', which says how long the disks \
         are, is lost or older: put the object back. Create no pool over it: the contents are there"
    )]
    MemberLost {
        /// Name of the member.
        name: String,
        /// Name of the object.
        object: String,
    },
    /// The member has a pool.
    #[error("the member '{name}' has a pool already")]
    PoolExists {
        /// Name of the member.
        name: String,
    },
    /// The member has objects, and no pool that can be read.
    #[error(
        "the member '{name}' has a pool that cannot be read: {remains}. Nothing was changed: try \
         again if the cluster is busy, see 'gemelo domain check', or destroy it with --force"
    )]
    Remains {
        /// Name of the member.
        name: String,
        /// A description of the remains.
        remains: String,
    },
    /// Another host took the member while it was read.
    #[error("another host has taken the member while it was read: ask that host")]
    Taken,
    /// This process may not act for the member any more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The user of the store has no right to exclude other clients.
    #[error(
        "the Ceph user may not exclude other clients ('osd blocklist'), without which no other \
         process can take a member over: give it the capability mon 'profile rbd'"
    )]
    MayNotFence,
    /// The system gives no random bytes.
    #[error("cannot read random bytes of the system")]
    Random(#[source] io::Error),
    /// A thread cannot be started.
    #[error(
        "cannot start the thread that keeps the lease of the member: {}",
        gemelo_base::threads::REFUSED
    )]
    Thread(#[source] io::Error),
}

impl From<ObjectError> for MemberError {
    fn from(error: ObjectError) -> Self {
        Self::Domain(error.into())
    }
}

impl Classified for MemberError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Domain(DomainError::Object(ObjectError::Fenced { .. })) | Self::Ended(_) => {
                FailureKind::Displaced
            }
            Self::Domain(error) => error.kind(),
            Self::Connect(error) => error.kind(),
            Self::NoOverwrites { .. }
            | Self::NoKeys { .. }
            | Self::NoPool { .. }
            | Self::MayNotFence
            | Self::PoolExists { .. }
            | Self::Remains { .. } => FailureKind::BadInput,
            Self::MemberLost { .. } => FailureKind::Damaged,
            Self::Taken => FailureKind::InUse,
            Self::Thread(source) | Self::Random(source) => FailureKind::of_io(source),
        }
    }
}

/// The result of most functions of this crate.
pub(crate) type Result<T> = std::result::Result<T, MemberError>;
