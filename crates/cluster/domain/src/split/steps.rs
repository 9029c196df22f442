//! The guarded updates of a split, without input and output.

use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::{Shard, fingerprint_of_key};
use gemelo_objects::{Guard, Update};

/// Keys of a shard with their values.
pub type ShardEntries = [(String, Vec<u8>)];

/// A step of a split: an update of the shard, or of one of its halves. It changes nothing if
/// another member has done it, so all steps may be repeated.
#[derive(Debug, Clone, Copy)]
pub enum SplitStep<'a> {
    /// The shard, whose header was read, accepts no change any more.
    Seal(ShardHeader),
    /// A half exists.
    Create,
    /// A half has those of these entries that belong to it. Once it is open, the guard stops
    /// copies: they could undo changes.
    Copy {
        /// The half.
        half: Shard,
        /// Entries of the sealed shard.
        entries: &'a ShardEntries,
    },
    /// A half is in use.
    Open {
        /// The number of its entries.
        entries: u64,
    },
    /// The halves of the sealed shard, whose header was read, are in use instead of it.
    MarkSplit(ShardHeader),
    /// Entries of a shard that is split are gone. The receipts stay.
    Remove(&'a ShardEntries),
    /// The header of a shard that is split says that no entries are left.
    NoteRemoved(ShardHeader),
}

impl SplitStep<'_> {
    /// Returns the update.
    #[must_use]
    pub fn update(&self) -> Update {
        let filling = ShardHeader::new(ShardState::Filling);
        match *self {
            Self::Seal(header) => replace(header, ShardState::Sealed, header.entries),
            Self::Create => {
                let set = vec![(HEADER_KEY.into(), filling.encode())];
                Update { creates: true, set, ..Update::default() }
            }
            Self::Copy { half, entries } => {
                let set = entries.iter().filter(|(key, _)| belongs(half, key)).cloned().collect();
                Update { guards: vec![guard(filling)], set, ..Update::default() }
            }
            Self::Open { entries } => replace(filling, ShardState::Open, entries),
            Self::MarkSplit(sealed) => {
                assert!(sealed.state == ShardState::Sealed, "only a sealed shard is copied");
                replace(sealed, ShardState::Split, sealed.entries)
            }
            Self::Remove(entries) => {
                let remove = entries.iter().map(|(key, _)| key.clone()).collect();
                Update { remove, ..Update::default() }
            }
            Self::NoteRemoved(split) => replace(split, ShardState::Split, 0),
        }
    }
}

/// Replaces a header, unless another member or an earlier attempt has done so.
fn replace(from: ShardHeader, state: ShardState, entries: u64) -> Update {
    let set = vec![(HEADER_KEY.into(), from.next(state, entries).encode())];
    Update { guards: vec![guard(from)], set, ..Update::default() }
}

fn guard(header: ShardHeader) -> Guard {
    Guard { key: HEADER_KEY.into(), expected: Some(header.encode()) }
}

/// Returns whether a key belongs to a half. A damaged value is copied as it is: members leave out
/// the changes that need it, and the check of the domain names it. A key of no content belongs
/// nowhere.
fn belongs(half: Shard, key: &str) -> bool {
    fingerprint_of_key(key).is_some_and(|fingerprint| half.contains(fingerprint))
}
