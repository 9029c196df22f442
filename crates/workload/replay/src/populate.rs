//! Writes the contents that the trace reads first to the target before the start.

use crate::contents::ReplayContents;
use crate::error::ReplayError;
use crate::plan::{Initial, ReplayPlan};
use gemelo_base::Unit;
use gemelo_content::BlockContent;
use gemelo_load::Environment;
use gemelo_target::{
    Completion, Queue, QueueOptions, Target, TargetOperation, TargetRequest, Wait,
};

/// The content id of each block of the target, or [`NOTHING`] if it is unknown.
pub(crate) struct Holds(Vec<u64>);

/// The word of no content.
const NOTHING: u64 = u64::MAX;

impl Holds {
    fn new(blocks: u64) -> Self {
        // Ids are stored inverted, so an empty table is all zeros and needs no memory until it is
        // used.
        Self(vec![0; usize::try_from(blocks).unwrap_or(0)])
    }

    #[inline]
    pub(crate) fn get(&self, block: u64) -> Option<BlockContent> {
        let bits = !self.0.get(block as usize).copied().unwrap_or(0);
        (bits != NOTHING).then(|| BlockContent::from_bits(bits))
    }

    #[inline]
    pub(crate) fn set(&mut self, block: u64, content: BlockContent) {
        if let Some(held) = self.0.get_mut(block as usize) {
            *held = !content.to_bits();
        }
    }

    /// Marks the contents of these blocks as unknown.
    pub(crate) fn clear(&mut self, first: u64, blocks: u64) {
        let end = first.saturating_add(blocks).min(self.0.len() as u64);
        if let Some(held) = self.0.get_mut(first as usize..end as usize) {
            held.fill(0);
        }
    }

    /// Returns the number of blocks with a known content that is not zeros, and the number of
    /// distinct ones of these contents.
    pub(crate) fn count(self) -> (u64, u64) {
        let mut held: Vec<u64> = self.0;
        held.retain(|bits| *bits != 0 && BlockContent::from_bits(!*bits) != BlockContent::Zeros);
        let blocks = held.len() as u64;
        held.sort_unstable();
        held.dedup();
        (blocks, held.len() as u64)
    }
}

/// Writes the planned contents, and returns the content of every block.
pub(crate) fn populate(
    plan: &ReplayPlan,
    contents: &ReplayContents,
    target: &dyn Target,
    options: &QueueOptions,
    environment: &Environment<'_>,
) -> Result<Holds, ReplayError> {
    let mut holds = Holds::new(plan.target_blocks());
    if plan.populate.is_empty() {
        return Ok(holds);
    }
    environment.monitor.begin("populating", Unit::Items, Some(plan.populated_blocks()));
    let mut queue = target.open(0, options)?;
    let mut free: Vec<usize> = (0..queue.depth()).collect();
    let mut done = Vec::with_capacity(queue.depth());
    let block_bytes = plan.block_bytes() as usize;
    let max_blocks = options.buffer_bytes / block_bytes;
    let mut rest = plan.populate.as_slice();
    while let Some((first, _)) = rest.first().copied() {
        if environment.stop.is_raised() {
            break;
        }
        // One write covers consecutive blocks, up to the size of a buffer.
        let together =
            rest.iter().zip(first..).take_while(|((block, _), next)| block == next).count();
        let (run, behind) = rest.split_at(together.min(max_blocks).max(1));
        rest = behind;
        let slot = free_slot(queue.as_mut(), &mut free, &mut done)?;
        for ((block, initial), bytes) in
            run.iter().zip(queue.buffer(slot).chunks_exact_mut(block_bytes))
        {
            let content = match initial {
                Initial::Content(content) => *content,
                Initial::Drawn(number) => contents.drawn(*number),
            };
            contents.generator.fill(content, bytes);
            holds.set(*block, content);
        }
        let request = TargetRequest {
            operation: TargetOperation::Write,
            offset: first * plan.block_bytes(),
            bytes: run.len() * block_bytes,
        };
        queue.submit(slot, request).map_err(ReplayError::Populate)?;
        environment.monitor.advance(run.len() as u64);
    }
    while free.len() < queue.depth() {
        take_finished(queue.as_mut(), Wait::ForOne, &mut free, &mut done)?;
    }
    let sync = TargetRequest { operation: TargetOperation::Sync, offset: 0, bytes: 0 };
    if let Some(slot) = free.pop() {
        queue.submit(slot, sync).map_err(ReplayError::Populate)?;
        take_finished(queue.as_mut(), Wait::ForOne, &mut free, &mut done)?;
    }
    environment.monitor.finish();
    Ok(holds)
}

fn free_slot(
    queue: &mut dyn Queue,
    free: &mut Vec<usize>,
    done: &mut Vec<Completion>,
) -> Result<usize, ReplayError> {
    loop {
        if let Some(slot) = free.pop() {
            return Ok(slot);
        }
        take_finished(queue, Wait::ForOne, free, done)?;
    }
}

fn take_finished(
    queue: &mut dyn Queue,
    wait: Wait,
    free: &mut Vec<usize>,
    done: &mut Vec<Completion>,
) -> Result<(), ReplayError> {
    queue.reap(wait, done).map_err(ReplayError::Populate)?;
    for completion in done.drain(..) {
        completion.outcome.map_err(ReplayError::Populate)?;
        free.push(completion.slot);
    }
    Ok(())
}
