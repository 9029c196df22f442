//! Contents that commits of the journal carry, and that the data store may lack after a crash.
//!
//! A commit carries all contents that it stores or heals, or none of them. In the latter case the
//! data store was synced before it was written, with everything that earlier commits carry.

use crate::error::{Result, VolumeError};
use gemelo_format::{
    Change, Checksum, DiskRole, FormatError, Pbn, PoolSeed, ReplayedCommit, Superblock,
};
use gemelo_store::{ContentRead, ContentWrite, Contents, OverlaidStore, Store, WriteBuffer};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Contents that are written in one list, so that the disk has several requests in flight.
const WRITES_AT_ONCE: usize = 256;

/// The newest carried contents, by PBN.
pub(crate) struct Carried {
    contents: Arc<Contents>,
    block_bytes: usize,
    seed: PoolSeed,
    /// Blocks whose contents precede a lost commit, which may have given the block to another one.
    doubtful: HashSet<Pbn>,
    /// `true` once a commit was replayed that follows a lost one.
    is_past_loss: bool,
    /// Contents that commits after a lost one expect.
    expected: BTreeSet<(Pbn, Checksum)>,
}

impl Carried {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        Self {
            contents: Arc::default(),
            block_bytes: superblock.block_bytes as usize,
            seed: PoolSeed::of(superblock),
            doubtful: HashSet::new(),
            is_past_loss: false,
            expected: BTreeSet::new(),
        }
    }

    /// Takes the contents that a commit carries out of its changes. The commits come in order.
    pub(crate) fn take_from(&mut self, commit: &mut ReplayedCommit) -> Result<()> {
        if commit.follows_loss {
            if !self.is_past_loss {
                self.doubtful = self.contents.keys().copied().collect();
                self.is_past_loss = true;
            }
            let changes = commit.changes.iter();
            self.expected.extend(changes.filter_map(Change::expected_content));
        }
        let mut carried = Contents::new();
        let mut written = Vec::new();
        commit.changes.retain_mut(|change| {
            written.extend(change.written_block());
            let Change::Carry { pbn, content } = change else { return true };
            carried.insert(*pbn, std::mem::take(content));
            false
        });
        if let Some((pbn, wrong)) = carried.iter().find(|(_, one)| one.len() != self.block_bytes) {
            let (number, bytes) = (commit.number, wrong.len());
            let what = format!(
                "commit {number} carries {bytes} bytes for block {}, which has {}",
                pbn.number(),
                self.block_bytes
            );
            return Err(FormatError::damaged(what).into());
        }
        if !carried.is_empty() || !written.is_empty() {
            let contents = Arc::make_mut(&mut self.contents);
            if written.iter().any(|pbn| !carried.contains_key(pbn)) {
                contents.clear();
                self.doubtful.clear();
            }
            self.doubtful.retain(|pbn| !carried.contains_key(pbn));
            contents.extend(carried);
        }
        Ok(())
    }

    /// Leaves out contents of blocks that a lost commit has given to other contents, as the data
    /// store and the commits after the lost one show. `given_up` has what commits expect that were
    /// not replayed.
    pub(crate) fn leave_out_reused(
        &mut self,
        store: &dyn Store,
        given_up: BTreeSet<(Pbn, Checksum)>,
    ) {
        if !self.is_past_loss {
            self.doubtful = self.contents.keys().copied().collect();
        }
        self.expected.extend(given_up);
        let mut block = vec![0; self.block_bytes];
        for pbn in std::mem::take(&mut self.doubtful) {
            let mut reads = [ContentRead::new(pbn, 0, &mut block)];
            store.read(&mut reads);
            let [read] = reads;
            let present = self.seed.of_content(read.buffer);
            if read.outcome.is_ok() && self.expected.contains(&(pbn, present)) {
                Arc::make_mut(&mut self.contents).remove(&pbn);
            }
        }
    }

    /// Returns the carried content of a block.
    pub(crate) fn get(&self, pbn: Pbn) -> Option<&[u8]> {
        self.contents.get(&pbn).map(Vec::as_slice)
    }

    /// Returns the bytes of the contents.
    pub(crate) fn bytes(&self) -> u64 {
        (self.contents.len() * self.block_bytes) as u64
    }

    /// Returns the store as readers see it that do not write.
    pub(crate) fn overlay(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        OverlaidStore::over(store, Arc::clone(&self.contents))
    }

    /// Writes the contents of the blocks that `is_wanted` names to the store, and syncs it. The
    /// contents of other blocks are needed no more, and may have been given up for newer ones.
    /// Returns the blocks for whose contents there was no space.
    pub(crate) fn write_to(
        &self,
        store: &dyn Store,
        is_wanted: impl Fn(Pbn) -> bool,
    ) -> Result<Vec<Pbn>> {
        let mut wanted: Vec<(Pbn, &[u8])> = self
            .contents
            .iter()
            .filter(|(pbn, _)| is_wanted(**pbn))
            .map(|(pbn, content)| (*pbn, content.as_slice()))
            .collect();
        let mut unwritten = Vec::new();
        if wanted.is_empty() {
            return Ok(unwritten);
        }
        assert!(
            wanted.iter().all(|(_, content)| content.len() == self.block_bytes),
            "a carried content is a whole block"
        );
        wanted.sort_unstable_by_key(|(pbn, _)| *pbn);
        for some in wanted.chunks(WRITES_AT_ONCE) {
            let mut writes: Vec<ContentWrite<'_>> =
                some.iter().map(|(pbn, content)| ContentWrite::new(*pbn, content)).collect();
            store.write(&mut writes);
            for write in writes {
                match write.outcome.map_err(VolumeError::io(DiskRole::Data, "write")) {
                    Err(VolumeError::NoSpace { .. }) => unwritten.push(write.pbn),
                    other => other?,
                }
            }
        }
        store.sync().map_err(VolumeError::io(DiskRole::Data, "sync"))?;
        Ok(unwritten)
    }

    /// Has the buffer hold the contents of these blocks, for which there was no space.
    pub(crate) fn hold_in(&self, buffer: &WriteBuffer, pbns: &[Pbn]) -> Result<()> {
        if pbns.is_empty() {
            return Ok(());
        }
        let contents: Vec<(Pbn, &[u8])> =
            pbns.iter().filter_map(|pbn| Some((*pbn, self.get(*pbn)?))).collect();
        assert_eq!(contents.len(), pbns.len(), "a carried content is lost");
        buffer.hold_unwritten(&contents).map_err(VolumeError::io(DiskRole::Data, "write"))
    }
}
