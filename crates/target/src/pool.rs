//! A volume of a pool as a target. The storage engine runs in this process.
//!
//! The pool is opened once for all processes of a job: when the job is checked. It is closed when
//! the target is finished.

use crate::figures::PoolFigures;
use crate::plan::Target;
use crate::queue::{BatchQueue, Queue, QueueOptions};
use crate::uri::PoolVolume;
use crate::{Access, AtStart, Layout, TargetError};
use gemelo_base::{Monitor, StopFlag, SystemClock};
use gemelo_device::BlockDevice;
use gemelo_format::DedupMode;
use gemelo_volume::{Pool, Tuning, Volume, VolumeError, VolumeSummary};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// Returns the size of a volume in bytes.
pub(crate) fn size_bytes(place: &PoolVolume) -> Result<u64, TargetError> {
    let pool = open(place, Tuning { read_only: true, background: false, ..Tuning::default() })?;
    summary(&pool, place).map(|volume| volume.record.size_bytes)
}

/// A volume that was checked and can carry the layout, with its open pool.
pub(crate) struct FoundVolume {
    place: PoolVolume,
    pool: Pool,
    volume: Volume,
    at_start: AtStart,
}

impl fmt::Debug for FoundVolume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FoundVolume").field(&self.place).finish()
    }
}

fn open(place: &PoolVolume, tuning: Tuning) -> Result<Pool, TargetError> {
    let directory = &place.directory;
    Pool::open(directory, tuning, Arc::new(SystemClock::new())).map_err(|error| match error {
        VolumeError::InUse { holder } => TargetError::PoolInUse { place: place.clone(), holder },
        source => TargetError::Pool { directory: directory.clone(), source },
    })
}

fn summary(pool: &Pool, place: &PoolVolume) -> Result<VolumeSummary, TargetError> {
    let volumes = pool.volumes();
    if let Some(found) = volumes.iter().find(|volume| volume.record.name == place.volume) {
        return Ok(found.clone());
    }
    let names: Vec<String> = volumes.into_iter().map(|volume| volume.record.name).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(TargetError::NoVolume { place: place.clone(), known })
}

impl FoundVolume {
    /// Checks that a volume can carry the layout. Opening a pool changes nothing in it.
    pub(crate) fn check(
        place: &PoolVolume,
        layout: &Layout,
        need_bytes: u64,
    ) -> Result<Self, TargetError> {
        let path = || PathBuf::from(place.to_string());
        if layout.direct {
            return Err(TargetError::NoDirect { path: path() });
        }
        let writes = layout.access.writes();
        let pool = open(place, Tuning { read_only: !writes, ..Tuning::default() })?;
        let found = summary(&pool, place)?;
        if found.record.size_bytes < need_bytes {
            return Err(TargetError::TooSmall {
                path: path(),
                have_bytes: found.record.size_bytes,
                need_bytes,
            });
        }
        if writes && (found.record.read_only || pool.is_read_only()) {
            return Err(TargetError::ReadOnly { path: path() });
        }
        if layout.access == Access::Create && !layout.force && found.mapped_blocks > 0 {
            return Err(TargetError::HoldsData { path: path(), what: "data".to_owned() });
        }
        let volume = pool
            .volume(&place.volume)
            .map_err(|source| TargetError::Pool { directory: place.directory.clone(), source })?;
        let at_start = if found.mapped_blocks == 0 { AtStart::Zeros } else { AtStart::Unknown };
        Ok(Self { place: place.clone(), pool, volume, at_start })
    }

    pub(crate) fn into_target(self, layout: Layout) -> VolumeTarget {
        let Self { place, pool, volume, at_start } = self;
        VolumeTarget { place, pool: Some(Arc::new(pool)), volume, at_start, layout }
    }
}

/// A pool that this process has opened for a target.
#[derive(Clone)]
pub struct OpenedPool {
    /// Directory of the pool.
    pub directory: PathBuf,
    /// The pool. The reference is dead once the target is finished.
    pub pool: Weak<Pool>,
}

/// A volume as a target. Each process has a region of it.
pub(crate) struct VolumeTarget {
    place: PoolVolume,
    /// `None` once the target is finished.
    pool: Option<Arc<Pool>>,
    volume: Volume,
    at_start: AtStart,
    layout: Layout,
}

impl VolumeTarget {
    fn close(&mut self) -> Result<(), TargetError> {
        let Some(pool) = self.pool.take() else { return Ok(()) };
        let directory = || self.place.directory.clone();
        let closed = match Arc::try_unwrap(pool) {
            Ok(pool) => pool.close(),
            // Another thread is reading the pool's figures and still holds it, so it is not closed
            // now. A checkpoint makes the next opening as quick as a close does.
            Err(held) if held.is_read_only() => Ok(()),
            Err(held) => held.checkpoint(),
        };
        closed.map_err(|source| TargetError::ClosePool { directory: directory(), source })
    }
}

impl Target for VolumeTarget {
    fn place(&self, _process: u32) -> String {
        self.place.to_string()
    }

    fn holds_data(&self) -> bool {
        true
    }

    fn at_start(&self) -> AtStart {
        self.at_start
    }

    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        let first_byte = u64::from(process) * self.layout.place_bytes;
        Ok(Box::new(BatchQueue::new(
            self.volume.clone(),
            self.place.to_string(),
            first_byte,
            options,
        )))
    }

    fn pool(&self) -> Option<OpenedPool> {
        // A read-only pool can be opened by other processes as well, so they need no access through
        // this one.
        let pool = Arc::downgrade(self.pool.as_ref().filter(|pool| !pool.is_read_only())?);
        Some(OpenedPool { directory: self.place.directory.clone(), pool })
    }

    fn pool_figures(&self) -> Option<PoolFigures> {
        let pool = self.pool.as_ref()?;
        let stat = pool.stat().ok()?;
        let volume = summary(pool, &self.place).ok()?;
        Some(PoolFigures {
            block_bytes: u64::from(self.volume.geometry().preferred_block_bytes),
            mode: volume.record.mode,
            logical_blocks: stat.logical_blocks,
            physical_blocks: stat.physical_blocks,
            unique_blocks: volume.stat.unique_blocks,
            duplicate_blocks: volume.stat.duplicate_blocks,
            unchanged_blocks: volume.stat.unchanged_blocks,
            zero_blocks: volume.stat.zero_blocks,
        })
    }

    fn settle(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<(), TargetError> {
        let is_offline =
            self.pool_figures().is_some_and(|figures| figures.mode == DedupMode::Offline);
        let Some(pool) = self.pool.as_ref().filter(|_| is_offline) else { return Ok(()) };
        match pool.find(monitor, stop) {
            Ok(_) | Err(VolumeError::Interrupted) => Ok(()),
            Err(source) => {
                Err(TargetError::Settle { directory: self.place.directory.clone(), source })
            }
        }
    }

    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        self.close()
    }
}

impl Drop for VolumeTarget {
    fn drop(&mut self) {
        // `finish` returns the error to callers that need it.
        let _ = self.close();
    }
}
