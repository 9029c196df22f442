//! Requests: an object, an operation and its outcome.

use crate::{MAX_KEY_BYTES, MAX_PAGE_KEYS, ObjectError, Result};

/// An operation on one object, with its outcome.
#[derive(Debug)]
pub struct Request<'a> {
    /// The name of the object.
    pub object: &'a str,
    /// The operation. Its results are set if the outcome is a success.
    pub operation: Operation<'a>,
    /// The outcome, which [`crate::Objects::execute`] sets.
    pub outcome: Result<()>,
}

impl<'a> Request<'a> {
    /// Creates a request.
    #[must_use]
    pub const fn new(object: &'a str, operation: Operation<'a>) -> Self {
        Self { object, operation, outcome: Ok(()) }
    }
}

/// An operation on one object. Fields that [`crate::Objects::execute`] sets are said to be results.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Reads bytes.
    Read {
        /// The byte at which the read begins.
        offset: u64,
        /// The memory for the bytes.
        buffer: &'a mut [u8],
        /// Result: the bytes read, fewer than the buffer has at the end of the object.
        filled: usize,
    },
    /// Reads bytes that follow one another in the object into several places of memory.
    ReadParts {
        /// The byte at which the read begins.
        offset: u64,
        /// The memory for the bytes, one part after another. Parts that also lie side by side in
        /// memory are read without a copy.
        parts: Vec<&'a mut [u8]>,
        /// Result: the bytes read, fewer than the parts have at the end of the object.
        filled: usize,
    },
    /// Writes bytes, all of them or none, and creates the object if it does not exist.
    Write {
        /// The byte at which each part begins, and the bytes that replace those from there on.
        /// Later parts are written over earlier ones.
        parts: Vec<(u64, &'a [u8])>,
    },
    /// Writes bytes at the end, and creates the object if it does not exist.
    Append {
        /// The bytes that are added at the end.
        bytes: &'a [u8],
    },
    /// Replaces bytes within the object by zeros. A missing object stays missing.
    Zero {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// Sets the length; new bytes are zeros. A missing object stays missing.
    Truncate {
        /// The length in bytes.
        length: u64,
    },
    /// Creates an object that must not exist.
    Create,
    /// Removes the object.
    Remove,
    /// Asks for the length.
    Stat {
        /// Result: the length in bytes.
        length: u64,
    },
    /// Asks for the values of keys.
    GetKeys {
        /// The keys whose values are asked for.
        keys: &'a [String],
        /// Result: the values in the order of the keys.
        values: Vec<Option<Vec<u8>>>,
    },
    /// Lists keys in order.
    ListKeys {
        /// The keys to list.
        range: KeyRange<'a>,
        /// Result: the keys and values.
        page: KeyPage,
    },
    /// Changes keys if all guards hold.
    Update(&'a Update),
}

/// The keys that a listing returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The listing begins with the first key above this one.
    pub after: &'a str,
    /// Only keys that begin so are listed.
    pub prefix: &'a str,
    /// Most keys to return; see [`MAX_PAGE_KEYS`].
    pub limit: usize,
}

impl KeyRange<'_> {
    /// Returns the limit, bounded by what a store returns at once.
    #[must_use]
    pub fn bounded_limit(&self) -> usize {
        self.limit.clamp(1, MAX_PAGE_KEYS)
    }
}

/// A part of an object's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// Keys and values, sorted by key, without keys that are no text.
    pub entries: Vec<(String, Vec<u8>)>,
    /// `true` if more keys follow. Then there is an entry.
    pub has_more: bool,
}

/// A condition on the value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The key that is compared.
    pub key: String,
    /// The value that the key must have; `None` if it must have none.
    pub expected: Option<Vec<u8>>,
}

/// A change of keys that is applied as a whole, and only if all guards hold. An object without
/// guards is created if it does not exist. Values are never empty: RADOS cannot compare an empty
/// value with a missing one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Update {
    /// `true` if the object must not exist and is created.
    pub creates: bool,
    /// The conditions that must hold together.
    pub guards: Vec<Guard>,
    /// Keys and their new values.
    pub set: Vec<(String, Vec<u8>)>,
    /// Keys to remove; a missing key is no error.
    pub remove: Vec<String>,
}

impl<'a> Operation<'a> {
    /// Creates a read.
    #[must_use]
    pub const fn read(offset: u64, buffer: &'a mut [u8]) -> Self {
        Self::Read { offset, buffer, filled: 0 }
    }

    /// Creates a read into several places of memory.
    #[must_use]
    pub const fn read_parts(offset: u64, parts: Vec<&'a mut [u8]>) -> Self {
        Self::ReadParts { offset, parts, filled: 0 }
    }

    /// Creates a write of one part.
    #[must_use]
    pub fn write(offset: u64, bytes: &'a [u8]) -> Self {
        Self::Write { parts: vec![(offset, bytes)] }
    }

    /// Creates a request for the values of keys.
    #[must_use]
    pub const fn get_keys(keys: &'a [String]) -> Self {
        Self::GetKeys { keys, values: Vec::new() }
    }

    /// Returns the action as a verb, for messages.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::ReadParts { .. } => "read",
            Self::Write { .. } => "write",
            Self::Append { .. } => "append to",
            Self::Zero { .. } => "zero",
            Self::Truncate { .. } => "truncate",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Stat { .. } => "ask for the length of",
            Self::GetKeys { .. } => "get keys of",
            Self::ListKeys { .. } => "list keys of",
            Self::Update(_) => "update keys of",
        }
    }

    /// Returns the bytes of contents, keys and values that the operation sends, and those that its
    /// result has received, without what a protocol adds.
    #[must_use]
    pub fn payload_bytes(&self) -> (u64, u64) {
        let of_keys = |keys: &[String]| keys.iter().map(String::len).sum::<usize>();
        let of_entries = |entries: &[(String, Vec<u8>)]| {
            entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        };
        let (sent, received) = match self {
            Self::Read { filled, .. } | Self::ReadParts { filled, .. } => (0, *filled),
            Self::Write { parts } => (parts.iter().map(|(_, bytes)| bytes.len()).sum(), 0),
            Self::Append { bytes } => (bytes.len(), 0),
            Self::GetKeys { keys, values } => {
                (of_keys(keys), values.iter().flatten().map(Vec::len).sum())
            }
            Self::ListKeys { range, page } => {
                (range.after.len() + range.prefix.len(), of_entries(&page.entries))
            }
            Self::Update(update) => {
                let guards = update.guards.iter();
                let guards = guards
                    .map(|guard| guard.key.len() + guard.expected.as_ref().map_or(0, Vec::len));
                (guards.sum::<usize>() + of_entries(&update.set) + of_keys(&update.remove), 0)
            }
            Self::Zero { .. } | Self::Truncate { .. } | Self::Create => (0, 0),
            Self::Remove | Self::Stat { .. } => (0, 0),
        };
        (sent as u64, received as u64)
    }

    /// Returns whether the operation has results besides its outcome.
    pub(crate) const fn asks(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::ReadParts { .. }
                | Self::Stat { .. }
                | Self::GetKeys { .. }
                | Self::ListKeys { .. }
        )
    }

    /// Checks the rules that hold for every store.
    ///
    /// # Errors
    /// Fails if a key is empty, too long or has a zero byte, or if a value is empty.
    pub(crate) fn validate(&self, object: &str) -> Result<()> {
        let reason = match self {
            Self::GetKeys { keys, .. } => keys.iter().find_map(|key| broken_rule(key)),
            Self::Update(update) => update.broken_rule(),
            _ => None,
        };
        match reason {
            None => Ok(()),
            Some(reason) => {
                Err(ObjectError::Invalid { action: self.verb(), object: object.into(), reason })
            }
        }
    }
}

impl Update {
    fn broken_rule(&self) -> Option<&'static str> {
        let guards = self.guards.iter();
        let set = self.set.iter();
        let mut keys = guards.clone().map(|guard| &guard.key);
        let values = guards.filter_map(|guard| guard.expected.as_ref());
        keys.find_map(|key| broken_rule(key))
            .or_else(|| set.clone().find_map(|(key, _)| broken_rule(key)))
            .or_else(|| self.remove.iter().find_map(|key| broken_rule(key)))
            .or_else(|| {
                let mut values = values.chain(set.map(|(_, value)| value));
                values.any(Vec::is_empty).then_some("a value must not be empty")
            })
    }
}

/// Copies bytes to parts, one part after another. There may be fewer bytes than the parts have.
pub(crate) fn scatter(bytes: &[u8], parts: &mut [&mut [u8]]) {
    let mut rest = bytes;
    for part in parts {
        let (head, tail) = rest.split_at(part.len().min(rest.len()));
        if let Some(place) = part.get_mut(..head.len()) {
            place.copy_from_slice(head);
        }
        rest = tail;
    }
    assert!(rest.is_empty(), "all bytes have a place");
}

fn broken_rule(key: &str) -> Option<&'static str> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        Some("a key must have 1 to 256 bytes")
    } else if key.as_bytes().contains(&0) {
        Some("a key must not contain a zero byte")
    } else {
        None
    }
}
