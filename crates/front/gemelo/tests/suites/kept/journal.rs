//! The journal of a kept pool.

use super::pools::disk_of;
use gemelo_disk::{Disk, FileDisk};
use gemelo_format::{
    AtLoss, COMMIT_HEADER_BYTES, Change, CommitHeader, CommitOrder, FormatError, NewCommit,
    PAGE_BYTES, Pbn, PoolSeed, Reading, ReplayOptions, Replayed, Root, Superblock, build_commit,
    data_header, find_roots, move_header_copy, read_superblock, replay_journal,
};

/// The tag that no change is ever given.
const NO_CHANGE: u8 = 255;

/// The metadata of a pool, which no process has open.
struct Journal {
    disk: FileDisk,
    superblock: Superblock,
    seed: PoolSeed,
    root: Root,
}

impl Journal {
    fn of(pool: &str) -> Self {
        let disk = disk_of(pool, "metadata");
        let superblock = read_superblock(&disk, &mut Vec::new()).unwrap();
        let seed = PoolSeed::of(&superblock);
        let root = find_roots(&disk, &superblock, seed).unwrap().newest;
        Self { disk, superblock, seed, root }
    }

    fn replay(&self) -> (Replayed, Vec<Change>) {
        let options = ReplayOptions { at_loss: AtLoss::Stop, reading: Reading::All };
        let mut changes = Vec::new();
        let apply = |commit: gemelo_format::ReplayedCommit| {
            changes.extend(commit.changes);
            Ok::<(), FormatError>(())
        };
        let replayed =
            replay_journal(&self.disk, &self.superblock, &self.root, options, |_| Ok(true), apply);
        (replayed.unwrap(), changes)
    }

    /// Adds a commit.
    fn add(&self, changes: &[u8]) {
        let replayed = self.replay().0;
        let mut commit = vec![0; COMMIT_HEADER_BYTES];
        commit.extend(changes);
        let (number, generation) = (replayed.next_commit, self.root.generation);
        let new = NewCommit { number, generation, order: CommitOrder::AfterContents };
        build_commit(&mut commit, new, self.seed);
        let regions = self.superblock.regions();
        let fits = replayed.head + commit.len() as u64 <= regions.ring_bytes();
        // A commit that does not fit at the end is at the start.
        let start = if fits { replayed.head } else { 0 };
        for piece in regions.ring(start, commit.len()) {
            for offset in piece.offsets {
                self.disk.write_at(offset, &commit[piece.bytes.clone()]).unwrap();
            }
        }
    }

    /// The number of each commit, and the places of its first page.
    fn commits(&self) -> Vec<(u64, [u64; 2])> {
        let regions = self.superblock.regions();
        let mut commits = Vec::new();
        for piece in regions.ring(0, regions.ring_bytes() as usize) {
            for at in (0..piece.bytes.len() as u64).step_by(PAGE_BYTES) {
                let places = piece.offsets.map(|offset| offset + at);
                let mut page = vec![0; PAGE_BYTES];
                self.disk.read_at(places[0], &mut page).unwrap();
                let header = CommitHeader::decode(&page, self.seed);
                commits.extend(header.map(|header| (header.number, places)));
            }
        }
        commits
    }
}

/// The changes in the journal of a pool since its checkpoint.
pub(super) fn changes_of(pool: &str) -> Vec<Change> {
    Journal::of(pool).replay().1
}

/// Adds a commit with a change that this program does not know.
pub(super) fn add_later_change(pool: &str) {
    Journal::of(pool).add(&[NO_CHANGE, 1, 2, 3]);
}

/// Leaves a pool as a crash does right after the commit that makes its store smaller.
pub(super) fn cut_store(pool: &str, data_blocks: u64) {
    let journal = Journal::of(pool);
    let last = Pbn::new(data_blocks - 1).unwrap();
    let place = last.number() * u64::from(journal.superblock.block_bytes);
    disk_of(pool, "data").write_at(place, &data_header(&journal.superblock)).unwrap();
    move_header_copy(&journal.disk, last).unwrap();
    let mut payload = Vec::new();
    Change::Cut { data_blocks }.encode(&mut payload);
    journal.add(&payload);
}

/// Damages both copies of the commit before the last one.
pub(super) fn lose_commit_before_last(pool: &str) {
    let journal = Journal::of(pool);
    let commits = journal.commits();
    let last = commits.iter().map(|(number, _)| *number).max().unwrap();
    let (_, places) = commits.iter().find(|(number, _)| *number == last - 1).unwrap();
    assert!(last > journal.root.next_commit, "the journal has two commits");
    for place in places {
        journal.disk.write_at(*place, &[0; PAGE_BYTES]).unwrap();
    }
}
