//! A volume that also tells what differs from a snapshot.

use gemelo_device::{BlockDevice, ChangedExtent, DeviceError, Extent, Geometry, Request, Waiting};
use gemelo_volume::ChangesSince;
use std::sync::Arc;

/// A volume, and what differs between it and a snapshot.
pub(crate) struct VolumeSince {
    volume: Arc<dyn BlockDevice>,
    changes: ChangesSince,
}

impl VolumeSince {
    pub(crate) fn new(volume: Arc<dyn BlockDevice>, changes: ChangesSince) -> Self {
        Self { volume, changes }
    }
}

impl BlockDevice for VolumeSince {
    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn may_answer(&self) -> bool {
        self.volume.may_answer()
    }

    fn batch_requests(&self) -> usize {
        self.volume.batch_requests()
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        self.volume.execute(batch);
    }

    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        self.volume.submit(batch, waiting)
    }

    fn waiters(&self) -> usize {
        self.volume.waiters()
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.volume.extents(offset, length, max_extents)
    }

    fn changed_extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<ChangedExtent>, DeviceError> {
        self.changes.extents(offset, length, max_extents)
    }
}
