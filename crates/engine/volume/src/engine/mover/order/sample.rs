//! The order of a volume: how many of its neighbouring blocks are neighbours in the store.

use crate::engine::VolumeShared;
use crate::engine::log::Log;
use crate::error::Result;
use gemelo_base::StatTable;
use gemelo_format::{Lbn, MapEntry, StoreKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parts of a volume that are looked at, at equal distances.
const PARTS: u64 = 16;
/// LBNs of a part. All parts together are 2048 LBNs: some 50 µs with the metadata in memory, and a
/// page or two for each part with a cached backend.
const PART_BLOCKS: u64 = 128;

/// The order of a volume, from a sample of its blocks, and what waits for the arranger.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(gauge)]
pub struct VolumeLayout {
    /// Stretches of blocks that were written since the arranger looked at them.
    pub waiting_stretches: u64,
    /// `true` if the arranger has to look at the whole volume.
    pub is_swept: bool,
    /// Pairs of neighbouring LBNs in the sample that are both stored.
    pub sampled_pairs: u64,
    /// Pairs of them whose PBNs are neighbours in the same order.
    pub sequential_pairs: u64,
}

impl VolumeLayout {
    /// The share of neighbouring blocks that are neighbours in the store, from 0 to 1. `None` if
    /// the sample has no neighbouring blocks.
    #[must_use]
    pub fn sequential_share(&self) -> Option<f64> {
        (self.sampled_pairs > 0).then(|| self.sequential_pairs as f64 / self.sampled_pairs as f64)
    }

    fn add(&mut self, kind: StoreKind, places: &[MapEntry]) {
        for pair in places.windows(2) {
            let [MapEntry::Stored(one, _), MapEntry::Stored(next, _)] = pair else { continue };
            self.sampled_pairs += 1;
            self.sequential_pairs += u64::from(kind.is_next(*one, *next));
        }
    }
}

/// Samples the order of a volume. Parts that cannot be read are left out.
pub(crate) fn layout_of(log: &Log, kind: StoreKind, volume: &VolumeShared) -> VolumeLayout {
    let (waiting_stretches, is_swept) = volume.marks().waiting();
    let mut layout = VolumeLayout { waiting_stretches, is_swept, ..VolumeLayout::default() };
    let step = volume.blocks().div_ceil(PARTS).max(PART_BLOCKS);
    let mut from = 0;
    while let Ok(Some(next)) = sample_part((log, kind), volume, (from, step), &mut layout) {
        from = next;
    }
    layout
}

/// Adds the part of a volume at the first mapped LBN from `from` on. Returns the LBN at which
/// the next part begins.
fn sample_part(
    (log, kind): (&Log, StoreKind),
    volume: &VolumeShared,
    (from, step): (u64, u64),
    layout: &mut VolumeLayout,
) -> Result<Option<u64>> {
    // The gate is not entered, because figures must not wait for those who close it. A volume
    // that was removed meanwhile has no blocks, or is an error.
    let blocks = volume.blocks();
    let Some(first) = log.next_mapped(volume.id(), Lbn(from), Lbn(blocks))? else {
        return Ok(None);
    };
    let next = (first.0 + 1).next_multiple_of(step);
    let end = blocks.min(next).min(first.0 + PART_BLOCKS);
    let lbns: Vec<Lbn> = (first.0..end).map(Lbn).collect();
    layout.add(kind, &log.places(volume.id(), &lbns)?);
    Ok(Some(next))
}
