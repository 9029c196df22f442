//! Commits that carry their contents: a flush of few new contents then needs no sync of the data
//! store.
//!
//! The contents stay in the write buffer as well, and go to the data store with the others. The
//! journal is the only durable place of a content in the journal until the data store is synced
//! after the commit. So a checkpoint, which gives the journal up, syncs the data store first.
//!
//! On a full disk a commit carries the contents that have no space in the data store, so that
//! changes which free space become durable although a content waits for it. A replay takes a commit
//! that does not carry all of its contents as the proof of a sync of everything before it. Such a
//! commit therefore carries each content that has no space, also those of earlier commits. A
//! content to which nothing refers after the waiting commits is not taken along: they become one
//! commit then, which refers to it at no time. A checkpoint that contains contents without space
//! leaves the journal from its own state on, and there is a commit then that carries them. If one
//! of its contents was given up since its state was frozen, and the commit that frees it is not
//! durable, the checkpoint is given up.

use crate::pool::Tuning;
use gemelo_disk::Disk;
use gemelo_format::{COPIES, Pbn};
use std::collections::HashSet;

/// Most bytes that commits carry between two syncs of the data store. An opening holds as much in
/// memory and writes it.
pub(super) const MAX_JOURNAL_DATA_BYTES: u64 = 16 << 20;
/// Returns the most bytes of contents that a commit may carry: the setting, or as many as the disk
/// writes in the time of the sync that is saved.
pub(super) fn bytes_of(tuning: &Tuning, disk: &dyn Disk) -> u64 {
    tuning
        .max_journal_data_bytes
        .unwrap_or_else(|| disk.bytes_per_sync() / COPIES as u64)
        .min(MAX_JOURNAL_DATA_BYTES)
}

/// The blocks whose contents a commit refers to, and that no sync has covered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Unsynced {
    #[default]
    None,
    /// Contents that the commit may carry.
    Few(Vec<Pbn>),
    /// More than a commit may carry.
    Many,
}

impl Unsynced {
    /// Adds a block, if there are at most `most` then.
    pub(super) fn add(&mut self, pbn: Pbn, most: usize) {
        match self {
            Self::None if most > 0 => *self = Self::Few(vec![pbn]),
            Self::Few(pbns) if pbns.len() < most => pbns.push(pbn),
            Self::None | Self::Few(_) => *self = Self::Many,
            Self::Many => {}
        }
    }

    /// Adds the blocks of a later commit.
    pub(super) fn append(&mut self, later: Self, most: usize) {
        match later {
            Self::None => {}
            Self::Few(pbns) => pbns.into_iter().for_each(|pbn| self.add(pbn, most)),
            Self::Many => *self = Self::Many,
        }
    }

    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// The journal data that only the journal has durably, and what depends on that.
#[derive(Debug, Default)]
pub(super) struct JournalData {
    /// Bytes that were carried since the last sync of the data store.
    pub(super) bytes: u64,
    /// Bytes of these that a sync under way covers.
    syncing_bytes: u64,
    /// Blocks that the veto learns about after the next sync of the data store: others read
    /// their contents there.
    pub(super) held_back: HashSet<Pbn>,
    /// The same, after the sync that is under way.
    syncing: HashSet<Pbn>,
    /// The last of the commits that free contents which were given up while a sync was under way.
    given_up_before: Option<u64>,
}

impl JournalData {
    /// Begins with this many bytes that an opening has found in the journal.
    pub(super) fn of_journal(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Returns whether a commit may carry so many bytes more before the next sync of the data
    /// store.
    pub(super) const fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= MAX_JOURNAL_DATA_BYTES
    }

    pub(super) const fn is_any(&self) -> bool {
        self.bytes > 0 || self.syncing_bytes > 0
    }

    /// Returns the blocks that the veto may learn about after a durable commit, and holds the
    /// others back.
    pub(super) fn hold_back(&mut self, identified: Vec<Pbn>, freed: &[Pbn]) -> Vec<Pbn> {
        if !self.is_any() {
            return identified;
        }
        self.held_back.extend(identified);
        if !self.held_back.is_empty() || !self.syncing.is_empty() {
            for pbn in freed {
                self.held_back.remove(pbn);
                self.syncing.remove(pbn);
            }
        }
        Vec::new()
    }

    /// Notes that a sync of the data store has covered all contents so far. Returns the blocks of
    /// which the veto may learn.
    pub(super) fn settle(&mut self) -> Vec<Pbn> {
        self.settle_except(&[], 0)
    }

    /// Notes that a sync of the data store has covered all contents so far, except those of some
    /// blocks, which the journal has: this number of bytes.
    pub(super) fn settle_except(&mut self, unwritten: &[Pbn], bytes: u64) -> Vec<Pbn> {
        assert_eq!(unwritten.is_empty(), bytes == 0, "a content has bytes");
        (self.bytes, self.syncing_bytes) = (bytes, 0);
        let unwritten: HashSet<Pbn> = unwritten.iter().copied().collect();
        let all = self.held_back.drain().chain(self.syncing.drain());
        let (held_back, learnt): (Vec<Pbn>, Vec<Pbn>) =
            all.partition(|pbn| unwritten.contains(pbn));
        self.held_back.extend(held_back);
        learnt
    }

    /// Notes that a sync begins which covers all contents so far, while others may be
    /// taken along. Returns whether there are any.
    pub(super) fn begin_sync(&mut self) -> bool {
        self.given_up_before = None;
        self.syncing_bytes += std::mem::take(&mut self.bytes);
        self.syncing.extend(self.held_back.drain());
        self.syncing_bytes > 0
    }

    /// Notes that contents were given up, because commits up to this one free them.
    pub(super) fn note_given_up(&mut self, commit: u64) {
        self.given_up_before = Some(commit);
    }

    /// Returns whether contents were given up during the sync that are needed as long as these
    /// commits alone are durable.
    pub(super) fn has_given_up_after(&self, durable: u64) -> bool {
        self.given_up_before.is_some_and(|commit| commit > durable)
    }

    /// Notes that this sync has succeeded. Returns the blocks that the veto may learn about.
    pub(super) fn end_sync(&mut self) -> Vec<Pbn> {
        self.syncing_bytes = 0;
        if self.bytes == 0 {
            return self.settle();
        }
        self.syncing.drain().collect()
    }

    /// Notes that this sync has failed.
    pub(super) fn fail_sync(&mut self) {
        self.bytes += std::mem::take(&mut self.syncing_bytes);
        self.held_back.extend(self.syncing.drain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pbn(number: u64) -> Pbn {
        Pbn::new(number).unwrap()
    }

    fn sorted(mut pbns: Vec<Pbn>) -> Vec<u64> {
        pbns.sort_unstable();
        pbns.into_iter().map(Pbn::number).collect()
    }

    #[test]
    fn commits_carry_no_more_than_an_opening_holds() {
        let mut data = JournalData::of_journal(MAX_JOURNAL_DATA_BYTES - 4096);
        assert!(data.has_room(4096) && !data.has_room(4097) && !data.has_room(u64::MAX));
        data.bytes += 4096;
        assert!(!data.has_room(1));
        data.begin_sync();
        assert!(data.has_room(1), "a sync under way covers them");
    }

    #[test]
    fn a_commit_remembers_as_many_blocks_as_it_may_carry() {
        let mut unsynced = Unsynced::default();
        assert!(unsynced.is_none());
        for number in 1..3 {
            unsynced.add(pbn(number), 2);
        }
        assert_eq!(unsynced, Unsynced::Few(vec![pbn(1), pbn(2)]));
        unsynced.add(pbn(3), 2);
        assert_eq!(unsynced, Unsynced::Many);
        let mut none = Unsynced::default();
        none.add(pbn(1), 0);
        assert_eq!(none, Unsynced::Many);
    }

    #[test]
    fn the_veto_learns_of_a_block_when_its_content_is_in_the_data_store() {
        let mut journal_data = JournalData::default();
        assert_eq!(journal_data.hold_back(vec![pbn(1)], &[]), [pbn(1)], "nothing is carried");
        journal_data.bytes = 512;
        assert!(journal_data.hold_back(vec![pbn(2), pbn(3)], &[pbn(3)]).is_empty());
        assert!(journal_data.begin_sync(), "there is something to sync");
        journal_data.bytes = 512;
        assert!(journal_data.hold_back(vec![pbn(4), pbn(5)], &[]).is_empty());
        assert_eq!(sorted(journal_data.end_sync()), [2], "the sync covers no later content");
        assert!(journal_data.hold_back(Vec::new(), &[pbn(5)]).is_empty());
        assert_eq!(sorted(journal_data.settle()), [4], "a freed block is not told of");
        assert!(!journal_data.begin_sync());
    }

    #[test]
    fn what_is_identified_during_the_last_sync_is_told_of_after_it() {
        let mut journal_data = JournalData::of_journal(512);
        journal_data.begin_sync();
        assert!(journal_data.hold_back(vec![pbn(1)], &[]).is_empty());
        assert_eq!(sorted(journal_data.end_sync()), [1]);
        assert_eq!(journal_data.hold_back(vec![pbn(2)], &[]), [pbn(2)]);
    }

    #[test]
    fn what_was_given_up_is_needed_until_the_commit_that_frees_it_is_durable() {
        let mut journal_data = JournalData::of_journal(512);
        journal_data.note_given_up(7);
        journal_data.begin_sync();
        assert!(!journal_data.has_given_up_after(6), "the state that is synced has commit 7");
        journal_data.note_given_up(9);
        assert!(journal_data.has_given_up_after(8));
        assert!(!journal_data.has_given_up_after(9));
    }

    #[test]
    fn a_failed_sync_leaves_everything_to_the_next_one() {
        let mut journal_data = JournalData::of_journal(512);
        assert!(journal_data.hold_back(vec![pbn(1), pbn(2)], &[]).is_empty());
        journal_data.begin_sync();
        journal_data.hold_back(Vec::new(), &[pbn(2)]);
        journal_data.fail_sync();
        assert!(journal_data.begin_sync());
        assert_eq!(sorted(journal_data.end_sync()), [1]);
    }
}
