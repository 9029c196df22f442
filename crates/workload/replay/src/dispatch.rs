//! Reads the trace for the second time and turns records into operations, each for the process that
//! owns its part of the target.
//!
//! The reader knows the content of every block in the order of the trace, so each operation carries
//! the contents to write or to expect. The reader is at most [`AHEAD_NS`] ahead of the clock. It
//! sends all operations that it has before it waits.

use crate::batch::{Batch, Lane, Planned, Verb};
use crate::contents::content_of_hash;
use crate::error::ReplayError;
use crate::options::Speed;
use crate::populate::Holds;
use crate::shared::Shared;
use gemelo_base::live::LiveStats;
use gemelo_base::units::format_counted;
use gemelo_content::BlockContent;
use gemelo_load::PredictedBlocks;
use gemelo_target::TargetRequest;
use gemelo_trace::{Blocks, Record, RecordSource, TraceOperation};

/// Lead of the reader over the clock. It is longer than any usual delay of the reader.
const AHEAD_NS: u64 = 100_000_000;
/// Due time of the first record after the start. The record has to be read, sent and given its
/// content before it is due. Without this time it would start late on every target.
const LEAD_NS: u64 = 20_000_000;
/// Operations in a batch, enough to make the cost of the channel negligible.
const BATCH: usize = 128;
/// Contiguous bytes of the target that one process owns. They are few enough to spread a hot
/// region, and enough to divide few requests.
const STRIPE_BYTES: u64 = 4 << 20;
/// Records between two reports of progress, at which all batches are sent as well.
const REPORT_EVERY: u64 = 1 << 12;
/// Longest wait after which the reader checks whether it should stop.
const MAX_WAIT_NS: u64 = 50_000_000;

/// The counts of the thread that reads the trace.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DispatchCounts {
    pub(crate) records: u64,
    pub(crate) contradictions: u64,
    pub(crate) origin_ns: u64,
    pub(crate) is_complete: bool,
    /// Blocks that the target holds, if they were counted.
    pub(crate) predicted: Option<PredictedBlocks>,
}

pub(crate) struct Dispatcher<'a> {
    shared: &'a Shared<'a>,
    lanes: Vec<Lane>,
    batches: Vec<Batch>,
    holds: Holds,
    operation_blocks: u64,
    stripe_blocks: u64,
    drawn: u64,
    handed: DispatchCounts,
    first_ns: Option<u64>,
    /// Latest time of the records so far, and the number of records with times before it.
    latest_ns: u64,
    back_in_time: u64,
    live: LiveStats,
}

/// A run of consecutive blocks that one operation covers.
#[derive(Clone, Copy)]
struct Run {
    lane: usize,
    first: u64,
    blocks: u64,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        lanes: Vec<Lane>,
        holds: Holds,
        operation_blocks: u64,
    ) -> Self {
        Self {
            batches: lanes.iter().map(|_| Batch::default()).collect(),
            lanes,
            holds,
            operation_blocks,
            stripe_blocks: (STRIPE_BYTES / shared.plan.block_bytes()).max(1),
            // Populated blocks got the first contents of the distribution.
            drawn: shared.plan.drawn_populated(),
            handed: DispatchCounts::default(),
            first_ns: None,
            latest_ns: 0,
            back_in_time: 0,
            live: LiveStats::new(shared.environment.clock.now_ns()),
            shared,
        }
    }

    /// Sends the whole trace to the processes, or the part for which there was time.
    pub(crate) fn run(
        mut self,
        source: &mut impl RecordSource,
    ) -> Result<DispatchCounts, ReplayError> {
        let lead_ns = if self.shared.options.speed == Speed::Unlimited { 0 } else { LEAD_NS };
        self.handed.origin_ns = self.shared.environment.clock.now_ns() + lead_ns;
        let mut record = Record::new();
        let outcome = loop {
            match source.next_record(&mut record) {
                Ok(true) => {}
                Ok(false) => break Ok(true),
                Err(error) => break Err(error.into()),
            }
            let due_ns = self.due_ns(&record);
            if !self.wait_until_near(due_ns) {
                break Ok(false);
            }
            if let Err(error) = self.hand_out(&record, due_ns) {
                break Err(error);
            }
            self.handed.records += 1;
            if self.handed.records.is_multiple_of(REPORT_EVERY) {
                self.shared.environment.monitor.advance(REPORT_EVERY);
                self.show_figures();
                self.flush_batches();
            }
        };
        if outcome.is_err() {
            self.shared.halt.raise();
        }
        if self.back_in_time > 0 {
            self.shared.environment.monitor.warn(&format!(
                "{} of the trace had times before those of earlier records: they were due with the \
                 record before them",
                format_counted(self.back_in_time, "record")
            ));
        }
        self.flush_batches();
        // Dropping the senders ends the channels, which ends the processes.
        drop(std::mem::take(&mut self.lanes));
        let is_complete = outcome?;
        let predicted = (is_complete && self.shared.counts_contents).then(|| {
            let (logical_blocks, distinct_blocks) = self.holds.count();
            PredictedBlocks { logical_blocks, distinct_blocks }
        });
        Ok(DispatchCounts { is_complete, predicted, ..self.handed })
    }

    /// Returns the due time of a record on the clock, or 0 at unlimited speed. A record with an
    /// earlier time than one before it is due with that one: the order of the trace is kept, and an
    /// operation that could not start earlier is not late.
    #[inline]
    fn due_ns(&mut self, record: &Record) -> u64 {
        match self.shared.options.speed {
            Speed::Unlimited => 0,
            Speed::Times(factor) => {
                let first_ns = *self.first_ns.get_or_insert(record.time_ns);
                if record.time_ns < self.latest_ns {
                    self.back_in_time += 1;
                }
                self.latest_ns = self.latest_ns.max(record.time_ns);
                let after_ns = self.latest_ns.saturating_sub(first_ns) as f64 / factor;
                self.handed.origin_ns.saturating_add(after_ns as u64)
            }
        }
    }

    /// Waits until an operation is due soon. Returns `false` if the replay should end.
    fn wait_until_near(&mut self, due_ns: u64) -> bool {
        let shared = self.shared;
        let clock = shared.environment.clock;
        loop {
            if shared.halt.is_raised() || shared.environment.stop.is_raised() {
                return false;
            }
            let near_ns = due_ns.saturating_sub(AHEAD_NS);
            if due_ns == 0 {
                return true;
            }
            let now_ns = clock.now_ns();
            if near_ns <= now_ns {
                return true;
            }
            self.show_figures();
            self.flush_batches();
            clock.sleep_until_ns(near_ns.min(now_ns + MAX_WAIT_NS));
        }
    }

    /// Shows the figures of the last second, if it is time for new ones.
    fn show_figures(&mut self) {
        let Shared { environment, progress, .. } = self.shared;
        if let Some(text) = self.live.next(environment.clock.now_ns(), || progress.so_far()) {
            environment.monitor.show(&text);
        }
    }

    fn hand_out(&mut self, record: &Record, due_ns: u64) -> Result<(), ReplayError> {
        if record.operation == TraceOperation::Flush {
            for lane in 0..self.lanes.len() {
                self.push(lane, Planned { verb: Verb::Sync, first: 0, blocks: 0, ids: 0, due_ns });
            }
            return Ok(());
        }
        if record.operation == TraceOperation::Trim {
            return self.hand_out_trim(record, due_ns);
        }
        let is_write = record.operation == TraceOperation::Write;
        let verb = if is_write { Verb::Write } else { Verb::Read };
        let mut run: Option<Run> = None;
        for touched in Blocks::new(record, self.shared.plan.block_bytes())? {
            // The first reading met every place. If the file has changed since, new places are left
            // out.
            let Some(block) = self.shared.plan.target_block(record.device, touched.block) else {
                continue;
            };
            let lane = (block / self.stripe_blocks) as usize % self.lanes.len();
            let extends = run.is_some_and(|run| {
                run.lane == lane
                    && run.first + run.blocks == block
                    && run.blocks < self.operation_blocks
            });
            if !extends {
                self.push_run(run.take(), verb, due_ns);
            }
            let said = touched.content.map(content_of_hash);
            let content = self.content(block, said, is_write);
            let batch = &mut self.batches[lane];
            batch.ids.push(content.map(BlockContent::to_bits));
            run = Some(run.map_or(Run { lane, first: block, blocks: 1 }, |run| Run {
                blocks: run.blocks + 1,
                ..run
            }));
        }
        self.push_run(run, verb, due_ns);
        Ok(())
    }

    /// Sends a trim. Trims have no contents, so the size of a buffer does not limit them.
    fn hand_out_trim(&mut self, record: &Record, due_ns: u64) -> Result<(), ReplayError> {
        let max_blocks =
            (TargetRequest::MAX_TRIM_BYTES as u64 / self.shared.plan.block_bytes()).max(1);
        let mut run: Option<Run> = None;
        for touched in Blocks::new(record, self.shared.plan.block_bytes())? {
            let Some(block) = self.shared.plan.target_block(record.device, touched.block) else {
                continue;
            };
            let lane = (block / self.stripe_blocks) as usize % self.lanes.len();
            match &mut run {
                Some(run)
                    if run.lane == lane
                        && run.first + run.blocks == block
                        && run.blocks < max_blocks =>
                {
                    run.blocks += 1;
                }
                _ => {
                    self.push_trim(run.take(), due_ns);
                    run = Some(Run { lane, first: block, blocks: 1 });
                }
            }
        }
        self.push_trim(run, due_ns);
        Ok(())
    }

    fn push_trim(&mut self, run: Option<Run>, due_ns: u64) {
        let Some(Run { lane, first, blocks }) = run else { return };
        self.holds.clear(first, blocks);
        self.push(lane, Planned { verb: Verb::Trim, first, blocks, ids: 0, due_ns });
    }

    /// Returns the content that a write gives a block, or that a read should find there.
    #[inline]
    fn content(
        &mut self,
        block: u64,
        said: Option<BlockContent>,
        is_write: bool,
    ) -> Option<BlockContent> {
        if is_write {
            let id = said.unwrap_or_else(|| {
                self.drawn += 1;
                self.shared.contents.drawn(self.drawn - 1)
            });
            self.holds.set(block, id);
            return Some(id);
        }
        let held = self.holds.get(block);
        if said.is_some() && held.is_some() && said != held {
            self.handed.contradictions += 1;
        }
        held
    }

    fn push_run(&mut self, run: Option<Run>, verb: Verb, due_ns: u64) {
        let Some(Run { lane, first, blocks }) = run else { return };
        let ids = self.batches[lane].ids.len() - blocks as usize;
        self.push(lane, Planned { verb, first, blocks, ids, due_ns });
    }

    #[inline]
    fn push(&mut self, lane: usize, operation: Planned) {
        self.batches[lane].operations.push(operation);
        if self.batches[lane].operations.len() >= BATCH {
            self.send(lane);
        }
    }

    fn send(&mut self, lane: usize) {
        if self.batches[lane].operations.is_empty() {
            return;
        }
        let lane_ends = &self.lanes[lane];
        let mut fresh = lane_ends.empty.try_recv().unwrap_or_default();
        fresh.clear();
        let mut full = std::mem::replace(&mut self.batches[lane], fresh);
        full.origin_ns = self.handed.origin_ns;
        // Sending fails after the process has failed. Its halt flag then ends the loop.
        let _ = lane_ends.send.send(full);
    }

    fn flush_batches(&mut self) {
        for lane in 0..self.lanes.len() {
            self.send(lane);
        }
    }
}
