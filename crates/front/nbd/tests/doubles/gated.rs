//! A device in memory whose reads, writes and flushes wait at gates that the test closes and opens.

use super::memory::MemoryDevice;
use gemelo_device::{
    BlockDevice, Claim, DeviceError, Durability, Extent, Geometry, Operation, Request, Waiting,
};
use std::ops::Range;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// No request waits for longer, so that a test that fails ends.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The state of the gates.
#[derive(Default)]
struct Gates {
    /// Reads that touch this range wait.
    reads: Option<Range<u64>>,
    flushes_wait: bool,
    writes_wait: bool,
    /// Requests that wait at the moment.
    reads_waiting: usize,
    flushes_waiting: usize,
    writes_waiting: usize,
    /// Reads that batches have left.
    reads_left: usize,
    /// Executed requests that change the device.
    changes: usize,
    /// The value of `changes` when each flush began.
    flushes: Vec<usize>,
}

/// A device with gates.
pub(crate) struct Gated {
    pub(crate) memory: MemoryDevice,
    is_remote: bool,
    /// `true` if it can tell that reads would wait.
    can_tell: bool,
    gates: Mutex<Gates>,
    moved: Condvar,
}

impl Gated {
    pub(crate) fn new(size_bytes: u64, is_remote: bool) -> Self {
        let (gates, moved) = (Mutex::default(), Condvar::new());
        let memory = MemoryDevice::new(size_bytes);
        Self { memory, is_remote, can_tell: false, gates, moved }
    }

    /// Makes a device of this machine. What is not held is in memory: a batch may leave the reads
    /// that would wait.
    pub(crate) fn over_medium(size_bytes: u64) -> Self {
        Self { can_tell: true, ..Self::new(size_bytes, false) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Gates) -> T) -> T {
        let changed = change(&mut self.gates.lock().unwrap());
        self.moved.notify_all();
        changed
    }

    pub(crate) fn hold_reads(&self, range: Range<u64>) {
        self.change(|gates| gates.reads = Some(range));
    }

    pub(crate) fn hold_flushes(&self) {
        self.change(|gates| gates.flushes_wait = true);
    }

    pub(crate) fn hold_writes(&self) {
        self.change(|gates| gates.writes_wait = true);
    }

    /// Opens all gates.
    pub(crate) fn open(&self) {
        self.change(|gates| {
            gates.reads = None;
            gates.writes_wait = false;
            gates.flushes_wait = false;
        });
    }

    fn wait_while(&self, waits: impl Fn(&Gates) -> bool) -> bool {
        let gates = self.gates.lock().unwrap();
        let waited = self.moved.wait_timeout_while(gates, MAX_WAIT, |gates| waits(gates));
        !waited.unwrap().1.timed_out()
    }

    /// Waits until this number of reads wait together.
    pub(crate) fn has_reads_waiting(&self, reads: usize) -> bool {
        self.wait_while(|gates| gates.reads_waiting < reads)
    }

    /// Waits until this number of flushes wait together.
    pub(crate) fn has_flushes_waiting(&self, flushes: usize) -> bool {
        self.wait_while(|gates| gates.flushes_waiting < flushes)
    }

    /// Returns the number of reads, flushes and writes that wait.
    pub(crate) fn waiting(&self) -> [usize; 3] {
        let gates = self.gates.lock().unwrap();
        [gates.reads_waiting, gates.flushes_waiting, gates.writes_waiting]
    }

    /// Returns the number of reads that batches have left so far.
    pub(crate) fn reads_left(&self) -> usize {
        self.gates.lock().unwrap().reads_left
    }

    /// Returns the number of changes that each flush found.
    pub(crate) fn flushes(&self) -> Vec<usize> {
        self.gates.lock().unwrap().flushes.clone()
    }

    fn is_held(&self, range: &Range<u64>) -> bool {
        let gates = self.gates.lock().unwrap();
        gates.reads.as_ref().is_some_and(|held| range.start < held.end && held.start < range.end)
    }

    /// Waits with the reads of a batch together, as a list of requests in flight does.
    fn pass_reads(&self, ranges: &[Range<u64>]) {
        let is_held = |gates: &Gates| {
            let held = gates.reads.as_ref();
            held.is_some_and(|held| {
                ranges.iter().any(|range| range.start < held.end && held.start < range.end)
            })
        };
        if !is_held(&self.gates.lock().unwrap()) {
            return;
        }
        self.change(|gates| gates.reads_waiting += ranges.len());
        self.wait_while(is_held);
        self.change(|gates| gates.reads_waiting -= ranges.len());
    }

    /// Returns whether a batch that does not wait leaves a request. A remote device leaves all
    /// reads, and all that must be durable.
    fn leaves(&self, request: &Request<'_>) -> bool {
        match read_range(request) {
            Some(range) => self.is_remote || self.can_tell && self.is_held(&range),
            None => self.is_remote && is_flushed(request),
        }
    }

    fn pass_write(&self) {
        self.change(|gates| gates.writes_waiting += 1);
        self.wait_while(|gates| gates.writes_wait);
        self.change(|gates| gates.writes_waiting -= 1);
    }

    fn pass_flush(&self) {
        self.change(|gates| {
            gates.flushes.push(gates.changes);
            gates.flushes_waiting += 1;
        });
        self.wait_while(|gates| gates.flushes_wait);
        self.change(|gates| gates.flushes_waiting -= 1);
    }
}

/// Returns whether a request and another one of its batch have to keep their order.
fn has_order(claims: &[Claim], place: usize) -> bool {
    let is_ordered = |(at, other): (usize, &Claim)| {
        let both = [&claims[place], other];
        let is_flush = both.contains(&&Claim::Flush);
        at != place && !is_flush && (both[0].waits_for(both[1]) || both[1].waits_for(both[0]))
    };
    claims.iter().enumerate().any(is_ordered)
}

fn read_range(request: &Request<'_>) -> Option<Range<u64>> {
    match &request.operation {
        Operation::Read { offset, buffer } => Some(*offset..*offset + buffer.len() as u64),
        _ => None,
    }
}

fn is_flushed(request: &Request<'_>) -> bool {
    match request.operation {
        Operation::Flush => true,
        Operation::Write { durability, .. }
        | Operation::WriteZeroes { durability, .. }
        | Operation::Trim { durability, .. } => durability == Durability::Immediate,
        Operation::Read { .. } => false,
    }
}

impl BlockDevice for Gated {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        let ranges: Vec<_> = batch.iter().filter_map(read_range).collect();
        self.pass_reads(&ranges);
        for request in batch {
            if matches!(request.operation, Operation::Write { .. }) {
                self.pass_write();
            }
            self.memory.execute(std::slice::from_mut(request));
            let is_change = !matches!(request.operation, Operation::Read { .. } | Operation::Flush);
            self.change(|gates| gates.changes += usize::from(is_change));
            if is_flushed(request) {
                self.pass_flush();
            }
        }
    }

    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        let waited = match waiting {
            Waiting::First if !self.is_remote => batch.len().min(1),
            Waiting::First | Waiting::All => batch.len(),
            Waiting::None => 0,
        };
        let claims: Vec<Claim> = batch.iter().map(|request| request.operation.claim()).collect();
        let (first, others) = batch.split_at_mut(waited);
        self.execute(first);
        let mut left = Vec::new();
        for (place, request) in (waited..).zip(others) {
            if self.leaves(request) && !has_order(&claims, place) {
                left.push(place);
            } else {
                self.execute(std::slice::from_mut(request));
            }
        }
        self.change(|gates| gates.reads_left += left.len());
        left
    }

    fn waiters(&self) -> usize {
        if self.is_remote { 16 } else { 1 }
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.memory.extents(offset, length, max_extents)
    }
}
