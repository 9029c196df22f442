//! Converts a pool of format version 1: keeps its data store, and writes new metadata to another
//! disk.
//!
//! The conversion writes nothing to the old pool. The old pool stays valid until the caller puts
//! the new metadata in the place of the old, so a conversion can be interrupted at any time and
//! started again.

use super::create::format_metadata;
use super::directory::{METADATA, failed};
use super::{Pool, PoolDirectory, Tuning};
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, SystemClock, Unit};
use gemelo_check::{CheckReport, Walk, WalkVolume};
use gemelo_disk::{Disk, FileDisk};
use gemelo_format::{
    Change, Checksum, DiskRole, Fingerprint, FingerprintKind, Fingerprinter, Lbn, Pbn, Place,
    PoolSeed, Superblock, Version, VolumeId, VolumeRecord,
};
use gemelo_store::{ContentRead, PoolDisks, Store};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes between two checks of the length of the open commit.
const CHANGES_AT_ONCE: usize = 1024;
/// Name of the new metadata file, until it takes the place of the old one.
const NEW_METADATA: &str = "metadata.new";

/// Reads the pool of format version 1 on `disks`, and writes metadata of version 2 for the same
/// data store to `metadata`, an empty disk. Contents that do not match their fingerprints are
/// marked as lost. Returns the number of lost blocks.
///
/// # Errors
/// Fails if there is no pool of version 1, if its metadata is too damaged to be read, if a disk
/// fails, or if the work was stopped.
pub fn convert(
    disks: &PoolDisks,
    metadata: Arc<dyn Disk>,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<u64> {
    let mut report = CheckReport::default();
    let walk = Walk::of(disks, &mut report)?.ok_or_else(|| {
        let what = report.problems.first().map_or_else(String::new, |problem| problem.what.clone());
        VolumeError::Damaged { what }
    })?;
    if walk.superblock.version != Version::V1 {
        return Err(VolumeError::PresentFormat);
    }
    let fingerprint = match walk.superblock.fingerprint {
        FingerprintKind::Sha256 => FingerprintKind::Sha256Keyed,
        other => other,
    };
    let superblock = Superblock {
        version: Version::V2,
        header_copy: None,
        fingerprint,
        ..walk.superblock.clone()
    };
    let new = disks.clone().with_metadata(metadata);
    format_metadata(&new, &superblock, walk.data_blocks)?;
    let tuning = Tuning { background: false, ..Tuning::default() };
    let pool = Pool::open_disks(new, tuning, Arc::new(SystemClock::new()))?;
    let mut conversion = Converter::new(disks, &walk, &pool);
    let shown = walk.volumes.values().filter(|volume| !volume.record.is_hidden);
    let blocks: u64 = shown.clone().map(|volume| volume.map.len() as u64).sum();
    monitor.begin("Converting", Unit::Items, Some(blocks));
    for volume in shown {
        conversion.volume(volume, monitor, stop)?;
    }
    monitor.finish();
    let lost = conversion.lost;
    pool.close()?;
    Ok(lost)
}

/// The outcome of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// LBNs whose contents were damaged and are marked as lost.
    pub lost_blocks: u64,
    /// Path of the old metadata if it is outside of the pool's directory, where it is left.
    pub old_metadata: Option<PathBuf>,
}

impl Pool {
    /// Converts the pool of a directory to the present format. The new metadata is made beside the
    /// old, and takes its place at the end in one step.
    ///
    /// # Errors
    /// Fails as [`convert`] does, and if another process uses the pool or the directory cannot be
    /// written.
    pub fn convert(directory: &Path, monitor: &dyn Monitor, stop: &StopFlag) -> Result<Conversion> {
        let disks = PoolDirectory::lock(directory)?.disks();
        let (old, new) = (directory.join(METADATA), directory.join(NEW_METADATA));
        // A killed conversion may have left this file. No other process is making one, because the
        // pool is locked.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove", &new)(error));
            }
            _ => {}
        }
        let metadata = Arc::new(FileDisk::create(&new)?);
        let converted = convert(&disks, Arc::clone(&metadata) as Arc<dyn Disk>, monitor, stop);
        let lost_blocks = converted.inspect_err(|_| {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&new);
        })?;
        let old_metadata = std::fs::read_link(&old).ok();
        std::fs::rename(&new, &old).map_err(failed("replace", &old))?;
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(failed("sync", directory))?;
        Ok(Conversion { lost_blocks, old_metadata })
    }
}

/// A conversion under way.
struct Converter<'c> {
    store: Arc<dyn Store>,
    walk: &'c Walk,
    pool: &'c Pool,
    seed: PoolSeed,
    old_fingerprinter: Fingerprinter,
    fingerprinter: Fingerprinter,
    content: Vec<u8>,
    /// The blocks of the new metadata with their checksums; `None` for lost contents.
    stored: HashMap<Pbn, Option<Checksum>>,
    lost: u64,
}

impl<'c> Converter<'c> {
    fn new(disks: &'c PoolDisks, walk: &'c Walk, pool: &'c Pool) -> Self {
        let superblock = &walk.superblock;
        Self {
            store: disks.store(superblock),
            walk,
            pool,
            seed: PoolSeed::of(superblock),
            old_fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            fingerprinter: pool.engine.fingerprinter().clone(),
            content: vec![0; superblock.block_bytes as usize],
            stored: HashMap::new(),
            lost: 0,
        }
    }

    fn volume(
        &mut self,
        volume: &WalkVolume,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<()> {
        let id = self.create(volume)?;
        let entries: Vec<(u64, Place)> =
            volume.map.iter().map(|(lbn, place)| (*lbn, *place)).collect();
        for some in entries.chunks(CHANGES_AT_ONCE) {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let mut changes = Vec::with_capacity(some.len());
            for (lbn, place) in some {
                changes.push(self.change(id, Lbn(*lbn), *place)?);
            }
            self.pool.engine.convert_some(&changes)?;
            monitor.advance(some.len() as u64);
        }
        Ok(())
    }

    /// Makes the volume, without its blocks.
    fn create(&self, volume: &WalkVolume) -> Result<VolumeId> {
        let engine = &self.pool.engine;
        let id = engine.next_volume_id();
        let record = VolumeRecord { id, ..volume.record.clone() };
        engine.convert_some(&[Change::Create(record)])?;
        Ok(id)
    }

    /// The change that gives an LBN its place.
    fn change(&mut self, volume: VolumeId, lbn: Lbn, place: Place) -> Result<Change> {
        let lose = Change::Lose { volume, first: lbn, count: 1 };
        let Some(pbn) = place.pbn() else { return Ok(lose) };
        if let Some(known) = self.stored.get(&pbn) {
            self.lost += u64::from(known.is_none());
            return Ok(known.map_or(lose, |checksum| Change::Share { volume, lbn, pbn, checksum }));
        }
        let fingerprint =
            self.walk.fingerprints.get(&pbn.number()).copied().unwrap_or(Fingerprint::NONE);
        let mut reads = [ContentRead::new(pbn, 0, &mut self.content)];
        self.store.read(&mut reads);
        let [read] = reads;
        let is_good = match read.outcome {
            Ok(()) => {
                fingerprint.is_none() || self.old_fingerprinter.of(&self.content) == fingerprint
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(VolumeError::io(DiskRole::Data, "read")(error)),
        };
        if !is_good {
            self.lost += 1;
            self.stored.insert(pbn, None);
            return Ok(lose);
        }
        let checksum = self.seed.of_content(&self.content);
        self.stored.insert(pbn, Some(checksum));
        let fingerprint = match fingerprint.is_none() {
            true => Fingerprint::NONE,
            false => self.fingerprinter.of(&self.content),
        };
        Ok(Change::Store { volume, lbn, pbn, fingerprint, checksum })
    }
}
