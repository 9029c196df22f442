//! Making a copy of a snapshot of another pool.
//!
//! The copy begins as an unfinished volume: empty, or a clone of the snapshot on which it builds.
//! It is written as any volume is, but no client finds it. One change makes it a snapshot. A crash
//! before leaves it unfinished. If its progress was noted, a further copy of the same snapshot goes
//! on from there within a week; otherwise the next opening removes it.

use super::VolumeShared;
use super::volumes::{Volumes, check_there};
use crate::error::{Result, VolumeError};
use crate::pool::UnfinishedCopy;
use gemelo_format::{
    Birth, Change, DedupMode, Origin, Receiving, SnapshotId, Superblock, VolumeId, VolumeRecord,
};
use std::sync::Arc;

/// The description of a snapshot that is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its identity, which the copy keeps.
    pub identity: SnapshotId,
    /// The volume of which it is a snapshot, in the pool where it was made; [`None`] if unknown.
    pub source: Option<VolumeId>,
    /// Its creation time in seconds since 1970; [`None`] if unknown.
    pub created_s: Option<u64>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes at its end that fill up the last block of an import.
    pub padding_bytes: u32,
    /// The snapshot on which it builds; [`None`] if it is received as a whole.
    pub base: Option<SnapshotId>,
    /// Deduplication of what is written. A copy that builds on another one keeps the mode of that.
    pub mode: DedupMode,
    /// `true` to go on with an unfinished copy of the snapshot.
    pub goes_on: bool,
}

impl Receipt {
    /// The change by which a volume is received so far, or as a whole without `receiving`.
    fn change(&self, volume: VolumeId, name: &str, receiving: Option<Receiving>) -> Change {
        let Self { identity, source, created_s, .. } = *self;
        let name = name.to_owned();
        Change::Receive { volume, name, identity, source, created_s, receiving }
    }
}

/// Returns the identity of a snapshot that clients can see.
pub(crate) fn identity_of(superblock: &Superblock, record: &VolumeRecord) -> Option<SnapshotId> {
    let is_seen = !record.is_hidden && !record.is_unfinished();
    SnapshotId::of(superblock.pool_id, record).filter(|_| is_seen)
}

impl Volumes {
    /// The record of a copy of a snapshot.
    fn find_copy(&self, identity: SnapshotId) -> Option<VolumeRecord> {
        let records = self.log.read().backend().volumes();
        records.into_iter().find(|one| identity_of(&self.superblock, one) == Some(identity))
    }

    /// The copy of a snapshot, if the pool has one that clients can see.
    pub(crate) fn copy_of(
        &self,
        identity: SnapshotId,
    ) -> Option<(VolumeRecord, Arc<VolumeShared>)> {
        let record = self.find_copy(identity)?;
        let volume = self.catalogue.find(&record.name).ok()?;
        // The name may be another one's by now.
        (volume.id() == record.id).then_some((record, volume))
    }

    /// Makes an unfinished volume, or takes one that can be continued. Also returns the byte before
    /// which it has everything.
    pub(crate) fn begin_receiving(
        &self,
        name: &str,
        receipt: &Receipt,
    ) -> Result<(Arc<VolumeShared>, u64)> {
        self.health.check_writable()?;
        self.check_size(receipt.size_bytes)?;
        self.log.make_room_for_clone()?;
        if let Some(copy) = self.find_copy(receipt.identity) {
            return Err(VolumeError::ReceivedBefore { name: copy.name });
        }
        if let Some(going_on) = self.go_on(name, receipt)? {
            return Ok(going_on);
        }
        let volume = match receipt.base {
            None => self.begin_empty(name, receipt)?,
            Some(base) => self.begin_clone(name, receipt, base)?,
        };
        if receipt.base.is_some() {
            // The size and the padding are those of the base.
            self.resize_to(name, &volume, (receipt.size_bytes, receipt.padding_bytes))
                .inspect_err(|_| self.give_up(&volume))?;
        }
        Ok((volume, 0))
    }

    /// Takes an unfinished copy of the snapshot, if one can be continued. Others of it are removed.
    fn go_on(&self, name: &str, receipt: &Receipt) -> Result<Option<(Arc<VolumeShared>, u64)>> {
        let mut given_up = Vec::new();
        let going_on = self.take_unfinished(name, receipt, &mut given_up);
        self.clear_all(given_up);
        going_on
    }

    fn take_unfinished(
        &self,
        name: &str,
        receipt: &Receipt,
        given_up: &mut Vec<VolumeId>,
    ) -> Result<Option<(Arc<VolumeShared>, u64)>> {
        let mut catalogue = self.catalogue.change();
        catalogue.check_free(name)?;
        let Receipt { identity, size_bytes, padding_bytes, base, goes_on, .. } = *receipt;
        let now_s = self.clock.utc_s();
        let records = self.log.read().backend().volumes();
        for record in records {
            let Some(receiving) = record.receiving.filter(|_| !record.is_hidden) else { continue };
            let is_of_it = matches!(record.birth.origin, Origin::Received { identity: other, .. } if other == identity);
            if !is_of_it {
                continue;
            }
            if self.catalogue.is_receiving(record.id) {
                return Err(VolumeError::BeingReceived { name: record.name });
            }
            let is_same = record.size_bytes == size_bytes
                && record.padding_bytes == padding_bytes
                && receiving.base == base;
            if !goes_on || !is_same || !receiving.is_kept(now_s) {
                self.log.change(&Change::Hide { volume: record.id })?;
                given_up.push(record.id);
                continue;
            }
            let volume = self.shared_of(&record);
            catalogue.add_receiving(Arc::clone(&volume));
            return Ok(Some((volume, receiving.received_bytes)));
        }
        Ok(None)
    }

    /// Notes that an unfinished copy has everything before a byte. It is durable after the next
    /// flush, with all that was written before.
    pub(crate) fn note_received(
        &self,
        (name, unfinished): (&str, &VolumeShared),
        receipt: &Receipt,
        received_bytes: u64,
    ) -> Result<()> {
        let seen_s = self.clock.utc_s().unwrap_or(0);
        let receiving = Receiving { base: receipt.base, received_bytes, seen_s };
        self.log.bound_open_commit()?;
        self.log.change(&receipt.change(unfinished.id(), name, Some(receiving)))
    }

    /// Leaves an unfinished copy to be continued.
    pub(crate) fn keep_unfinished(&self, unfinished: &Arc<VolumeShared>) {
        let _alone = unfinished.resize();
        let mut catalogue = self.catalogue.change();
        *unfinished.close_gate() = true;
        catalogue.end_receiving(unfinished);
    }

    /// Copies that are being received, or can be continued, by name.
    pub(crate) fn unfinished(&self) -> Vec<UnfinishedCopy> {
        let now_s = self.clock.utc_s();
        let records = self.log.read().backend().volumes();
        let listed = records.into_iter().filter(|record| !record.is_hidden).filter_map(|record| {
            let receiving = record.receiving?;
            let is_receiving = self.catalogue.is_receiving(record.id);
            (is_receiving || receiving.is_kept(now_s)).then(|| UnfinishedCopy {
                name: record.name,
                size_bytes: record.size_bytes,
                received_bytes: receiving.received_bytes,
                is_receiving,
                kept_until_s: receiving.seen_s.saturating_add(Receiving::KEPT_S),
            })
        });
        let mut listed: Vec<UnfinishedCopy> = listed.collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        listed
    }

    /// Removes unfinished copies that nobody has continued for a week. Returns their number.
    pub(crate) fn forget_old_unfinished(&self) -> Result<usize> {
        let now_s = self.clock.utc_s();
        let is_old = |record: &VolumeRecord| {
            record.receiving.is_some_and(|receiving| !receiving.is_kept(now_s))
        };
        let (old, _) = self.forget(is_old)?;
        Ok(old)
    }

    /// Removes an unfinished copy of this name that nobody fills.
    pub(crate) fn forget_unfinished(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        match self.forget(|record| record.is_unfinished() && record.name == name)? {
            (0, 0) => Err(VolumeError::NoSuchVolume { name }),
            (0, _) => Err(VolumeError::BeingReceived { name }),
            _ => self.log.flush(),
        }
    }

    /// Removes unfinished copies. Returns the number of those that were removed, and of those that
    /// somebody fills.
    fn forget(&self, is_meant: impl Fn(&VolumeRecord) -> bool) -> Result<(usize, usize)> {
        let catalogue = self.catalogue.change();
        let records = self.log.read().backend().volumes();
        let meant = records.iter().filter(|record| !record.is_hidden && is_meant(record));
        let (filled, idle): (Vec<VolumeId>, Vec<VolumeId>) =
            meant.map(|record| record.id).partition(|volume| self.catalogue.is_receiving(*volume));
        if !idle.is_empty() {
            self.health.check_writable()?;
        }
        idle.iter().try_for_each(|volume| self.log.change(&Change::Hide { volume: *volume }))?;
        drop(catalogue);
        let forgotten = idle.len();
        self.clear_all(idle);
        Ok((forgotten, filled.len()))
    }

    fn clear_all(&self, hidden: Vec<VolumeId>) {
        hidden.into_iter().for_each(|volume| self.clearer.clear_after(&Ok(()), volume));
    }

    fn begin_empty(&self, name: &str, receipt: &Receipt) -> Result<Arc<VolumeShared>> {
        let mut catalogue = self.catalogue.change();
        catalogue.check_free(name)?;
        let Receipt { identity, source, created_s, size_bytes, padding_bytes, mode, .. } = *receipt;
        let birth = Birth { created_s, origin: Origin::Received { identity, source } };
        let empty = self.new_record(name, size_bytes, mode, birth);
        let receiving = Some(Receiving { base: None, received_bytes: 0, seen_s: 0 });
        let record = VolumeRecord { padding_bytes, receiving, ..empty };
        let volume = self.shared_of(&record);
        self.log.change(&Change::Create(record))?;
        catalogue.add_receiving(Arc::clone(&volume));
        Ok(volume)
    }

    fn begin_clone(
        &self,
        name: &str,
        receipt: &Receipt,
        base: SnapshotId,
    ) -> Result<Arc<VolumeShared>> {
        let no_base = || VolumeError::NoBase { identity: base };
        let (record, from) = self.copy_of(base).ok_or_else(no_base)?;
        let _kept = from.keep();
        let mut catalogue = self.catalogue.change();
        catalogue.check_free(name)?;
        if !catalogue.has(&record.name, &from) {
            return Err(no_base());
        }
        let volume = self.next_id();
        {
            // One commit has both, so that no clone is ever seen.
            let mut state = self.log.write();
            let clone = Change::Clone {
                source: from.id(),
                volume,
                name: String::new(),
                read_only: false,
                created_s: receipt.created_s,
            };
            self.log.apply(&mut state, &clone)?;
            let receiving = Receiving { base: Some(base), received_bytes: 0, seen_s: 0 };
            self.log.apply(&mut state, &receipt.change(volume, name, Some(receiving)))?;
        }
        let settings = from.settings_of_copy(false);
        let copy = self.shared_with(volume, from.size_bytes(), settings);
        catalogue.add_receiving(Arc::clone(&copy));
        Ok(copy)
    }

    /// Makes an unfinished volume a snapshot. It is durable after the next flush, and never before
    /// what was written to it: commits become durable in their order.
    pub(crate) fn end_receiving(
        &self,
        name: &str,
        unfinished: &Arc<VolumeShared>,
        receipt: &Receipt,
    ) -> Result<()> {
        self.health.check_writable()?;
        let _alone = unfinished.resize();
        let mut catalogue = self.catalogue.change();
        catalogue.check_free(name)?;
        let volume = unfinished.id();
        self.change_closed(unfinished, |state, removed| {
            check_there(*removed, name)?;
            self.log.apply(state, &receipt.change(volume, name, None))?;
            *removed = true;
            Ok(())
        })?;
        let settings = unfinished.settings_of_copy(true);
        catalogue.insert(name, self.shared_with(volume, unfinished.size_bytes(), settings));
        catalogue.end_receiving(unfinished);
        Ok(())
    }

    /// Removes an unfinished volume. What fails now is done after the next opening.
    pub(crate) fn give_up(&self, unfinished: &Arc<VolumeShared>) {
        let volume = unfinished.id();
        {
            let _alone = unfinished.resize();
            let mut catalogue = self.catalogue.change();
            catalogue.end_receiving(unfinished);
            let hidden = self.change_closed(unfinished, |state, removed| {
                *removed = true;
                self.log.apply(state, &Change::Hide { volume })
            });
            if hidden.is_err() {
                return;
            }
        }
        // The process may end right after it, and its space shall be back.
        self.clearer.clear_now(volume);
    }
}
