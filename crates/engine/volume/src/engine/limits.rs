//! The limits of a volume while the pool is open: rates, quota and reservation.
//!
//! A rate is kept by a schedule: each batch takes the time that its operations and bytes have at
//! the rate, after the batches before it, and begins when its turn has come. A volume that was idle
//! may be ahead of its schedule by its burst. Batches are cut, so that none takes long.

use super::{State, VolumeShared};
use gemelo_base::locks::Mutex;
use gemelo_base::{Clock, StopFlag};
use gemelo_device::{Operation, Request};
use gemelo_format::{VolumeId, VolumeLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Requests of a batch take at most this part of a second at the volume's rate.
const BATCHES_PER_S: u64 = 20;
/// A wait is cut into such parts, between which a server that ends is noticed.
const WAIT_NS: u64 = 50_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// The end of the time that the work so far takes at a rate.
#[derive(Debug, Default)]
struct Schedule {
    end_ns: u64,
}

impl Schedule {
    /// Adds work, and returns the time at which it may begin.
    fn add(&mut self, amount: u64, rate: u64, burst_ns: u64, now_ns: u64) -> u64 {
        let takes_ns = u128::from(amount) * SECOND_NS / u128::from(rate.max(1));
        let begin_ns = self.end_ns.max(now_ns.saturating_sub(burst_ns));
        self.end_ns = begin_ns.saturating_add(u64::try_from(takes_ns).unwrap_or(u64::MAX));
        begin_ns
    }
}

/// The schedules of operations and of bytes.
#[derive(Debug, Default)]
struct Schedules {
    operations: Schedule,
    bytes: Schedule,
}

/// Limits that can change while requests come. 0 stands for none.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    is_paced: AtomicBool,
    set: Mutex<VolumeLimits>,
    quota_bytes: AtomicU64,
    reserve_bytes: AtomicU64,
    schedules: Mutex<Schedules>,
}

impl Limits {
    pub(crate) fn new(limits: VolumeLimits) -> Self {
        let new = Self::default();
        new.set(limits);
        new
    }

    pub(crate) fn set(&self, limits: VolumeLimits) {
        *self.set.lock() = limits;
        *self.schedules.lock() = Schedules::default();
        self.quota_bytes.store(limits.quota_bytes.unwrap_or(0), Ordering::Relaxed);
        self.reserve_bytes.store(limits.reserve_bytes.unwrap_or(0), Ordering::Relaxed);
        let is_paced = limits.operations_per_s.or(limits.bytes_per_s).is_some();
        self.is_paced.store(is_paced, Ordering::Release);
    }

    pub(crate) fn get(&self) -> VolumeLimits {
        *self.set.lock()
    }

    /// Most bytes of blocks that the volume may map.
    pub(crate) fn quota_bytes(&self) -> Option<u64> {
        Some(self.quota_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Bytes of blocks for which the store keeps room.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.load(Ordering::Relaxed)
    }

    /// The most requests of a batch; [`None`] if no rate is limited.
    pub(crate) fn batch_requests(&self) -> Option<usize> {
        if !self.is_paced.load(Ordering::Acquire) {
            return None;
        }
        let most = self.get().operations_per_s.map_or(u64::MAX, |rate| rate / BATCHES_PER_S);
        Some(usize::try_from(most.clamp(1, 128)).unwrap_or(1))
    }

    /// Waits for the turn of a batch. Returns the time that it has waited.
    pub(crate) fn wait(
        &self,
        batch: &[Request<'_>],
        clock: &dyn Clock,
        lifted: &OnceLock<StopFlag>,
    ) -> u64 {
        let is_lifted = || lifted.get().is_some_and(StopFlag::is_raised);
        if !self.is_paced.load(Ordering::Acquire) || is_lifted() {
            return 0;
        }
        let begin_ns = self.turn_of(batch, clock.now_ns());
        let began_ns = clock.now_ns();
        loop {
            let now_ns = clock.now_ns();
            if now_ns >= begin_ns || is_lifted() {
                return now_ns.saturating_sub(began_ns);
            }
            clock.sleep_until_ns(begin_ns.min(now_ns.saturating_add(WAIT_NS)));
        }
    }

    fn turn_of(&self, batch: &[Request<'_>], now_ns: u64) -> u64 {
        let limits = self.get();
        let burst_ms = limits.burst_ms.unwrap_or(VolumeLimits::USUAL_BURST_MS);
        let burst_ns = burst_ms.saturating_mul(1_000_000);
        let (operations, bytes) = work_of(batch);
        let mut schedules = self.schedules.lock();
        let turn = |schedule: &mut Schedule, amount: u64, rate: Option<u64>| {
            rate.map_or(0, |rate| schedule.add(amount, rate, burst_ns, now_ns))
        };
        turn(&mut schedules.operations, operations, limits.operations_per_s).max(turn(
            &mut schedules.bytes,
            bytes,
            limits.bytes_per_s,
        ))
    }
}

/// Blocks that the reservations of other volumes keep: those that each of them may still map.
pub(super) fn reserved_beside(
    volume: VolumeId,
    reserving: &[Arc<VolumeShared>],
    state: &State,
) -> u64 {
    let others = reserving.iter().filter(|other| other.id() != volume);
    let left = |other: &Arc<VolumeShared>| {
        other.reserve_blocks().saturating_sub(state.backend().mapped_blocks(other.id()))
    };
    others.map(left).fold(0, u64::saturating_add)
}

/// The operations of a batch that count, and the bytes that they read and write.
fn work_of(batch: &[Request<'_>]) -> (u64, u64) {
    let (mut operations, mut bytes) = (0, 0);
    for request in batch {
        operations += u64::from(!matches!(request.operation, Operation::Flush));
        bytes += match &request.operation {
            Operation::Read { buffer, .. } => buffer.len() as u64,
            Operation::Write { data, .. } => data.len() as u64,
            _ => 0,
        };
    }
    (operations, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::ManualClock;

    fn reads(count: usize, buffer: &mut [u8]) -> Vec<Request<'_>> {
        let parts = buffer.chunks_mut(buffer.len().div_ceil(count));
        let read = |buffer| Operation::Read { offset: 0, buffer };
        parts.map(|part| Request { operation: read(part), outcome: Ok(()) }).collect()
    }

    fn limits(operations: Option<u64>, bytes: Option<u64>, burst_ms: u64) -> Limits {
        Limits::new(VolumeLimits {
            operations_per_s: operations,
            bytes_per_s: bytes,
            burst_ms: Some(burst_ms),
            ..VolumeLimits::default()
        })
    }

    #[test]
    fn a_volume_has_its_rate_after_its_burst() {
        let (limits, mut buffer) = (limits(Some(500), None, 1000), [0; 100]);
        let batch = reads(25, &mut buffer);
        let now_ns = 10_000_000_000;
        let turns: Vec<u64> = (0..60).map(|_| limits.turn_of(&batch, now_ns)).collect();
        // A second of work was saved, so 500 operations begin at once.
        assert!(turns.iter().take(21).all(|turn| *turn <= now_ns), "{turns:?}");
        assert_eq!(turns[21], now_ns + 50_000_000);
        assert_eq!(turns[59] - turns[21], 38 * 50_000_000);
    }

    #[test]
    fn bytes_are_limited_as_operations_are_and_flushes_are_free() {
        let (limits, mut buffer) = (limits(None, Some(1000), 0), [0; 500]);
        let batch = reads(1, &mut buffer);
        assert_eq!(limits.turn_of(&batch, 5_000_000_000), 5_000_000_000);
        assert_eq!(limits.turn_of(&batch, 5_000_000_000), 5_500_000_000);
        let flush = [Request { operation: Operation::Flush, outcome: Ok(()) }];
        assert_eq!(work_of(&flush), (0, 0));
    }

    #[test]
    fn batches_are_short_and_a_server_that_ends_waits_for_none() {
        assert_eq!(Limits::default().batch_requests(), None);
        assert_eq!(limits(Some(500), None, 0).batch_requests(), Some(25));
        assert_eq!(limits(Some(3), None, 0).batch_requests(), Some(1));
        assert_eq!(limits(None, Some(9), 0).batch_requests(), Some(128));
        let (limits, mut buffer) = (limits(Some(1), None, 0), [0; 1]);
        let (batch, clock) = (reads(1, &mut buffer), ManualClock::new());
        let lifted = OnceLock::new();
        limits.wait(&batch, &clock, &lifted);
        assert_eq!(limits.wait(&batch, &clock, &lifted), 1_000_000_000);
        let stop = StopFlag::new();
        stop.raise();
        lifted.set(stop).unwrap();
        assert_eq!(limits.wait(&batch, &clock, &lifted), 0);
    }
}
