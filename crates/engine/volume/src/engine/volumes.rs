//! Commands on whole volumes: create, copy, remove, rename, resize, set.

use super::limits::reserved_beside;
use super::shared::VolumeSettings;
use super::{State, VolumeShared};
use crate::engine::catalogue::Catalogue;
use crate::engine::data::DataPath;
use crate::engine::health::Health;
use crate::engine::live::LiveTuning;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::pieces::Clearer;
use crate::error::{Result, VolumeError};
use crate::pool::VolumeTuning;
use gemelo_base::Clock;
use gemelo_base::units::format_exact_size;
use gemelo_format::{
    Birth, Change, Compression, DedupMode, Holds, MAX_VOLUME_BLOCKS, Origin, Superblock, VolumeId,
    VolumeLimits, VolumeRecord,
};
use std::sync::Arc;
use std::time::Duration;

/// The first try to close a gate waits this long for requests under way; each later try waits twice
/// as long as the one before. New requests wait meanwhile, so the first tries are short: most
/// requests end within them.
const FIRST_GATE_WAIT: Duration = Duration::from_millis(5);
/// Tries with a limited wait: 1.3 seconds in all. After them, the requests have to end first,
/// however long they take.
const GATE_TRIES: u32 = 8;

/// Changes of whole volumes.
pub(crate) struct Volumes {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) data: Arc<DataPath>,
    pub(super) log: Arc<Log>,
    pub(super) health: Arc<Health>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) superblock: Superblock,
    pub(super) live: Arc<LiveTuning>,
    pub(crate) clearer: Clearer,
}

impl Volumes {
    pub(in crate::engine) fn new(common: &Common) -> Self {
        Self {
            catalogue: Arc::clone(&common.catalogue),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            health: Arc::clone(&common.health),
            clock: Arc::clone(&common.clock),
            superblock: common.superblock.clone(),
            live: Arc::clone(&common.live),
            clearer: Clearer::new(common),
        }
    }

    /// Makes a change of a volume at an instant at which none of its requests is under way. The
    /// change gets the flag of a removed volume, and may set it.
    ///
    /// Requests under way may wait for a checkpoint, so each wait for them is limited, and the gate
    /// opens again for others in between.
    pub(super) fn change_closed<T>(
        &self,
        volume: &VolumeShared,
        change: impl FnOnce(&mut State, &mut bool) -> Result<T>,
    ) -> Result<T> {
        let mut wait = FIRST_GATE_WAIT;
        for _ in 0..GATE_TRIES {
            if let Some(mut removed) = volume.try_close_gate(wait) {
                return change(&mut self.log.write(), &mut removed);
            }
            wait *= 2;
            gemelo_base::pause(FIRST_GATE_WAIT);
        }
        let mut removed = volume.close_gate();
        change(&mut self.log.write(), &mut removed)
    }

    pub(super) fn check_size(&self, size_bytes: u64) -> Result<()> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        if size_bytes == 0
            || !size_bytes.is_multiple_of(block_bytes)
            || size_bytes / block_bytes > MAX_VOLUME_BLOCKS
        {
            return Err(VolumeError::BadOption {
                what: format!("volume size {}", format_exact_size(size_bytes)),
                rule: format!(
                    "give a multiple of the pool's block size ({}), at most {}",
                    format_exact_size(block_bytes),
                    format_exact_size(MAX_VOLUME_BLOCKS * block_bytes),
                ),
            });
        }
        Ok(())
    }

    pub(super) fn next_id(&self) -> VolumeId {
        VolumeId(self.log.read().backend().totals().next_volume)
    }

    /// The record of an empty volume that takes writes.
    pub(super) fn new_record(
        &self,
        name: &str,
        size_bytes: u64,
        mode: DedupMode,
        birth: Birth,
    ) -> VolumeRecord {
        VolumeRecord {
            id: self.next_id(),
            name: name.to_owned(),
            size_bytes,
            padding_bytes: 0,
            mode,
            compression: self.superblock.store.compression(),
            read_only: false,
            is_hidden: false,
            receiving: None,
            limits: VolumeLimits::default(),
            rollbacks: 0,
            holds: Holds::default(),
            birth,
        }
    }

    /// What clients share of a volume with this record.
    pub(super) fn shared_of(&self, record: &VolumeRecord) -> Arc<VolumeShared> {
        self.shared_with(record.id, record.size_bytes, VolumeSettings::of(record))
    }

    pub(super) fn shared_with(
        &self,
        id: VolumeId,
        size_bytes: u64,
        settings: VolumeSettings,
    ) -> Arc<VolumeShared> {
        let place = (id, size_bytes, self.superblock.block_bytes);
        VolumeShared::new(place, settings, self.live.get().volume_tuning(), &self.health)
    }

    pub(crate) fn create(
        &self,
        name: &str,
        size_bytes: u64,
        mode: DedupMode,
        origin: Origin,
    ) -> Result<()> {
        self.health.check_writable()?;
        self.check_size(size_bytes)?;
        self.log.bound_open_commit()?;
        let mut catalogue = self.catalogue.change();
        catalogue.check_free(name)?;
        let birth = Birth { created_s: self.clock.utc_s(), origin };
        let record = self.new_record(name, size_bytes, mode, birth);
        let new = self.shared_of(&record);
        self.log.change(&Change::Create(record))?;
        // The volume is empty, so the finder has nothing to examine.
        new.dirty().clear();
        new.marks().end_sweep();
        catalogue.insert(name, new);
        drop(catalogue);
        self.log.flush()
    }

    /// Removes a volume. Returns when the removal is durable; a large volume is cleared by the
    /// background.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.health.check_writable()?;
        let Ok(volume) = self.catalogue.find(name) else { return self.forget_unfinished(name) };
        let _alone = volume.resize();
        // A removal that cannot be made durable is refused before anything is changed.
        self.log.flush()?;
        let id = volume.id();
        let is_large = {
            let mut catalogue = self.catalogue.change();
            check_there(!catalogue.has(name, &volume), name)?;
            self.check_unheld(name, id)?;
            let is_large = self.change_closed(&volume, |state, removed| {
                let is_large = Clearer::is_removed_in_pieces(state, id);
                let (hide, remove) = (Change::Hide { volume: id }, Change::Remove { volume: id });
                self.log.apply(state, if is_large { &hide } else { &remove })?;
                *removed = true;
                Ok(is_large)
            })?;
            catalogue.remove(name);
            is_large
        };
        let flushed = self.log.flush();
        if is_large {
            self.clearer.clear_after(&flushed, id);
        }
        // Blocks that were shared with it may have one reference now, and can be moved.
        self.catalogue.all().values().for_each(|other| other.marks().mark_all());
        flushed
    }

    pub(crate) fn rename(&self, name: &str, new: &str) -> Result<()> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        let mut catalogue = self.catalogue.change();
        catalogue.check_free(new)?;
        let volume = self.catalogue.find(name)?;
        self.log.change(&Change::Rename { volume: volume.id(), name: new.to_owned() })?;
        catalogue.rename(name, new, volume);
        drop(catalogue);
        self.log.flush()
    }

    pub(crate) fn resize(&self, name: &str, size: (u64, u32)) -> Result<()> {
        let (size_bytes, padding_bytes) = size;
        self.health.check_writable()?;
        self.check_size(size_bytes)?;
        self.check_padding(padding_bytes)?;
        self.log.bound_open_commit()?;
        let volume = self.catalogue.find(name)?;
        if volume.read_only() {
            return Err(VolumeError::SnapshotResize { name: name.to_owned() });
        }
        self.resize_to(name, &volume, size)
    }

    /// Fails unless so many bytes can fill up the last block of a volume.
    fn check_padding(&self, padding_bytes: u32) -> Result<()> {
        let block_bytes = self.superblock.block_bytes;
        if padding_bytes < block_bytes {
            return Ok(());
        }
        Err(VolumeError::BadOption {
            what: format!("padding of {}", format_exact_size(padding_bytes.into())),
            rule: format!("a block has {}", format_exact_size(block_bytes.into())),
        })
    }

    /// Sets the size and the padding of a volume, which may be one that is being received.
    pub(super) fn resize_to(
        &self,
        name: &str,
        volume: &VolumeShared,
        (size_bytes, padding_bytes): (u64, u32),
    ) -> Result<()> {
        let _alone = volume.resize();
        let id = volume.id();
        // Blocks that an earlier resize has left beyond the end must not reappear.
        self.clearer.unmap_beyond(volume)?;
        let catalogue = self.catalogue.change();
        let is_cut = self.change_closed(volume, |state, removed| {
            check_there(*removed, name)?;
            let is_cut = size_bytes < volume.size_bytes() && Clearer::is_large(state, id);
            let shrink = Change::Shrink { volume: id, size_bytes, padding_bytes };
            let resize = Change::Resize { volume: id, size_bytes, padding_bytes };
            self.log.apply(state, if is_cut { &shrink } else { &resize })?;
            volume.set_size(size_bytes);
            Ok(is_cut)
        })?;
        drop(catalogue);
        self.log.flush()?;
        if is_cut { self.clearer.unmap_beyond(volume) } else { Ok(()) }
    }

    pub(crate) fn set_mode(&self, name: &str, mode: DedupMode) -> Result<()> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        let volume = self.catalogue.find(name)?;
        self.change_closed(&volume, |state, removed| {
            check_there(*removed, name)?;
            self.log.apply(state, &Change::SetMode { volume: volume.id(), mode })?;
            volume.set_mode(mode);
            Ok(())
        })?;
        self.log.flush()
    }

    /// Sets what a volume has for itself. It is not kept.
    pub(crate) fn set_tuning(&self, name: &str, tuning: VolumeTuning) -> Result<()> {
        self.catalogue.find(name)?.set_tuning(tuning);
        Ok(())
    }

    /// Sets the limits of a volume. Room that is reserved must be there.
    pub(crate) fn set_limits(&self, name: &str, limits: VolumeLimits) -> Result<()> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        let mut catalogue = self.catalogue.change();
        let volume = self.catalogue.find(name)?;
        let reserved = limits.reserve_bytes.unwrap_or(0);
        if reserved > volume.size_bytes() {
            return Err(VolumeError::BadOption {
                what: format!("reservation of {}", format_exact_size(reserved)),
                rule: format!("volume '{name}' has {}", format_exact_size(volume.size_bytes())),
            });
        }
        let block_bytes = u64::from(self.superblock.block_bytes);
        let (needed, free) = {
            let reserving = self.catalogue.reserving();
            let state = self.log.read();
            let mapped = state.backend().mapped_blocks(volume.id());
            let needed = reserved.div_ceil(block_bytes).saturating_sub(mapped);
            let others = reserved_beside(volume.id(), &reserving, &state);
            (needed, self.data.allocator.free_blocks().saturating_sub(others))
        };
        if needed > free {
            return Err(VolumeError::BadOption {
                what: format!("reservation of {}", format_exact_size(reserved)),
                rule: format!(
                    "it needs {} more, and {} are free and not reserved: 'gemelo pool grow' makes \
                     room",
                    format_exact_size(needed * block_bytes),
                    format_exact_size(free * block_bytes)
                ),
            });
        }
        self.log.change(&Change::SetLimits { volume: volume.id(), limits })?;
        volume.limits().set(limits);
        catalogue.note_reservations();
        drop(catalogue);
        self.log.flush()
    }

    /// Sets the compression of a volume's further writes.
    pub(crate) fn set_compression(&self, name: &str, compression: Compression) -> Result<()> {
        self.health.check_writable()?;
        self.log.bound_open_commit()?;
        let volume = self.catalogue.find(name)?;
        self.data.check_compresses()?;
        self.change_closed(&volume, |state, removed| {
            check_there(*removed, name)?;
            let id = volume.id();
            self.log.apply(state, &Change::SetCompression { volume: id, compression })?;
            volume.set_compression(compression);
            Ok(())
        })?;
        self.log.flush()
    }

    /// Makes the data store larger.
    pub(crate) fn grow(&self, data_blocks: u64) -> Result<()> {
        self.health.check_writable()?;
        // If two threads grow the pool, the second compares with the size set by the first.
        let _alone = self.catalogue.change();
        self.data.check_may_grow()?;
        let now = self.log.read().backend().totals().data_blocks;
        let most = self.superblock.max_blocks();
        if data_blocks < now || data_blocks > most {
            let size = |blocks: u64| {
                format_exact_size(blocks.saturating_mul(u64::from(self.superblock.block_bytes)))
            };
            let rule = match data_blocks < now {
                true => "'gemelo pool shrink' makes it smaller".to_owned(),
                false => format!(
                    "it can grow to {} at most: a pool that is made for more, or with larger \
                     blocks, can have more",
                    size(most)
                ),
            };
            return Err(VolumeError::BadOption {
                what: format!("capacity {}", size(data_blocks)),
                rule: format!("the pool has {}: {rule}", size(now)),
            });
        }
        self.data.enlarge(data_blocks)?;
        self.log.change(&Change::Grow { data_blocks })?;
        self.data.grow(data_blocks);
        self.log.flush()
    }
}

pub(super) fn check_there(is_removed: bool, name: &str) -> Result<()> {
    if is_removed { Err(VolumeError::NoSuchVolume { name: name.to_owned() }) } else { Ok(()) }
}
