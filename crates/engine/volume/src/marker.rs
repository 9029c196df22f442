//! Writes flush marks: a number outside of the journal that names the newest durable commit.
//!
//! A mark has no sync of its own. It is written with the next commit and becomes durable with it,
//! at most once in an interval. In an idle pool the background writes it.

use gemelo_disk::Disk;
use gemelo_format::{FlushMark, FlushMarks, Page, PoolSeed, Root, Superblock};

/// The least time between two marks: one page a second does not show in the rate of flushes.
const MARK_INTERVAL_NS: u64 = 1_000_000_000;

/// A mark that is written with a commit.
#[derive(Debug)]
pub(crate) struct DueMark {
    pub(crate) mark: FlushMark,
    pub(crate) page: Box<Page>,
    pub(crate) offset: u64,
}

/// The marks of an open pool.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    pool_id: [u8; 16],
    seed: PoolSeed,
    marks: FlushMarks,
    /// The newest commit that a mark, or a durable root, says to be durable.
    told: u64,
    /// The generation of the newest durable root.
    generation: u64,
    /// Earliest time of the next mark before a commit. The first mark is written at once.
    due_ns: u64,
    /// Time at which the newest commit became durable.
    idle_since_ns: u64,
}

impl Marker {
    /// Returns the marks of a pool that was opened with this root.
    pub(crate) fn new(
        superblock: &Superblock,
        root: &Root,
        seed: PoolSeed,
        marks: FlushMarks,
    ) -> Self {
        let marked = marks.newest.map_or(0, |mark| mark.commit);
        let told = marked.max(root.next_commit.saturating_sub(1));
        Self {
            pool_id: superblock.pool_id,
            seed,
            marks,
            told,
            generation: root.generation,
            due_ns: 0,
            idle_since_ns: 0,
        }
    }

    /// Writes the mark of a root that is durable with its copy, and that contains all commits
    /// before `next_commit`. A copy that is found damaged from then on was not torn by a crash. The
    /// next sync makes the mark durable.
    pub(crate) fn mark_root(&mut self, disk: &dyn Disk, generation: u64, next_commit: u64) {
        assert!(generation >= self.generation, "root {generation} follows {}", self.generation);
        self.generation = generation;
        self.told = self.told.max(next_commit.saturating_sub(1));
        self.put(disk, self.told);
    }

    /// Notes that a commit has become durable.
    pub(crate) const fn note_commit(&mut self, now_ns: u64) {
        self.idle_since_ns = now_ns;
    }

    /// Returns the mark of the newest durable commit if the last mark is older than an interval. It
    /// is written with the next commit.
    pub(crate) fn due(&mut self, durable: u64, now_ns: u64) -> Option<DueMark> {
        (durable > self.told && now_ns >= self.due_ns).then(|| {
            self.due_ns = now_ns.saturating_add(MARK_INTERVAL_NS);
            self.page_of(durable)
        })
    }

    fn page_of(&self, commit: u64) -> DueMark {
        let mark = FlushMark { commit, generation: self.generation };
        let page = mark.encode(&self.pool_id, self.seed);
        DueMark { mark, page, offset: self.marks.next_offset }
    }

    /// Notes that a mark was written.
    pub(crate) fn note_written(&mut self, mark: FlushMark) {
        self.marks.note_written(mark);
        self.told = self.told.max(mark.commit);
    }

    /// Writes the mark of the newest durable commit if none has followed for an interval. Returns
    /// whether there is a mark to be synced.
    pub(crate) fn write_if_idle(&mut self, disk: &dyn Disk, durable: u64, now_ns: u64) -> bool {
        let is_idle = now_ns >= self.idle_since_ns.saturating_add(MARK_INTERVAL_NS);
        durable > self.told && is_idle && now_ns >= self.due_ns && self.write(disk, durable, now_ns)
    }

    /// Returns whether the mark was written. A mark that cannot be written is left out until the
    /// interval is over: it protects against later damage only, and the older mark stays.
    fn write(&mut self, disk: &dyn Disk, durable: u64, now_ns: u64) -> bool {
        assert!(durable >= self.told, "commit {durable} follows {}", self.told);
        self.due_ns = now_ns.saturating_add(MARK_INTERVAL_NS);
        self.put(disk, durable)
    }

    fn put(&mut self, disk: &dyn Disk, commit: u64) -> bool {
        let DueMark { mark, page, offset } = self.page_of(commit);
        let is_written = disk.write_at(offset, page.as_slice()).is_ok();
        if is_written {
            self.note_written(mark);
        }
        is_written
    }
}
