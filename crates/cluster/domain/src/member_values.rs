//! Small values of a member, as keys of its object: the lengths of its disks, its settings.

use crate::codec::{Reader, Writer};
use crate::config::damaged;
use crate::entry::MemberId;
use crate::error::{DomainError, Result};
use crate::tenure::member_object;
use gemelo_objects::{Objects, Update};

/// The most bytes of a value: a store keeps keys in memory.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The values of a member. Only the client that serves the member writes them.
pub struct MemberValues<'a> {
    objects: &'a dyn Objects,
    member: MemberId,
}

impl<'a> MemberValues<'a> {
    /// Returns the values of a member of the domain in these objects.
    #[must_use]
    pub const fn new(objects: &'a dyn Objects, member: MemberId) -> Self {
        Self { objects, member }
    }

    /// Returns a value, if the member has it.
    ///
    /// # Errors
    /// Fails if the store does, or if the value is damaged.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let object = member_object(self.member);
        let Some(value) = self.objects.value_if_there(&object, key)? else { return Ok(None) };
        let value = Reader::new(key, &value).map(|reader| reader.rest().to_vec());
        value.map(Some).map_err(|reason| damaged(&object, key, reason))
    }

    /// Removes values. A missing one is no error.
    ///
    /// # Errors
    /// Fails if the store does.
    pub fn remove(&self, keys: &[&str]) -> Result<()> {
        let remove = keys.iter().map(|key| (*key).to_owned()).collect();
        let update = Update { remove, ..Update::default() };
        Ok(self.objects.update(&member_object(self.member), &update)?)
    }

    /// Sets values, all of them or none.
    ///
    /// # Errors
    /// Fails if the store does, or if a value is too long. After a time-out it is unknown if the
    /// values were set.
    pub fn set(&self, values: &[(&str, &[u8])]) -> Result<()> {
        if let Some((key, value)) = values.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            let reason = format!(
                "the value '{key}' has {} bytes; the most are {MAX_VALUE_BYTES}",
                value.len()
            );
            return Err(DomainError::Invalid { reason });
        }
        let encode = |(key, value): &(&str, &[u8])| {
            ((*key).to_owned(), Writer::new(0).bytes(value).finish(key))
        };
        let set = values.iter().map(encode).collect();
        let update = Update { set, ..Update::default() };
        Ok(self.objects.update(&member_object(self.member), &update)?)
    }
}
