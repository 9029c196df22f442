//! The figures of the index.

use crate::config::damaged;
use crate::error::Result;
use crate::header::{HEADER_KEY, ShardHeader, ShardState};
use crate::shard::SHARD_PREFIX;
use gemelo_objects::{Objects, Operation, Request};

/// Headers read at once.
const READ_AT_ONCE: usize = 256;

/// The figures of an index. Changes that are made meanwhile may be counted or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Shards that take changes.
    pub shards: u64,
    /// Contents in all shards together.
    pub entries: u64,
    /// The entries of the fullest shard.
    pub max_shard_entries: u64,
}

impl IndexStats {
    /// Reads the headers of all shards.
    ///
    /// # Errors
    /// Fails if the store does, or if a header is damaged.
    pub fn read(objects: &dyn Objects) -> Result<Self> {
        let mut figures = Self::default();
        let keys = [HEADER_KEY.to_owned()];
        for names in objects.list(SHARD_PREFIX)?.chunks(READ_AT_ONCE) {
            let get = |name| Request::new(name, Operation::get_keys(&keys));
            let mut requests: Vec<_> = names.iter().map(String::as_str).map(get).collect();
            objects.execute(&mut requests);
            for Request { object, operation, outcome } in requests {
                outcome?;
                let Operation::GetKeys { values, .. } = operation else { continue };
                let header = ShardHeader::decode(values.first().and_then(Option::as_deref));
                let header = header.map_err(|reason| damaged(object, HEADER_KEY, reason))?;
                // The halves of a shard that is being split are counted when they are complete.
                if matches!(header.state, ShardState::Open | ShardState::Sealed) {
                    figures.shards += 1;
                    figures.entries += header.entries;
                    figures.max_shard_entries = figures.max_shard_entries.max(header.entries);
                }
            }
        }
        Ok(figures)
    }
}
