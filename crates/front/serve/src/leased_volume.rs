//! A volume of a member, which answers only as long as this process may act for the member.

use gemelo_device::{BlockDevice, DeviceError, Extent, Geometry, Request};
use gemelo_member::LeaseState;
use gemelo_volume::Volume;
use std::io;
use std::sync::Arc;

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

    fn is_remote(&self) -> bool {
        true
    }

    fn may_answer(&self) -> bool {
        self.lease_state.check().is_ok()
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
