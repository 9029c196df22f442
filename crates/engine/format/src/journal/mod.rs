//! The journal, read back after a crash: a ring of commits after the newest root.
//!
//! Writing commits is left to the engine.

mod loss;
mod mend;
mod reader;

use crate::error::FormatError;
use crate::{
    Change, Checksum, Commit, FlushMarks, Pbn, PoolSeed, Reading, Root, Superblock, VolumeId,
};
use gemelo_disk::Disk;
use loss::Gaps;
use reader::{Found, Ring};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

/// Reads the commits from a root on, and calls `apply` with each.
///
/// # Errors
/// Fails if the disk cannot be read where a commit may be that no other page shows, if a commit
/// cannot be decoded, or if `apply` fails.
pub fn replay_journal<E: From<FormatError>>(
    disk: &dyn Disk,
    superblock: &Superblock,
    root: &Root,
    options: ReplayOptions,
    apply: impl FnMut(ReplayedCommit) -> Result<(), E>,
) -> Result<Replayed, E> {
    let regions = superblock.regions();
    let seed = PoolSeed::of(superblock);
    let reader = JournalReader {
        ring: Ring {
            disk,
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
    };
    reader.replay(FlushMarks::read(disk, superblock, seed), options.at_loss, apply)
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
}

impl JournalReader<'_> {
    /// A commit counts if one of its copies is good, or both together. A page that the disk cannot
    /// read is one that is damaged, unless it can hide a commit. The whole ring is searched
    /// before the end of the journal is trusted: a later commit means that the one that should be
    /// next was damaged.
    fn replay<E: From<FormatError>>(
        mut self,
        marks: FlushMarks,
        at_loss: AtLoss,
        mut apply: impl FnMut(ReplayedCommit) -> Result<(), E>,
    ) -> Result<Replayed, E> {
        while let Some(found) = self.next(at_loss)? {
            let Found { commit, payload, is_mended, damaged_copies } = found;
            let number = commit.header.number;
            assert!(number >= self.number, "commit {number} does not come before {}", self.number);
            let changes = Change::decode_all(&payload).ok_or_else(|| {
                let what = format!("the changes of commit {number} cannot be decoded");
                FormatError::damaged(what)
            })?;
            apply(ReplayedCommit { number, changes, follows_loss: self.gaps.first.is_some() })?;
            self.head = self.ring.end_of(&commit);
            self.mended.extend(is_mended.then_some(number));
            self.half_damaged.extend((damaged_copies == 1).then_some(number));
            self.last = Some(LastCommit { commit, payload });
            self.number = number + 1;
        }
        // A crash may have torn the newest commit.
        self.mended.retain(|number| number + 1 < self.number);
        self.half_damaged.retain(|number| number + 1 < self.number);
        Ok(self.judge(marks)?)
    }

    /// The next commit that can be replayed.
    fn next(&mut self, at_loss: AtLoss) -> Result<Option<Found>, FormatError> {
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
    fn first_after(&self, number: u64, headers: &[Commit]) -> Result<Option<Found>, FormatError> {
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
