//! Cuts a batch into segments. Within a segment no two requests conflict, so all of its reads and
//! all of its changes are done at once.

use super::checked::Waiting;
use super::item::{Item, Source};
use super::read::Read;
use super::{Range, VolumeShared};
use crate::counters::add;
use crate::engine::checked::Reader;
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::mover::Ticker;
use crate::engine::parts::Common;
use crate::engine::tasks::Tasks;
use crate::engine::write::Writer;
use crate::error::VolumeError;
use gemelo_base::{Clock, with_causes};
use gemelo_device::{Claim, DeviceError, Durability, Operation, Request};
use gemelo_format::{DedupMode, Lbn, Superblock};
use std::io;
use std::ops;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most requests of a segment. Comparing each with each is cheap up to this number.
const MAX_REQUESTS: usize = 128;
/// Most blocks that are fingerprinted, allocated and written at once. More would not make the runs
/// much longer; the lists of a write of 4 MiB stay in the processor's cache.
const MAX_ITEMS: usize = 1024;

/// The blocks of a segment, a bit each, by their numbers modulo that of the bits. Most requests
/// have blocks of their own bits, and need not be compared with all others.
#[derive(Default)]
struct ClaimedBlocks([u64; 8]);

impl ClaimedBlocks {
    /// Adds the blocks of a request. Returns whether earlier ones may have some of them.
    fn add(&mut self, blocks: &ops::Range<u64>) -> bool {
        let (first, end) = (blocks.start, blocks.end);
        let (words, bits) = (self.0.len() as u64, u64::from(u64::BITS));
        let mut may_conflict = false;
        for block in first..end.min(first.saturating_add(words * bits)) {
            let word = &mut self.0[(block / bits % words) as usize];
            let bit = 1 << (block % bits);
            may_conflict |= *word & bit != 0;
            *word |= bit;
        }
        may_conflict
    }
}

fn range_of(operation: &Operation<'_>) -> Option<Range> {
    match operation {
        Operation::Read { offset, buffer } => {
            Some(Range { offset: *offset, length: buffer.len() as u64 })
        }
        Operation::Write { offset, data, .. } => {
            Some(Range { offset: *offset, length: data.len() as u64 })
        }
        Operation::WriteZeroes { offset, length, .. } | Operation::Trim { offset, length, .. } => {
            Some(Range { offset: *offset, length: *length })
        }
        Operation::Flush => None,
    }
}

const fn is_immediate(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Write { durability: Durability::Immediate, .. }
            | Operation::WriteZeroes { durability: Durability::Immediate, .. }
            | Operation::Trim { durability: Durability::Immediate, .. }
    )
}

/// Executes requests; see the module.
pub(crate) struct Requests {
    reader: Arc<Reader>,
    writer: Writer,
    log: Arc<Log>,
    health: Arc<Health>,
    clock: Arc<dyn Clock>,
    ticker: Arc<Ticker>,
    tasks: Arc<Tasks>,
    superblock: Superblock,
}

impl Requests {
    pub(in crate::engine) fn new(
        common: &Common,
        reader: &Arc<Reader>,
        writer: Writer,
        ticker: &Arc<Ticker>,
    ) -> Self {
        Self {
            reader: Arc::clone(reader),
            writer,
            log: Arc::clone(&common.log),
            health: Arc::clone(&common.health),
            clock: Arc::clone(&common.clock),
            ticker: Arc::clone(ticker),
            tasks: Arc::clone(&common.tasks),
            superblock: common.superblock.clone(),
        }
    }

    /// Executes a batch.
    pub(crate) fn execute(&self, volume: &VolumeShared, batch: &mut [Request<'_>]) {
        self.execute_segments(volume, batch, Waiting::All);
    }

    /// Executes a batch, and leaves reads that would wait for the medium. Returns their places.
    pub(crate) fn execute_ready(
        &self,
        volume: &VolumeShared,
        batch: &mut [Request<'_>],
    ) -> Vec<usize> {
        self.execute_segments(volume, batch, Waiting::None)
    }

    fn execute_segments(
        &self,
        volume: &VolumeShared,
        batch: &mut [Request<'_>],
        waiting: Waiting,
    ) -> Vec<usize> {
        let (mut left, mut done, requests) = (Vec::new(), 0, batch.len());
        let removed = volume.enter();
        let size_bytes = if *removed { 0 } else { volume.size_bytes() };
        let mut rest = batch;
        while !rest.is_empty() {
            let length = self.segment_length(rest);
            let (segment, after) = rest.split_at_mut(length);
            // Requests of later segments may conflict with a read that is left.
            let waiting = if after.is_empty() { waiting } else { Waiting::All };
            left = self.execute_segment(volume, size_bytes, segment, waiting);
            left.iter_mut().for_each(|place| *place += done);
            done += length;
            rest = after;
        }
        assert_eq!(done, requests, "a request was not executed");
        assert!(left.iter().all(|place| *place < requests), "a request that is left is none");
        left
    }

    /// Returns the number of requests at the front of the batch that make up one segment. A flush
    /// is a segment of its own.
    fn segment_length(&self, batch: &[Request<'_>]) -> usize {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let mut claims: Vec<Claim> = Vec::with_capacity(batch.len().min(MAX_REQUESTS));
        let mut claimed = ClaimedBlocks::default();
        for request in batch.iter().take(MAX_REQUESTS) {
            let claim = request.operation.claim().in_blocks(block_bytes);
            let Some(blocks) = claim.range() else { break };
            if claimed.add(blocks) && claims.iter().any(|earlier| claim.waits_for(earlier)) {
                break;
            }
            claims.push(claim);
        }
        claims.len().max(1)
    }

    /// Executes requests without conflicts. Returns the places of the reads that were left.
    fn execute_segment(
        &self,
        volume: &VolumeShared,
        size_bytes: u64,
        segment: &mut [Request<'_>],
        waiting: Waiting,
    ) -> Vec<usize> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let mut outcomes: Vec<Result<(), DeviceError>> = Vec::with_capacity(segment.len());
        let mut reads = Vec::with_capacity(segment.len());
        let mut changes = Changes::new(block_bytes, segment.len());
        let mut has_immediate = false;
        for (number, request) in segment.iter_mut().enumerate() {
            let range = range_of(&request.operation);
            let outcome = self.check(volume, size_bytes, &request.operation, range);
            if let (Ok(()), Some(range)) = (&outcome, range) {
                has_immediate |= is_immediate(&request.operation);
                match &mut request.operation {
                    Operation::Read { buffer, .. } => {
                        reads.push(Read { request: number, range, buffer });
                    }
                    operation => changes.add(number, operation, range),
                }
            }
            outcomes.push(outcome);
        }
        let mut failed = |number: usize, error: &VolumeError| {
            // Only the first error of a request is kept.
            if let Some(outcome) = outcomes.get_mut(number).filter(|outcome| outcome.is_ok()) {
                *outcome = Err(error.for_device(block_bytes));
            }
        };
        let mut left = Vec::new();
        if !reads.is_empty() {
            let failed = |number, error| failed(number, &error);
            left = self.reader.read(volume, &mut reads, waiting, failed);
        }
        for (number, blocks) in &changes.unmaps {
            if let Err(error) = self.writer.unmap(volume, blocks.clone()) {
                failed(*number, &error);
            }
        }
        for items in changes.items.chunks(MAX_ITEMS) {
            self.writer.write(volume, items, &mut failed);
        }
        if !changes.items.is_empty() {
            self.mark_written(volume, &changes.items);
        }
        // A request may have failed at one block and been left at another.
        left.retain(|place| outcomes.get(*place).is_some_and(Result::is_ok));
        count(volume, &reads, &left, &changes);
        drop(reads);
        drop(changes);
        assert_eq!(outcomes.len(), segment.len(), "each request has an outcome");
        for (request, outcome) in segment.iter_mut().zip(outcomes) {
            request.outcome = outcome;
        }
        self.finish_segment(volume, segment, has_immediate);
        left
    }

    /// Tells the arranger and the finder of blocks that were written.
    fn mark_written(&self, volume: &VolumeShared, items: &[Item<'_>]) {
        let lbns = items.iter().map(|item| item.lbn);
        volume.marks().mark(volume.blocks(), lbns.clone(), self.ticker.now());
        if volume.mode() == DedupMode::Offline {
            volume.dirty().mark(lbns, self.clock.now_ns());
        }
    }

    /// Checks a request before anything is changed.
    fn check(
        &self,
        volume: &VolumeShared,
        size_bytes: u64,
        operation: &Operation<'_>,
        range: Option<Range>,
    ) -> Result<(), DeviceError> {
        let Some(range) = range else { return Ok(()) };
        let Range { offset, length } = range;
        if offset.checked_add(length).is_none_or(|end| end > size_bytes) {
            return Err(DeviceError::OutOfRange { offset, length, size_bytes });
        }
        if matches!(operation, Operation::Read { .. }) {
            return Ok(());
        }
        if volume.read_only() {
            return Err(DeviceError::ReadOnly);
        }
        self.health
            .check_writable()
            .map_err(|error| error.for_device(u64::from(self.superblock.block_bytes)))
    }

    /// Flushes if a request asked for it, and counts the requests that failed.
    fn finish_segment(
        &self,
        volume: &VolumeShared,
        segment: &mut [Request<'_>],
        has_immediate: bool,
    ) {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let is_flush = |request: &Request<'_>| matches!(request.operation, Operation::Flush);
        if has_immediate || segment.iter().any(is_flush) {
            add(&volume.counters().flushes, 1);
            if let Err(error) = self.log.flush() {
                for request in segment.iter_mut() {
                    if request.outcome.is_ok()
                        && (is_flush(request) || is_immediate(&request.operation))
                    {
                        request.outcome = Err(error.for_device(block_bytes));
                    }
                }
            }
        }
        let failures = segment.iter().filter(|request| request.outcome.is_err()).count();
        if failures > 0 {
            add(&volume.counters().failed_requests, failures as u64);
            self.note_failed_requests(segment);
        }
    }

    /// Notes requests that fail because of the pool's disks. A pool that takes no changes says so
    /// itself, damaged blocks have a list of their own, and a quota is its volume's.
    #[cold]
    fn note_failed_requests(&self, segment: &[Request<'_>]) {
        let errors = segment.iter().filter_map(|request| request.outcome.as_ref().err());
        let mut of_disks = errors.filter(|error| match error {
            DeviceError::Io(error) => error.kind() != io::ErrorKind::QuotaExceeded,
            error => matches!(error, DeviceError::NoSpace),
        });
        if let Some(error) = of_disks.next().filter(|_| self.health.check_writable().is_ok()) {
            self.tasks.requests.note_failure(self.clock.now_ns(), with_causes(error));
        }
    }
}

/// Counts the requests of a segment. A read that is left is counted when it is executed.
fn count(volume: &VolumeShared, reads: &[Read<'_>], left: &[usize], changes: &Changes<'_>) {
    let counters = &volume.counters();
    let executed = reads.iter().filter(|read| left.binary_search(&read.request).is_err());
    add(&counters.reads, (reads.len() - left.len()) as u64);
    add(&counters.read_bytes, executed.map(|read| read.range.length).sum());
    for (counter, amount) in [
        (&counters.writes, changes.writes),
        (&counters.written_bytes, changes.written_bytes),
        (&counters.trims, changes.trims),
    ] {
        if amount > 0 {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }
}

/// The changes of a segment, block by block, and the ranges that are unmapped.
struct Changes<'a> {
    block_bytes: u64,
    items: Vec<Item<'a>>,
    unmaps: Vec<(usize, ops::Range<u64>)>,
    writes: u64,
    written_bytes: u64,
    trims: u64,
}

impl<'a> Changes<'a> {
    /// No changes, with room for those of this many requests.
    fn new(block_bytes: u64, requests: usize) -> Self {
        Self {
            block_bytes,
            items: Vec::with_capacity(requests),
            unmaps: Vec::new(),
            writes: 0,
            written_bytes: 0,
            trims: 0,
        }
    }

    fn add(&mut self, request: usize, operation: &Operation<'a>, range: Range) {
        match operation {
            Operation::Write { data, .. } => {
                self.writes += 1;
                self.written_bytes += range.length;
                self.add_write(request, range, data);
            }
            Operation::WriteZeroes { .. } => {
                self.trims += 1;
                let whole = range.whole_blocks(self.block_bytes);
                for lbn in range.blocks(self.block_bytes).filter(|lbn| !whole.contains(lbn)) {
                    let within = self.within(range, lbn);
                    self.items.push(Item {
                        request,
                        lbn: Lbn(lbn),
                        source: Source::ZeroPart(within),
                    });
                }
                self.unmaps.push((request, whole));
            }
            // The partial blocks at the ends of a trim keep their content, which a trim allows.
            Operation::Trim { .. } => {
                self.trims += 1;
                self.unmaps.push((request, range.whole_blocks(self.block_bytes)));
            }
            Operation::Read { .. } | Operation::Flush => {}
        }
    }

    /// The bytes of a block that lie in the range.
    fn within(&self, range: Range, lbn: u64) -> ops::Range<usize> {
        let start = lbn * self.block_bytes;
        let first = range.offset.max(start) - start;
        let end = range.end().min(start + self.block_bytes) - start;
        first as usize..end as usize
    }

    fn add_write(&mut self, request: usize, range: Range, data: &'a [u8]) {
        let mut rest = data;
        for lbn in range.blocks(self.block_bytes) {
            let within = self.within(range, lbn);
            assert!(within.len() <= rest.len(), "a write has bytes for each of its blocks");
            let (part, after) = rest.split_at(within.len());
            rest = after;
            let source = if within.len() as u64 == self.block_bytes {
                Source::Whole(part)
            } else {
                Source::Part(within.start, part)
            };
            self.items.push(Item { request, lbn: Lbn(lbn), source });
        }
        assert!(rest.is_empty(), "bytes of a write belong to no block");
    }
}
