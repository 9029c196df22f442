//! The references of volumes that were cloned from one another: equal entries of volumes that
//! follow one another are one reference.

use crate::map::{Chunk, WalkMap};
use crate::source::Source;
use crate::walk::Walk;
use crate::{CheckError, Work};
use gemelo_format::{Pbn, StoreTable, StoreVolume, VolumeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The volumes of a table by id.
type Volumes<'t> = HashMap<VolumeId, &'t StoreVolume>;

/// Returns a description of the fault if the volumes cannot be put in this order: each volume
/// follows at most one other, no two follow the same, and none follows itself.
fn fault_of_order(volumes: &Volumes<'_>) -> Option<String> {
    let mut followers = HashMap::new();
    let has_left = |volume: &&&StoreVolume| volume.left > 0 && !volume.record.is_hidden;
    if let Some(volume) = volumes.values().find(has_left) {
        let name = &volume.record.name;
        return Some(format!("volume '{name}' has left its family, but is not being removed"));
    }
    for (id, before) in volumes.iter().filter_map(|(id, volume)| Some((*id, volume.follows?))) {
        if !volumes.contains_key(&before) || followers.insert(before, id).is_some() {
            return Some(format!("volume {id} follows volume {before}, which is not possible"));
        }
    }
    let mut reached = 0;
    for (first, _) in volumes.iter().filter(|(_, volume)| volume.follows.is_none()) {
        let mut next = Some(*first);
        while let Some(id) = next {
            reached += 1;
            next = followers.get(&id).copied();
        }
    }
    (reached < volumes.len()).then(|| "some volumes follow one another in a circle".into())
}

/// The parts of a volume, each with the volume before it there: those that are being removed have
/// left LBNs from 0 on.
fn parts<'t>(
    volume: &StoreVolume,
    volumes: &Volumes<'t>,
) -> Vec<(Range<u64>, Option<&'t StoreVolume>)> {
    let before = |volume: &StoreVolume| volume.follows.and_then(|id| volumes.get(&id).copied());
    let (mut parts, mut end, mut next) = (Vec::new(), u64::MAX, before(volume));
    // The nearest one has the end of the LBNs, and those further away what is left before.
    while let Some(other) = next.filter(|_| end > volume.left) {
        let start = other.left.max(volume.left);
        if start < end {
            parts.push((start..end, Some(other)));
            end = start;
        }
        next = before(other);
    }
    if volume.left < end {
        parts.push((volume.left..end, None));
    }
    parts
}

/// The parts of all volumes in which each entry that differs from that of the volume before it is
/// a reference, as the counts have them.
pub(crate) struct Runs(Vec<Run>);

/// A part of a volume, and the volume before it there.
struct Run {
    volume: VolumeId,
    lbns: Range<u64>,
    before: Option<VolumeId>,
}

/// The LBNs of a range that a chunk has, and the chunk of the volume before at the same place.
struct Beside<'w> {
    chunk: &'w Arc<Chunk>,
    beside: Option<&'w Arc<Chunk>>,
    lbns: &'w Range<u64>,
}

impl Runs {
    /// Entries that volumes share are one reference. Fails with a description of the fault if the
    /// volumes have no order.
    pub(crate) fn of_families(table: &StoreTable) -> Result<Self, String> {
        let volumes: Volumes<'_> =
            table.volumes.iter().map(|volume| (volume.record.id, volume)).collect();
        if let Some(fault) = fault_of_order(&volumes) {
            return Err(fault);
        }
        let runs = table.volumes.iter().flat_map(|volume| {
            let parts = parts(volume, &volumes).into_iter();
            parts.map(|(lbns, before)| Run {
                volume: volume.record.id,
                lbns,
                before: before.map(|before| before.record.id),
            })
        });
        Ok(Self(runs.collect()))
    }

    /// Calls `visit` with the chunks of each run that differ from those beside them.
    fn each_chunk(
        &self,
        walk: &Walk,
        visit: &mut dyn FnMut(Beside<'_>) -> Result<(), CheckError>,
    ) -> Result<(), CheckError> {
        let none = WalkMap::default();
        let map = |id: &VolumeId| walk.volumes.get(id).map_or(&none, |volume| &volume.map);
        for Run { volume, lbns, before } in &self.0 {
            let (own, other) = (map(volume), before.as_ref().map_or(&none, map));
            if own.is_same(other) {
                continue;
            }
            for (chunk, beside) in own.beside(other, lbns) {
                if beside.is_none_or(|beside| !Arc::ptr_eq(chunk, beside)) {
                    visit(Beside { chunk, beside, lbns })?;
                }
            }
        }
        Ok(())
    }

    /// The number of regions that [`Self::each_reference`] looks at.
    pub(crate) fn regions(&self, walk: &Walk) -> Result<u64, CheckError> {
        let mut regions = 0;
        self.each_chunk(walk, &mut |chunk| {
            regions += chunk.chunk.len() as u64;
            Ok(())
        })?;
        Ok(regions)
    }

    /// Calls `visit` with the PBN of each reference.
    pub(crate) fn each_reference(
        &self,
        walk: &Walk,
        work: Work<'_>,
        visit: &mut dyn FnMut(u64),
    ) -> Result<(), CheckError> {
        self.each_chunk(walk, &mut |chunk| {
            work.go_on(chunk.chunk.len() as u64)?;
            chunk.each_differing(&walk.source, visit)
        })
    }
}

impl Beside<'_> {
    /// Calls `visit` with the PBNs of the LBNs of a range that another chunk has not at the same
    /// LBN.
    fn each_differing(
        &self,
        source: &Source,
        visit: &mut dyn FnMut(u64),
    ) -> Result<(), CheckError> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (number, region) in self.chunk.iter() {
            let find = |beside: &'_ Arc<Chunk>| {
                beside.binary_search_by_key(number, |(number, _)| *number).ok()
            };
            let other = self.beside.and_then(|beside| Some(&beside.get(find(beside)?)?.1));
            if other.is_none_or(|other| !region.is_same(other)) {
                own.push((*number, region));
                others.extend(other.map(|other| (*number, other)));
            }
        }
        let entries = source.entries(&own)?;
        let beside: HashMap<u64, Pbn> = source
            .entries(&others)?
            .into_iter()
            .flatten()
            .filter_map(|(lbn, place)| Some((lbn, place.pbn()?)))
            .collect();
        for (lbn, place) in entries.iter().flatten().filter(|(lbn, _)| self.lbns.contains(lbn)) {
            let pbn = place.pbn();
            if let Some(pbn) = pbn.filter(|_| beside.get(lbn).copied() != pbn) {
                visit(pbn.number());
            }
        }
        Ok(())
    }
}
