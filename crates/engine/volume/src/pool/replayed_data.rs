//! Contents that commits of the journal carry, and that the data store may lack after a crash.
//!
//! A commit carries all contents that it stores or heals, or none of them. In the latter case the
//! data store was synced before it was written, with everything that earlier commits carry. A
//! commit that was written beside its contents is of the latter kind if another one follows it. If
//! it is the last one, its contents were found in the data store, which proves nothing about
//! others.

use crate::error::{Result, VolumeError};
use gemelo_format::{
    Change, Checksum, DiskRole, FormatError, Pbn, PoolSeed, ReplayedCommit, Superblock,
};
use gemelo_store::{ContentRead, OverlaidStore, Store, WriteBuffer};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The newest journal data, by PBN, in the forms by which the store has them again.
pub(crate) struct ReplayedData {
    store: Arc<dyn Store>,
    forms: HashMap<Pbn, Vec<u8>>,
    seed: PoolSeed,
    /// Blocks whose contents precede a lost commit, which may have given the block to another one.
    doubtful: HashSet<Pbn>,
    /// `true` once a commit was replayed that follows a lost one.
    is_past_loss: bool,
    /// Contents that commits after a lost one expect.
    expected: BTreeSet<(Pbn, Checksum)>,
}

impl ReplayedData {
    pub(crate) fn new(superblock: &Superblock, store: &Arc<dyn Store>) -> Self {
        Self {
            store: Arc::clone(store),
            forms: HashMap::new(),
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
                self.doubtful = self.forms.keys().copied().collect();
                self.is_past_loss = true;
            }
            let changes = commit.changes.iter();
            self.expected.extend(changes.filter_map(Change::expected_content));
        }
        let mut replayed_data = HashMap::new();
        let mut written = Vec::new();
        commit.changes.retain_mut(|change| {
            written.extend(change.written_block());
            let Change::JournalData { pbn, content } = change else { return true };
            replayed_data.insert(*pbn, std::mem::take(content));
            false
        });
        let makes_sense = |pbn: Pbn, form: &[u8]| self.store.content_of_form(pbn, form).is_some();
        if let Some((pbn, wrong)) =
            replayed_data.iter().find(|(pbn, form)| !makes_sense(**pbn, form))
        {
            let (number, bytes) = (commit.number, wrong.len());
            let what = format!(
                "commit {number} carries {bytes} bytes for block {}, which make no sense",
                pbn.number(),
            );
            return Err(FormatError::damaged(what).into());
        }
        if commit.is_proven {
            written.iter().for_each(|pbn| drop(self.forms.remove(pbn)));
            self.doubtful.retain(|pbn| self.forms.contains_key(pbn));
        } else if !replayed_data.is_empty() || !written.is_empty() {
            let forms = &mut self.forms;
            if written.iter().any(|pbn| !replayed_data.contains_key(pbn)) {
                forms.clear();
                self.doubtful.clear();
            }
            self.doubtful.retain(|pbn| !replayed_data.contains_key(pbn));
            forms.extend(replayed_data);
        }
        Ok(())
    }

    /// Leaves out contents of blocks that a lost commit has given to other contents, as the data
    /// store and the commits after the lost one show. `given_up` has what commits expect that were
    /// not replayed.
    pub(crate) fn leave_out_reused(&mut self, given_up: BTreeSet<(Pbn, Checksum)>) {
        if !self.is_past_loss {
            self.doubtful = self.forms.keys().copied().collect();
        }
        self.expected.extend(given_up);
        let mut block = vec![0; self.store.block_bytes()];
        for pbn in std::mem::take(&mut self.doubtful) {
            let mut reads = [ContentRead::new(pbn, 0, &mut block).compared()];
            self.store.read(&mut reads);
            let [read] = reads;
            let present = self.seed.of_content(read.buffer);
            if read.outcome.is_ok() && self.expected.contains(&(pbn, present)) {
                self.forms.remove(&pbn);
            }
        }
    }

    /// The forms, in the order of their blocks.
    pub(super) fn forms(&self) -> Vec<(Pbn, Vec<u8>)> {
        let mut forms: Vec<_> = self.forms.iter().map(|(pbn, form)| (*pbn, form.clone())).collect();
        forms.sort_unstable();
        forms
    }

    /// Leaves a form out.
    pub(super) fn forget(&mut self, pbn: Pbn) {
        self.forms.remove(&pbn);
    }

    /// Returns the content in the journal of a block.
    pub(crate) fn get(&self, pbn: Pbn) -> Option<Vec<u8>> {
        self.store.content_of_form(pbn, self.forms.get(&pbn)?)
    }

    /// Returns whether the journal has a content of this block.
    pub(crate) fn has(&self, pbn: Pbn) -> bool {
        self.forms.contains_key(&pbn)
    }

    /// Returns the bytes of the forms.
    pub(crate) fn bytes(&self) -> u64 {
        self.forms.values().map(|form| form.len() as u64).sum()
    }

    /// Returns the store as readers see it that do not write.
    pub(crate) fn overlay(&self) -> Arc<dyn Store> {
        let contents = self.forms.keys().filter_map(|pbn| Some((*pbn, self.get(*pbn)?))).collect();
        OverlaidStore::over(Arc::clone(&self.store), Arc::new(contents))
    }

    /// Writes the contents of the blocks that `is_wanted` names to the store, and syncs it. The
    /// contents of other blocks are needed no more, and may have been given up for newer ones.
    /// Returns the blocks for which there was no space, with their bytes.
    pub(crate) fn write(&self, is_wanted: impl Fn(Pbn) -> bool) -> Result<Vec<(Pbn, Vec<u8>)>> {
        let wanted = self.forms.iter().filter(|(pbn, _)| is_wanted(**pbn));
        let mut wanted: Vec<(Pbn, &[u8])> =
            wanted.map(|(pbn, form)| (*pbn, form.as_slice())).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        wanted.sort_unstable_by_key(|(pbn, _)| *pbn);
        let io = |action| VolumeError::io(DiskRole::Data, action);
        let unwritten = self.store.write_forms(&wanted).map_err(io("write"))?;
        self.store.sync().map_err(io("sync"))?;
        Ok(unwritten)
    }
}

/// Has the buffer hold blocks for which there was no space.
pub(crate) fn hold_in(buffer: &WriteBuffer, unwritten: &[(Pbn, Vec<u8>)]) -> Result<()> {
    if unwritten.is_empty() {
        return Ok(());
    }
    let blocks: Vec<(Pbn, &[u8])> =
        unwritten.iter().map(|(pbn, bytes)| (*pbn, bytes.as_slice())).collect();
    buffer.hold_unwritten(&blocks).map_err(VolumeError::io(DiskRole::Data, "write"))
}
