//! A volume of a member, which answers only as long as this process may act for the member.

use gemelo_device::{
    BlockDevice, Claim, DeviceError, Extent, Geometry, Operation, Request, Waiting,
};
use gemelo_member::LeaseState;
use gemelo_volume::Volume;
use std::io;
use std::sync::Arc;

/// Most threads of a client that wait together for the shared store.
const WAITERS: usize = 16;

/// A volume of a member.
pub(crate) struct LeasedVolume {
    volume: Volume,
    lease_state: Arc<LeaseState>,
}

impl LeasedVolume {
    pub(crate) const fn new(volume: Volume, lease_state: Arc<LeaseState>) -> Self {
        Self { volume, lease_state }
    }

    fn check(&self) -> Result<(), DeviceError> {
        Ok(self.lease_state.check().map_err(io::Error::other)?)
    }
}

impl BlockDevice for LeasedVolume {
    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn may_answer(&self) -> bool {
        self.lease_state.check().is_ok()
    }

    fn batch_requests(&self) -> usize {
        self.volume.batch_requests()
    }

    /// The lease is checked after the requests, and by a server again before it answers. After
    /// its end the outcomes are for callers in this process: no client gets them.
    fn execute(&self, batch: &mut [Request<'_>]) {
        self.volume.execute(batch);
        if self.lease_state.check().is_ok() {
            return;
        }
        for request in batch {
            request.outcome = self.check();
        }
    }

    /// Leaves what waits for other machines. All other changes go to memory.
    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        match waiting {
            Waiting::None => execute_ready(batch, |ready| self.execute(ready)),
            Waiting::All | Waiting::First => {
                self.execute(batch);
                Vec::new()
            }
        }
    }

    /// Nothing is under way for a request that was left.
    fn waiters(&self) -> usize {
        WAITERS
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        let extents = self.volume.extents(offset, length, max_extents);
        self.check()?;
        extents
    }
}

/// Returns whether an operation waits for other machines: a read, a flush, or a change that must be
/// durable at once.
fn waits(operation: &Operation<'_>) -> bool {
    !matches!(operation.claim(), Claim::Change { is_durable: false, .. })
}

/// Executes the requests of a batch that do not wait for other machines. Returns the places of the
/// others. If one request of a range must wait for another one, all are executed.
fn execute_ready<'a>(
    batch: &mut [Request<'a>],
    execute: impl FnOnce(&mut [Request<'a>]),
) -> Vec<usize> {
    let places = batch.iter().enumerate().filter(|(_, request)| waits(&request.operation));
    let left: Vec<usize> = places.map(|(place, _)| place).collect();
    if left.is_empty() || has_order(batch) {
        execute(batch);
        return Vec::new();
    }
    let is_left = |place: usize| left.binary_search(&place).is_ok();
    let taken = || Request { operation: Operation::Flush, outcome: Ok(()) };
    let ready = batch.iter_mut().enumerate().filter(|(place, _)| !is_left(*place));
    let mut ready: Vec<_> = ready.map(|(_, request)| std::mem::replace(request, taken())).collect();
    if !ready.is_empty() {
        execute(&mut ready);
    }
    let places = batch.iter_mut().enumerate().filter(|(place, _)| !is_left(*place));
    places.zip(ready).for_each(|((_, place), request)| *place = request);
    left
}

/// Returns whether a request must wait for an earlier one of its batch. Flushes are left, and so
/// come after all changes that are not.
fn has_order(batch: &[Request<'_>]) -> bool {
    let claims: Vec<Claim> = batch.iter().map(|request| request.operation.claim()).collect();
    let pairs = claims.iter().enumerate().filter(|(_, later)| **later != Claim::Flush);
    let mut pairs = pairs.map(|(place, later)| (later, claims.iter().take(place)));
    pairs.any(|(later, mut earlier)| earlier.any(|earlier| later.waits_for(earlier)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_device::Durability;

    fn write(offset: u64, data: &[u8], durability: Durability) -> Request<'_> {
        Request { operation: Operation::Write { offset, data, durability }, outcome: Ok(()) }
    }

    /// Returns the offsets of the writes that are executed, and the places that are left.
    fn submitted(batch: &mut [Request<'_>]) -> (Vec<u64>, Vec<usize>) {
        let mut executed = Vec::new();
        let left = execute_ready(batch, |ready| {
            for Request { operation, outcome } in ready {
                executed.extend(match operation {
                    Operation::Write { offset, .. } => Some(*offset),
                    _ => None,
                });
                *outcome = Err(DeviceError::ReadOnly);
            }
        });
        (executed, left)
    }

    #[test]
    fn what_waits_for_other_machines_is_left_and_the_rest_is_one_batch() {
        let (data, mut buffer) = ([1; 8], [0; 8]);
        let read = Operation::Read { offset: 8, buffer: &mut buffer };
        let mut batch = [
            write(0, &data, Durability::Flushed),
            Request { operation: read, outcome: Ok(()) },
            write(16, &data, Durability::Flushed),
            Request { operation: Operation::Flush, outcome: Ok(()) },
            write(24, &data, Durability::Immediate),
            write(32, &data, Durability::Flushed),
        ];
        assert_eq!(submitted(&mut batch), (vec![0, 16, 32], vec![1, 3, 4]));
        let failed: Vec<_> = batch.iter().map(|request| request.outcome.is_err()).collect();
        assert_eq!(failed, [true, false, true, false, false, true], "outcomes are in their places");
        let is_write = |place: usize, offset| matches!(batch[place].operation, Operation::Write { offset: at, .. } if at == offset);
        assert!(is_write(0, 0) && is_write(2, 16) && is_write(4, 24) && is_write(5, 32));
    }

    #[test]
    fn a_batch_whose_requests_keep_an_order_is_executed_as_a_whole() {
        let (data, mut buffer) = ([1; 8], [0; 8]);
        let read = Operation::Read { offset: 4, buffer: &mut buffer };
        let mut batch =
            [Request { operation: read, outcome: Ok(()) }, write(0, &data, Durability::Flushed)];
        assert_eq!(submitted(&mut batch), (vec![0], vec![]));
        let mut batch =
            [write(0, &data, Durability::Flushed), write(8, &data, Durability::Flushed)];
        assert_eq!(submitted(&mut batch), (vec![0, 8], vec![]));
    }
}
