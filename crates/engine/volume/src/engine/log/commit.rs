//! Commits: the open one, and those on their way to the journal.

mod write;

use super::journal_data::{JournalData, Unsynced};
use crate::error::Result;
use crate::journal::Journal;
use gemelo_disk::Disk;
use gemelo_format::{COMMIT_HEADER_BYTES, Change, PAGE_BYTES, Pbn};
use gemelo_metadata::MetadataBackend;
use std::collections::{HashSet, VecDeque};

/// Bytes of memory of a block that a commit has freed or identified.
const PBN_BYTES: u64 = size_of::<Pbn>() as u64;
/// Figures of a journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JournalStats {
    pub(crate) used_bytes: u64,
    pub(crate) ring_bytes: u64,
    /// The generation of the newest durable root.
    pub(crate) generation: u64,
}

/// Changes that are in memory and in no closed commit yet.
pub(super) struct OpenCommit {
    number: u64,
    buffer: Vec<u8>,
    effects: Effects,
    unsynced: Unsynced,
    /// `true` if a damaged block was written again, whose content the commit does not name.
    heals: bool,
    /// Most contents that the commit may carry.
    max_journal_data_blocks: usize,
    /// `true` if the identified blocks are noted, for a veto.
    notes_identified: bool,
}

/// The blocks whose state changes when a commit is durable.
#[derive(Default)]
pub(super) struct Effects {
    /// Blocks that have lost their last reference.
    pub(super) freed: Vec<Pbn>,
    /// Blocks whose fingerprints are known.
    pub(super) identified: Vec<Pbn>,
}

impl Effects {
    /// Adds the effects of a later commit.
    fn append(&mut self, mut later: Self) {
        self.freed.append(&mut later.freed);
        self.identified.append(&mut later.identified);
    }

    /// Returns the bytes of memory of this many blocks.
    const fn bytes(&self) -> u64 {
        (self.freed.len() + self.identified.len()) as u64 * PBN_BYTES
    }
}

impl OpenCommit {
    pub(super) fn new(number: u64, max_journal_data_blocks: usize, notes_identified: bool) -> Self {
        Self {
            number,
            buffer: vec![0; COMMIT_HEADER_BYTES],
            effects: Effects::default(),
            unsynced: Unsynced::None,
            heals: false,
            max_journal_data_blocks,
            notes_identified,
        }
    }

    /// Makes a change of the metadata and appends it.
    pub(super) fn make(
        &mut self,
        backend: &mut dyn MetadataBackend,
        change: &Change,
    ) -> Result<()> {
        backend.apply(std::slice::from_ref(change), &mut self.effects.freed)?;
        if self.notes_identified {
            self.effects.identified.extend(identified_by(change));
        }
        if let Some(pbn) = change.written_block() {
            self.unsynced.add(pbn, self.max_journal_data_blocks);
        }
        self.heals |= matches!(change, Change::Suspect { is_suspect: false, .. });
        change.encode(&mut self.buffer);
        Ok(())
    }

    /// Returns a value that differs for every state; see [`State::version`].
    pub(super) const fn version(&self) -> (u64, usize) {
        (self.number, self.buffer.len())
    }

    const fn is_empty(&self) -> bool {
        self.buffer.len() == COMMIT_HEADER_BYTES
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) const fn freed_blocks(&self) -> usize {
        self.effects.freed.len()
    }

    /// Returns the number of the commit that makes all changes so far durable.
    pub(super) const fn last_number(&self) -> u64 {
        if self.is_empty() { self.number - 1 } else { self.number }
    }

    /// Closes the open commit and begins the next one.
    pub(super) fn close(&mut self) -> ClosedCommit {
        let next = Self::new(self.number + 1, self.max_journal_data_blocks, self.notes_identified);
        let closed = std::mem::replace(self, next);
        let Self { number, buffer, effects, unsynced, heals, .. } = closed;
        assert!(buffer.len() >= COMMIT_HEADER_BYTES, "a commit begins with its header");
        let bytes = buffer.len().next_multiple_of(PAGE_BYTES) as u64 + effects.bytes();
        ClosedCommit { number, buffer, effects, bytes, unsynced, heals, is_built: false }
    }
}

/// Returns the block that a change gives a fingerprint.
fn identified_by(change: &Change) -> Option<Pbn> {
    match change {
        Change::Store { pbn, fingerprint, .. } | Change::Identify { pbn, fingerprint } => {
            (!fingerprint.is_none()).then_some(*pbn)
        }
        _ => None,
    }
}

/// A commit on its way to the journal.
pub(super) struct ClosedCommit {
    number: u64,
    pub(super) buffer: Vec<u8>,
    pub(super) effects: Effects,
    /// Bytes of memory that the commit takes.
    pub(super) bytes: u64,
    /// The contents that the commit refers to and does not carry, until a sync has covered them.
    pub(super) unsynced: Unsynced,
    /// `true` if a damaged block was written again, whose content the commit does not name.
    pub(super) heals: bool,
    pub(super) is_built: bool,
}

impl ClosedCommit {
    /// Takes over the changes of a later commit, which stays as an empty one.
    fn absorb(&mut self, later: &mut Self, max_journal_data_blocks: usize) {
        assert!(!self.is_built && !later.is_built, "a commit on its way to the journal is changed");
        assert!(self.number < later.number, "changes follow those of earlier commits");
        let changes = later.buffer.split_off(COMMIT_HEADER_BYTES);
        self.buffer.extend_from_slice(&changes);
        self.effects.append(std::mem::take(&mut later.effects));
        self.heals |= later.heals;
        self.bytes += later.bytes;
        later.bytes = 0;
        self.unsynced.append(std::mem::take(&mut later.unsynced), max_journal_data_blocks);
    }
}

/// The commits that are closed and not durable, and the journal they go to.
pub(super) struct Committer {
    pub(super) journal: Journal,
    /// Closed commits in order. A commit stays here after a write failed or found no room.
    pub(super) waiting: VecDeque<ClosedCommit>,
    pub(super) journal_data: JournalData,
    /// The number of the last durable commit.
    durable: u64,
    /// Generation of the newest durable root.
    generation: u64,
}

impl Committer {
    pub(super) const fn new(
        journal: Journal,
        journal_data: JournalData,
        durable: u64,
        generation: u64,
    ) -> Self {
        Self { journal, waiting: VecDeque::new(), journal_data, durable, generation }
    }

    pub(super) const fn figures(&self) -> JournalStats {
        JournalStats {
            used_bytes: self.journal.used_bytes(),
            ring_bytes: self.journal.ring_bytes(),
            generation: self.generation,
        }
    }

    /// Returns the offset in the journal at which the next commit begins.
    pub(super) const fn head(&self) -> u64 {
        self.journal.head()
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of blocks that the waiting commits free once they are durable.
    pub(super) fn freed_blocks(&self) -> usize {
        self.waiting.iter().map(|commit| commit.effects.freed.len()).sum()
    }

    /// Returns the bytes of memory that the waiting commits take.
    fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|commit| commit.bytes).sum()
    }

    /// Returns whether a waiting commit refers to contents that it does not carry and that no sync
    /// has covered.
    pub(super) fn waits_for_data(&self) -> bool {
        self.waiting.iter().any(|commit| !commit.unsynced.is_none())
    }

    /// Returns the blocks that the waiting commits free.
    pub(super) fn freed(&self) -> HashSet<Pbn> {
        self.waiting.iter().flat_map(|commit| commit.effects.freed.iter().copied()).collect()
    }

    /// Makes the waiting commits one, so that their changes become durable together or not at all:
    /// a content that one of them refers to and a later one frees is not needed then. The later
    /// ones stay, without changes, because the numbers go up by one.
    pub(super) fn merge_waiting(&mut self, max_journal_data_blocks: usize) {
        let freed = self.freed_blocks();
        let mut unbuilt = self.waiting.iter_mut().filter(|commit| !commit.is_built);
        if let Some(first) = unbuilt.next() {
            unbuilt.for_each(|later| first.absorb(later, max_journal_data_blocks));
        }
        assert_eq!(freed, self.freed_blocks(), "a merge neither frees a block nor forgets one");
    }

    /// Notes that contents were given up which the waiting commits free.
    pub(super) fn note_given_up(&mut self) {
        let last = self.waiting.back().map(|last| last.number);
        assert!(last.is_some(), "contents are given up for the commits that free them");
        last.into_iter().for_each(|last| self.journal_data.note_given_up(last));
    }

    /// Returns whether contents were given up during the sync under way, and what frees them is not
    /// durable.
    pub(super) fn has_given_up(&self) -> bool {
        self.journal_data.has_given_up_after(self.durable)
    }

    /// Adds a commit behind those that wait.
    pub(super) fn push(&mut self, commit: ClosedCommit) {
        let last = self.waiting.back().map_or(self.durable, |last| last.number);
        assert_eq!(commit.number, last + 1, "the numbers of commits go up by one");
        self.waiting.push_back(commit);
    }

    /// Notes a root that is durable, with all commits before `next_commit`. Returns the effects of
    /// those of them that were still waiting.
    pub(super) fn note_root(
        &mut self,
        disk: &dyn Disk,
        generation: u64,
        journal_offset: u64,
        next_commit: u64,
    ) -> Effects {
        assert_eq!(generation, self.generation + 1, "roots follow one another");
        self.generation = generation;
        self.journal.trim(journal_offset);
        self.journal.marker().mark_root(disk, generation, next_commit);
        let mut effects = Effects::default();
        if self.durable + 1 < next_commit {
            for commit in self.waiting.drain(..) {
                assert!(commit.number < next_commit, "a commit after the root is not in it");
                self.durable = commit.number;
                effects.append(commit.effects);
            }
        }
        self.hold_back(effects)
    }

    /// Takes out of the effects of durable commits what has to wait for a sync of the data store.
    fn hold_back(&mut self, effects: Effects) -> Effects {
        let Effects { freed, identified } = effects;
        Effects { identified: self.journal_data.hold_back(identified, &freed), freed }
    }
}

/// The outcome of writing the waiting commits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    All,
    NoRoom,
}
