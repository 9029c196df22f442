//! Copies between pools: what differs, the contents that are sent, and the snapshot that is made of
//! them.

use crate::engine;
use crate::engine::{Engine, Receipt, SentContent, VolumeShared, identity_of};
use crate::error::{Result, VolumeError};
use crate::load::Traffic;
use crate::volume::Volume;
use gemelo_device::{ChangedExtent, DeviceError};
use gemelo_format::{Lbn, SnapshotId, VolumeRecord};
use gemelo_metadata::Differences;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A snapshot that is sent, as a whole or as what differs from an earlier one.
pub struct Outgoing {
    engine: Arc<Engine>,
    name: String,
    volume: Arc<VolumeShared>,
    record: VolumeRecord,
    identity: SnapshotId,
    base: Option<(String, Arc<VolumeShared>, SnapshotId)>,
}

impl Outgoing {
    pub(super) fn new(engine: &Arc<Engine>, name: &str, since: Option<&str>) -> Result<Self> {
        let (volume, record, identity) = snapshot(engine, name)?;
        let base = match since {
            None => None,
            Some(since) => {
                let (volume, _, identity) = snapshot(engine, since)?;
                Some((since.to_owned(), volume, identity))
            }
        };
        let engine = Arc::clone(engine);
        Ok(Self { engine, name: name.to_owned(), volume, record, identity, base })
    }

    /// Identity of the snapshot.
    #[must_use]
    pub const fn identity(&self) -> SnapshotId {
        self.identity
    }

    /// Identity of the earlier snapshot.
    #[must_use]
    pub fn base(&self) -> Option<SnapshotId> {
        self.base.as_ref().map(|(_, _, identity)| *identity)
    }

    /// Record of the snapshot.
    #[must_use]
    pub const fn record(&self) -> &VolumeRecord {
        &self.record
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.engine.superblock.block_bytes
    }

    /// Returns whether contents may be stored compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.engine.data.has_forms()
    }

    /// Key by which contents are told apart while they are sent.
    #[must_use]
    pub fn key(&self) -> &[u8; 32] {
        &self.engine.superblock.key
    }

    /// Blocks of the snapshot that are not zeros.
    #[must_use]
    pub fn mapped_blocks(&self) -> u64 {
        self.engine.log.read().backend().mapped_blocks(self.volume.id())
    }

    /// Requests of the pool's clients.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.engine.catalogue.traffic()
    }

    /// Blocks that differ from an LBN on: as many as are found in a few milliseconds.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, or if one of the snapshots was removed.
    pub fn differences(&self, from: Lbn) -> Result<Differences> {
        let base = self.base.as_ref().map(|(name, volume, _)| (&**name, &**volume));
        self.engine.comparer.compare((&self.name, &self.volume), base, from..Lbn(u64::MAX))
    }

    /// Reads the contents of blocks, in their order; [`None`] for one without a content.
    ///
    /// # Errors
    /// Fails if a content is damaged or cannot be read, or if the snapshot was removed.
    pub fn contents(&self, lbns: &[Lbn]) -> Result<Vec<Option<SentContent>>> {
        self.engine.comparer.contents(&self.name, &self.volume, lbns)
    }

    /// Reads the contents that the earlier snapshot has in these blocks, in their order; [`None`]
    /// for one without a content. The list is empty without an earlier snapshot.
    ///
    /// # Errors
    /// Fails if a content is damaged or cannot be read, or if the earlier snapshot was removed.
    pub fn earlier_contents(&self, lbns: &[Lbn]) -> Result<Vec<Option<SentContent>>> {
        let Some((name, volume, _)) = &self.base else { return Ok(Vec::new()) };
        self.engine.comparer.contents(name, volume, lbns)
    }
}

/// A copy of a snapshot that is not whole, which no client sees.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct UnfinishedCopy {
    /// The name that the snapshot will have.
    pub name: String,
    /// The size of the snapshot in bytes.
    pub size_bytes: u64,
    /// It has all of the snapshot before this byte.
    pub received_bytes: u64,
    /// `true` if somebody fills it at present.
    pub is_receiving: bool,
    /// The time in seconds since 1970, UTC, at which it is removed unless it goes on before.
    pub kept_until_s: u64,
}

/// A copy of a snapshot that is being made. If it is dropped before [`Self::finish`] or
/// [`Self::keep`], it is removed.
pub struct Incoming {
    engine: Arc<Engine>,
    name: String,
    volume: Arc<VolumeShared>,
    receipt: Receipt,
    /// Everything before this byte is there.
    received_bytes: u64,
    /// `true` if it is a snapshot, or kept to be continued.
    is_settled: bool,
}

impl Incoming {
    pub(super) fn new(engine: &Arc<Engine>, name: &str, receipt: Receipt) -> Result<Self> {
        let _watch = engine.health.watch();
        let (volume, received_bytes) = engine.volumes.begin_receiving(name, &receipt)?;
        let engine = Arc::clone(engine);
        let (name, is_settled) = (name.to_owned(), false);
        Ok(Self { engine, name, volume, receipt, received_bytes, is_settled })
    }

    /// The volume to be filled. It holds what the snapshot holds on which this one builds.
    #[must_use]
    pub fn volume(&self) -> Volume {
        Volume::new(Arc::clone(&self.engine), Arc::clone(&self.volume))
    }

    /// The snapshot on which the copy builds, if it is there.
    #[must_use]
    pub fn earlier(&self) -> Option<Volume> {
        let (_, volume) = self.engine.volumes.copy_of(self.receipt.base?)?;
        Some(Volume::new(Arc::clone(&self.engine), volume))
    }

    /// Makes the copy a snapshot of its name, durably.
    ///
    /// # Errors
    /// Fails if another volume got the name meanwhile, or if a disk fails.
    pub fn finish(mut self) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.end_receiving(&self.name, &self.volume, &self.receipt)?;
        self.is_settled = true;
        self.engine.log.flush()
    }

    /// The byte before which the copy has everything.
    #[must_use]
    pub const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Notes that the copy has everything before a byte, so that it can be continued. It is durable
    /// if `is_durable` is asked for, and otherwise after the next flush.
    ///
    /// # Errors
    /// Fails if a disk fails.
    pub fn note_received(&mut self, received_bytes: u64, is_durable: bool) -> Result<()> {
        let _watch = self.engine.health.watch();
        let volumes = &self.engine.volumes;
        volumes.note_received((&self.name, &self.volume), &self.receipt, received_bytes)?;
        self.received_bytes = received_bytes;
        if is_durable { self.engine.log.flush() } else { Ok(()) }
    }

    /// Leaves the copy to be continued, if it has anything.
    pub fn keep(mut self) {
        let _watch = self.engine.health.watch();
        if self.received_bytes > 0 && self.engine.log.flush().is_ok() {
            self.is_settled = true;
            self.engine.volumes.keep_unfinished(&self.volume);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_settled && self.engine.health.check_writable().is_ok() {
            let _watch = self.engine.health.watch();
            self.engine.volumes.give_up(&self.volume);
        }
    }
}

/// What differs between a volume and a snapshot, which stay the same when they are renamed.
#[derive(Clone)]
pub struct ChangesSince {
    engine: Arc<Engine>,
    volume: (String, Arc<VolumeShared>),
    since: (String, Arc<VolumeShared>),
}

impl ChangesSince {
    pub(super) fn new(engine: &Arc<Engine>, name: &str, since: &str) -> Result<Self> {
        let volume = (name.to_owned(), engine.catalogue.find(name)?);
        let (snapshot, ..) = snapshot(engine, since)?;
        Ok(Self { engine: Arc::clone(engine), volume, since: (since.to_owned(), snapshot) })
    }

    /// Describes a range of the volume by at most `most` extents, in order. The list may end before
    /// the range does.
    ///
    /// # Errors
    /// Fails if the range is outside of the volume, if metadata cannot be read, or if one of both
    /// was removed.
    pub fn extents(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> std::result::Result<Vec<ChangedExtent>, DeviceError> {
        let (name, volume) = &self.volume;
        let size_bytes = volume.size_bytes();
        if offset.checked_add(length).is_none_or(|end| end > size_bytes) {
            return Err(DeviceError::OutOfRange { offset, length, size_bytes });
        }
        let since = (&*self.since.0, &*self.since.1);
        let range = engine::Range { offset, length };
        let extents = self.engine.comparer.extents((name, volume), since, range, most);
        extents.map_err(|error| error.for_device(u64::from(self.engine.superblock.block_bytes)))
    }
}

/// A snapshot of this name, with its record and identity.
fn snapshot(engine: &Engine, name: &str) -> Result<(Arc<VolumeShared>, VolumeRecord, SnapshotId)> {
    let volume = engine.catalogue.find(name)?;
    let record = engine.log.read().backend().description(volume.id());
    let record = record.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })?;
    let identity = identity_of(&engine.superblock, &record);
    let no_snapshot = || VolumeError::NotASnapshot { name: name.to_owned() };
    let identity = identity.ok_or_else(no_snapshot)?;
    Ok((volume, record, identity))
}
