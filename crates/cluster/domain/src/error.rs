//! The errors of a domain.

use gemelo_base::Classified;
use gemelo_objects::{Holder, ObjectError};
use thiserror::Error;

/// The result of most functions of this crate.
pub type Result<T> = std::result::Result<T, DomainError>;

/// The error of a member's own journal.
pub type JournalError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why an operation of a domain failed.
#[derive(Debug, Error, Classified)]
pub enum DomainError {
    /// An operation on an object failed.
    #[kind(source)]
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A value in the store is damaged.
    #[kind(Damaged)]
    #[error("key '{key}' of object '{object}' is damaged: {reason}")]
    Damaged {
        /// The object that has the value.
        object: String,
        /// The key of the value.
        key: String,
        /// The rule that the value breaks.
        reason: &'static str,
    },
    /// The domain has a feature that this program is too old for.
    #[kind(BadInput, remedy = UseNewer)]
    #[error("the domain has {what}, which this version of gemelo does not know")]
    Unknown {
        /// The feature.
        what: String,
    },
    /// The domain has a feature for which this program can only read it.
    #[kind(BadInput, remedy = UseNewer)]
    #[error(
        "the domain has {what}, which this version of gemelo does not know: it can be read, not \
         changed"
    )]
    ReadableOnly {
        /// The feature.
        what: String,
    },
    /// The namespace holds no domain.
    #[kind(BadInput)]
    #[error("there is no domain here: create it with 'gemelo domain create'")]
    NoDomain,
    /// The namespace holds a domain already.
    #[kind(BadInput)]
    #[error("a domain exists here already")]
    Exists,
    /// The settings of a new domain are invalid.
    #[kind(BadInput)]
    #[error("invalid domain: {reason}")]
    Invalid {
        /// The rule that the settings break.
        reason: String,
    },
    /// The name of a member is taken.
    #[kind(BadInput)]
    #[error("member '{name}' exists already")]
    MemberExists {
        /// The name that was asked for.
        name: String,
    },
    /// The domain is being repaired, so the list of members must not change.
    #[kind(InUse)]
    #[error(
        "the domain is being repaired and takes no new members: wait, or, if that process was \
         killed, run 'gemelo domain check --repair' again"
    )]
    BeingRepaired,
    /// The domain has members.
    #[kind(BadInput)]
    #[error("the domain has members ({names}): remove each with 'gemelo pool rm' first")]
    HasMembers {
        /// The names of the members.
        names: String,
    },
    /// The namespace has an object of a member that the domain does not know.
    #[kind(BadInput)]
    #[error(
        "object '{object}' is of a member that the list of members does not have: 'gemelo domain \
         check' looks at it"
    )]
    HasObjects {
        /// The name of the object.
        object: String,
    },
    /// There is no member of this name.
    #[kind(BadInput)]
    #[error(
        "there is no member '{name}': 'gemelo domain ls' lists those that exist, and 'gemelo pool \
         create' makes one"
    )]
    NoMember {
        /// The name that was asked for.
        name: String,
    },
    /// Another host serves the member.
    #[kind(InUse)]
    #[error("the member is served by {holder}")]
    InUse {
        /// The client that holds the member's lock.
        holder: Box<Holder>,
    },
    /// The member is not served by this client any more.
    #[kind(Failed)]
    #[error("this host does not serve the member any more: its lease is over")]
    NotHeld,
    /// Other members changed the same shards again and again.
    #[kind(Failed)]
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
    #[kind(Damaged)]
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
    #[kind(Failed)]
    #[error("the member's journal failed")]
    Journal(#[source] JournalError),
}
