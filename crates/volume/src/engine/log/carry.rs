//! Commits that carry their contents: a flush of few new contents then needs no sync of the data
//! store.
//!
//! The contents stay in the write buffer as well, and go to the data store with the others. The
//! journal is the only durable place of a carried content until the data store is synced after the
//! commit. So a checkpoint, which gives the journal up, syncs the data store first.

use super::Log;
use super::commit::Committer;
use crate::counters::add;
use crate::error::Result;
use crate::pool::Tuning;
use gemelo_disk::Disk;
use gemelo_format::{COPIES, Change, PAGE_BYTES, Pbn};
use std::collections::HashSet;

/// A commit that carries contents takes this part of the journal at most, so that a short journal
/// is not full after a few of them.
const JOURNAL_PER_CARRYING: u64 = 4;
/// Most bytes that commits carry between two syncs of the data store. An opening holds as much in
/// memory and writes it.
const MOST_CARRIED_BYTES: u64 = 16 << 20;
/// Most blocks of which the keeper does not learn before the next sync of the data store.
const MOST_HELD_BACK: usize = 65_536;

/// Returns the most bytes of contents that a commit may carry: the setting, or as many as the disk
/// writes in the time of the sync that is saved.
pub(super) fn bytes_of(tuning: &Tuning, disk: &dyn Disk) -> u64 {
    tuning
        .carry_bytes
        .unwrap_or_else(|| disk.bytes_per_sync() / COPIES as u64)
        .min(MOST_CARRIED_BYTES)
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

    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// The carried contents that only the journal has durably, and what depends on that.
#[derive(Debug, Default)]
pub(super) struct Carrying {
    /// Bytes that were carried since the last sync of the data store.
    bytes: u64,
    /// Bytes of these that a sync under way covers.
    syncing_bytes: u64,
    /// Blocks of which the keeper learns after the next sync of the data store: others read their
    /// contents there.
    held_back: HashSet<Pbn>,
    /// The same, after the sync that is under way.
    syncing: HashSet<Pbn>,
}

impl Carrying {
    /// Begins with this many bytes that an opening has found in the journal.
    pub(super) fn of_journal(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    const fn is_any(&self) -> bool {
        self.bytes > 0 || self.syncing_bytes > 0
    }

    /// Returns the blocks of which the keeper may learn now that a commit is durable, and holds the
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
    /// which the keeper may learn.
    fn settle(&mut self) -> Vec<Pbn> {
        (self.bytes, self.syncing_bytes) = (0, 0);
        self.held_back.drain().chain(self.syncing.drain()).collect()
    }

    /// Notes that a sync begins which covers all contents so far, while others may be carried.
    /// Returns whether there are any.
    pub(super) fn begin_sync(&mut self) -> bool {
        self.syncing_bytes += std::mem::take(&mut self.bytes);
        self.syncing.extend(self.held_back.drain());
        self.syncing_bytes > 0
    }

    /// Notes that this sync has succeeded. Returns the blocks of which the keeper may learn.
    fn end_sync(&mut self) -> Vec<Pbn> {
        self.syncing_bytes = 0;
        if self.bytes == 0 {
            return self.settle();
        }
        self.syncing.drain().collect()
    }

    /// Notes that this sync has failed.
    fn fail_sync(&mut self) {
        self.bytes += std::mem::take(&mut self.syncing_bytes);
        self.held_back.extend(self.syncing.drain());
    }
}

impl Log {
    /// Makes the contents durable that the waiting commits refer to: the commits carry them if they
    /// are few, and else the data store is synced.
    pub(super) fn settle_contents(&self, committer: &mut Committer) -> Result<()> {
        if !committer.waits_for_data() || self.carry(committer) {
            return Ok(());
        }
        self.data.sync()?;
        committer.waiting.iter_mut().for_each(|commit| commit.unsynced = Unsynced::None);
        let learnt = committer.carrying.settle();
        self.data.note_identified(&learnt);
        Ok(())
    }

    /// Lets the waiting commits carry their contents. Returns `false` if they must not.
    fn carry(&self, committer: &mut Committer) -> bool {
        let Committer { waiting, carrying, journal, .. } = committer;
        let is_long = carrying.bytes + self.carry_bytes > MOST_CARRIED_BYTES;
        if is_long || carrying.held_back.len() > MOST_HELD_BACK {
            return false;
        }
        for commit in waiting.iter_mut() {
            let pbns = match &commit.unsynced {
                Unsynced::None => continue,
                Unsynced::Many => return false,
                Unsynced::Few(pbns) => pbns,
            };
            let content_bytes = pbns.len() * self.superblock.block_bytes as usize;
            let head_bytes = pbns.len() * Change::CARRY_HEAD_BYTES;
            let bytes = commit.buffer.len() + content_bytes + head_bytes;
            let bytes = bytes.next_multiple_of(PAGE_BYTES);
            if bytes as u64 > journal.ring_bytes() / JOURNAL_PER_CARRYING
                || !journal.has_room(bytes)
            {
                return false;
            }
            let buffer = &mut commit.buffer;
            let end = buffer.len();
            buffer.reserve(bytes - end);
            let put = |pbn: Pbn, content: &[u8]| Change::encode_carried(pbn, content, buffer);
            if !self.data.show_held(pbns, put) {
                buffer.truncate(end);
                return false;
            }
            commit.bytes += (content_bytes + head_bytes) as u64;
            carrying.bytes += content_bytes as u64;
            commit.unsynced = Unsynced::None;
            add(&self.counters.carrying_commits, 1);
            add(&self.counters.carried_bytes, content_bytes as u64);
        }
        true
    }

    /// Syncs the data store after [`Carrying::begin_sync`]. The committer is locked only if the
    /// caller holds it, so that other commits may carry more meanwhile. One thread at a time calls
    /// it: the holder of the checkpointer's lock.
    pub(super) fn finish_sync(&self, held: Option<&mut Committer>) -> Result<()> {
        let synced = self.data.sync();
        let mut locked;
        let committer = match held {
            Some(committer) => committer,
            None => {
                locked = self.committer.lock();
                &mut *locked
            }
        };
        match &synced {
            Ok(()) => self.data.note_identified(&committer.carrying.end_sync()),
            Err(_) => committer.carrying.fail_sync(),
        }
        synced
    }

    /// Syncs the data store if the keeper waits for that.
    pub(crate) fn tell_keeper(&self) -> Result<()> {
        if !self.data.has_keeper() {
            return Ok(());
        }
        let _alone = self.checkpointer.lock();
        let mut committer = self.committer.lock();
        if committer.carrying.held_back.is_empty() {
            return Ok(());
        }
        committer.carrying.begin_sync();
        drop(committer);
        self.finish_sync(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pbn(number: u32) -> Pbn {
        Pbn::new(number).unwrap()
    }

    fn sorted(mut pbns: Vec<Pbn>) -> Vec<u32> {
        pbns.sort_unstable();
        pbns.into_iter().map(Pbn::number).collect()
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
    fn the_keeper_learns_of_a_block_when_its_content_is_in_the_data_store() {
        let mut carrying = Carrying::default();
        assert_eq!(carrying.hold_back(vec![pbn(1)], &[]), [pbn(1)], "nothing is carried");
        carrying.bytes = 512;
        assert!(carrying.hold_back(vec![pbn(2), pbn(3)], &[pbn(3)]).is_empty());
        assert!(carrying.begin_sync(), "there is something to sync");
        carrying.bytes = 512;
        assert!(carrying.hold_back(vec![pbn(4), pbn(5)], &[]).is_empty());
        assert_eq!(sorted(carrying.end_sync()), [2], "the sync covers no later content");
        assert!(carrying.hold_back(Vec::new(), &[pbn(5)]).is_empty());
        assert_eq!(sorted(carrying.settle()), [4], "a freed block is not told of");
        assert!(!carrying.begin_sync());
    }

    #[test]
    fn what_is_identified_during_the_last_sync_is_told_of_after_it() {
        let mut carrying = Carrying::of_journal(512);
        carrying.begin_sync();
        assert!(carrying.hold_back(vec![pbn(1)], &[]).is_empty());
        assert_eq!(sorted(carrying.end_sync()), [1]);
        assert_eq!(carrying.hold_back(vec![pbn(2)], &[]), [pbn(2)]);
    }

    #[test]
    fn a_failed_sync_leaves_everything_to_the_next_one() {
        let mut carrying = Carrying::of_journal(512);
        assert!(carrying.hold_back(vec![pbn(1), pbn(2)], &[]).is_empty());
        carrying.begin_sync();
        carrying.hold_back(Vec::new(), &[pbn(2)]);
        carrying.fail_sync();
        assert!(carrying.begin_sync());
        assert_eq!(sorted(carrying.end_sync()), [1]);
    }
}
