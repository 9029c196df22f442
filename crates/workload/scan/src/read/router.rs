//! Collects blocks into one batch per shard of a counting set, so that one lock serves many blocks.

use crate::fingerprint::ScanFingerprint;
use crate::set::{CountingSet, Record, Rise, SHARDS, shard_of};
use std::io;

/// The number of blocks in a batch. With 256 shards the buffers take 192 KiB, which leaves room in
/// the cache for the data.
const BATCH: usize = 32;

pub(super) struct Router {
    records: Box<[Record]>,
    lengths: [u8; SHARDS],
}

impl Router {
    pub(super) fn new() -> Self {
        Self { records: vec![Record::default(); SHARDS * BATCH].into(), lengths: [0; SHARDS] }
    }

    /// Adds a block. Hands the batch of its shard over if the batch is full.
    ///
    /// # Errors
    /// Fails as [`CountingSet::insert`].
    #[inline]
    pub(super) fn push(
        &mut self,
        fingerprint: ScanFingerprint,
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

    /// Hands all batches over.
    ///
    /// # Errors
    /// Returns the last error of [`CountingSet::insert`].
    pub(super) fn flush(&mut self, set: &CountingSet, rises: &mut Vec<Rise>) -> io::Result<()> {
        let mut result = Ok(());
        for shard in 0..SHARDS {
            result = self.hand_over(shard, set, rises).and(result);
        }
        result
    }
}
