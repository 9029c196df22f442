//! Reads what changes need before they are made, in lists, so that the changes do not wait for a
//! disk; and cuts what is unmapped in pieces that are read in a few milliseconds.

use super::compare::{FamilyComparison, Parting};
use super::layer::LEAF_LBNS;
use super::validate::Preparation;
use crate::error::{MetadataError, Result};
use gemelo_format::{Change, Lbn, VolumeId};
use std::collections::BTreeMap;
use std::ops::Range;

/// LBNs that are warmed in one hold of the state's lock. Takes some milliseconds if every page has
/// to be read.
const WARM_BLOCKS: u64 = 64;

impl Preparation<'_> {
    /// Reads what the first changes of each LBN in the journal need, in lists. A page that cannot
    /// be read is found by the change itself.
    pub(super) fn read_ahead_of_replay(&self, changes: &[Change]) {
        let mut by_volume: BTreeMap<VolumeId, Vec<Lbn>> = BTreeMap::new();
        let mut shared = Vec::new();
        for change in changes {
            if let Change::Store { volume, lbn, pbn, .. } | Change::Share { volume, lbn, pbn, .. } =
                change
            {
                by_volume.entry(*volume).or_default().push(*lbn);
                shared.push(pbn.number());
            } else if let Change::Move { from, .. } = change {
                shared.push(from.number());
            }
        }
        for (volume, lbns) in by_volume {
            let Ok(mut words) = self.maps.words(volume) else { continue };
            let words: Result<Vec<u64>> = words.get_all(&lbns).into_iter().collect();
            let own = words.map(|words| {
                words.into_iter().map(|word| self.maps.pbn_of(word)).collect::<Vec<_>>()
            });
            let pbns = own.and_then(|own| self.maps.pbns_to_change(volume, &lbns, &own));
            shared.extend(pbns.unwrap_or_default());
        }
        if self.records.is_counting {
            let _ = self.records.counts_of(&shared);
        }
    }

    /// Brings the counts into memory that changes of LBNs need whose blocks these are; 0 for none.
    pub(super) fn fetch_counts(&self, id: VolumeId, lbns: &[Lbn], own: &[u64]) -> Result<()> {
        let mut pbns = self.maps.pbns_to_change(id, lbns, own)?;
        let stored = self.records.stored_counts();
        pbns.retain(|pbn| stored.known(*pbn).is_none());
        if !pbns.is_empty() {
            // Those in one page are looked up one after another.
            pbns.sort_unstable();
            self.records.counts_of(&pbns)?;
        }
        if self.maps.pages.is_damaged() {
            return Err(MetadataError::damaged("a page was damaged when it was read"));
        }
        Ok(())
    }

    /// Does the work of [`crate::Map::warm`].
    pub(super) fn warm(&self, id: VolumeId, from: Lbn, end: Lbn) -> Result<Lbn> {
        let volume = self.maps.volume(id)?;
        let (is_hidden, left) = (volume.record.is_hidden, volume.place.left);
        let next = Lbn(from.0.saturating_add(WARM_BLOCKS).min(end.0));
        let parting = if is_hidden { Parting::Leave } else { Parting::Unmap };
        let untouched = match from.0 < left {
            true => Some(Lbn(left)),
            false => FamilyComparison::new(self.maps, id, parting).end_of_untouched(from)?,
        };
        if let Some(after) = untouched {
            return Ok(after.min(end));
        }
        if is_hidden {
            // The end of the piece was found by reading it.
            return Ok(end);
        }
        let lbns: Vec<Lbn> = (from.0..next.0).map(Lbn).collect();
        let words = self.maps.words(id)?.get_all(&lbns).into_iter();
        let own = words.map(|word| match word {
            Err(MetadataError::Damaged { .. }) => Ok(0),
            word => word.map(|word| self.maps.pbn_of(word)),
        });
        self.fetch_counts(id, &lbns, &own.collect::<Result<Vec<u64>>>()?)?;
        Ok(next)
    }

    /// The end of a piece of a volume: whole leaves. Of a volume that is being removed, nodes that
    /// other maps have cost nothing.
    pub(super) fn end_of_piece(&self, id: VolumeId, from: Lbn, most: u64) -> Lbn {
        let plain = from.0.saturating_add(most);
        let whole = plain / LEAF_LBNS * LEAF_LBNS;
        let plain = Lbn(if whole > from.0 { whole } else { plain });
        let Ok(volume) = self.maps.volume(id) else { return plain };
        if !volume.record.is_hidden {
            return plain;
        }
        let leaving = FamilyComparison::new(self.maps, id, Parting::Leave);
        let found = leaving.end_of_leave(from.0.max(volume.place.left), most);
        match found.and_then(|(end, gains)| self.records.counts_after(&gains).map(|_| end)) {
            Ok(Some(end)) => Lbn(end),
            Ok(None) => Lbn(u64::MAX),
            Err(_) => plain,
        }
    }

    /// The next piece of a volume that is unmapped; `None` if nothing is left. The last piece of a
    /// volume that is being removed is left to its removal.
    pub(super) fn next_piece(
        &self,
        id: VolumeId,
        from: Lbn,
        most: u64,
    ) -> Result<Option<Range<Lbn>>> {
        if self.maps.volume(id)?.record.is_hidden {
            let end = self.end_of_piece(id, from, most);
            return Ok((end < Lbn(u64::MAX)).then_some(from..end));
        }
        let first = self.maps.next_word(id, from, Lbn(u64::MAX))?;
        Ok(first.map(|first| first..self.end_of_piece(id, first, most)))
    }
}
