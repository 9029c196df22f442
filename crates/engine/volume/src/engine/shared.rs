//! A volume of an open pool, as its clients, the finder and the commands share it.

use super::finder::{Backlog, DelayBounds, DirtyGroups, Turn};
use super::health::Health;
use super::limits::Limits;
use super::locks::{OrderedGuard, OrderedMutex, OrderedRead, OrderedRwLock, OrderedWrite, Rank};
use super::mover::Marks;
use crate::counters::VolumeCounters;
use crate::load::Load;
use crate::pool::VolumeTuning;
use gemelo_format::{Compression, DedupMode, Lbn, VolumeId, VolumeLimits, VolumeRecord};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Locks for blocks that are written in part, chosen by LBN.
const PATCH_LOCKS: u64 = 64;

/// The settings of a volume that its record has.
#[derive(Debug, Clone, Copy)]
pub(super) struct VolumeSettings {
    pub(super) mode: DedupMode,
    pub(super) compression: Compression,
    pub(super) read_only: bool,
    pub(super) rollbacks: u32,
    pub(super) limits: VolumeLimits,
}

impl VolumeSettings {
    pub(super) const fn of(record: &VolumeRecord) -> Self {
        let VolumeRecord { mode, compression, read_only, rollbacks, limits, .. } = record;
        Self {
            mode: *mode,
            compression: *compression,
            read_only: *read_only,
            rollbacks: *rollbacks,
            limits: *limits,
        }
    }
}

/// A volume of the pool. It may have been removed meanwhile.
pub(crate) struct VolumeShared {
    id: VolumeId,
    block_bytes: u32,
    size_bytes: AtomicU64,
    mode: AtomicU8,
    /// The bytes of the compression.
    compression: AtomicU16,
    read_only: bool,
    rollbacks: u32,
    limits: Limits,
    /// `true` if the finder takes blocks of the volume while it is in-line.
    takes_deferred: bool,
    verifies_bytes: AtomicBool,
    remembers_fingerprints: AtomicBool,
    /// Held shared by every request, alone by a change of the whole volume. The value is `true` if
    /// the volume was removed.
    gate: OrderedRwLock<bool>,
    /// Held shared while the volume is cloned, alone while it is removed, resized or cleared beyond
    /// its end.
    resizing: OrderedRwLock<()>,
    /// Made by the first write of a part of a block, because most clones are never written.
    patch_locks: OnceLock<Box<[OrderedMutex<()>]>>,
    health: Arc<Health>,
    /// Blocks that the finder has to look at.
    dirty: OrderedMutex<DirtyGroups>,
    /// The work that the finder has done here.
    turn: Turn,
    /// Stretches that the arranger has to look at.
    marks: Marks,
    counters: VolumeCounters,
    load: Load,
}

/// A clone that is never written takes less than 4 KiB, with its record in the metadata.
const _: () = assert!(size_of::<VolumeShared>() <= 3 << 10);

impl VolumeShared {
    pub(super) fn new(
        (id, size_bytes, block_bytes): (VolumeId, u64, u32),
        settings: VolumeSettings,
        tuning: VolumeTuning,
        health: &Arc<Health>,
    ) -> Arc<Self> {
        let VolumeSettings { mode, compression, read_only, rollbacks, limits } = settings;
        let volume = Self {
            id,
            block_bytes,
            size_bytes: AtomicU64::new(size_bytes),
            mode: AtomicU8::new(mode.byte()),
            compression: AtomicU16::new(u16::from_le_bytes(compression.bytes())),
            read_only,
            rollbacks,
            limits: Limits::new(limits),
            takes_deferred: tuning.takes_deferred,
            verifies_bytes: AtomicBool::new(tuning.verify_bytes),
            remembers_fingerprints: AtomicBool::new(tuning.remembers_fingerprints),
            // Several are taken in the order of the ids.
            gate: OrderedRwLock::numbered(Rank::Gate, u64::from(id.0), health, false),
            resizing: OrderedRwLock::numbered(Rank::Resizing, u64::from(id.0), health, ()),
            patch_locks: OnceLock::new(),
            health: Arc::clone(health),
            dirty: OrderedMutex::new(Rank::Dirty, health, DirtyGroups::new(delay_of(tuning))),
            turn: Turn::default(),
            marks: Marks::new(),
            counters: VolumeCounters::default(),
            load: Load::default(),
        };
        if volume.is_examined() {
            volume.dirty().mark_all();
        }
        Arc::new(volume)
    }

    pub(crate) const fn id(&self) -> VolumeId {
        self.id
    }

    pub(crate) const fn read_only(&self) -> bool {
        self.read_only
    }

    /// The settings of a copy of the volume.
    pub(super) fn settings_of_copy(&self, read_only: bool) -> VolumeSettings {
        let (mode, compression) = (self.mode(), self.compression());
        let limits = VolumeLimits::default();
        VolumeSettings { mode, compression, read_only, rollbacks: 0, limits }
    }

    /// The limits of its load and its space.
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Most blocks that the volume may map.
    pub(super) fn quota_blocks(&self) -> Option<u64> {
        self.limits.quota_bytes().map(|bytes| bytes / u64::from(self.block_bytes))
    }

    /// Blocks for which the store keeps room.
    pub(super) fn reserve_blocks(&self) -> u64 {
        self.limits.reserve_bytes().div_ceil(u64::from(self.block_bytes))
    }

    /// The times that the volume was rolled back.
    pub(crate) const fn rollbacks(&self) -> u32 {
        self.rollbacks
    }

    pub(crate) const fn counters(&self) -> &VolumeCounters {
        &self.counters
    }

    pub(crate) const fn load(&self) -> &Load {
        &self.load
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.size_bytes() / u64::from(self.block_bytes)
    }

    /// Sets the size. The caller has closed the gate.
    pub(super) fn set_size(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
        self.marks.restart();
    }

    /// The stretches that the arranger has to look at.
    pub(crate) const fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(crate) fn mode(&self) -> DedupMode {
        DedupMode::from_byte(self.mode.load(Ordering::Relaxed)).unwrap_or(DedupMode::Off)
    }

    /// Sets the mode. The caller has closed the gate.
    pub(super) fn set_mode(&self, mode: DedupMode) {
        self.mode.store(mode.byte(), Ordering::Relaxed);
        if self.is_examined() {
            self.dirty().mark_all();
        } else {
            self.dirty().clear();
        }
    }

    /// Takes other settings.
    pub(super) fn set_tuning(&self, tuning: VolumeTuning) {
        self.verifies_bytes.store(tuning.verify_bytes, Ordering::Relaxed);
        self.remembers_fingerprints.store(tuning.remembers_fingerprints, Ordering::Relaxed);
        self.dirty().set_bounds(delay_of(tuning));
    }

    /// Returns whether bytes are compared before a block of the volume is shared.
    pub(super) fn verifies_bytes(&self) -> bool {
        self.verifies_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether fingerprints are taken while contents are written here.
    pub(super) fn remembers_fingerprints(&self) -> bool {
        self.remembers_fingerprints.load(Ordering::Relaxed)
    }

    /// The compression of further writes.
    pub(crate) fn compression(&self) -> Compression {
        let bytes = self.compression.load(Ordering::Relaxed).to_le_bytes();
        Compression::from_bytes(bytes).unwrap_or_default()
    }

    /// Sets the compression of further writes. The caller has closed the gate.
    pub(super) fn set_compression(&self, compression: Compression) {
        let bytes = u16::from_le_bytes(compression.bytes());
        self.compression.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether the finder examines blocks of the volume that have no fingerprint.
    pub(super) fn is_examined(&self) -> bool {
        match self.mode() {
            DedupMode::Offline => true,
            DedupMode::Inline => self.takes_deferred,
            DedupMode::Off => false,
        }
    }

    /// Enters the gate for a request. The guard's value is `true` if the volume was removed.
    pub(crate) fn enter(&self) -> OrderedRead<'_, bool> {
        self.gate.read()
    }

    /// Enters the gate without waiting; [`None`] during a change of the whole volume. The caller
    /// may be in a request of the volume.
    pub(super) fn try_enter(&self) -> Option<OrderedRead<'_, bool>> {
        self.gate.try_read()
    }

    /// Waits until the requests have ended, and lets none begin.
    pub(super) fn close_gate(&self) -> OrderedWrite<'_, bool> {
        self.gate.write()
    }

    /// The same as [`Self::close_gate`], but waits no longer than `most`.
    pub(super) fn try_close_gate(&self, most: Duration) -> Option<OrderedWrite<'_, bool>> {
        self.gate.try_write_for(most)
    }

    /// Keeps the volume from being removed and resized.
    pub(super) fn keep(&self) -> OrderedRead<'_, ()> {
        self.resizing.read()
    }

    /// Keeps the volume from being cloned, removed and resized by others. The caller may remove or
    /// resize it.
    pub(super) fn resize(&self) -> OrderedWrite<'_, ()> {
        self.resizing.write()
    }

    /// Keeps other partial writes of these blocks out. The locks are taken in their order, so that
    /// two lists cannot wait for each other.
    pub(super) fn lock_patches(
        &self,
        lbns: impl Iterator<Item = Lbn>,
    ) -> Vec<OrderedGuard<'_, ()>> {
        let mut locks: Vec<usize> = lbns.map(|lbn| (lbn.0 % PATCH_LOCKS) as usize).collect();
        locks.sort_unstable();
        locks.dedup();
        let made = |number| OrderedMutex::numbered(Rank::Patch, number, &self.health, ());
        let all = self.patch_locks.get_or_init(|| (0..PATCH_LOCKS).map(made).collect());
        let found = locks.into_iter().filter_map(|lock| all.get(lock));
        found.map(OrderedMutex::lock).collect()
    }

    /// The blocks that the finder has to look at.
    pub(super) fn dirty(&self) -> OrderedGuard<'_, DirtyGroups> {
        self.dirty.lock()
    }

    /// The work that the finder has done here.
    pub(super) const fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The blocks that wait for the finder.
    pub(crate) fn backlog(&self) -> Backlog {
        self.dirty().backlog()
    }
}

fn delay_of(tuning: VolumeTuning) -> DelayBounds {
    DelayBounds::new(tuning.finder_delay, tuning.finder_max_delay)
}
