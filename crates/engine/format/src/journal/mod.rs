//! The journal, read back after a crash: a ring of commits after the newest root.
//!
//! Writing commits is left to the engine.

mod loss;
mod mend;
mod reader;

use crate::commit::split_freed;
use crate::error::FormatError;
use crate::{
    BadChange, Change, Checksum, Commit, CommitHeader, CommitOrder, FlushMarks, Pbn, PoolSeed,
    Reading, Root, Superblock, VolumeId,
};
use gemelo_disk::Disk;
use loss::Gaps;
use reader::{FoundCommit, Ring};
use schemars::JsonSchema;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The behaviour of a replay at a lost commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLoss {
    /// The replay ends with the commit before.
    Stop,
    /// The replay goes on with the next commit that can be read.
    Skip,
}

/// The way in which a journal is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The behaviour at a lost commit.
    pub at_loss: AtLoss,
    /// The copies of each commit that are read.
    pub reading: Reading,
}

/// A commit that is replayed.
#[derive(Debug)]
pub struct ReplayedCommit {
    /// The number of the commit.
    pub number: u64,
    /// The changes of the commit, in order.
    pub changes: Vec<Change>,
    /// `true` if an earlier commit is lost, so that changes may rest on missing ones.
    pub follows_loss: bool,
    /// `true` if the commit was in doubt, and its contents were found. It proves nothing about
    /// those of earlier commits.
    pub is_proven: bool,
}

/// The newest commit that was replayed.
#[derive(Debug)]
pub struct LastCommit {
    /// Header and place of the commit.
    pub commit: Commit,
    /// The changes of the commit as they are in the journal, without the header.
    pub payload: Vec<u8>,
}

/// History that is missing.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LostHistory {
    /// Description of what is missing.
    pub what: String,
    /// The number of commits that cannot be replayed, up to the first that can.
    pub commits: u64,
    /// The most changes of blocks, ranges of blocks and volumes that the lost commits can hold
    /// together, by their lengths; [`None`] if the header of one cannot be read.
    pub max_changes: Option<u64>,
    /// `true` if commits that follow a lost one can be replayed.
    pub can_skip: bool,
}

/// The part of a journal that could be replayed.
#[derive(Debug)]
pub struct Replayed {
    /// Number of the next commit. After lost history, a number that no commit had.
    pub next_commit: u64,
    /// End of the newest commit, in bytes from the ring's start.
    pub head: u64,
    /// The highest generation that a commit names.
    pub generation: u64,
    /// The history that is missing.
    pub lost: Option<LostHistory>,
    /// The newest commit, unless the journal had none.
    pub last: Option<LastCommit>,
    /// A commit after it, which a crash kept from being complete. It must not be found again once
    /// the pool takes changes, because its contents may be written later.
    pub incomplete: Option<Commit>,
    /// Commits that were put together from two damaged copies. The newest commit is not among them,
    /// because a crash may have torn it.
    pub mended: Vec<u64>,
    /// Commits with one damaged copy, if all copies were read. The newest commit is not
    /// among them.
    pub half_damaged: Vec<u64>,
    /// Pages of the journal that the disk could not read. No commit needs them.
    pub unreadable_pages: u64,
    /// The flush marks of the pool.
    pub marks: FlushMarks,
    /// The parts of commits that were not replayed, as far as those can be read.
    pub given_up: GivenUp,
}

/// The parts of commits that a replay gives up.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// Blocks of each volume that they changed.
    pub changed_blocks: BTreeMap<VolumeId, u64>,
    /// Contents that they expect in blocks of the data store.
    pub expected: BTreeSet<(Pbn, Checksum)>,
}

/// Reads the commits from a root on, and calls `apply` with each. `prove` returns whether all of
/// these contents are in the data store.
///
/// # Errors
/// Fails if the disk cannot be read where a commit may be that no other page shows, if a commit
/// cannot be decoded, or if `prove` or `apply` fails.
pub fn replay_journal<E: From<FormatError>>(
    disk: &dyn Disk,
    superblock: &Superblock,
    root: &Root,
    options: ReplayOptions,
    prove: impl FnMut(&[(Pbn, Checksum)]) -> Result<bool, E>,
    apply: impl FnMut(ReplayedCommit) -> Result<(), E>,
) -> Result<Replayed, E> {
    let regions = superblock.regions();
    let seed = PoolSeed::of(superblock);
    let reader = JournalReader {
        ring: Ring {
            disk,
            superblock,
            regions,
            seed,
            reading: options.reading,
            unreadable: RefCell::default(),
        },
        root,
        head: root.journal_offset.min(regions.ring_bytes()),
        number: root.next_commit,
        headers: None,
        gaps: Gaps::default(),
        mended: Vec::new(),
        half_damaged: Vec::new(),
        last: None,
        incomplete: None,
        marks: FlushMarks::read(disk, superblock, seed),
    };
    reader.replay(options.at_loss, prove, apply)
}

/// A replay under way.
struct JournalReader<'d> {
    ring: Ring<'d>,
    root: &'d Root,
    /// The expected place of the next commit, in bytes from the ring's start.
    head: u64,
    /// The number of the next commit.
    number: u64,
    /// All headers in the ring from the first missing commit on, once one is missing.
    headers: Option<Vec<Commit>>,
    gaps: Gaps,
    mended: Vec<u64>,
    half_damaged: Vec<u64>,
    last: Option<LastCommit>,
    incomplete: Option<Commit>,
    marks: FlushMarks,
}

impl JournalReader<'_> {
    /// A commit counts if one of its copies is good, or both together. A page that the disk cannot
    /// read is one that is damaged, unless it can hide a commit. The whole ring is searched
    /// before the end of the journal is trusted: a later commit means that the one that should be
    /// next was damaged.
    fn replay<E: From<FormatError>>(
        mut self,
        at_loss: AtLoss,
        mut prove: impl FnMut(&[(Pbn, Checksum)]) -> Result<bool, E>,
        mut apply: impl FnMut(ReplayedCommit) -> Result<(), E>,
    ) -> Result<Replayed, E> {
        while let Some(found) = self.next(at_loss)? {
            let FoundCommit { commit, payload, is_mended, damaged_copies } = found;
            let number = commit.header.number;
            assert!(number >= self.number, "commit {number} does not come before {}", self.number);
            let decoded = decode_payload(self.ring.superblock, &commit.header, &payload);
            let (changes, freed) = decoded.map_err(|bad| bad.of_commit(number))?;
            let is_in_doubt = self.is_in_doubt(&commit)?;
            if is_in_doubt && !prove(&stored_contents(&changes, &freed))? {
                self.incomplete = Some(commit);
                break;
            }
            let follows_loss = self.gaps.first.is_some();
            apply(ReplayedCommit { number, changes, follows_loss, is_proven: is_in_doubt })?;
            self.head = self.ring.end_of(&commit);
            self.mended.extend(is_mended.then_some(number));
            self.half_damaged.extend((damaged_copies == 1).then_some(number));
            self.last = Some(LastCommit { commit, payload });
            self.number = number + 1;
        }
        // A crash may have torn the newest commit.
        self.mended.retain(|number| number + 1 < self.number);
        self.half_damaged.retain(|number| number + 1 < self.number);
        Ok(self.judge()?)
    }

    /// Returns whether a crash may have come before the contents of a commit were complete: nothing
    /// is there that is written later.
    fn is_in_doubt(&mut self, commit: &Commit) -> Result<bool, FormatError> {
        let CommitHeader { number, order, .. } = commit.header;
        let is_marked = self.marks.newest.is_some_and(|mark| mark.commit >= number);
        if order == CommitOrder::AfterContents || is_marked {
            return Ok(false);
        }
        if self.ring.has_header_at_any([self.ring.end_of(commit), 0], number + 1)? {
            return Ok(false);
        }
        let headers = match self.headers.take() {
            Some(headers) => headers,
            None => self.ring.search(number)?,
        };
        let is_followed = headers.iter().any(|at| at.header.number > number);
        self.headers = Some(headers);
        Ok(!is_followed)
    }

    /// The next commit that can be replayed.
    fn next(&mut self, at_loss: AtLoss) -> Result<Option<FoundCommit>, FormatError> {
        let (number, starts) = (self.number, [self.head, 0]);
        let mut next = self.ring.commit_at_any(starts, number)?;
        if next.is_none() {
            let headers = match self.headers.take() {
                Some(headers) => headers,
                None => self.ring.search(number)?,
            };
            if at_loss == AtLoss::Skip {
                next = self.first_after(number, &headers)?;
                self.note_gap(next.as_ref(), &headers);
            }
            self.headers = Some(headers);
        }
        Ok(next.filter(|found| found.commit.header.generation <= self.root.generation))
    }

    /// The first commit from this number on that can be replayed.
    fn first_after(
        &self,
        number: u64,
        headers: &[Commit],
    ) -> Result<Option<FoundCommit>, FormatError> {
        let later = headers
            .iter()
            .map(|at| at.header)
            .filter(|header| header.number >= number && header.generation <= self.root.generation);
        let numbers: BTreeSet<u64> = later.map(|header| header.number).collect();
        for number in numbers {
            if let Some(found) = self.ring.commit_anywhere(number, headers)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The changes of a commit, and the blocks that it frees if it was written beside its contents.
fn decode_payload(
    superblock: &Superblock,
    header: &CommitHeader,
    payload: &[u8],
) -> Result<(Vec<Change>, BTreeSet<Pbn>), BadChange> {
    let pbn_of = |number| superblock.pbn(number);
    let (changes, freed) = match header.order {
        CommitOrder::AfterContents => (payload, BTreeSet::new()),
        CommitOrder::BesideContents => split_freed(payload, pbn_of).ok_or(BadChange::Malformed)?,
    };
    Ok((Change::decode_all(changes, pbn_of)?, freed))
}

/// The contents that changes store, but not those of freed blocks.
fn stored_contents(changes: &[Change], freed: &BTreeSet<Pbn>) -> Vec<(Pbn, Checksum)> {
    let stored = changes.iter().filter_map(|change| match change {
        Change::Store { pbn, checksum, .. } | Change::Move { to: pbn, checksum, .. }
            if !freed.contains(pbn) =>
        {
            Some((*pbn, *checksum))
        }
        _ => None,
    });
    stored.collect()
}
