//! Stores contents at other PBNs whose places are lost.
//!
//! A damaged block is mended in place, for all references at once. In a block that contents share,
//! the place of a damaged one may be another content's now. Such a content gets another PBN, and
//! each map entry that expects it is changed, as a write of the same content would do.

use crate::counters::{PoolCounters, add};
use crate::engine::catalogue::Catalogue;
use crate::engine::damage::Healer;
use crate::engine::data::DataPath;
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::{State, VolumeShared};
use crate::error::Result;
use crate::pool::Tuning;
use gemelo_format::{
    Change, Checksum, Fingerprint, Fingerprinter, Lbn, MapEntry, Pbn, Superblock, VolumeId,
};
use gemelo_metadata::HeldPages;
use gemelo_store::ContentWrite;
use std::collections::HashMap;
use std::sync::Arc;

/// LBNs looked up or changed in one hold of the state's lock.
const PIECE_BLOCKS: u64 = 64;

/// A content by the PBN and the checksum that maps have for it.
type Key = (Pbn, Checksum);

/// A content that gets another PBN.
struct Elsewhere {
    to: Pbn,
    fingerprint: Fingerprint,
    /// Map entries that were changed.
    moved: u64,
}

/// Stores contents elsewhere; see the module.
pub(crate) struct Relocator {
    data: Arc<DataPath>,
    log: Arc<Log>,
    catalogue: Arc<Catalogue>,
    healer: Arc<Healer>,
    health: Arc<Health>,
    fingerprinter: Arc<Fingerprinter>,
    counters: Arc<PoolCounters>,
    superblock: Superblock,
    tuning: Tuning,
}

impl Relocator {
    pub(in crate::engine) fn new(common: &Common, healer: &Arc<Healer>) -> Self {
        Self {
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            catalogue: Arc::clone(&common.catalogue),
            healer: Arc::clone(healer),
            health: Arc::clone(&common.health),
            fingerprinter: Arc::clone(&common.fingerprinter),
            counters: Arc::clone(&common.counters),
            superblock: common.superblock.clone(),
            tuning: common.tuning,
        }
    }

    /// Stores contents at other PBNs, each given by the PBN and the checksum that maps expect. Says
    /// for each whether a map entry refers to its new place. A pool whose contents have blocks of
    /// their own leaves them all.
    pub(crate) fn store_elsewhere(&self, contents: &[(Pbn, Checksum, &[u8])]) -> Result<Vec<bool>> {
        let mut moved = vec![false; contents.len()];
        if contents.is_empty() || !self.data.is_packed() || self.health.check_writable().is_err() {
            return Ok(moved);
        }
        self.log.bound_open_commit()?;
        self.log.reserve_slots()?;
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.data.pin();
        let bytes: Vec<&[u8]> = contents.iter().map(|(_, _, content)| *content).collect();
        let compressed = self.data.compress(&bytes, self.superblock.store.compression());
        let Some((pbns, _taken)) = self.data.take_for_forms(&compressed)? else {
            return Ok(moved);
        };
        assert_eq!(pbns.len(), contents.len(), "each content has a new place");
        let mut places = self.places_of(contents, &pbns)?;
        let mut volumes = self.catalogue.all().into_values();
        let followed = volumes.try_for_each(|volume| self.follow(&volume, &mut places));
        // In a pool that has stopped it is unknown whether durable metadata refer to these blocks.
        if !self.health.is_stopped() {
            let unused = places.values().filter(|one| one.moved == 0).map(|one| one.to);
            self.data.give_back(unused.collect());
        }
        followed?;
        for ((pbn, checksum, _), moved) in contents.iter().zip(&mut moved) {
            *moved = places.get(&(*pbn, *checksum)).is_some_and(|one| one.moved > 0);
            if *moved {
                self.healer.forget(*pbn);
                add(&self.counters.healed_blocks, 1);
            }
        }
        Ok(moved)
    }

    /// Writes the contents to their new places. Leaves out those that could not be written.
    fn places_of(
        &self,
        contents: &[(Pbn, Checksum, &[u8])],
        pbns: &[Pbn],
    ) -> Result<HashMap<Key, Elsewhere>> {
        let old: Vec<Pbn> = contents.iter().map(|(pbn, ..)| *pbn).collect();
        let records = self.log.records(&old)?;
        let (mut places, mut unused) = (HashMap::new(), Vec::new());
        for (((pbn, checksum, content), to), record) in contents.iter().zip(pbns).zip(records) {
            let mut writes = [ContentWrite::new(*to, content)];
            if !self.data.is_written(*to) {
                self.data.write(&mut writes);
            }
            let [write] = writes;
            // The record may be that of another content, which is at the old place now.
            let fingerprint = match record.fingerprint.is_none() {
                true => Fingerprint::NONE,
                false => self.fingerprinter.of(content),
            };
            let place = Elsewhere { to: *to, fingerprint, moved: 0 };
            match write.outcome {
                Ok(()) => unused.extend(places.insert((*pbn, *checksum), place).map(|one| one.to)),
                Err(_) => unused.push(*to),
            }
        }
        self.data.give_back(unused);
        Ok(places)
    }

    /// Lets the map entries of a volume follow that refer to the old places.
    fn follow(
        &self,
        volume: &Arc<VolumeShared>,
        places: &mut HashMap<Key, Elsewhere>,
    ) -> Result<()> {
        let mut next = Lbn(0);
        loop {
            self.log.bound_open_commit()?;
            let is_removed = volume.enter();
            if *is_removed || volume.is_in_change() {
                return Ok(());
            }
            let end = Lbn(volume.blocks());
            let first = self.log.next_mapped(volume.id(), next, end)?;
            let Some(first) = first else { return Ok(()) };
            next = Lbn(end.0.min(first.0.saturating_add(PIECE_BLOCKS)));
            let lbns: Vec<Lbn> = (first.0..next.0).map(Lbn).collect();
            let refers = |entry: &MapEntry| place_of(places, *entry).is_some();
            if !self.log.places(volume.id(), &lbns)?.iter().any(refers) {
                continue;
            }
            let _held = HeldPages::hold();
            self.log.warm(volume.id(), first.0, next.0)?;
            let mut state = self.log.write();
            let entries = state.places(volume.id(), &lbns)?;
            for (lbn, entry) in lbns.into_iter().zip(entries) {
                if let Some((key, _)) = place_of(places, entry)
                    && let Some(place) = places.get_mut(&key)
                {
                    self.follow_one(&mut state, (volume.id(), lbn), (key.1, place))?;
                }
            }
        }
    }

    /// Lets a map entry follow.
    fn follow_one(
        &self,
        state: &mut State,
        (volume, lbn): (VolumeId, Lbn),
        (checksum, place): (Checksum, &mut Elsewhere),
    ) -> Result<()> {
        let Elsewhere { to: pbn, fingerprint, moved } = place;
        let (pbn, fingerprint, mut records) = (*pbn, *fingerprint, Vec::new());
        state.backend().records(&[pbn], &mut records)?;
        let references = records.first().map_or(0, |record| record.references);
        let change = match *moved {
            0 => Change::Store { volume, lbn, pbn, fingerprint, checksum },
            // Writes may have replaced all entries that were changed.
            _ if references == 0 || references >= self.tuning.max_references => return Ok(()),
            _ => Change::Share { volume, lbn, pbn, checksum },
        };
        self.log.apply(state, &change)?;
        *moved += 1;
        Ok(())
    }
}

/// The new place of the content that a map entry expects.
fn place_of(places: &HashMap<Key, Elsewhere>, entry: MapEntry) -> Option<(Key, &Elsewhere)> {
    let MapEntry::Stored(pbn, checksum) = entry else { return None };
    Some(((pbn, checksum), places.get(&(pbn, checksum))?))
}
