//! The errors of object operations.

use crate::locks::{Holder, Instance};
use gemelo_base::{Classified, FailureKind};
use std::io;
use thiserror::Error;

/// The reason why an operation on an object failed.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// The object does not exist.
    #[error("object '{object}' does not exist")]
    NotFound {
        /// The name of the object.
        object: String,
    },
    /// An object that was to be created exists.
    #[error("object '{object}' exists already")]
    Exists {
        /// The name of the object.
        object: String,
    },
    /// A value is not the expected one; nothing was changed.
    #[error("key '{key}' of object '{object}' has another value than expected")]
    Guard {
        /// The name of the object.
        object: String,
        /// The first key whose value differs.
        key: String,
    },
    /// Another client holds the lock.
    #[error("lock '{lock}' of object '{object}' is held by {holder}")]
    Held {
        /// The name of the object that has the lock.
        object: String,
        /// The name of the lock.
        lock: String,
        /// The client that held the lock when it was asked for.
        holder: Box<Holder>,
    },
    /// The client does not hold the lock, or its lease is over.
    #[error("lock '{lock}' of object '{object}' is not held any more")]
    NotHeld {
        /// The name of the object that has the lock.
        object: String,
        /// The name of the lock.
        lock: String,
    },
    /// Another client has fenced this one. No operation of this client takes effect any more.
    #[error("another host has fenced this client, {instance}; it must start again")]
    Fenced {
        /// The address by which the store knows this client.
        instance: Instance,
    },
    /// The store has no space.
    #[error("the store has no space for object '{object}': add storage or remove data")]
    Full {
        /// The name of the object.
        object: String,
    },
    /// The store did not answer in time. The operation may have been applied.
    #[error("the store did not answer in time to a request to {action} object '{object}'")]
    TimedOut {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
    },
    /// The request itself is invalid.
    #[error("invalid request to {action} object '{object}': {reason}")]
    Invalid {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
        /// The rule that the request breaks.
        reason: &'static str,
    },
    /// The store reported another error.
    #[error("cannot {action} object '{object}'")]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
        /// The error of the store.
        source: io::Error,
    },
}

impl ObjectError {
    /// Returns whether it is unknown if the operation was applied.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Io { .. })
    }
}

impl Classified for ObjectError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Held { .. } => FailureKind::InUse,
            Self::Full { .. } => FailureKind::Exhausted,
            Self::Invalid { .. } => FailureKind::Bug,
            Self::Io { source, .. } => FailureKind::of_io(source),
            Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::Guard { .. }
            | Self::NotHeld { .. }
            | Self::Fenced { .. }
            | Self::TimedOut { .. } => FailureKind::Failed,
        }
    }
}
