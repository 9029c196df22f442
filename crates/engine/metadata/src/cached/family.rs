//! Families: volumes that were cloned from one another, in an order in which each clone comes right
//! before its source.
//!
//! At each LBN, equal entries of volumes that follow one another are one reference to their block.
//! So a clone adds no reference. A write compares an LBN with the same one of both neighbours of
//! its volume, and a removal compares the maps of the volume and its neighbours, without the nodes
//! that they share. A volume that is being removed leaves its family from LBN 0 on, piece by piece.

use super::maps::Maps;
use crate::error::{MetadataError, Result};
use gemelo_format::{Lbn, VolumeId};
use std::collections::BTreeMap;

/// The place of a volume in its family.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) before: Option<VolumeId>,
    pub(super) after: Option<VolumeId>,
    /// LBNs below this one have left the family.
    pub(super) left: u64,
}

/// The neighbours of a volume from an LBN on.
pub(super) struct Adjacent {
    /// The one before it and the one after it.
    pub(super) volumes: [Option<VolumeId>; 2],
    /// The LBN from which on there may be others.
    pub(super) end: u64,
}

/// The PBN of an LBN in a volume and in its neighbours; 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entries {
    pub(super) own: u64,
    pub(super) beside: [u64; 2],
}

impl Entries {
    /// References that a block gets if the volume gets an entry with it: none if a neighbour has
    /// such an entry, and less than none if its entry connects those of both.
    pub(super) fn gain(self, pbn: u64) -> i64 {
        1 - self.beside.iter().filter(|other| **other == pbn).count() as i64
    }

    /// References that the volume's block gets if the volume loses its entry.
    pub(super) fn loss(self) -> i64 {
        -self.gain(self.own)
    }

    /// Returns whether a neighbour has the same entry.
    pub(super) fn is_shared(self) -> bool {
        self.own != 0 && self.beside.contains(&self.own)
    }
}

/// The references to a block before a change and after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewCount {
    pub(super) pbn: u64,
    pub(super) before: u32,
    pub(super) after: u32,
}

impl NewCount {
    /// The count of a block that has some references and gets more; fewer if the gain is negative.
    pub(super) fn after(pbn: u64, before: u32, gain: i64) -> Result<Self> {
        let after = i64::from(before) + gain;
        match u32::try_from(after) {
            _ if before == 0 || after < 0 => Err(MetadataError::damaged(format!(
                "block {pbn} has {before} references, and would have {after}"
            ))),
            Ok(after) => Ok(Self { pbn, before, after }),
            Err(_) => Err(MetadataError::TooManyReferences),
        }
    }
}

/// References that blocks get; negative if they lose some.
#[derive(Debug, Default)]
pub(super) struct Gains(BTreeMap<u64, i64>);

impl Gains {
    pub(super) fn add(&mut self, pbn: u64, references: i64) {
        if references != 0 {
            *self.0.entry(pbn).or_default() += references;
        }
    }

    /// The number of PBNs that were added.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The PBNs whose counts change, in order.
    pub(super) fn pbns(&self) -> Vec<u64> {
        self.0.iter().filter(|(_, gain)| **gain != 0).map(|(pbn, _)| *pbn).collect()
    }

    /// The counts of [`Self::pbns`] after a change, computed from those before it.
    pub(super) fn counts(&self, before: &[u32]) -> Result<Vec<NewCount>> {
        let gains = self.0.iter().filter(|(_, gain)| **gain != 0);
        gains.zip(before).map(|((pbn, gain), count)| NewCount::after(*pbn, *count, *gain)).collect()
    }
}

impl Maps {
    fn place_mut(&mut self, id: VolumeId) -> Result<&mut Place> {
        Ok(&mut self.volume_mut(id)?.place)
    }

    /// The neighbours of a volume at an LBN: the next volumes that have not left there.
    pub(super) fn neighbours(&self, id: VolumeId, lbn: u64) -> Result<Adjacent> {
        let place = self.volume(id)?.place;
        let mut end = u64::MAX;
        let mut nearest = |mut next: Option<VolumeId>, step: fn(&Place) -> Option<VolumeId>| {
            while let Some(other) = next {
                let place = self.volume(other)?.place;
                if place.left <= lbn {
                    break;
                }
                end = end.min(place.left);
                next = step(&place);
            }
            Ok::<_, MetadataError>(next)
        };
        let before = nearest(place.before, |place| place.before)?;
        let after = nearest(place.after, |place| place.after)?;
        Ok(Adjacent { volumes: [before, after], end })
    }

    /// Returns whether a volume has no family.
    pub(super) fn is_alone(&self, id: VolumeId) -> Result<bool> {
        let place = self.volume(id)?.place;
        Ok(place.before.is_none() && place.after.is_none())
    }

    /// The entries of an LBN, of which the volume has this PBN.
    pub(super) fn entries(&self, id: VolumeId, lbn: Lbn, own: u64) -> Result<Entries> {
        let mut entries = Entries { own, ..Entries::default() };
        if self.is_alone(id)? {
            return Ok(entries);
        }
        let neighbours = self.neighbours(id, lbn.0)?;
        for (entry, volume) in entries.beside.iter_mut().zip(neighbours.volumes) {
            if let Some(volume) = volume {
                *entry = self.pbn_of(self.word(volume, lbn)?);
            }
        }
        Ok(entries)
    }

    /// The PBNs of LBNs that lose or get a reference if the LBNs change. Those of neighbours are
    /// read in lists.
    pub(super) fn pbns_to_change(
        &self,
        id: VolumeId,
        lbns: &[Lbn],
        own: &[u64],
    ) -> Result<Vec<u64>> {
        if self.is_alone(id)? {
            return Ok(own.iter().copied().filter(|own| *own != 0).collect());
        }
        let place = self.volume(id)?.place;
        for other in [place.before, place.after].into_iter().flatten() {
            self.words(other)?.get_all(lbns).into_iter().collect::<Result<Vec<_>>>()?;
        }
        let mut pbns = Vec::with_capacity(own.len());
        for (lbn, own) in lbns.iter().zip(own).filter(|(_, own)| **own != 0) {
            if self.entries(id, *lbn, *own)?.loss() != 0 {
                pbns.push(*own);
            }
        }
        Ok(pbns)
    }

    /// Puts a clone right before its source.
    pub(super) fn join_family(&mut self, source: VolumeId, id: VolumeId) -> Result<()> {
        let before = self.place_mut(source)?.before.replace(id);
        *self.place_mut(id)? = Place { before, after: Some(source), left: 0 };
        if let Some(before) = before {
            self.place_mut(before)?.after = Some(id);
        }
        Ok(())
    }

    /// Tells the neighbours of a volume that it has another id now.
    pub(super) fn tell_neighbours(&mut self, id: VolumeId) -> Result<()> {
        let Place { before, after, .. } = self.volume(id)?.place;
        if let Some(before) = before {
            self.place_mut(before)?.after = Some(id);
        }
        if let Some(after) = after {
            self.place_mut(after)?.before = Some(id);
        }
        Ok(())
    }

    /// Takes a volume without any mapped LBN, or one that has left, from its family.
    pub(super) fn quit_family(&mut self, id: VolumeId) -> Result<()> {
        let Place { before, after, .. } = std::mem::take(self.place_mut(id)?);
        if let Some(before) = before {
            self.place_mut(before)?.after = after;
        }
        if let Some(after) = after {
            self.place_mut(after)?.before = before;
        }
        Ok(())
    }

    /// Returns whether a volume leaves its family if its LBNs from this one on are unmapped. A
    /// volume that is being removed is unmapped from its start.
    pub(super) fn leaves_family(&self, id: VolumeId, from: u64) -> Result<bool> {
        let volume = self.volume(id)?;
        let (is_hidden, left) = (volume.record.is_hidden, Lbn(volume.place.left));
        Ok(is_hidden && self.next_word(id, left, Lbn(from))?.is_none())
    }

    /// The most LBNs that the removal of a volume looks at: those that it maps, and those that both
    /// of its neighbours map.
    pub(super) fn blocks_of_removal(&self, id: VolumeId) -> u64 {
        let Some(volume) = self.volumes.get(&id) else { return 0 };
        let mapped = |id: Option<VolumeId>| {
            id.and_then(|id| self.volumes.get(&id)).map_or(0, |volume| volume.mapped)
        };
        volume.mapped + mapped(volume.place.before).min(mapped(volume.place.after))
    }

    /// Completes the places of volumes that know only the one before them.
    pub(super) fn link_families(&mut self) -> Result<()> {
        let wrong = || MetadataError::damaged("the order of the volumes in the checkpoint's table");
        let ids = self.ids();
        let mut first = Vec::new();
        for id in &ids {
            let volume = self.volume(*id)?;
            if volume.place.left > 0 && !volume.record.is_hidden {
                return Err(wrong());
            }
            match volume.place.before {
                None => first.push(*id),
                Some(before) => {
                    let after = &mut self.volumes.get_mut(&before).ok_or_else(wrong)?.place.after;
                    if after.replace(*id).is_some() {
                        return Err(wrong());
                    }
                }
            }
        }
        // Volumes in a circle are reached from none that is the first.
        let mut reached = 0;
        for mut next in first.into_iter().map(Some) {
            while let Some(id) = next {
                reached += 1;
                next = self.volume(id)?.place.after;
            }
        }
        if reached == ids.len() { Ok(()) } else { Err(wrong()) }
    }
}
