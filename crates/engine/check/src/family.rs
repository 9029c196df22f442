//! The references of volumes that were cloned from one another: equal entries of volumes that
//! follow one another are one reference.

use crate::map::WalkMap;
use crate::walk::Walk;
use gemelo_format::{StoreTable, StoreVolume, VolumeId};
use std::collections::HashMap;
use std::ops::Range;

/// The volumes of a table by id.
type Volumes<'t> = HashMap<VolumeId, &'t StoreVolume>;

/// Returns a description of the fault if the volumes cannot be put in this order: each volume
/// follows at most one other, no two follow the same, and none follows itself.
fn fault_of_order(volumes: &Volumes<'_>) -> Option<String> {
    let mut followers = HashMap::new();
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

impl Walk {
    /// References to each PBN as the backends with arrays count them.
    pub(crate) fn run_counts(&self, table: &StoreTable) -> Result<HashMap<u64, u64>, String> {
        let volumes: Volumes<'_> =
            table.volumes.iter().map(|volume| (volume.record.id, volume)).collect();
        if let Some(fault) = fault_of_order(&volumes) {
            return Err(fault);
        }
        let (mut counts, none) = (HashMap::new(), WalkMap::default());
        let map = |id: &VolumeId| self.volumes.get(id).map_or(&none, |volume| &volume.map);
        for (id, volume) in &volumes {
            for (lbns, before) in parts(volume, &volumes) {
                let other = before.map_or(&none, |before| map(&before.record.id));
                map(id).differing(other, lbns, &mut |place| {
                    if let Some(pbn) = place.pbn() {
                        *counts.entry(pbn.number()).or_default() += 1;
                    }
                });
            }
        }
        Ok(counts)
    }
}
