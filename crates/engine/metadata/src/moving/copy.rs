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
use gemelo_format::{Change, Lbn, MAX_VOLUME_BLOCKS, MapEntry, Pbn, VolumeId, VolumeRecord};

/// A volume that is being copied.
pub(super) struct Copying {
    pub(super) volume: VolumeId,
    /// The volume that it was cloned from in the new backend. It is complete there.
    pub(super) base: Option<VolumeId>,
    /// All LBNs before it are copied.
    pub(super) cursor: Lbn,
}

/// A step of a move, which was prepared with the state's lock shared.
#[derive(Debug)]
pub enum MoveStep {
    /// The next volume begins.
    Begin,
    /// LBNs are copied.
    Copy(Piece),
}

impl MoveStep {
    /// The number of LBNs that are copied.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        match self {
            Self::Begin => 0,
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

impl MovableBackend {
    /// Finds what the next step copies, and reads what it needs. `None` if no move is under way.
    ///
    /// # Errors
    /// Fails if metadata of the pool cannot be read.
    pub fn prepare_step(&self) -> Result<Option<MoveStep>> {
        let Some(to) = &self.to else { return Ok(None) };
        let Some(Copying { volume, base, cursor }) = &to.copying else {
            return Ok(Some(MoveStep::Begin));
        };
        let mut lbns = Vec::new();
        let end = differing(&*self.from, *volume, *base, *cursor, &mut lbns)?;
        let mut places = Vec::with_capacity(lbns.len());
        self.from.look_up(*volume, &lbns, &mut places)?;
        // A damaged page looks like damaged entries, which must not be copied.
        self.from.prefetch(*volume, &lbns, &places)?;
        // In lists here, and not one by one while the step holds the state's lock alone.
        let pbns: Vec<Pbn> = places.iter().filter_map(|place| place.pbn()).collect();
        self.from.records(&pbns, &mut Vec::with_capacity(pbns.len()))?;
        to.warm_all(*volume, &lbns, &places);
        let piece = Piece { volume: *volume, version: to.version, lbns, end };
        Ok(Some(MoveStep::Copy(piece)))
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
        let Some(record) = self.copied.next(from) else { return Ok(false) };
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
            self.set(from, piece.volume, *lbn)?;
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

    /// Gives an LBN the entry that the old backend has.
    pub(super) fn set(
        &mut self,
        from: &dyn MetadataBackend,
        volume: VolumeId,
        lbn: Lbn,
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
