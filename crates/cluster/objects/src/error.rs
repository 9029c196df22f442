//! The errors of object operations.

use crate::locks::{Holder, Instance};
use gemelo_base::Classified;
use std::io;
use thiserror::Error;

/// The reason why an operation on an object failed.
#[derive(Debug, Error, Classified)]
pub enum ObjectError {
    /// The object does not exist.
    #[kind(Failed)]
    #[error("object '{object}' does not exist")]
    NotFound {
        /// The name of the object.
        object: String,
    },
    /// An object that was to be created exists.
    #[kind(Failed)]
    #[error("object '{object}' exists already")]
    Exists {
        /// The name of the object.
        object: String,
    },
    /// A value is not the expected one; nothing was changed.
    #[kind(Failed)]
    #[error("key '{key}' of object '{object}' has another value than expected")]
    Guard {
        /// The name of the object.
        object: String,
        /// The first key whose value differs.
        key: String,
    },
    /// Another client holds the lock.
    #[kind(InUse)]
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
    #[kind(Failed)]
    #[error("lock '{lock}' of object '{object}' is not held any more")]
    NotHeld {
        /// The name of the object that has the lock.
        object: String,
        /// The name of the lock.
        lock: String,
    },
    /// Another client has fenced this one. No operation of this client takes effect any more.
    #[kind(Failed)]
    #[error("another host has fenced this client, {instance}; it must start again")]
    Fenced {
        /// The address by which the store knows this client.
        instance: Instance,
    },
    /// The store has no space.
    #[kind(Exhausted)]
    #[error("the store has no space for object '{object}': add storage or remove data")]
    Full {
        /// The name of the object.
        object: String,
    },
    /// The store did not answer in time. The operation may have been applied.
    #[kind(Failed)]
    #[error("the store did not answer in time to a request to {action} object '{object}'")]
    TimedOut {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
    },
    /// The user of this client has no right to do it. Nothing was done.
    #[kind(BadInput)]
    #[error(
        "the Ceph user may not {action} object '{object}': it needs the capability osd 'allow rwx' \
         for the pools and the namespace of the domain"
    )]
    NotPermitted {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The name of the object.
        object: String,
    },
    /// The request itself is invalid.
    #[kind(Bug)]
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
    #[kind(source)]
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
