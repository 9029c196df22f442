//! Calls and answers as messages: they own their data, because a call may arrive after its sender
//! gave up.

use crate::request::scatter;
use crate::{Holder, Instance, KeyPage, ObjectError, Operation, Result, Update};

#[derive(Debug, Clone)]
pub(super) enum Call {
    Read { offset: u64, length: usize },
    Write(Vec<(u64, Vec<u8>)>),
    Append(Vec<u8>),
    Zero { offset: u64, length: u64 },
    Truncate(u64),
    Create,
    Remove,
    Stat,
    GetKeys(Vec<String>),
    ListKeys { after: String, prefix: String, limit: usize },
    Update(Update),
    List(String),
    Lock { lock: String, lease_ns: u64, renews: bool },
    Unlock(String),
    Holder(String),
    Fence(Instance),
    Unfence(Instance),
}

#[derive(Debug)]
pub(super) enum CallAnswer {
    Done,
    Bytes(Vec<u8>),
    Length(u64),
    Values(Vec<Option<Vec<u8>>>),
    Page(KeyPage),
    Names(Vec<String>),
    Holder(Option<Holder>),
    Epoch(u64),
}

impl Call {
    pub(super) fn of(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::Read { offset, buffer, .. } => {
                Self::Read { offset: *offset, length: buffer.len() }
            }
            Operation::ReadParts { offset, parts, .. } => {
                let length = parts.iter().map(|part| part.len()).sum();
                Self::Read { offset: *offset, length }
            }
            Operation::Write { parts } => {
                let part = |(offset, bytes): &(u64, &[u8])| (*offset, bytes.to_vec());
                Self::Write(parts.iter().map(part).collect())
            }
            Operation::Append { bytes } => Self::Append(bytes.to_vec()),
            Operation::Zero { offset, length } => Self::Zero { offset: *offset, length: *length },
            Operation::Truncate { length } => Self::Truncate(*length),
            Operation::Create => Self::Create,
            Operation::Remove => Self::Remove,
            Operation::Stat { .. } => Self::Stat,
            Operation::GetKeys { keys, .. } => Self::GetKeys(keys.to_vec()),
            Operation::ListKeys { range, .. } => Self::ListKeys {
                after: range.after.into(),
                prefix: range.prefix.into(),
                limit: range.bounded_limit(),
            },
            Operation::Update(update) => Self::Update((*update).clone()),
        }
    }

    /// Returns whether a missing object is created by this call.
    pub(super) const fn creates_object(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Append(_) | Self::Lock { renews: false, .. })
    }

    /// Returns the answer if the object does not exist.
    pub(super) fn of_missing_object(&self, name: &str) -> Result<CallAnswer> {
        match self {
            Self::Zero { .. } | Self::Truncate(_) => Ok(CallAnswer::Done),
            Self::Holder(_) => Ok(CallAnswer::Holder(None)),
            Self::Lock { lock, .. } | Self::Unlock(lock) => {
                Err(ObjectError::NotHeld { object: name.into(), lock: lock.clone() })
            }
            _ => Err(ObjectError::NotFound { object: name.into() }),
        }
    }

    /// Returns the most bytes that the call adds to the store.
    pub(super) fn added_bytes(&self, key_overhead_bytes: u64) -> u64 {
        match self {
            Self::Write(parts) => parts.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
            Self::Append(bytes) => bytes.len() as u64,
            Self::Update(update) => {
                let of = |(key, value): &(String, Vec<u8>)| {
                    key_overhead_bytes + (key.len() + value.len()) as u64
                };
                update.set.iter().map(of).sum()
            }
            _ => 0,
        }
    }

    /// Returns the name of the lock that the call is about, or the call if it is about none.
    pub(super) fn split_lock(self) -> std::result::Result<(String, Self), Self> {
        let name = match &self {
            Self::Lock { lock, .. } | Self::Unlock(lock) | Self::Holder(lock) => lock.clone(),
            _ => return Err(self),
        };
        Ok((name, self))
    }
}

impl CallAnswer {
    /// Sets the results of the operation.
    pub(super) fn fill(self, operation: &mut Operation<'_>) {
        match (operation, self) {
            (Operation::Read { buffer, filled, .. }, Self::Bytes(bytes)) => {
                assert!(bytes.len() <= buffer.len(), "no more is read than there is memory for");
                *filled = bytes.len();
                scatter(&bytes, &mut [buffer]);
            }
            (Operation::ReadParts { parts, filled, .. }, Self::Bytes(bytes)) => {
                *filled = bytes.len();
                scatter(&bytes, parts);
            }
            (Operation::Stat { length }, Self::Length(answer)) => *length = answer,
            (Operation::GetKeys { values, .. }, Self::Values(answer)) => *values = answer,
            (Operation::ListKeys { page, .. }, Self::Page(answer)) => *page = answer,
            (operation, Self::Done) => assert!(!operation.asks(), "a question has an answer"),
            (operation, answer) => unreachable!("{} is answered by {answer:?}", operation.verb()),
        }
    }
}
