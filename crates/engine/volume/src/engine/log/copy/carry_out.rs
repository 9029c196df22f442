//! Copies the pieces: those that a change touches, and all others in their order.

use super::{Copying, PIECE_BLOCKS, pieces_of};
use crate::engine::log::{Log, State};
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, Lbn, VolumeId};
use std::collections::BTreeMap;

/// LBNs that the command copies in one hold of the state's lock: about a millisecond.
const STEP_BLOCKS: u64 = 512;
/// Beyond every LBN.
const END: Lbn = Lbn(u64::MAX);

impl Log {
    /// Begins a copy, whose change *begin* was made in this state.
    pub(crate) fn begin_copy(state: &mut State, source: VolumeId, volume: VolumeId) {
        state.copies.push(Copying::new(source, volume));
    }

    /// Copies what a change touches of the sources of copies. Called before every change.
    pub(in crate::engine::log) fn copy_before(
        &self,
        state: &mut State,
        change: &Change,
    ) -> Result<()> {
        let (source, first, end) = match change {
            Change::Store { volume, lbn, .. } | Change::Share { volume, lbn, .. } => {
                (*volume, lbn.0, lbn.0.saturating_add(1))
            }
            Change::Unmap { volume, first, count } | Change::Lose { volume, first, count } => {
                (*volume, first.0, first.0.saturating_add(*count))
            }
            Change::Remove { volume }
            | Change::Resize { volume, .. }
            | Change::Shrink { volume, .. } => {
                let is_source = state.copies.iter().any(|copying| copying.source == *volume);
                debug_assert!(
                    !is_source,
                    "a volume that is being copied is neither removed nor cut"
                );
                return Ok(());
            }
            _ => return Ok(()),
        };
        let mut copies = std::mem::take(&mut state.copies);
        let mut of_source = copies.iter_mut().filter(|copying| copying.source == source);
        let result = of_source.try_for_each(|copying| {
            for (first, end) in copying.left(first, end) {
                self.copy_range(state, copying, first, end)?;
                copying.early.extend(first / PIECE_BLOCKS..end / PIECE_BLOCKS);
            }
            Ok(())
        });
        state.copies = copies;
        result
    }

    /// Copies LBNs that are not copied yet.
    fn copy_range(
        &self,
        state: &mut State,
        copying: &mut Copying,
        first: u64,
        end: u64,
    ) -> Result<()> {
        if copying.is_saturated || !self.can_count(state, copying.source, first, end)? {
            copying.is_saturated = true;
            return Ok(());
        }
        let (source, volume) = (copying.source, copying.volume);
        self.apply_one(
            state,
            &Change::Copy { source, volume, first: Lbn(first), count: end - first },
        )
    }

    /// Returns whether every block of a range can take the further references of a copy.
    fn can_count(&self, state: &State, source: VolumeId, first: u64, end: u64) -> Result<bool> {
        let most = u64::from(self.tuning.max_references);
        // No count is above the sum of all: the common case needs no look at the blocks.
        if state.backend().totals().references + (end - first) <= most {
            return Ok(true);
        }
        let lbns: Vec<Lbn> = (first..end).map(Lbn).collect();
        let (mut places, mut records) = (Vec::with_capacity(lbns.len()), Vec::new());
        state.backend().look_up(source, &lbns, &mut places)?;
        let mut added = BTreeMap::new();
        for place in places {
            if let Some(pbn) = place.pbn() {
                *added.entry(pbn).or_insert(0u64) += 1;
            }
        }
        let pbns: Vec<_> = added.keys().copied().collect();
        state.backend().records(&pbns, &mut records)?;
        Ok(records
            .iter()
            .zip(added.values())
            .all(|(record, more)| u64::from(record.references) + more <= most))
    }

    /// Copies all that the source of a copy had at its beginning, and ends the copying.
    pub(crate) fn copy_all(&self, source: VolumeId, volume: VolumeId) -> Result<()> {
        let mut copied = Ok(true);
        while let Ok(true) = copied {
            copied = self.copy_step(source, volume);
        }
        self.write().copies.retain(|copying| copying.volume != volume);
        copied.map(|_| ())
    }

    /// Copies the next LBNs; whether there may be more.
    fn copy_step(&self, source: VolumeId, volume: VolumeId) -> Result<bool> {
        self.health.check_writable()?;
        self.bound_open_commit()?;
        self.reserve_slots()?;
        let (first, count) = {
            let state = self.read();
            let copying = state.copies.iter().find(|copying| copying.volume == volume);
            let Some(cursor) = copying.map(|copying| copying.cursor) else { return Ok(false) };
            // Nothing else was there when the copying began: what came since was copied before it
            // came.
            let Some(first) = state.backend().next_mapped(source, Lbn(cursor), END)? else {
                return Ok(false);
            };
            let most = state.backend().piece_blocks().unwrap_or(STEP_BLOCKS).min(STEP_BLOCKS);
            (first.0 / PIECE_BLOCKS * PIECE_BLOCKS, (most / PIECE_BLOCKS).max(1) * PIECE_BLOCKS)
        };
        let end = first + count;
        self.warm(source, first, end)?;
        // A checkpoint may have written a page of the copy that these LBNs are in.
        self.warm(volume, first, end)?;
        let mut state = self.write();
        let Some(at) = state.copies.iter().position(|copying| copying.volume == volume) else {
            return Ok(false);
        };
        let mut copying = state.copies.swap_remove(at);
        let mut left = copying.left(first, end).into_iter();
        let result =
            left.try_for_each(|(first, end)| self.copy_range(&mut state, &mut copying, first, end));
        copying.advance(end);
        let is_saturated = copying.is_saturated;
        state.copies.push(copying);
        match result {
            Ok(()) if is_saturated => Err(VolumeError::TooManyReferences),
            other => other.map(|()| true),
        }
    }

    /// Reads what the copying before changes of these blocks will need, before any thread has to
    /// wait for it.
    pub(crate) fn warm_pieces(
        &self,
        volume: VolumeId,
        lbns: impl Iterator<Item = Lbn>,
    ) -> Result<()> {
        pieces_of(lbns).try_for_each(|piece| self.warm(volume, piece.start, piece.end))
    }
}
