//! Copies maps to the new backend, piece by piece.
//!
//! A volume begins as a clone of its base in the new backend, and the LBNs in which both differ in
//! the old backend are then set one by one. Until the copy is complete, each LBN after the cursor
//! is right in the new backend, or differs from the base in the old one, so that it will be found.
//! A change of the volume or of its base therefore sets the LBN that it changed at once.

use super::differ::{END, STRETCH, differing};
use super::{Mirror, MovableBackend};
use crate::error::Result;
use crate::traits::MetadataBackend;
use gemelo_format::{
    Change, Fingerprint, Lbn, MAX_VOLUME_BLOCKS, MapEntry, Pbn, VolumeId, VolumeRecord,
};

/// A volume that is being copied.
pub(super) struct Copying {
    pub(super) volume: VolumeId,
    /// The volume that it was cloned from in the new backend. It is complete there.
    pub(super) base: Option<VolumeId>,
    /// All LBNs before it are copied.
    pub(super) cursor: Lbn,
}

/// PBNs whose counts are looked at for one step, and those whose records it copies: a few pages of
/// each.
const COUNTS_AT_ONCE: u64 = 16_384;
const RECORDS_AT_ONCE: usize = 1024;
/// Above every PBN.
pub(super) const END_OF_PBNS: u64 = u64::MAX;

/// A step of a move, which was prepared with the state's lock shared.
#[derive(Debug)]
pub enum MoveStep {
    /// The next volume begins.
    Begin,
    /// LBNs are copied.
    Copy(Piece),
    /// Records are copied.
    Identify(Records),
}

impl MoveStep {
    /// The number of LBNs that are copied.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        match self {
            Self::Begin | Self::Identify(_) => 0,
            Self::Copy(piece) => piece.lbns.len() as u64,
        }
    }
}

/// The LBNs of a step.
#[derive(Debug)]
pub struct Piece {
    volume: VolumeId,
    version: u64,
    lbns: Vec<Lbn>,
    end: Lbn,
}

/// The blocks whose records a step copies.
#[derive(Debug)]
pub struct Records {
    pbns: Vec<Pbn>,
    /// All blocks before it have their records after the step.
    end: u64,
}

impl MovableBackend {
    /// Finds what the next step copies, and reads what it needs. `None` if no move is under way.
    ///
    /// # Errors
    /// Fails if metadata of the pool cannot be read.
    pub fn prepare_step(&self) -> Result<Option<MoveStep>> {
        let Some(to) = &self.to else { return Ok(None) };
        let Some(Copying { volume, base, cursor }) = &to.copying else {
            return match to.has_maps && to.identified < END_OF_PBNS {
                true => Ok(Some(MoveStep::Identify(self.prepare_records(to)?))),
                false => Ok(Some(MoveStep::Begin)),
            };
        };
        let mut lbns = Vec::new();
        let end = differing(&*self.from, *volume, *base, *cursor, &mut lbns)?;
        let mut places = Vec::with_capacity(lbns.len());
        self.from.look_up(*volume, &lbns, &mut places)?;
        // A damaged page looks like damaged entries, which must not be copied.
        self.from.prefetch(*volume, &lbns, &places)?;
        // In lists here, and not one by one while the step holds the state's lock alone.
        let pbns = places.iter().filter_map(|place| place.pbn());
        let pbns: Vec<Pbn> = pbns.filter(|pbn| pbn.number() < to.identified).collect();
        self.from.records(&pbns, &mut Vec::with_capacity(pbns.len()))?;
        to.warm_all(*volume, &lbns, &places);
        let piece = Piece { volume: *volume, version: to.version, lbns, end };
        Ok(Some(MoveStep::Copy(piece)))
    }

    /// Finds the blocks whose records come next, and reads these.
    fn prepare_records(&self, to: &Mirror) -> Result<Records> {
        let all = to.store.pbn_end(self.from.totals().data_blocks);
        let mut end = to.identified.saturating_add(COUNTS_AT_ONCE);
        let numbers = to.identified..end.min(all);
        let mut pbns: Vec<Pbn> = numbers.filter_map(Pbn::new).collect();
        let mut counts = Vec::with_capacity(pbns.len());
        self.from.counts(&pbns, &mut counts)?;
        let mut counts = counts.into_iter();
        pbns.retain(|_| counts.next().is_some_and(|count| count > 0));
        if let Some(left) = pbns.get(RECORDS_AT_ONCE) {
            end = left.number();
            pbns.truncate(RECORDS_AT_ONCE);
        }
        self.from.records(&pbns, &mut Vec::with_capacity(pbns.len()))?;
        Ok(Records { pbns, end: if end < all { end } else { END_OF_PBNS } })
    }

    /// Makes a step. Returns whether another one may follow. None does after a failure of the new
    /// backend.
    pub fn step(&mut self, step: &MoveStep) -> bool {
        let Self { from, to: Some(to) } = self else { return false };
        if to.failure.is_set() {
            return false;
        }
        let made = match step {
            MoveStep::Begin => to.begin_volume(&**from),
            MoveStep::Copy(piece) => to.copy_piece(&**from, piece),
            MoveStep::Identify(records) => to.copy_records(&**from, records),
        };
        to.failure.catch(made).unwrap_or(false)
    }

    /// Returns whether the new backend has failed.
    #[must_use]
    pub fn has_move_failed(&self) -> bool {
        self.to.as_ref().is_some_and(|to| to.failure.is_set())
    }
}

impl Mirror {
    /// Returns whether the new backend has a volume, or a part of it.
    pub(super) fn has(&self, volume: VolumeId) -> bool {
        self.copied.has(volume) || self.copying.as_ref().is_some_and(|copy| copy.volume == volume)
    }

    /// Reads ahead for a step. An error is left to the step itself.
    fn warm_all(&self, volume: VolumeId, lbns: &[Lbn], places: &[MapEntry]) {
        for stretch in lbns.chunk_by(|one, next| one.0 / STRETCH == next.0 / STRETCH) {
            let [first, ..] = stretch else { continue };
            let end = Lbn((first.0 / STRETCH + 1) * STRETCH);
            let mut next = *first;
            while next < end {
                match self.backend.warm(volume, next, end) {
                    Ok(after) => next = after,
                    Err(_) => return,
                }
            }
        }
        let _ = self.backend.prefetch(volume, lbns, places);
    }

    /// Begins the next volume. Returns `false` if there is none.
    fn begin_volume(&mut self, from: &dyn MetadataBackend) -> Result<bool> {
        if self.copying.is_some() {
            return Ok(true);
        }
        let Some(record) = self.copied.next(from) else {
            self.has_maps = true;
            return Ok(self.identified < END_OF_PBNS);
        };
        let volume = record.id;
        let base = self.copied.base(&record).filter(|_| !self.backend.clones_add_references());
        let change = match base {
            Some(source) => Change::Clone {
                source,
                volume,
                name: record.name.clone(),
                read_only: record.read_only,
                created_s: record.birth.created_s,
            },
            None => Change::Create(record.clone()),
        };
        self.make(&change)?;
        // LBNs beyond the end are copied as well: a resize may not have unmapped them yet.
        let size_bytes = MAX_VOLUME_BLOCKS * self.block_bytes;
        self.backend.describe(VolumeRecord { size_bytes, ..record })?;
        self.version += 1;
        self.copying = Some(Copying { volume, base, cursor: Lbn(0) });
        Ok(true)
    }

    fn copy_piece(&mut self, from: &dyn MetadataBackend, piece: &Piece) -> Result<bool> {
        let is_stale = piece.version != self.version;
        let of_piece = self.copying.as_ref().filter(|copy| copy.volume == piece.volume);
        let Some(cursor) = of_piece.map(|copy| copy.cursor).filter(|_| !is_stale) else {
            return Ok(true);
        };
        for lbn in piece.lbns.iter().filter(|lbn| **lbn >= cursor) {
            self.set(from, (piece.volume, *lbn), self.identified)?;
        }
        if piece.end < END {
            self.copying.iter_mut().for_each(|copy| copy.cursor = cursor.max(piece.end));
            return Ok(true);
        }
        self.copying = None;
        if let Some(record) = from.description(piece.volume) {
            self.copied.insert(&record);
            self.backend.describe(record)?;
        }
        Ok(true)
    }

    /// Gives blocks the records that the old backend has. They are copied in their order, because
    /// those of a map that was overwritten at random lie in as many pages as it has LBNs.
    fn copy_records(&mut self, from: &dyn MetadataBackend, step: &Records) -> Result<bool> {
        let mut records = Vec::with_capacity(step.pbns.len());
        from.records(&step.pbns, &mut records)?;
        for (pbn, record) in step.pbns.iter().zip(records) {
            if record.references == 0 || record.fingerprint.is_none() || self.count(*pbn)? == 0 {
                continue;
            }
            self.make(&Change::Identify { pbn: *pbn, fingerprint: record.fingerprint })?;
            if record.is_suspect {
                self.make(&Change::Suspect { pbn: *pbn, is_suspect: true })?;
            }
        }
        self.identified = step.end;
        Ok(true)
    }

    /// Gives an LBN the entry that the old backend has. Blocks before `identified` get their
    /// records as well.
    pub(super) fn set(
        &mut self,
        from: &dyn MetadataBackend,
        (volume, lbn): (VolumeId, Lbn),
        identified: u64,
    ) -> Result<()> {
        let (mut wanted, mut present) = (Vec::with_capacity(1), Vec::with_capacity(1));
        from.look_up(volume, &[lbn], &mut wanted)?;
        self.backend.look_up(volume, &[lbn], &mut present)?;
        if wanted == present {
            return Ok(());
        }
        for place in wanted {
            match place {
                MapEntry::Unmapped => self.make(&Change::Unmap { volume, first: lbn, count: 1 })?,
                MapEntry::Damaged => self.make(&Change::Lose { volume, first: lbn, count: 1 })?,
                MapEntry::Stored(pbn, checksum) if self.count(pbn)? > 0 => {
                    self.make(&Change::Share { volume, lbn, pbn, checksum })?;
                }
                MapEntry::Stored(pbn, checksum) if pbn.number() >= identified => {
                    let fingerprint = Fingerprint::NONE;
                    self.make(&Change::Store { volume, lbn, pbn, fingerprint, checksum })?;
                }
                MapEntry::Stored(pbn, checksum) => {
                    let mut records = Vec::with_capacity(1);
                    from.records(&[pbn], &mut records)?;
                    for record in records {
                        let fingerprint = record.fingerprint;
                        self.make(&Change::Store { volume, lbn, pbn, fingerprint, checksum })?;
                        if record.is_suspect {
                            self.make(&Change::Suspect { pbn, is_suspect: true })?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The references to a block in the new backend.
    pub(super) fn count(&self, pbn: Pbn) -> Result<u32> {
        let mut counts = Vec::with_capacity(1);
        self.backend.counts(&[pbn], &mut counts)?;
        Ok(counts.first().copied().unwrap_or(0))
    }

    /// Makes a change in the new backend. The old one tells which blocks are freed.
    pub(super) fn make(&mut self, change: &Change) -> Result<()> {
        self.backend.apply(std::slice::from_ref(change), &mut Vec::new())
    }
}
