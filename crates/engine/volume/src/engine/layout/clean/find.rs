//! Finds the references of the contents in the chosen windows, by a walk over all maps.

use super::pass::{Finding, Moving, Sliding, Stage};
use crate::engine::data::Window;
use crate::engine::layout::references::{MAX_OF_BLOCK, MAX_REFERENCES, References};
use crate::engine::{Engine, VolumeShared};
use crate::error::Result;
use gemelo_format::{Lbn, PackedPlace, Pbn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pieces of a map that are looked at in one step: 16,384 LBNs.
const PIECES: u32 = 256;

impl Finding {
    pub(super) fn new(
        volumes: BTreeMap<String, Arc<VolumeShared>>,
        windows: Vec<Window>,
        slides: bool,
    ) -> Self {
        let volumes = volumes.into_values().collect();
        Self { windows, volumes, next: Lbn(0), found: Vec::new(), slides }
    }
}

/// Returns whether a content has a part in one of these windows, which are in order.
fn is_in(windows: &[Window], pbn: Pbn) -> bool {
    let place = PackedPlace::of(pbn);
    let last = place.block + u32::from(place.is_spanning());
    let after = windows.partition_point(|window| window.end <= place.block);
    windows.get(after).is_some_and(|window| window.first <= last)
}

impl Engine {
    /// Looks at the next part of the maps.
    pub(super) fn find_references(&self, mut finding: Finding) -> Result<Stage> {
        for _ in 0..PIECES {
            let Some(volume) = finding.volumes.front().cloned() else {
                return Ok(finding.end());
            };
            let next = self.look_up_references(&volume, &mut finding)?;
            match next.filter(|_| finding.found.len() < MAX_REFERENCES) {
                Some(next) => finding.next = next,
                None => {
                    finding.volumes.pop_front();
                    finding.next = Lbn(0);
                }
            }
        }
        Ok(Stage::Finding(finding))
    }

    /// Looks at a piece of a map. A copy of a volume would keep the old places.
    fn look_up_references(
        &self,
        volume: &VolumeShared,
        finding: &mut Finding,
    ) -> Result<Option<Lbn>> {
        let Some(is_removed) = volume.try_enter() else { return Ok(None) };
        if *is_removed || volume.is_in_change() {
            return Ok(None);
        }
        let Finding { windows, found, next, .. } = finding;
        let is_looked_at = |pbn| is_in(windows, pbn);
        let is_wanted = |count| (1..=MAX_OF_BLOCK).contains(&count);
        self.add_references(volume, *next, (found, &is_looked_at, &is_wanted))
    }
}

impl Finding {
    /// Takes the cheapest windows first.
    fn end(self) -> Stage {
        let references = References::new(self.found);
        if self.slides {
            return Stage::Sliding(Sliding::over(&self.windows, references));
        }
        let mut windows = self.windows;
        windows.sort_by(|one, other| {
            let cost = |window: &Window, of: &Window| window.contents * u64::from(of.used);
            cost(one, other).cmp(&cost(other, one))
        });
        Stage::Moving(Moving { windows: windows.into(), references })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_looked_up_by_the_blocks_that_have_a_part_of_them() {
        let windows =
            [(5, 7), (9, 10)].map(|(first, end)| Window { first, end, used: 1, contents: 1 });
        let is_within = |block, slot| is_in(&windows, PackedPlace { block, slot }.pbn().unwrap());
        assert!(is_within(5, 1) && is_within(6, 7) && is_within(9, 2) && is_within(4, 7));
        assert!(is_within(8, 7), "it goes on in block 9");
        assert!(!is_within(4, 1) && !is_within(7, 1) && !is_within(8, 1) && !is_within(10, 7));
        assert!(is_within(5, 0) && !is_within(8, 0));
    }
}
