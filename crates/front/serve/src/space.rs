//! The requests that walk the maps of volumes to compute their space.

use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_volume::{Pool, SnapshotSpace, VolumeError, VolumeSpace};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Computes space for one request at a time, because each walk takes tens of MiB of memory. Further
/// requests wait. Raising the stop flag of the request that computes lets the next one begin.
#[derive(Default)]
pub(crate) struct SpaceCounter {
    walk: Mutex<()>,
}

impl SpaceCounter {
    /// Returns the space of one volume, or of each volume of the pool.
    pub(crate) fn of_volumes(
        &self,
        pool: &Pool,
        name: Option<&str>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<BTreeMap<String, VolumeSpace>, VolumeError> {
        let _walk = self.walk.lock();
        if let Some(name) = name {
            return Ok(BTreeMap::from([(name.to_owned(), pool.volume_space(name, stop)?)]));
        }
        let volumes = pool.volumes();
        monitor.begin("computing space", Unit::Items, Some(volumes.len() as u64));
        let mut spaces = BTreeMap::new();
        for volume in volumes {
            let name = volume.record.name;
            match pool.volume_space(&name, stop) {
                Ok(space) => drop(spaces.insert(name, space)),
                // The volume was removed or renamed after the list was made.
                Err(VolumeError::NoSuchVolume { .. }) => {}
                Err(error) => return Err(error),
            }
            monitor.advance(1);
        }
        monitor.finish();
        Ok(spaces)
    }

    /// Counts the blocks of the pool with and without its snapshots.
    pub(crate) fn of_snapshots(
        &self,
        pool: &Pool,
        stop: &StopFlag,
    ) -> Result<SnapshotSpace, VolumeError> {
        let _walk = self.walk.lock();
        pool.snapshot_space(stop)
    }
}
