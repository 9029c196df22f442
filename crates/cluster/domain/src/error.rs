//! The errors of a domain.

use gemelo_base::{Classified, FailureKind};
use gemelo_objects::{Holder, ObjectError};
use thiserror::Error;

/// The error of a member's own journal.
pub type JournalError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why an operation of a domain failed.
#[derive(Debug, Error)]
pub enum DomainError {
    /// An operation on an object failed.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A value in the store is damaged.
    #[error("key '{key}' of object '{object}' is damaged: {reason}")]
    Damaged {
        /// The object that has the value.
        object: String,
        /// The key of the value.
        key: String,
        /// The rule that the value breaks.
        reason: &'static str,
    },
    /// The namespace holds no domain.
    #[error("there is no domain here: create it with 'gemelo domain create'")]
    NoDomain,
    /// The namespace holds a domain already.
    #[error("a domain exists here already")]
    Exists,
    /// The settings of a new domain are invalid.
    #[error("invalid domain: {reason}")]
    Invalid {
        /// The rule that the settings break.
        reason: String,
    },
    /// The name of a member is taken.
    #[error("member '{name}' exists already")]
    MemberExists {
        /// The name that was asked for.
        name: String,
    },
    /// There is no member of this name.
    #[error(
        "there is no member '{name}': 'gemelo domain ls' lists those that exist, and 'gemelo pool \
         create' makes one"
    )]
    NoMember {
        /// The name that was asked for.
        name: String,
    },
    /// Another host serves the member.
    #[error("the member is served by {holder}")]
    InUse {
        /// The client that holds the member's lock.
        holder: Box<Holder>,
    },
    /// The member is not served by this client any more.
    #[error("this host does not serve the member any more: its lease is over")]
    NotHeld,
    /// Other members changed the same shards again and again.
    #[error(
        "{changes} changes of the index met changes of other members {rounds} times; try again"
    )]
    Contended {
        /// Changes that were not applied.
        changes: usize,
        /// Attempts until the member gave up.
        rounds: u32,
    },
    /// The journal and the index contradict each other.
    #[error(
        "member {member} changed object '{object}' up to version {found}, and its journal knows \
         only of version {expected}"
    )]
    OutOfOrder {
        /// The number of the member.
        member: u32,
        /// The name of the shard's object.
        object: String,
        /// The version of the receipt in the store.
        found: u64,
        /// The version of the intent.
        expected: u64,
    },
    /// The member's journal failed. Nothing was sent that it does not hold.
    #[error("the member's journal failed")]
    Journal(#[source] JournalError),
}

impl Classified for DomainError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Object(error) => error.kind(),
            Self::Damaged { .. } | Self::OutOfOrder { .. } => FailureKind::Damaged,
            Self::NoDomain
            | Self::Exists
            | Self::Invalid { .. }
            | Self::MemberExists { .. }
            | Self::NoMember { .. } => FailureKind::BadInput,
            Self::InUse { .. } => FailureKind::InUse,
            Self::NotHeld | Self::Contended { .. } | Self::Journal(_) => FailureKind::Failed,
        }
    }
}
