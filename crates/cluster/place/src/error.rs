//! The errors of places.

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_domain::{Damage, DomainError};
use gemelo_member::{Ended, MemberError};
use gemelo_objects::ObjectError;
use gemelo_sharing::SharingError;
use gemelo_volume::VolumeError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a pool cannot be opened, created or closed at its place.
#[derive(Debug, Error, Classified)]
pub enum PlaceError {
    /// The engine refuses or fails.
    #[kind(source)]
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The domain or the member refuses or fails.
    #[kind(source)]
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The ledger of the member, or its sharing with the domain, failed.
    #[kind(source)]
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// Parts of a member do not belong together.
    #[kind(Damaged)]
    #[error(
        "the parts of this member do not belong together, and would give wrong bytes: {}{}. Nothing \
         was changed. Put the newest copy of the object back; 'gemelo domain check' names all of \
         them",
        DomainError::from(first.clone()),
        if *more == 0 { String::new() } else { format!(", and {more} more") }
    )]
    Older {
        /// The first part that is older or lost.
        first: Damage,
        /// The number of further ones.
        more: usize,
    },
    /// Other members use contents of the member that was to be destroyed.
    #[kind(InUse)]
    #[error(
        "other members use {contents} contents of this member, which would be lost: they keep using \
         them until their volumes do not have them any more. Give the new pool another name"
    )]
    Lends {
        /// References of other members.
        contents: u64,
    },
    /// It is not known whether other members use contents of the member that was to be destroyed.
    #[kind(Damaged)]
    #[error(
        "it is not known whether other members use contents of this member, because a ledger cannot \
         be read: {finding}. Nothing was changed; run 'gemelo domain check --repair'"
    )]
    UnknownBorrowers {
        /// The damage, in words.
        finding: String,
    },
    /// The member that was to be removed still shares contents.
    #[kind(InUse)]
    #[error(
        "the member keeps {blocks} blocks that its domain knows: remove its volumes, run 'gemelo \
         pool gc' on it, and try again. Contents that other members use stay until those have \
         released them"
    )]
    Shares {
        /// Blocks with a ledger record.
        blocks: u64,
    },
    /// A member that has to be still is served.
    #[kind(InUse)]
    #[error(
        "member '{name}' is served by {holder}: end that process, or hand the member over with \
         'gemelo pool hand-over', and try again. The lease of a dead process lasts for 30 seconds"
    )]
    Served {
        /// Name of the member.
        name: String,
        /// The client that serves it.
        holder: String,
    },
    /// The references of a member are not known, so that the index cannot be rebuilt from them.
    #[kind(Damaged)]
    #[error(
        "the index cannot be rebuilt, because the references of a member are not known, and their \
         contents would be freed: {finding}"
    )]
    UnknownReferences {
        /// The contradiction, in words.
        finding: String,
    },
    /// No thread can be started.
    #[kind(source)]
    #[error("cannot start a thread: {}", gemelo_base::threads::REFUSED)]
    Thread(#[source] io::Error),
    /// A value is to be kept with a pool that is no member, or that was only looked at.
    #[kind(Bug)]
    #[error("this process does not serve a member, so it keeps no value with it")]
    OnlyMember,
    /// The directory of this host for the sockets of members cannot be made.
    #[kind(source, untouched)]
    #[error(
        "cannot use the directory '{path}' for the sockets of members: set GEMELO_RUNTIME_DIR to a \
         directory that only this user can write to", path = path.shown())]
    Runtime {
        /// Path of the directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl PlaceError {
    /// Returns whether another process has the pool.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::Volume(VolumeError::InUse { .. })
                | Self::Member(MemberError::Domain(DomainError::InUse { .. }) | MemberError::Taken)
                | Self::Served { .. }
        )
    }

    /// Returns whether the store did not answer in time, so that another attempt may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Member(error) => member_may_pass(error),
            Self::Sharing(SharingError::Domain(error)) => domain_may_pass(error),
            Self::Sharing(SharingError::Volume(error)) | Self::Volume(error) => {
                has_timed_out(error)
            }
            Self::Sharing(SharingError::Contents { source, .. }) => {
                source.kind() == io::ErrorKind::TimedOut
            }
            _ => false,
        }
    }

    /// Returns the name of the process or client that has the pool.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        match self {
            Self::Volume(VolumeError::InUse { holder }) => Some(holder.clone()),
            Self::Member(MemberError::Domain(DomainError::InUse { holder })) => {
                Some(holder.to_string())
            }
            Self::Served { holder, .. } => Some(holder.clone()),
            Self::Member(MemberError::Taken) => Some("another host".to_owned()),
            _ => None,
        }
    }
}

fn member_may_pass(error: &MemberError) -> bool {
    match error {
        MemberError::Domain(error) => domain_may_pass(error),
        // The lease ended, or a write was not answered, while the pool was being opened.
        MemberError::Ended(why) => *why != Ended::Released,
        MemberError::Connect(error) => error.may_pass(),
        _ => false,
    }
}

const fn domain_may_pass(error: &DomainError) -> bool {
    matches!(
        error,
        DomainError::Object(ObjectError::TimedOut { .. } | ObjectError::Fenced { .. })
            | DomainError::NotHeld
            | DomainError::Contended { .. }
    )
}

/// Returns whether an error of the engine comes from a store that did not answer in time.
fn has_timed_out(error: &VolumeError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The result of most functions of this crate.
pub(crate) type Result<T> = std::result::Result<T, PlaceError>;
