//! The order of a volume: how many of its neighbouring blocks are neighbours in the store.

use crate::engine::{Engine, VolumeShared};
use crate::error::{Result, VolumeError};
use gemelo_format::{Lbn, Place};
use serde::{Deserialize, Serialize};

/// Parts of a volume that are looked at, at equal distances.
const PARTS: u64 = 32;
/// LBNs of a part. All parts together are 8192 LBNs: less than a millisecond with the metadata in
/// memory.
const PART_BLOCKS: u64 = 256;

/// Pairs of neighbouring blocks of a volume, in a sample of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LayoutSample {
    /// Pairs of neighbouring LBNs that are both stored.
    pub pairs: u64,
    /// Pairs of them whose PBNs are neighbours in the same order.
    pub sequential_pairs: u64,
}

impl LayoutSample {
    /// The share of neighbouring blocks that are neighbours in the store, from 0 to 1. `None` if
    /// the sample has no neighbouring blocks.
    #[must_use]
    pub fn sequential_share(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.sequential_pairs as f64 / self.pairs as f64)
    }

    fn add(&mut self, places: &[Place]) {
        for pair in places.windows(2) {
            let [Place::Stored(one, _), Place::Stored(next, _)] = pair else { continue };
            self.pairs += 1;
            self.sequential_pairs += u64::from(one.number() + 1 == next.number());
        }
    }
}

impl Engine {
    /// Samples the order of a volume.
    pub(crate) fn layout_sample(&self, name: &str) -> Result<LayoutSample> {
        let volume = self.volume(name)?;
        let mut sample = LayoutSample::default();
        let step = self.blocks_of(&volume).div_ceil(PARTS).max(PART_BLOCKS);
        let mut from = 0;
        while let Some(next) = self.sample_part((name, &volume), (from, step), &mut sample)? {
            from = next;
        }
        Ok(sample)
    }

    /// Adds the part of a volume at the first mapped LBN from `from` on. Returns the LBN at which
    /// the next part begins.
    fn sample_part(
        &self,
        (name, volume): (&str, &VolumeShared),
        (from, step): (u64, u64),
        sample: &mut LayoutSample,
    ) -> Result<Option<u64>> {
        let removed = volume.enter();
        if *removed {
            return Err(VolumeError::NoSuchVolume { name: name.to_owned() });
        }
        let blocks = self.blocks_of(volume);
        let state = self.state();
        let backend = state.backend();
        let Some(first) = backend.next_mapped(volume.id(), Lbn(from), Lbn(blocks))? else {
            return Ok(None);
        };
        let next = (first.0 + 1).next_multiple_of(step);
        let end = blocks.min(next).min(first.0 + PART_BLOCKS);
        let lbns: Vec<Lbn> = (first.0..end).map(Lbn).collect();
        let mut places = Vec::with_capacity(lbns.len());
        backend.look_up(volume.id(), &lbns, &mut places)?;
        sample.add(&places);
        Ok(Some(next))
    }
}
