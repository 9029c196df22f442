//! Places near their neighbours for blocks that are overwritten at random, so that what is read
//! together stays together.
//!
//! Fresh blocks are laid out one after another, in the order of the writes: many scattered
//! overwrites become one write of the disk, and the blocks of a MiB end up all over the store. The
//! hole that an overwritten block leaves is the right place for the next overwrite around there:
//!
//! 1. The LBNs around the block are looked up. The middle one of their PBNs is where they lie, also
//!    if some of them lie elsewhere.
//! 2. A free PBN within half a MiB of it is taken. If there is none, the block is laid out like
//!    others, and the hole that it leaves will be used.
//!
//! After many overwrites the neighbours lie in another order and with a few holes between them. A
//! read of many blocks goes by the order of their places, so it costs about as much as before.
//!
//! Each such block is a write of its own to the disk. So only a number of them each second are
//! placed this way, which a disk does beside its other work. With more overwrites, their rate is
//! what counts; the arranger brings the blocks together later.

use super::plan::Plan;
use super::{Engine, VolumeShared};
use gemelo_format::{Lbn, MapEntry, Pbn};
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks in a row that are laid out in a row: reads of 64 KiB are nearly as fast as longer ones.
const ROW_BLOCKS: usize = 16;
/// LBNs that are looked up to find where a block's neighbours lie. They are in one page of a map.
const NEIGHBOURS: u64 = 16;
/// Parts of a second for which the budget is given out.
const PARTS_OF_SECOND: u64 = 8;
const PART_NS: u64 = 1_000_000_000 / PARTS_OF_SECOND;

/// Counts the blocks that were placed near their neighbours in the present part of a second: the
/// number of the part in the upper half, and the count in the lower one.
#[derive(Debug, Default)]
pub(super) struct NearBudget(AtomicU64);

impl NearBudget {
    /// Takes this many blocks out of what is left, if it is enough.
    fn take(&self, count: u64, (per_s, now_ns): (u64, u64)) -> bool {
        let part = (now_ns / PART_NS) << u32::BITS;
        let most = (per_s / PARTS_OF_SECOND).min(u32::MAX.into());
        let take = |spent: u64| {
            let before = if spent >> u32::BITS == part >> u32::BITS { spent - part } else { 0 };
            (before + count <= most).then_some(part + before + count)
        };
        count <= most && self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

impl Engine {
    /// Returns for each fresh block of a plan a PBN near which it should lie, if there is one that
    /// it should: nothing at all if no block has one.
    pub(super) fn near_places(&self, volume: &VolumeShared, plan: &Plan<'_>) -> Vec<Option<Pbn>> {
        let per_s = self.tuning.layout.near_per_s;
        // Packed contents lie where they fit. Members write to objects, and long runs best.
        if per_s == 0 || self.data.is_packed() || self.data.has_free_veto() {
            return Vec::new();
        }
        let count = plan.scattered(ROW_BLOCKS).flatten().count() as u64;
        if count == 0 || !self.near_budget.take(count, (per_s, self.clock.now_ns())) {
            return Vec::new();
        }
        let scattered: Vec<Option<Lbn>> = plan.scattered(ROW_BLOCKS).collect();
        let blocks = self.blocks_of(volume);
        let around = |lbn: &Lbn| {
            let first = lbn.0 - lbn.0 % NEIGHBOURS;
            (first..blocks.min(first + NEIGHBOURS)).map(Lbn)
        };
        let lbns: Vec<Lbn> = scattered.iter().flatten().flat_map(around).collect();
        // Damaged pages of the map are an error of those who need them.
        let Ok(places) = self.places(volume.id(), &lbns) else { return Vec::new() };
        let mut rest = places.as_slice();
        let mut near = |lbn: &Lbn| {
            let (mine, others) = rest.split_at(around(lbn).count().min(rest.len()));
            rest = others;
            middle_of(mine)
        };
        scattered.iter().map(|lbn| lbn.as_ref().and_then(&mut near)).collect()
    }
}

/// The middle one of the PBNs of these places.
fn middle_of(places: &[MapEntry]) -> Option<Pbn> {
    let mut pbns: Vec<Pbn> = places.iter().copied().filter_map(MapEntry::pbn).collect();
    pbns.sort_unstable();
    pbns.get(pbns.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Checksum;

    #[test]
    fn the_budget_of_a_part_of_a_second_is_spent_once() {
        let budget = NearBudget::default();
        let take = |count, part: u64| budget.take(count, (800, part * PART_NS + 5));
        assert!(take(60, 0) && take(40, 0), "100 for an eighth of a second");
        assert!(!take(1, 0));
        assert!(take(100, 1) && !take(1, 1), "those of the next one");
        assert!(!take(101, 2) && take(1, 2), "a longer list takes nothing");
        assert!(take(100, 1), "a part that is not the last one is another one");
        assert!(!budget.take(1, (0, PART_NS * 7)));
        assert!(budget.take(1, (u64::MAX, u64::MAX)));
    }

    #[test]
    fn blocks_elsewhere_do_not_hide_where_the_neighbours_lie() {
        let place = |number| match Pbn::new(number) {
            Some(pbn) => MapEntry::Stored(pbn, Checksum(0)),
            None => MapEntry::Unmapped,
        };
        let middle = |numbers: &[u64]| {
            let places: Vec<MapEntry> = numbers.iter().copied().map(place).collect();
            middle_of(&places).map(Pbn::number)
        };
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[0, 0]), None);
        assert_eq!(middle(&[0, 7]), Some(7));
        assert_eq!(middle(&[9000, 103, 5000, 101, 1, 102, 100]), Some(102));
    }
}
