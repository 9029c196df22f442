//! A volume as a block device.

use crate::counters::{VolumeStat, add};
use crate::engine::{Engine, Range, VolumeShared};
use gemelo_device::{BlockDevice, DeviceError, Extent, Geometry, Request, Waiting};
use std::sync::Arc;

/// The longest request that a volume announces: 32 MiB, as NBD servers and clients agree on.
const MAXIMUM_REQUEST_BYTES: u32 = 32 << 20;

/// A volume of an open pool. A clone is a handle to the same volume.
#[derive(Clone)]
pub struct Volume {
    engine: Arc<Engine>,
    shared: Arc<VolumeShared>,
}

impl Volume {
    pub(crate) const fn new(engine: Arc<Engine>, shared: Arc<VolumeShared>) -> Self {
        Self { engine, shared }
    }

    /// Identifies the volume among those of all pools. Its name can be given to another one, and a
    /// volume that was rolled back is another one.
    #[must_use]
    pub fn identity(&self) -> String {
        let pool = self.engine.superblock.pool_id.iter().map(|byte| format!("{byte:02x}"));
        let rolled_back = match self.shared.rollbacks() {
            0 => String::new(),
            times => format!(".{times}"),
        };
        format!("{}-{}{rolled_back}", pool.collect::<String>(), self.shared.id().0)
    }

    /// Counts of the volume's activity since the pool was opened.
    #[must_use]
    pub fn stat(&self) -> VolumeStat {
        self.shared.counters().read()
    }
}

impl Volume {
    fn execute_now(&self, batch: &mut [Request<'_>]) {
        let began = self.shared.load().begin(batch, self.engine.clock.now_ns());
        self.engine.requests.execute(&self.shared, batch);
        self.shared.load().end(&began, self.engine.clock.now_ns());
    }

    /// Waits until the rates of the volume and of all volumes let a batch begin.
    fn pace(&self, batch: &[Request<'_>]) {
        let (clock, unpaced) = (&*self.engine.clock, &self.engine.unpaced);
        let own_ns = self.shared.limits().wait(batch, clock, unpaced);
        let waited_ns = own_ns + self.engine.total.wait(batch, clock, unpaced);
        if waited_ns > 0 {
            add(&self.shared.counters().paced_batches, 1);
            add(&self.shared.counters().paced_ns, waited_ns);
        }
    }
}

impl BlockDevice for Volume {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.shared.size_bytes(),
            minimum_block_bytes: 1,
            preferred_block_bytes: self.engine.superblock.block_bytes,
            maximum_request_bytes: MAXIMUM_REQUEST_BYTES,
            read_only: self.shared.read_only() || self.engine.health.is_read_only(),
        }
    }

    fn batch_requests(&self) -> usize {
        let own = self.shared.limits().batch_requests();
        own.into_iter().chain(self.engine.total.batch_requests()).min().unwrap_or(usize::MAX)
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        let most = self.batch_requests();
        if most == usize::MAX {
            return self.execute_now(batch);
        }
        for part in batch.chunks_mut(most) {
            self.pace(part);
            self.execute_now(part);
        }
    }

    /// Leaves reads whose contents are not in memory. Their disk reads ahead.
    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        if self.batch_requests() != usize::MAX {
            self.execute(batch);
            return Vec::new();
        }
        let waited = match waiting {
            Waiting::All => batch.len(),
            Waiting::First => batch.len().min(1),
            Waiting::None => 0,
        };
        let (waited, others) = batch.split_at_mut(waited);
        if !waited.is_empty() {
            self.execute_now(waited);
        }
        if others.is_empty() {
            return Vec::new();
        }
        let mut began = self.shared.load().begin(others, self.engine.clock.now_ns());
        let mut left = self.engine.requests.execute_ready(&self.shared, others);
        began.leave_reads(left.len());
        self.shared.load().end(&began, self.engine.clock.now_ns());
        left.iter_mut().for_each(|place| *place += waited.len());
        left
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        let size_bytes = self.shared.size_bytes();
        if offset.checked_add(length).is_none_or(|end| end > size_bytes) {
            return Err(DeviceError::OutOfRange { offset, length, size_bytes });
        }
        self.engine
            .reader
            .extents(&self.shared, Range { offset, length }, max_extents)
            .map_err(|error| error.for_device(u64::from(self.engine.superblock.block_bytes)))
    }
}
