//! The division of a scan's memory among its parts, so that a limit holds for the whole scan.

use crate::nature;
use crate::request::{Counting, ScanRequest};
use crate::set::{MIN_SAMPLE_BYTES, SetLimit};
use crate::sharing::SHARING_BYTES;

/// The memory per block size for locality occurrences and max-repeated candidates, in bytes.
const SIZE_BYTES: u64 = 2 << 20;

/// The memory of the program itself, the queue, the walk and the other parts that a scan has once,
/// in bytes.
const ONCE_BYTES: u64 = 10 << 20;

/// One part in this many of the table memory is left to the allocator: tables grow one after
/// another, and holes remain between them.
const ALLOCATOR_PART: u64 = 6;

/// The minimum memory for counting tables under a limit, in bytes. Empty tables take 0.6 MiB. With
/// less than a few times that, tables would be written out more often than used.
const MIN_TABLES_BYTES: u64 = 4 << 20;

/// Under a limit, readers beyond the first take at most one part in this many of the memory.
/// Without this, many processors would take all of it.
const WORKERS_PART: u64 = 4;

/// In an estimate, sampled contents take at most one part in this many of the memory.
const ESTIMATE_NATURE_PART: u64 = 8;

/// The minimum number of bytes that are read at once. Together with the routers' buffers they stay
/// in a core's second-level cache (1 MiB and more on current processors), where hashing finds them.
const CHUNK_MIN_BYTES: u64 = 256 << 10;

/// The memory of a reader for each block size, in bytes.
const WORKER_SIZE_BYTES: u64 = 512 << 10;

/// The division of a scan's memory among its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget<'r> {
    request: &'r ScanRequest,
    /// The least common multiple of all block sizes, in bytes.
    common_bytes: u64,
}

impl<'r> Budget<'r> {
    pub(crate) const fn new(request: &'r ScanRequest, common_bytes: u64) -> Self {
        Self { request, common_bytes }
    }

    /// Returns the bytes that are read at once: whole blocks of every size.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        let common = self.common_bytes;
        (CHUNK_MIN_BYTES / common).max(1) * common
    }

    /// Returns the most contents whose nature is measured, for one block size.
    pub(crate) fn nature_contents(&self, block_bytes: u32) -> u64 {
        let most = nature::max_contents(block_bytes);
        match self.request.counting {
            Counting::Exact | Counting::Bounded { .. } => most,
            Counting::Estimate { memory_bytes } => {
                let part = memory_bytes
                    / ESTIMATE_NATURE_PART
                    / self.request.block_bytes.len().max(1) as u64;
                (part / u64::from(block_bytes.max(1))).clamp(1, most)
            }
        }
    }

    /// Returns the memory of one reading thread, in bytes.
    fn worker_bytes(&self) -> u64 {
        self.chunk_bytes() + self.request.block_bytes.len() as u64 * WORKER_SIZE_BYTES
    }

    /// Returns the memory of everything but counting tables and readers, in bytes.
    fn shared_bytes(&self) -> u64 {
        let sizes = self.request.block_bytes.iter();
        let sample = |size: &u32| self.nature_contents(*size) * u64::from(*size) + SIZE_BYTES;
        let sharing = self.request.directory_depth.map_or(0, |_| SHARING_BYTES);
        ONCE_BYTES + sharing + sizes.map(sample).sum::<u64>()
    }

    /// Returns the number of reading threads: the requested number, or the number for which the
    /// memory limit has room.
    pub(crate) fn threads(&self) -> usize {
        let request = self.request;
        match request.counting {
            Counting::Exact => request.threads,
            Counting::Bounded { memory_bytes } | Counting::Estimate { memory_bytes } => {
                let spare =
                    memory_bytes.saturating_sub(self.min_bytes()).min(memory_bytes / WORKERS_PART);
                let more = usize::try_from(spare / self.worker_bytes()).unwrap_or(usize::MAX);
                request.threads.min(more.saturating_add(1))
            }
        }
    }

    /// Returns the memory of everything but the counting tables, in bytes.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.shared_bytes() + self.threads() as u64 * self.worker_bytes()
    }

    /// Returns the minimum memory with which these options work, on one thread, in bytes.
    pub(crate) fn min_bytes(&self) -> u64 {
        let tables = match self.request.counting {
            Counting::Exact => 0,
            Counting::Bounded { .. } => MIN_TABLES_BYTES,
            Counting::Estimate { .. } => MIN_SAMPLE_BYTES,
        };
        let all = tables * self.request.block_bytes.len() as u64;
        self.shared_bytes() + self.worker_bytes() + all * ALLOCATOR_PART / (ALLOCATOR_PART - 1) + 1
    }

    /// Returns the memory limit of the counting set of one block size.
    pub(crate) fn set_limit(&self, block_bytes: u32) -> SetLimit {
        let request = self.request;
        let sizes = request.block_bytes.len() as u64;
        let rest = |memory_bytes: u64| {
            let rest = memory_bytes.saturating_sub(self.fixed_bytes());
            rest - rest / ALLOCATOR_PART
        };
        match request.counting {
            Counting::Exact => SetLimit::None,
            Counting::Estimate { memory_bytes } => {
                SetLimit::Sample { memory_bytes: rest(memory_bytes) / sizes }
            }
            Counting::Bounded { memory_bytes } => {
                // Half the block size gives twice as many blocks, so memory is divided by inverse
                // block size.
                let weight = |size: u32| 1.0 / f64::from(size);
                let all: f64 = request.block_bytes.iter().map(|size| weight(*size)).sum();
                let spare = rest(memory_bytes).saturating_sub(sizes * MIN_TABLES_BYTES) as f64;
                let share = (spare * weight(block_bytes) / all) as u64;
                let directory = request.spill_directory.clone().unwrap_or_else(std::env::temp_dir);
                SetLimit::Spill { memory_bytes: MIN_TABLES_BYTES + share, directory }
            }
        }
    }
}
