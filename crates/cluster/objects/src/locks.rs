//! Locks with a lease, and fencing.

use crate::Result;
use std::fmt;
use std::time::Duration;

/// The identity of one connection of a client to the store, under which it can be fenced. RADOS
/// takes the network address, which is never used twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance(pub String);

impl fmt::Display for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A lock of an object. An object may have several, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockName<'a> {
    /// The name of the object that has the lock.
    pub object: &'a str,
    /// The name of the lock.
    pub name: &'a str,
}

/// The client that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The client's name in the store.
    pub client: String,
    /// The instance by which the client is fenced.
    pub instance: Instance,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {}", self.client, self.instance)
    }
}

/// The state of a fenced client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fenced {
    /// Its process may still run, or may be stopped and go on later.
    Lost,
    /// Its process has ended. What it sent may still be on its way.
    Ended,
}

/// Exclusive locks with a lease, and fencing of other clients.
pub trait Locks: Send + Sync {
    /// Returns the identity of this client.
    fn instance(&self) -> Instance;

    /// Takes the lock for the duration of the lease, or prolongs it if this client holds it. The
    /// object is created if it does not exist.
    ///
    /// # Errors
    /// Fails with [`crate::ObjectError::Held`] if another client holds the lock.
    fn lock(&self, lock: LockName<'_>, lease: Duration) -> Result<()>;

    /// Prolongs the lock, counted from now.
    ///
    /// # Errors
    /// Fails with [`crate::ObjectError::NotHeld`] if the lease is over.
    fn renew(&self, lock: LockName<'_>, lease: Duration) -> Result<()>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// Fails with [`crate::ObjectError::NotHeld`] if this client does not hold it.
    fn unlock(&self, lock: LockName<'_>) -> Result<()>;

    /// Returns the holder. A holder whose lease is over is none.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    fn holder(&self, lock: LockName<'_>) -> Result<Option<Holder>>;

    /// Excludes a client from the store, for as long as it could still send something. When this
    /// returns, no operation of that client takes effect on an object after an operation of this
    /// client on that object. A later fence of the same client replaces the time of the first one.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    fn fence(&self, instance: &Instance, fenced: Fenced) -> Result<()>;

    /// Ends the fence of a client. What that client still sends may take effect again, so nothing
    /// of it may be on its way. There need not be a fence.
    ///
    /// # Errors
    /// Fails if this client may not end fences, or if the store does not answer.
    fn unfence(&self, instance: &Instance) -> Result<()>;

    /// Finds out if this client may fence others, without fencing one.
    ///
    /// # Errors
    /// Fails with the reason if it may not, or if the store does not answer.
    fn try_fence(&self) -> Result<()> {
        Ok(())
    }
}
