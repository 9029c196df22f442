//! Predicts the contents of a pool after a run: the last content of each block, computed from the
//! history as verification does.

use crate::contents::Contents;
use crate::history::{Expected, History};
use crate::result::{PredictedBlocks, Stored};
use gemelo_content::BlockContent;
use gemelo_target::PoolStats;

/// Most blocks for which a prediction is made; they take 512 MiB of memory.
const MAX_PREDICTED: u64 = 1 << 26;

/// Returns the figures of a pool before and after the run and the prediction, or `None` if the
/// target is not on a pool.
pub(crate) fn compare(
    history: &History,
    contents: &Contents,
    before: Option<PoolStats>,
    after: Option<PoolStats>,
) -> Option<Stored> {
    let (before, after) = (before?, after?);
    let per_block = (history.block_bytes as u64).checked_div(after.block_bytes)?;
    let is_whole = per_block > 0 && (history.block_bytes as u64).is_multiple_of(after.block_bytes);
    let predicted = if is_whole { predict(history, contents, per_block) } else { None };
    Some(Stored { before, after, predicted })
}

/// Predicts the blocks in use. A block of the job is `per_block` blocks of the pool, with as many
/// contents.
fn predict(history: &History, contents: &Contents, per_block: u64) -> Option<PredictedBlocks> {
    let blocks = history.place_blocks.checked_mul(u64::from(history.processes))?;
    if blocks > MAX_PREDICTED {
        return None;
    }
    let mut held = Vec::new();
    for process in 0..history.processes {
        for bits in history.table(process, &contents.assignment).ok()? {
            match Expected::from_bits(bits) {
                Expected::Unknown => return None,
                // A pool stores no zeros.
                Expected::Content(BlockContent::Zeros) => {}
                Expected::Content(BlockContent::Id(_)) => held.push(bits),
            }
        }
    }
    let logical_blocks = held.len() as u64 * per_block;
    held.sort_unstable();
    held.dedup();
    Some(PredictedBlocks { logical_blocks, distinct_blocks: held.len() as u64 * per_block })
}
