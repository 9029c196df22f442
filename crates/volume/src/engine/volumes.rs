//! Volumes as the engine knows them, and what changes them as a whole.

use super::Engine;
use super::finder::DirtyGroups;
use crate::counters::VolumeCounters;
use crate::error::{Result, VolumeError};
use crate::format::Change;
use crate::load::Load;
use crate::types::{DedupMode, MAX_NAME_BYTES, MAX_VOLUME_BLOCKS, VolumeId};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Locks for blocks that are written in part, chosen by LBN.
pub(super) const PATCH_LOCKS: usize = 64;

/// A volume that is there, or was.
pub(crate) struct VolumeShared {
    pub(crate) id: VolumeId,
    size_bytes: AtomicU64,
    mode: AtomicU8,
    pub(crate) read_only: bool,
    /// Held shared by every request, alone by whatever changes the volume as a whole. Whether the volume was removed.
    pub(super) gate: RwLock<bool>,
    pub(super) patch_locks: [Mutex<()>; PATCH_LOCKS],
    /// What the finder has not looked at; used by volumes with off-line deduplication alone.
    pub(crate) dirty: Mutex<DirtyGroups>,
    pub(crate) counters: VolumeCounters,
    pub(crate) load: Load,
}

impl VolumeShared {
    pub(crate) fn new(id: VolumeId, size_bytes: u64, mode: DedupMode, read_only: bool) -> Arc<Self> {
        let mut dirty = DirtyGroups::default();
        if mode == DedupMode::Offline {
            dirty.mark_all();
        }
        Arc::new(Self {
            id,
            size_bytes: AtomicU64::new(size_bytes),
            mode: AtomicU8::new(mode.byte()),
            read_only,
            gate: RwLock::new(false),
            patch_locks: std::array::from_fn(|_| Mutex::new(())),
            dirty: Mutex::new(dirty),
            counters: VolumeCounters::default(),
            load: Load::default(),
        })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Waits until its requests have ended, and lets none begin.
    pub(crate) fn close_gate(&self) -> impl Drop + '_ {
        self.gate.write()
    }

    pub(super) fn set_size(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    pub(crate) fn mode(&self) -> DedupMode {
        DedupMode::from_byte(self.mode.load(Ordering::Relaxed)).unwrap_or(DedupMode::Off)
    }
}

impl Engine {
    pub(crate) fn volume(&self, name: &str) -> Result<Arc<VolumeShared>> {
        let found = self.volumes.read().get(name).cloned();
        found.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })
    }

    /// Makes a change of a volume as a whole. Volumes do not change during a checkpoint. The caller makes it durable after
    /// it has told of it: a change that is made and cannot be made durable is made all the same, until a crash.
    pub(super) fn change(&self, change: &Change) -> Result<()> {
        let _alone = self.checkpointer.lock();
        let mut state = self.state.write();
        self.apply(&mut state, change)
    }

    /// Makes a change in memory and in the open commit.
    pub(super) fn apply(&self, state: &mut super::State, change: &Change) -> Result<()> {
        let super::State { backend, open } = state;
        if let Err(error) = backend.apply(std::slice::from_ref(change), &mut open.freed) {
            self.stop(crate::error::DiskRole::Metadata, "change");
            return Err(error);
        }
        open.append(change);
        self.open_bytes.store(open.bytes(), Ordering::Relaxed);
        Ok(())
    }

    fn check_name(name: &str) -> Result<()> {
        let is_plain = |c: char| !c.is_control() && c != '/';
        // In POOL/NAME these would be taken for folders.
        if matches!(name, "." | "..") {
            let what = format!("the name '{name}'");
            return Err(VolumeError::BadOption { what, expected: "a volume's: it means a folder" });
        }
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
            return Err(VolumeError::BadOption {
                what: format!("the name '{}'", name.escape_debug()),
                expected: "1 to 255 bytes without '/' and control characters",
            });
        }
        Ok(())
    }

    fn check_size(&self, size_bytes: u64) -> Result<()> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        if size_bytes == 0
            || !size_bytes.is_multiple_of(block_bytes)
            || size_bytes / block_bytes > MAX_VOLUME_BLOCKS
        {
            return Err(VolumeError::BadOption {
                what: format!("a volume of {size_bytes} bytes"),
                expected: "a multiple of the block size, from one block to 2^38 blocks",
            });
        }
        Ok(())
    }

    fn next_id(&self) -> VolumeId {
        VolumeId(self.state.read().backend.totals().next_volume)
    }

    pub(crate) fn create_volume(&self, name: &str, size_bytes: u64, mode: DedupMode) -> Result<()> {
        self.check_writable()?;
        self.check_size(size_bytes)?;
        let mut volumes = self.name_for_change(name)?;
        let volume = self.next_id();
        self.change(&Change::Create { volume, name: name.to_owned(), size_bytes, mode })?;
        let new = VolumeShared::new(volume, size_bytes, mode, false);
        // It is empty.
        new.dirty.lock().clear();
        volumes.insert(name.to_owned(), new);
        self.flush()
    }

    /// The list of volumes, locked, if the name is good and free. Changes of volumes are made with it held: they are rare.
    fn name_for_change(
        &self,
        name: &str,
    ) -> Result<parking_lot::RwLockWriteGuard<'_, std::collections::BTreeMap<String, Arc<VolumeShared>>>>
    {
        Self::check_name(name)?;
        let volumes = self.volumes.write();
        if volumes.contains_key(name) {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        Ok(volumes)
    }

    pub(crate) fn clone_volume(&self, source: &str, name: &str, read_only: bool) -> Result<()> {
        self.check_writable()?;
        let from = self.volume(source)?;
        let mut volumes = self.name_for_change(name)?;
        let removed = from.gate.write();
        if *removed {
            return Err(VolumeError::NoSuchVolume { name: source.to_owned() });
        }
        self.check_countable(&from)?;
        let (source, volume, new) = (from.id, self.next_id(), name.to_owned());
        match self.piece(source) {
            Some(_) => self.clone_pieces(&Change::Begin { source, volume, name: new, read_only })?,
            None => self.change(&Change::Clone { source, volume, name: new, read_only })?,
        }
        let copy = VolumeShared::new(volume, from.size_bytes(), from.mode(), read_only);
        volumes.insert(name.to_owned(), copy);
        self.flush()
    }

    /// A clone adds as many references to a block as the source has; all of them have to be countable.
    fn check_countable(&self, source: &VolumeShared) -> Result<()> {
        let state = self.state.read();
        let most = u64::from(self.tuning.most_references);
        let of_source = state.backend.mapped_blocks(source.id);
        // No count is above the sum of all: the common case needs no look at the blocks.
        if state.backend.totals().references + of_source <= most {
            return Ok(());
        }
        let mut pbns = Vec::new();
        state.backend.visit_used(&mut |pbn| pbns.push(pbn))?;
        let mut records = Vec::new();
        state.backend.records(&pbns, &mut records)?;
        let fits = records.iter().all(|record| u64::from(record.references) * 2 <= most);
        if fits { Ok(()) } else { Err(VolumeError::TooManyReferences) }
    }

    pub(crate) fn remove_volume(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let mut volumes = self.volumes.write();
        let volume =
            volumes.get(name).cloned().ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })?;
        let mut removed = volume.gate.write();
        let is_large = self.piece(volume.id).is_some();
        let id = volume.id;
        self.change(&if is_large { Change::Hide { volume: id } } else { Change::Remove { volume: id } })?;
        *removed = true;
        volumes.remove(name);
        drop((removed, volumes));
        self.flush()?;
        if is_large { self.clear(id) } else { Ok(()) }
    }

    pub(crate) fn rename_volume(&self, name: &str, new: &str) -> Result<()> {
        self.check_writable()?;
        let mut volumes = self.name_for_change(new)?;
        let volume =
            volumes.get(name).cloned().ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })?;
        self.change(&Change::Rename { volume: volume.id, name: new.to_owned() })?;
        volumes.remove(name);
        volumes.insert(new.to_owned(), volume);
        self.flush()
    }

    pub(crate) fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<()> {
        self.check_writable()?;
        self.check_size(size_bytes)?;
        let volume = self.volume(name)?;
        let removed = volume.gate.write();
        if *removed {
            return Err(VolumeError::NoSuchVolume { name: name.to_owned() });
        }
        if self.piece(volume.id).is_some() {
            if size_bytes < volume.size_bytes() {
                return self.shrink_pieces(&volume, size_bytes);
            }
            self.unmap_beyond(&volume)?;
        }
        self.change(&Change::Resize { volume: volume.id, size_bytes })?;
        volume.set_size(size_bytes);
        self.flush()
    }

    pub(crate) fn set_mode(&self, name: &str, mode: DedupMode) -> Result<()> {
        self.check_writable()?;
        let volume = self.volume(name)?;
        let removed = volume.gate.write();
        if *removed {
            return Err(VolumeError::NoSuchVolume { name: name.to_owned() });
        }
        self.change(&Change::SetMode { volume: volume.id, mode })?;
        volume.mode.store(mode.byte(), Ordering::Relaxed);
        match mode {
            DedupMode::Offline => volume.dirty.lock().mark_all(),
            DedupMode::Off | DedupMode::Inline => volume.dirty.lock().clear(),
        }
        self.flush()
    }

    /// Makes the data store larger.
    pub(crate) fn grow(&self, data_blocks: u64) -> Result<()> {
        self.check_writable()?;
        let now = self.state.read().backend.totals().data_blocks;
        let most = u64::from(crate::types::Pbn::LAST.number()) + 1;
        if data_blocks < now || data_blocks > most {
            return Err(VolumeError::BadOption {
                what: format!("a data store of {data_blocks} blocks"),
                expected: "at least what it has, and at most 2^32 - 1 blocks",
            });
        }
        let length = data_blocks * u64::from(self.superblock.block_bytes);
        let disk = crate::error::DiskRole::Data;
        self.data.set_len(length).map_err(VolumeError::io(disk, "enlarge"))?;
        self.sync(disk)?;
        self.change(&Change::Grow { data_blocks })?;
        self.space.lock().grow(data_blocks);
        self.flush()
    }
}
