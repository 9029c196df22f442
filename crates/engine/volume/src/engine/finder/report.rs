//! The work that the finder is given, and what became of it.

/// Counts of what the finder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FinderReport {
    /// Blocks that were read and fingerprinted.
    pub examined_blocks: u64,
    /// Examined blocks whose content was known. Their own copies were freed.
    pub shared_blocks: u64,
    /// Examined blocks whose content became known to the index.
    pub identified_blocks: u64,
    /// Examined blocks that a write replaced meanwhile, or that could not be read.
    pub aborted_blocks: u64,
}

impl FinderReport {
    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.examined_blocks += other.examined_blocks;
        self.shared_blocks += other.shared_blocks;
        self.identified_blocks += other.identified_blocks;
        self.aborted_blocks += other.aborted_blocks;
    }
}

/// The blocks that are to be examined.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope {
    /// Those that are due at this time, by the delay.
    Due { now_ns: u64 },
    /// Those that were marked no later than this, whenever they were written.
    Until { until_ns: u64 },
    /// The same, without going through whole volumes, which one thread does.
    Marked { until_ns: u64 },
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Examined {
    pub(crate) report: FinderReport,
    /// Blocks that were looked up, examined or not.
    pub(crate) passed_blocks: u64,
}
