//! The lanes of a client in execution, the reads that wait for one, and memory to be used again.

use super::{Claim, KeptRead, LaneClient, Reader};
use std::collections::VecDeque;

/// Most kept reads of a client: as many as a batch may have.
const MAX_READS: usize = 128;

/// Bytes of data of the kept reads, from which on no more join them. The medium reads these bytes
/// ahead into the page cache.
const MAX_DATA_BYTES: u64 = 8 << 20;

/// Most reads that a lane takes together. Requests that are answered together are sent together
/// again by their client, so that less would overlap.
const READS_AT_ONCE: usize = 4;

/// Bytes of data from which on a lane takes no more reads. Longer replies leave the caches of the
/// processor before they are sent.
const DATA_BYTES_AT_ONCE: u64 = 128 << 10;

/// The memory of a lane that was not used while this number of lanes ended is released.
const UNUSED_LANES: u64 = 1024;

/// A lane in execution.
struct Lane<R> {
    number: u64,
    /// The claims of a batch that was received as a whole.
    claims: Vec<Claim>,
    /// The kept reads in execution. They are put back if they are left once more.
    reads: Vec<KeptRead<R>>,
    /// Length of the longest kept read that it will take; [`None`] if it takes none.
    room: Option<u64>,
}

pub(super) struct State<C: LaneClient> {
    lanes: Vec<Lane<C::Read>>,
    started: u64,
    ended: u64,
    /// Kept reads that no lane has taken. The oldest comes first.
    reads: VecDeque<KeptRead<C::Read>>,
    /// Number and bytes of all kept reads, also of those in execution.
    kept: usize,
    kept_bytes: u64,
    /// Batches to be used again. The last one is used first.
    idle: Vec<C::Batch>,
    /// Batches at the front of `idle` that were not used since they were last counted.
    unused: usize,
    failure: Option<C::Failure>,
    has_failed: bool,
}

impl<C: LaneClient> Default for State<C> {
    fn default() -> Self {
        Self {
            lanes: Vec::new(),
            started: 0,
            ended: 0,
            reads: VecDeque::new(),
            kept: 0,
            kept_bytes: 0,
            idle: Vec::new(),
            unused: 0,
            failure: None,
            has_failed: false,
        }
    }
}

impl<C: LaneClient> State<C> {
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.lanes.is_empty()
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns the number of lanes that execute kept reads.
    pub(super) fn readers(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.room.is_some()).count()
    }

    /// Returns the length of the longest read that a lane in execution will take.
    pub(super) fn longest_room(&self) -> u64 {
        self.lanes.iter().filter_map(|lane| lane.room).max().unwrap_or(0)
    }

    /// Returns whether no more reads may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.kept >= MAX_READS || self.kept_bytes >= MAX_DATA_BYTES
    }

    /// Returns whether a request with this claim must wait.
    pub(super) fn holds_up(&self, claim: &Claim) -> bool {
        let in_lane = |lane: &Lane<C::Read>| {
            lane.claims.iter().any(|earlier| claim.waits_for(earlier))
                || lane.reads.iter().any(|kept| claim.waits_for_read(&kept.range))
        };
        self.lanes.iter().any(in_lane)
            || self.reads.iter().any(|kept| claim.waits_for_read(&kept.range))
    }

    pub(super) fn has_changes(&self) -> bool {
        let mut claims = self.lanes.iter().flat_map(|lane| &lane.claims);
        claims.any(|claim| matches!(claim, Claim::Change { is_durable: false, .. }))
    }

    fn add_lane(&mut self, claims: Vec<Claim>, reads: Vec<KeptRead<C::Read>>, room: Option<u64>) {
        assert!(self.lanes.len() < super::MAX_LANES, "the lanes of a client are bounded");
        self.started += 1;
        self.lanes.push(Lane { number: self.started, claims, reads, room });
    }

    /// Notes that a lane of a whole batch begins. Returns its number.
    pub(super) fn begin(&mut self, claims: Vec<Claim>) -> u64 {
        self.add_lane(claims, Vec::new(), None);
        self.started
    }

    fn lane(&mut self, number: u64) -> &mut Lane<C::Read> {
        let found = self.lanes.iter_mut().find(|lane| lane.number == number);
        let Some(lane) = found else { unreachable!("a lane in execution is in the list") };
        lane
    }

    /// Keeps a read.
    pub(super) fn push(&mut self, read: KeptRead<C::Read>) {
        self.kept += 1;
        self.kept_bytes += read.bytes();
        self.reads.push_back(read);
    }

    /// Returns the number of bytes of the next read that no lane has taken.
    pub(super) fn front_bytes(&self) -> Option<u64> {
        self.reads.front().map(KeptRead::bytes)
    }

    /// Moves the next reads into the empty batch of a lane. Returns `false` if there are none for
    /// it: then it ends, or does not begin if it has not.
    pub(super) fn take(&mut self, client: &C, reader: &mut Reader<C>) -> bool {
        let (mut next, mut bytes, mut taken) = (0, 0, Vec::new());
        if reader.number != 0 {
            taken = std::mem::take(&mut self.lane(reader.number).reads);
        }
        assert!(taken.is_empty(), "a lane has executed the reads that it took before");
        while taken.len() < READS_AT_ONCE && bytes < DATA_BYTES_AT_ONCE {
            let Some(read) = self.reads.get(next) else { break };
            if read.bytes() > reader.room {
                next += 1;
                continue;
            }
            if !client.add(&mut reader.lane.batch, &read.read) {
                break;
            }
            bytes += read.bytes();
            taken.extend(self.reads.remove(next));
        }
        let has_some = !taken.is_empty();
        assert!(
            has_some || self.reads.iter().all(|read| read.bytes() > reader.room),
            "a read for which a lane has room is taken"
        );
        if reader.number != 0 {
            self.lane(reader.number).reads = taken;
        } else if has_some {
            self.add_lane(Vec::new(), taken, Some(reader.room));
            reader.number = self.started;
        }
        has_some
    }

    /// Notes that the reads of a lane were answered, except for those that were left.
    pub(super) fn finish_reads(&mut self, number: u64, left: &[usize]) {
        let mut reads = std::mem::take(&mut self.lane(number).reads);
        assert!(left.len() < reads.len(), "the oldest read is waited for");
        for (place, read) in reads.drain(..).enumerate().rev() {
            if left.binary_search(&place).is_ok() {
                self.reads.push_front(read);
            } else {
                self.forget(&read);
            }
        }
        // The list keeps its memory for the next reads.
        self.lane(number).reads = reads;
    }

    fn forget(&mut self, read: &KeptRead<C::Read>) {
        self.kept -= 1;
        self.kept_bytes -= read.bytes();
    }

    /// Notes that a lane has ended.
    pub(super) fn end(&mut self, number: u64) {
        let place = self.lanes.iter().position(|lane| lane.number == number);
        let Some(place) = place else { unreachable!("a lane in execution is in the list") };
        let Lane { reads, .. } = self.lanes.swap_remove(place);
        reads.iter().for_each(|read| self.forget(read));
        self.ended += 1;
    }

    /// Notes the failure of a lane, and drops the reads that no lane has taken.
    pub(super) fn fail(&mut self, failure: C::Failure) {
        self.has_failed = true;
        self.failure.get_or_insert(failure);
        while let Some(read) = self.reads.pop_front() {
            self.forget(&read);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    pub(super) fn take_failure(&mut self) -> Option<C::Failure> {
        self.failure.take()
    }

    pub(super) fn reuse(&mut self) -> Option<C::Batch> {
        let batch = self.idle.pop();
        self.unused = self.unused.min(self.idle.len());
        batch
    }

    /// Keeps a batch for reuse. Now and then, drops those that were not used for long.
    pub(super) fn keep(&mut self, batch: C::Batch) {
        self.idle.push(batch);
        if self.ended.is_multiple_of(UNUSED_LANES) {
            self.idle.drain(..self.unused);
            self.unused = self.idle.len();
        }
    }

    pub(super) fn holds_memory(&self) -> bool {
        self.is_busy() || !self.idle.is_empty()
    }

    pub(super) fn shrink(&mut self) {
        self.unused = 0;
        self.idle.clear();
    }
}
