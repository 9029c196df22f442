//! How the memory of a scan is shared out, so that a limit holds for the whole of it.

use crate::nature;
use crate::options::{Counting, ScanOptions};
use crate::read::{CHUNK_LEAST_BYTES, WORKER_SIZE_BYTES};
use crate::set::{LEAST_SAMPLE_BYTES, SetLimit};

/// Per block size: occurrences for locality and candidates for the most repeated, in bytes.
const SIZE_BYTES: u64 = 2 << 20;

/// The program itself, queue, walk, and what else a scan has once, in bytes.
const ONCE_BYTES: u64 = 10 << 20;

/// Of the memory for tables, one part in so many is left to the allocator: tables grow in turn, and holes stay between.
const ALLOCATOR_PART: u64 = 6;

/// The least memory for counting tables under a limit: empty ones take 0.6 MiB, and below some times that they would
/// be written out more often than used.
const LEAST_TABLES_BYTES: u64 = 4 << 20;

/// Readers beyond the first take at most this part of a limit; on many processors they would take all of it.
const WORKERS_PART: u64 = 4;

/// Sampled contents under `--estimate` take at most this part of the memory.
const ESTIMATE_NATURE_PART: u64 = 8;

/// Bytes read at once: whole blocks of every size.
pub(crate) fn chunk_bytes(options: &ScanOptions) -> u64 {
    let common = options.common_bytes();
    (CHUNK_LEAST_BYTES / common).max(1) * common
}

/// The most contents whose nature is measured, for a block size.
pub(crate) fn nature_contents(options: &ScanOptions, block_bytes: u32) -> u64 {
    let most = nature::most_contents(block_bytes);
    match options.request().counting {
        Counting::Exact | Counting::Bounded { .. } => most,
        Counting::Estimate { memory_bytes } => {
            let part = memory_bytes
                / ESTIMATE_NATURE_PART
                / options.request().block_bytes.len().max(1) as u64;
            (part / u64::from(block_bytes.max(1))).clamp(1, most)
        }
    }
}

/// What each reading thread takes.
fn worker_bytes(options: &ScanOptions) -> u64 {
    chunk_bytes(options) + options.request().block_bytes.len() as u64 * WORKER_SIZE_BYTES
}

/// Everything but counting tables and readers.
fn shared_bytes(options: &ScanOptions) -> u64 {
    let sizes = options.request().block_bytes.iter();
    let sample = |size: &u32| nature_contents(options, *size) * u64::from(*size) + SIZE_BYTES;
    ONCE_BYTES + sizes.map(sample).sum::<u64>()
}

/// The reading threads: those asked for, or as many as a limit of memory has room for.
pub(crate) fn threads(options: &ScanOptions) -> usize {
    let request = options.request();
    match request.counting {
        Counting::Exact => request.threads,
        Counting::Bounded { memory_bytes } | Counting::Estimate { memory_bytes } => {
            let spare =
                memory_bytes.saturating_sub(least_bytes(options)).min(memory_bytes / WORKERS_PART);
            let more = usize::try_from(spare / worker_bytes(options)).unwrap_or(usize::MAX);
            request.threads.min(more.saturating_add(1))
        }
    }
}

/// Everything but the counting tables.
pub(crate) fn fixed_bytes(options: &ScanOptions) -> u64 {
    shared_bytes(options) + threads(options) as u64 * worker_bytes(options)
}

/// The least memory with which these options work, on one thread.
pub(crate) fn least_bytes(options: &ScanOptions) -> u64 {
    let tables = match options.request().counting {
        Counting::Exact => 0,
        Counting::Bounded { .. } => LEAST_TABLES_BYTES,
        Counting::Estimate { .. } => LEAST_SAMPLE_BYTES,
    };
    let all = tables * options.request().block_bytes.len() as u64;
    shared_bytes(options) + worker_bytes(options) + all * ALLOCATOR_PART / (ALLOCATOR_PART - 1) + 1
}

/// The limit of the tables of one block size.
pub(crate) fn set_limit(options: &ScanOptions, block_bytes: u32) -> SetLimit {
    let request = options.request();
    let sizes = request.block_bytes.len() as u64;
    let rest = |memory_bytes: u64| {
        let rest = memory_bytes.saturating_sub(fixed_bytes(options));
        rest - rest / ALLOCATOR_PART
    };
    match request.counting {
        Counting::Exact => SetLimit::None,
        Counting::Estimate { memory_bytes } => {
            SetLimit::Sample { memory_bytes: rest(memory_bytes) / sizes }
        }
        Counting::Bounded { memory_bytes } => {
            // Half the block size makes twice the blocks.
            let weight = |size: u32| 1.0 / f64::from(size);
            let all: f64 = request.block_bytes.iter().map(|size| weight(*size)).sum();
            let spare = rest(memory_bytes).saturating_sub(sizes * LEAST_TABLES_BYTES) as f64;
            let share = (spare * weight(block_bytes) / all) as u64;
            let folder = request.spill_folder.clone().unwrap_or_else(std::env::temp_dir);
            SetLimit::Spill { memory_bytes: LEAST_TABLES_BYTES + share, folder }
        }
    }
}
