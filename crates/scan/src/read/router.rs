//! Sends blocks to the shards of a counting set in batches, so that a lock is taken once for many.

use crate::fingerprint::Fingerprint;
use crate::set::{CountingSet, Record, Rise, SHARDS, shard_of};
use std::io;

/// Blocks of a batch. With 256 shards the buffers take 192 KiB, which leaves room for the data in the cache.
const BATCH: usize = 32;

pub(super) struct Router {
    records: Box<[Record]>,
    lengths: [u8; SHARDS],
}

impl Router {
    pub(super) fn new() -> Self {
        Self { records: vec![Record::default(); SHARDS * BATCH].into(), lengths: [0; SHARDS] }
    }

    /// Adds a block; hands its shard's batch over if that is full.
    ///
    /// # Errors
    /// Those of [`CountingSet::insert`].
    #[inline]
    pub(super) fn push(
        &mut self,
        fingerprint: Fingerprint,
        record: Record,
        set: &CountingSet,
        rises: &mut Vec<Rise>,
    ) -> io::Result<()> {
        let shard = shard_of(fingerprint);
        let Some(length) = self.lengths.get_mut(shard) else { return Ok(()) };
        if let Some(place) = self.records.get_mut(shard * BATCH + usize::from(*length)) {
            *place = record;
        }
        *length += 1;
        if usize::from(*length) == BATCH { self.hand_over(shard, set, rises) } else { Ok(()) }
    }

    fn hand_over(
        &mut self,
        shard: usize,
        set: &CountingSet,
        rises: &mut Vec<Rise>,
    ) -> io::Result<()> {
        let length = self.lengths.get_mut(shard).map_or(0, std::mem::take);
        let start = shard * BATCH;
        match self.records.get(start..start + usize::from(length)) {
            Some(batch) if !batch.is_empty() => set.insert(shard, batch, rises),
            _ => Ok(()),
        }
    }

    /// Hands everything over.
    ///
    /// # Errors
    /// The last of [`CountingSet::insert`].
    pub(super) fn flush(&mut self, set: &CountingSet, rises: &mut Vec<Rise>) -> io::Result<()> {
        let mut result = Ok(());
        for shard in 0..SHARDS {
            result = self.hand_over(shard, set, rises).and(result);
        }
        result
    }
}
