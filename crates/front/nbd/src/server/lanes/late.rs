//! Reads that wait for the medium, while their connection answers those whose data is in memory.
//!
//! The device has started these reads, so the medium works on all of them. One thread of a
//! connection waits for the oldest, and answers it together with some of the next that have become
//! ready. A read that waits is kept as its header alone, so it takes no memory for data.

use super::{EndedLane, Lanes, State};
use crate::server::batch::{Batch, Waiting};
use crate::server::check::Rules;
use crate::server::error::SessionError;
use gemelo_device::Helper;

use crate::wire::RequestHeader;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

/// Most reads of a connection that wait for the medium: as many as a batch may have.
const MAX_READS: usize = 128;

/// Bytes of data of the reads that wait for the medium, from which on no more join them. The
/// medium reads these bytes ahead into the page cache.
const MAX_DATA_BYTES: u64 = 8 << 20;

/// Most reads that are looked at together. Those behind the oldest may not be ready, and then the
/// look found nothing.
const READS_AT_ONCE: usize = 4;

/// Bytes of data from which on no more reads are looked at together. Longer replies leave the
/// caches of the processor before they are sent.
const DATA_BYTES_AT_ONCE: u64 = 128 << 10;

/// The reads of a connection that wait for the medium.
#[derive(Default)]
pub(super) struct LateReads {
    /// The oldest comes first. Those in execution are at the front.
    reads: VecDeque<(RequestHeader, Rules)>,
    data_bytes: u64,
    /// `true` if a thread executes them.
    has_thread: bool,
    /// Length in bytes of the longest read that the memory of the thread holds.
    longest_bytes: u32,
}

impl LateReads {
    fn push(&mut self, header: RequestHeader, rules: Rules) {
        self.data_bytes += u64::from(header.length);
        self.reads.push_back((header, rules));
    }

    fn is_full(&self) -> bool {
        self.reads.len() >= MAX_READS || self.data_bytes >= MAX_DATA_BYTES
    }

    /// Returns whether a read touches one of these ranges.
    pub(super) fn read_from(&self, ranges: &[Range<u64>]) -> bool {
        self.reads.iter().any(|(header, _)| super::touch_any(&header.range(), ranges))
    }

    /// Puts the oldest reads into an empty batch.
    fn fill(&self, batch: &mut Batch) {
        let mut data_bytes = 0;
        for (header, rules) in self.reads.iter().take(READS_AT_ONCE) {
            if data_bytes >= DATA_BYTES_AT_ONCE || !batch.push(*header, 0..0, rules) {
                return;
            }
            data_bytes += u64::from(header.length);
        }
    }

    /// Takes out the reads that a batch has answered.
    fn finish(&mut self, batch: &Batch) {
        let taken = batch.requests();
        assert!(taken <= self.reads.len(), "the reads of a batch are at the front");
        let mut left: Vec<_> = self.reads.drain(..taken).zip(batch.are_left()).collect();
        while let Some((read, is_left)) = left.pop() {
            if is_left {
                self.reads.push_front(read);
            } else {
                self.data_bytes -= u64::from(read.0.length);
            }
        }
    }

    /// Ends the thread. After a failure it drops the reads that are not answered.
    fn end(&mut self) {
        self.has_thread = false;
        self.data_bytes = 0;
        self.reads.clear();
    }
}

impl Lanes {
    /// Waits until a further batch may be executed: few reads wait for the medium, and the batch
    /// changes nothing that they read. Returns whether anything is in execution beside the thread
    /// of the connection.
    pub(in crate::server) fn wait_for_late_reads(&self, batch: &Batch) -> bool {
        let mut state = self.lock();
        if !state.late.reads.is_empty() {
            let changes: Vec<_> = batch.changes().collect();
            let waits = |state: &mut State| state.late.is_full() || state.late.read_from(&changes);
            let waited = self.one_ended.wait_while(state, waits);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight > 0
    }

    /// Has reads executed that the device has started and left. Returns those for which there is
    /// no thread or no memory.
    pub(in crate::server) fn read_late(
        self: &Arc<Self>,
        mut reads: Vec<RequestHeader>,
        rules: Rules,
    ) -> Vec<RequestHeader> {
        let mut state = self.lock();
        let mut granted = None;
        if !state.late.has_thread {
            let longest_bytes = reads.iter().map(|header| header.length).max().unwrap_or(0);
            let Some((batch, helper)) = self.late_thread(&mut state, longest_bytes) else {
                return reads;
            };
            state.late.longest_bytes = batch.longest_read();
            state.late.has_thread = true;
            state.in_flight += 1;
            granted = Some((batch, helper));
        }
        let late = &mut state.late;
        reads.retain(|header| {
            let fits = header.length <= late.longest_bytes;
            if fits {
                late.push(*header, rules);
            }
            !fits
        });
        drop(state);
        if let Some((batch, helper)) = granted {
            let lanes = Arc::clone(self);
            helper.run(move |helper| lanes.execute_late(batch, helper));
        }
        reads
    }

    /// Returns a thread and memory for reads of this length, as far as they are granted.
    fn late_thread(&self, state: &mut State, longest_bytes: u32) -> Option<(Batch, Helper)> {
        let helper = self.setting.helpers.grant(state.in_flight)?;
        let mut batch = self.batch(state)?;
        batch.make_room_for_read(longest_bytes);
        Some((batch, helper))
    }

    /// Executes the reads until none is left.
    fn execute_late(&self, mut batch: Batch, helper: Helper) {
        let outcome = loop {
            {
                let mut state = self.lock();
                state.late.fill(&mut batch);
                if batch.requests() == 0 {
                    state.late.end();
                    break Ok(());
                }
            }
            let device = &*self.setting.device;
            let executed = AssertUnwindSafe(|| {
                batch.execute(&[], device, Waiting::First);
                assert!(batch.answered() > 0, "the oldest read is waited for");
                self.answer(&batch, 0)
            });
            if let Err(error) = catch_unwind(executed).unwrap_or(Err(SessionError::DevicePanic)) {
                break Err(error);
            }
            self.lock().late.finish(&batch);
            batch.empty();
            self.one_ended.notify_all();
        };
        drop(helper);
        if outcome.is_err() {
            self.lock().late.end();
        }
        // No lane of long writes has this number.
        self.end(EndedLane { number: 0, batch, received: None }, outcome);
    }
}
