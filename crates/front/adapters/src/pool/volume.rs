//! A volume of a pool as a target. The storage engine runs in this process.
//!
//! The pool is opened once for all processes of a job: when the job is checked. It is closed when
//! the target is finished.

use super::queue::BatchQueue;
use super::{PoolHost, PoolTargetError, PoolVolume};
use gemelo_base::{Monitor, StopFlag, SystemClock};
use gemelo_device::BlockDevice;
use gemelo_format::DedupMode;
use gemelo_place::{PlacedPool, Use};
use gemelo_target::{
    AtStart, DedupPolicy, PlaceAccess, PlaceLayout, PlannedTarget, PoolStats, Queue, QueueOptions,
    Storage, Target, TargetError,
};
use gemelo_volume::{Pool, Tuning, Volume, VolumeError, VolumeSummary};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A volume of a pool.
pub(super) struct VolumeStorage {
    pub(super) place: PoolVolume,
    pub(super) host: Arc<dyn PoolHost>,
}

impl Storage for VolumeStorage {
    fn has_engines(&self) -> bool {
        false
    }

    fn capacity(&self) -> Result<Option<u64>, TargetError> {
        let tuning = Tuning { read_only: true, background: false, ..self.tuning()? };
        let placed = self.open(Use::Look, tuning)?;
        Ok(Some(summary(placed.pool(), &self.place)?.record.size_bytes))
    }

    fn plan(&self, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError> {
        Ok(Box::new(self.check(layout)?))
    }
}

/// A volume that was checked and can carry the layout, with its open pool.
struct PlannedVolume {
    place: PoolVolume,
    placed: PlacedPool,
    volume: Volume,
    at_start: AtStart,
    layout: PlaceLayout,
    host: Arc<dyn PoolHost>,
}

impl fmt::Debug for PlannedVolume {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PlannedVolume").field(&self.place).finish()
    }
}

fn summary(pool: &Pool, place: &PoolVolume) -> Result<VolumeSummary, PoolTargetError> {
    let volumes = pool.volumes();
    if let Some(found) = volumes.iter().find(|volume| volume.record.name == place.0.name) {
        return Ok(found.clone());
    }
    let names: Vec<String> = volumes.into_iter().map(|volume| volume.record.name).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(PoolTargetError::NoVolume { place: place.clone(), known })
}

impl VolumeStorage {
    fn tuning(&self) -> Result<Tuning, TargetError> {
        Ok(self.host.tuning(&self.place.0.pool)?)
    }

    fn open(&self, used: Use, tuning: Tuning) -> Result<PlacedPool, PoolTargetError> {
        let place = &self.place.0.pool;
        let opened = place.open(used, tuning, Arc::new(SystemClock::new()));
        opened.map_err(|source| match source.holder() {
            Some(holder) => PoolTargetError::InUse { place: self.place.clone(), holder },
            None => PoolTargetError::Open { place: place.clone(), source: Box::new(source) },
        })
    }

    /// Checks that a volume can carry the layout. Opening a pool changes nothing in it.
    fn check(&self, layout: &PlaceLayout) -> Result<PlannedVolume, TargetError> {
        let (place, need_bytes) = (&self.place, layout.total_bytes()?);
        let path = || PathBuf::from(place.to_string());
        if layout.direct {
            return Err(TargetError::NoDirect { path: path() });
        }
        let writes = layout.access.writes();
        let placed = self.open(Use::Hold, Tuning { read_only: !writes, ..self.tuning()? })?;
        let pool = placed.pool();
        let found = summary(pool, place)?;
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
        if layout.access == PlaceAccess::Create && !layout.force && found.mapped_blocks > 0 {
            return Err(TargetError::HoldsData { path: path(), what: "data".to_owned() });
        }
        let volume = pool.volume(&place.0.name).map_err(|source| PoolTargetError::Open {
            place: place.0.pool.clone(),
            source: Box::new(source.into()),
        })?;
        let at_start = if found.mapped_blocks == 0 { AtStart::Zeros } else { AtStart::Unknown };
        Ok(PlannedVolume {
            place: place.clone(),
            placed,
            volume,
            at_start,
            layout: *layout,
            host: Arc::clone(&self.host),
        })
    }
}

impl PlannedTarget for PlannedVolume {
    fn prepare(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        let Self { place, placed, volume, at_start, layout, host } = *self;
        let pool = placed.pool();
        let shown = if pool.is_read_only() {
            None
        } else {
            host.opened(&place.0.pool, Arc::downgrade(pool))
        };
        Ok(Box::new(VolumeTarget { place, placed: Some(placed), shown, volume, at_start, layout }))
    }
}

/// A volume as a target. Each process has a region of it.
struct VolumeTarget {
    place: PoolVolume,
    /// `None` once the target is finished.
    placed: Option<PlacedPool>,
    /// The result of [`PoolHost::opened`]. It may hold the pool for moments, so it goes before the
    /// pool.
    shown: Option<Box<dyn Send + Sync>>,
    volume: Volume,
    at_start: AtStart,
    layout: PlaceLayout,
}

impl VolumeTarget {
    fn close(&mut self) -> Result<(), TargetError> {
        self.shown = None;
        let Some(placed) = self.placed.take() else { return Ok(()) };
        let place = || self.place.0.pool.clone();
        Ok(placed.close().map_err(|source| PoolTargetError::Close { place: place(), source })?)
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
        let first_byte = self.layout.first_byte(process);
        Ok(Box::new(BatchQueue::new(
            self.volume.clone(),
            self.place.to_string(),
            first_byte,
            options,
        )))
    }

    fn pool_figures(&self) -> Option<PoolStats> {
        let pool = self.placed.as_ref()?.pool();
        let stat = pool.stat().ok()?;
        let volume = summary(pool, &self.place).ok()?;
        Some(PoolStats {
            block_bytes: u64::from(self.volume.geometry().preferred_block_bytes),
            mode: policy(volume.record.mode),
            logical_blocks: stat.logical_blocks,
            physical_blocks: stat.physical_blocks,
            data_blocks: stat.data_blocks(),
            unique_blocks: volume.stat.unique_blocks,
            duplicate_blocks: volume.stat.duplicate_blocks,
            unchanged_blocks: volume.stat.unchanged_blocks,
            zero_blocks: volume.stat.zero_blocks,
        })
    }

    fn settle(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<(), TargetError> {
        let is_offline =
            self.pool_figures().is_some_and(|figures| figures.mode == DedupPolicy::Offline);
        let Some(placed) = self.placed.as_ref().filter(|_| is_offline) else { return Ok(()) };
        match placed.pool().find(monitor, stop) {
            Ok(_) | Err(VolumeError::Interrupted) => Ok(()),
            Err(source) => {
                let (place, source) = (self.place.0.pool.clone(), source.into());
                Err(PoolTargetError::Settle { place, source }.into())
            }
        }
    }

    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        self.close()
    }
}

const fn policy(mode: DedupMode) -> DedupPolicy {
    match mode {
        DedupMode::Off => DedupPolicy::Off,
        DedupMode::Inline => DedupPolicy::Inline,
        DedupMode::Offline => DedupPolicy::Offline,
    }
}

impl Drop for VolumeTarget {
    fn drop(&mut self) {
        // `finish` returns the error to callers that need it.
        let _ = self.close();
    }
}
