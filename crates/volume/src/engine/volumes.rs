//! Volumes as the engine knows them, and what changes them as a whole.

use super::copy::Copying;
use super::finder::DirtyGroups;
use super::{Engine, State};
use crate::counters::VolumeCounters;
use crate::error::{Result, VolumeError};
use crate::load::Load;
use gemelo_format::{
    Birth, Change, DedupMode, DiskRole, MAX_NAME_BYTES, MAX_VOLUME_BLOCKS, Origin, Pbn, VolumeId,
    VolumeRecord,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Locks for blocks that are written in part, chosen by LBN.
pub(super) const PATCH_LOCKS: usize = 64;

/// How long the first try to close a gate waits for requests under way, each later one twice as long as the one before.
/// New requests wait meanwhile, so the first tries are short: most requests end within them.
const FIRST_GATE_WAIT: Duration = Duration::from_millis(5);
/// Tries until requests have to end first, however long they take: 1.3 seconds of waiting in all.
const GATE_TRIES: u32 = 8;

/// A volume that is there, or was.
pub(crate) struct VolumeShared {
    pub(crate) id: VolumeId,
    size_bytes: AtomicU64,
    mode: AtomicU8,
    pub(crate) read_only: bool,
    /// Held shared by every request, alone by whatever changes the volume as a whole. Whether the volume was removed.
    pub(super) gate: RwLock<bool>,
    /// Held shared while the volume is copied, alone by who removes it, resizes it or clears what is beyond its end.
    pub(super) changing: RwLock<()>,
    pub(super) patch_locks: [Mutex<()>; PATCH_LOCKS],
    /// What the finder has not looked at; used by volumes with off-line deduplication alone.
    pub(crate) dirty: Mutex<DirtyGroups>,
    pub(crate) counters: VolumeCounters,
    pub(crate) load: Load,
}

impl VolumeShared {
    pub(crate) fn new(
        id: VolumeId,
        size_bytes: u64,
        mode: DedupMode,
        read_only: bool,
    ) -> Arc<Self> {
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
            changing: RwLock::new(()),
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

    /// Makes a change of a volume at an instant at which none of its requests is under way, and no checkpoint. The
    /// change learns, and may say, whether the volume is removed.
    ///
    /// A checkpoint takes its time, and is waited for before the gate is closed. Requests that are under way then may wait
    /// for a checkpoint themselves, so that nobody waits for them for long: after a while they get their turn.
    pub(super) fn change_closed<T>(
        &self,
        volume: &VolumeShared,
        change: impl FnOnce(&mut State, &mut bool) -> Result<T>,
    ) -> Result<T> {
        let mut wait = FIRST_GATE_WAIT;
        for _ in 0..GATE_TRIES {
            let alone = self.checkpointer.lock();
            if let Some(mut removed) = volume.gate.try_write_for(wait) {
                return change(&mut self.state.write(), &mut removed);
            }
            drop(alone);
            wait *= 2;
            std::thread::sleep(FIRST_GATE_WAIT);
        }
        let mut removed = volume.gate.write();
        let _alone = self.checkpointer.lock();
        change(&mut self.state.write(), &mut removed)
    }

    /// Makes a change in memory and in the open commit, after what it touches of volumes that are being copied.
    pub(super) fn apply(&self, state: &mut State, change: &Change) -> Result<()> {
        if !state.copies.is_empty() {
            self.copy_before(state, change)?;
        }
        self.apply_one(state, change)
    }

    /// Makes a change alone.
    pub(super) fn apply_one(&self, state: &mut State, change: &Change) -> Result<()> {
        if let Change::Store { pbn, .. }
        | Change::Share { pbn, .. }
        | Change::Identify { pbn, .. } = change
        {
            debug_assert!(self.space.lock().is_used(*pbn), "block {} is free", pbn.number());
        }
        let State { backend, open, .. } = state;
        if let Err(error) = backend.apply(std::slice::from_ref(change), &mut open.freed) {
            self.stop(DiskRole::Metadata, "change");
            return Err(error);
        }
        open.append(change);
        self.open_bytes.store(open.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Makes changes that give an empty pool its volumes and their blocks, which are in use from then on.
    pub(crate) fn convert_some(&self, changes: &[Change]) -> Result<()> {
        self.bound_open_commit()?;
        let _alone = self.checkpointer.lock();
        let mut state = self.state.write();
        for change in changes {
            if let Change::Store { pbn, .. } = change {
                self.space.lock().claim(*pbn);
            }
            self.apply(&mut state, change)?;
        }
        Ok(())
    }

    pub(crate) fn next_volume_id(&self) -> VolumeId {
        self.next_id()
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

    /// Fails if a volume cannot have this name; by who holds the catalogue.
    fn check_free(&self, name: &str, reserved: &BTreeSet<String>) -> Result<()> {
        Self::check_name(name)?;
        if reserved.contains(name) || self.volumes.read().contains_key(name) {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        Ok(())
    }

    pub(crate) fn create_volume(
        &self,
        name: &str,
        size_bytes: u64,
        mode: DedupMode,
        origin: Origin,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_size(size_bytes)?;
        self.bound_open_commit()?;
        let reserved = self.catalogue.lock();
        self.check_free(name, &reserved)?;
        let volume = self.next_id();
        self.change(&Change::Create(VolumeRecord {
            id: volume,
            name: name.to_owned(),
            size_bytes,
            mode,
            read_only: false,
            is_hidden: false,
            birth: Birth { created_s: self.clock.utc_s(), origin },
        }))?;
        let new = VolumeShared::new(volume, size_bytes, mode, false);
        // It is empty.
        new.dirty.lock().clear();
        self.volumes.write().insert(name.to_owned(), new);
        drop(reserved);
        self.flush()
    }

    pub(crate) fn clone_volume(&self, source: &str, name: &str, read_only: bool) -> Result<()> {
        self.check_writable()?;
        self.bound_open_commit()?;
        let from = self.volume(source)?;
        let _kept = from.changing.read();
        let mut reserved = self.catalogue.lock();
        self.check_free(name, &reserved)?;
        let volume = self.next_id();
        let (mode, is_complete) = self.change_closed(&from, |state, removed| {
            check_there(*removed, source)?;
            Ok((from.mode(), self.begin_clone(state, from.id, volume, name, read_only)?))
        })?;
        if !is_complete {
            reserved.insert(name.to_owned());
            drop(reserved);
            let copied = self.copy_pieces(from.id, volume);
            reserved = self.catalogue.lock();
            reserved.remove(name);
            copied?;
            self.change(&Change::Show { volume })?;
        }
        let copy = VolumeShared::new(volume, from.size_bytes(), mode, read_only);
        self.volumes.write().insert(name.to_owned(), copy);
        drop(reserved);
        self.flush()
    }

    /// Makes a clone, or begins one that is made in pieces; whether it is complete.
    fn begin_clone(
        &self,
        state: &mut State,
        source: VolumeId,
        volume: VolumeId,
        name: &str,
        read_only: bool,
    ) -> Result<bool> {
        let (name, created_s) = (name.to_owned(), self.clock.utc_s());
        if Self::needs_pieces(state, source) {
            self.apply(state, &Change::Begin { source, volume, name, read_only, created_s })?;
            state.copies.push(Copying::new(source, volume));
            return Ok(false);
        }
        self.check_countable(state, source)?;
        self.apply(state, &Change::Clone { source, volume, name, read_only, created_s })?;
        Ok(true)
    }

    /// A clone adds as many references to a block as the source has; all of them have to be countable.
    fn check_countable(&self, state: &State, source: VolumeId) -> Result<()> {
        let most = u64::from(self.tuning.most_references);
        let of_source = state.backend.mapped_blocks(source);
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

    /// Removes a volume. Once that is durable it succeeds: what is left of a large volume may be cleared later.
    pub(crate) fn remove_volume(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let volume = self.volume(name)?;
        // Waits for copies of it that are being made.
        let _alone = volume.changing.write();
        // What cannot be made durable is refused before anything is changed.
        self.flush()?;
        let id = volume.id;
        let is_large = {
            let _catalogue = self.catalogue.lock();
            let is_there =
                self.volumes.read().get(name).is_some_and(|there| Arc::ptr_eq(there, &volume));
            check_there(!is_there, name)?;
            let is_large = self.change_closed(&volume, |state, removed| {
                let is_large = Self::is_large(state, id);
                let (hide, remove) = (Change::Hide { volume: id }, Change::Remove { volume: id });
                self.apply(state, if is_large { &hide } else { &remove })?;
                *removed = true;
                Ok(is_large)
            })?;
            self.volumes.write().remove(name);
            is_large
        };
        let flushed = self.flush();
        if is_large {
            let is_cleared = flushed.is_ok() && self.clear(id).is_ok();
            if !is_cleared {
                // It is done by the keeper, or after the next opening.
                self.hidden.lock().push(id);
            }
        }
        flushed
    }

    pub(crate) fn rename_volume(&self, name: &str, new: &str) -> Result<()> {
        self.check_writable()?;
        self.bound_open_commit()?;
        let reserved = self.catalogue.lock();
        self.check_free(new, &reserved)?;
        let volume = self.volume(name)?;
        self.change(&Change::Rename { volume: volume.id, name: new.to_owned() })?;
        let mut volumes = self.volumes.write();
        volumes.remove(name);
        volumes.insert(new.to_owned(), volume);
        drop(volumes);
        drop(reserved);
        self.flush()
    }

    pub(crate) fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<()> {
        self.check_writable()?;
        self.check_size(size_bytes)?;
        self.bound_open_commit()?;
        let volume = self.volume(name)?;
        // Waits for copies of it that are being made.
        let _alone = volume.changing.write();
        let id = volume.id;
        // What an earlier cut has left beyond the end must not come back.
        self.unmap_beyond(&volume)?;
        let is_cut = self.change_closed(&volume, |state, removed| {
            check_there(*removed, name)?;
            let is_cut = size_bytes < volume.size_bytes() && Self::needs_pieces(state, id);
            let shrink = Change::Shrink { volume: id, size_bytes };
            let resize = Change::Resize { volume: id, size_bytes };
            self.apply(state, if is_cut { &shrink } else { &resize })?;
            volume.set_size(size_bytes);
            Ok(is_cut)
        })?;
        self.flush()?;
        if is_cut { self.unmap_beyond(&volume) } else { Ok(()) }
    }

    pub(crate) fn set_mode(&self, name: &str, mode: DedupMode) -> Result<()> {
        self.check_writable()?;
        self.bound_open_commit()?;
        let volume = self.volume(name)?;
        self.change_closed(&volume, |state, removed| {
            check_there(*removed, name)?;
            self.apply(state, &Change::SetMode { volume: volume.id, mode })?;
            volume.mode.store(mode.byte(), Ordering::Relaxed);
            match mode {
                DedupMode::Offline => volume.dirty.lock().mark_all(),
                DedupMode::Off | DedupMode::Inline => volume.dirty.lock().clear(),
            }
            Ok(())
        })?;
        self.flush()
    }

    /// Makes the data store larger.
    pub(crate) fn grow(&self, data_blocks: u64) -> Result<()> {
        self.check_writable()?;
        // Of two that come at once, the second compares with what the first has made.
        let _alone = self.catalogue.lock();
        let now = self.state.read().backend.totals().data_blocks;
        let most = u64::from(Pbn::LAST.number()) + 1;
        if data_blocks < now || data_blocks > most {
            return Err(VolumeError::BadOption {
                what: format!("a data store of {data_blocks} blocks"),
                expected: "at least what it has, and at most 2^32 - 1 blocks",
            });
        }
        let length = data_blocks * u64::from(self.superblock.block_bytes);
        let disk = DiskRole::Data;
        // A file that is longer, after an attempt that failed halfway, is never cut: blocks may be in use there.
        if self.data.len().map_err(VolumeError::io(disk, "measure"))? < length {
            self.data.set_len(length).map_err(VolumeError::io(disk, "enlarge"))?;
        }
        self.sync(disk)?;
        self.change(&Change::Grow { data_blocks })?;
        self.space.lock().grow(data_blocks);
        self.flush()
    }
}

fn check_there(is_removed: bool, name: &str) -> Result<()> {
    if is_removed { Err(VolumeError::NoSuchVolume { name: name.to_owned() }) } else { Ok(()) }
}
