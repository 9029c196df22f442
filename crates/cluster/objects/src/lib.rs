//! Operations on the objects of a shared store: [`Objects`] for bytes and keys, [`Locks`] for
//! exclusive locks with a lease and for fencing.
//!
//! Two implementations: [`rados`], through a `librados` that is loaded at run time, and
//! [`simulated`], a store in memory or in files whose delays and faults follow from a seed. The
//! meaning of objects is left to callers.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod error;
mod locks;
pub mod rados;
mod request;
pub mod simulated;

pub use error::ObjectError;
pub use locks::{Fenced, Holder, Instance, LockName, Locks};
pub use request::{Guard, KeyPage, KeyRange, Operation, Request, Update};

/// Most bytes of a key. Stores keep keys in memory while they are compared.
pub const MAX_KEY_BYTES: usize = 256;
/// Most keys in one page of a listing: RADOS gives no more in one operation unless it is
/// configured otherwise.
pub const MAX_PAGE_KEYS: usize = 1000;

/// The rules for a request that was executed.
const SAME: &str = "a request keeps its operation";

/// The result of one operation.
pub type Result<T> = std::result::Result<T, ObjectError>;

/// Objects with bytes and with sorted keys. All methods may be called from many threads at once.
///
/// Operations on one object take effect one after another, each entirely or not at all, and are
/// durable before they return. After [`ObjectError::TimedOut`] an operation may have been applied,
/// may be applied later, or never.
pub trait Objects: Send + Sync {
    /// Executes all requests of a list together, in any order, and sets the outcome of each.
    fn execute(&self, requests: &mut [Request<'_>]);

    /// Returns the names of all objects that begin with the prefix, sorted.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Executes one operation.
    ///
    /// # Errors
    /// Fails as the operation does.
    fn perform<'a>(&self, object: &'a str, operation: Operation<'a>) -> Result<Operation<'a>> {
        let mut requests = [Request::new(object, operation)];
        self.execute(&mut requests);
        let [request] = requests;
        request.outcome.map(|()| request.operation)
    }

    /// Reads from the offset and returns how many bytes were read: fewer than the buffer has only
    /// at the end of the object.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    fn read(&self, object: &str, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match self.perform(object, Operation::read(offset, buffer))? {
            Operation::Read { filled, .. } => Ok(filled),
            _ => unreachable!("{SAME}"),
        }
    }

    /// Writes the bytes at the offset. A missing object is created; a gap reads as zeros.
    ///
    /// # Errors
    /// Fails if the store is full.
    fn write(&self, object: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.perform(object, Operation::write(offset, bytes)).map(drop)
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    fn stat(&self, object: &str) -> Result<u64> {
        match self.perform(object, Operation::Stat { length: 0 })? {
            Operation::Stat { length } => Ok(length),
            _ => unreachable!("{SAME}"),
        }
    }

    /// Creates an empty object.
    ///
    /// # Errors
    /// Fails if the object exists.
    fn create(&self, object: &str) -> Result<()> {
        self.perform(object, Operation::Create).map(drop)
    }

    /// Removes the object.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    fn remove(&self, object: &str) -> Result<()> {
        self.perform(object, Operation::Remove).map(drop)
    }

    /// Returns the value of each key, in the order of the keys.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    fn get_keys(&self, object: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        match self.perform(object, Operation::get_keys(keys))? {
            Operation::GetKeys { values, .. } => Ok(values),
            _ => unreachable!("{SAME}"),
        }
    }

    /// Returns a page of keys and values, in the order of the keys.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    fn list_keys(&self, object: &str, range: KeyRange<'_>) -> Result<KeyPage> {
        match self.perform(object, Operation::ListKeys { range, page: KeyPage::default() })? {
            Operation::ListKeys { page, .. } => Ok(page),
            _ => unreachable!("{SAME}"),
        }
    }

    /// Returns the value of a key; [`None`] if the object does not have it, or does not exist.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    fn value_if_there(&self, object: &str, key: &str) -> Result<Option<Vec<u8>>> {
        match self.get_keys(object, &[key.to_owned()]) {
            Err(ObjectError::NotFound { .. }) => Ok(None),
            values => Ok(values?.pop().flatten()),
        }
    }

    /// Returns a page of keys and values; an empty one if the object does not exist.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    fn keys_if_there(&self, object: &str, range: KeyRange<'_>) -> Result<KeyPage> {
        match self.list_keys(object, range) {
            Err(ObjectError::NotFound { .. }) => Ok(KeyPage::default()),
            page => page,
        }
    }

    /// Removes the object. A missing one is no error.
    ///
    /// # Errors
    /// Fails if the store does not answer.
    fn remove_if_there(&self, object: &str) -> Result<()> {
        match self.remove(object) {
            Err(ObjectError::NotFound { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Changes keys if all guards hold.
    ///
    /// # Errors
    /// Fails if a guard does not hold, if guards are given and the object does not exist, or if
    /// the update creates an object that exists.
    fn update(&self, object: &str, update: &Update) -> Result<()> {
        self.perform(object, Operation::Update(update)).map(drop)
    }
}
