//! Places near their neighbours for blocks that are overwritten at random, so that what is read
//! together stays together.
//!
//! Fresh blocks are laid out one after another, in the order of the writes: many scattered
//! overwrites become one write of the disk, and the blocks of a MiB end up all over the store. The
//! hole that an overwritten block leaves is the right place for the next overwrite around there:
//!
//! 1. Two LBNs beside the block are looked up. The middle one of their PBNs and of that which is
//!    overwritten is where they lie, also if one of them lies elsewhere.
//! 2. A free PBN within half a MiB of it is taken. If there is none, the block is laid out like
//!    others, and the hole that it leaves will be used.
//!
//! After many overwrites the neighbours lie in another order and with a few holes between them. A
//! read of many blocks goes by the order of their places, so it costs about as much as before.
//!
//! Each such block is a write of its own to the disk. So blocks are placed this way only while
//! there are not more of them than a disk writes beside its other work. With more overwrites, their
//! rate is what counts; the arranger brings the blocks together later.

use super::VolumeShared;
use super::data::DataPath;
use super::log::Log;
use super::parts::Common;
use super::plan::Plan;
use crate::pool::Tuning;
use gemelo_base::Clock;
use gemelo_format::{Lbn, MapEntry, Pbn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks in a row that are laid out in a row: reads of 64 KiB are nearly as fast as longer ones.
const ROW_BLOCKS: usize = 16;
/// The LBNs that are looked up to find where a block's neighbours lie differ from its own in one of
/// these bits. They are in one page of a map.
const BESIDE: [u64; 2] = [1, 8];
/// Parts of a second for which the budget is given out.
const PARTS_OF_SECOND: u64 = 8;
const PART_NS: u64 = 1_000_000_000 / PARTS_OF_SECOND;

/// Counts the scattered blocks of the present part of a second. While there were more in the part
/// before than are placed this way, none is: placing a few of many costs writes and gains little.
///
/// The number of the part is in the upper half, and the count in the lower one, whose uppermost bit
/// tells that the part before had too many.
#[derive(Debug, Default)]
struct NearBudget(AtomicU64);

/// Tells that the part before had too many blocks.
const TOO_MANY: u64 = 1 << (u32::BITS - 1);

impl NearBudget {
    /// Counts these blocks. Returns whether they may be placed near their neighbours.
    fn take(&self, count: u64, (per_s, now_ns): (u64, u64)) -> bool {
        let part = (now_ns / PART_NS) & u64::from(u32::MAX);
        let most = (per_s / PARTS_OF_SECOND).min(TOO_MANY - 1);
        let after = |seen: u64| {
            let (of, counted) = (seen >> u32::BITS, seen & u64::from(u32::MAX));
            let counted = match part.checked_sub(of) {
                Some(0) => counted,
                Some(1) if counted & (TOO_MANY - 1) > most => TOO_MANY,
                _ => 0,
            };
            let sum = (counted & (TOO_MANY - 1)).saturating_add(count).min(TOO_MANY - 1);
            part << u32::BITS | counted & TOO_MANY | sum
        };
        let seen =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| Some(after(seen)));
        let counted = seen.map_or(0, after) & u64::from(u32::MAX);
        counted <= most
    }
}

/// Finds places near neighbours; see the module.
pub(super) struct NearPlacer {
    data: Arc<DataPath>,
    log: Arc<Log>,
    clock: Arc<dyn Clock>,
    tuning: Tuning,
    budget: NearBudget,
}

impl NearPlacer {
    pub(super) fn new(common: &Common) -> Self {
        Self {
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            clock: Arc::clone(&common.clock),
            tuning: common.tuning,
            budget: NearBudget::default(),
        }
    }

    /// Returns for each fresh block of a plan a PBN near which it should lie, if there is one that
    /// it should: nothing at all if no block has one.
    pub(super) fn places(&self, volume: &VolumeShared, plan: &Plan<'_>) -> Vec<Option<Pbn>> {
        let per_s = self.tuning.layout.near_per_s;
        // Packed contents lie where they fit. Members write to objects, and long runs best.
        if per_s == 0 || self.data.is_packed() || self.data.has_free_veto() {
            return Vec::new();
        }
        let count = plan.scattered(ROW_BLOCKS).flatten().count() as u64;
        if count == 0 || !self.budget.take(count, (per_s, self.clock.now_ns())) {
            return Vec::new();
        }
        let mut lbns = Vec::with_capacity(count as usize * BESIDE.len());
        for (lbn, _) in plan.scattered(ROW_BLOCKS).flatten() {
            lbns.extend(BESIDE.map(|bit| Lbn(lbn.0 ^ bit)));
        }
        // Damaged pages of the map are an error of those who need them.
        let Ok(places) = self.log.places(volume.id(), &lbns) else { return Vec::new() };
        let (beside, _) = places.as_chunks::<{ BESIDE.len() }>();
        let mut beside = beside.iter();
        let mut near = |(_, own): (Lbn, Pbn)| Some(middle_of(own, *beside.next()?));
        plan.scattered(ROW_BLOCKS).map(|one| one.and_then(&mut near)).collect()
    }
}

/// The middle one of a block's PBN and of those beside it, of which one that is not there counts as
/// its own.
fn middle_of(own: Pbn, beside: [MapEntry; BESIDE.len()]) -> Pbn {
    let [one, other] = beside.map(|place| place.pbn().unwrap_or(own));
    own.clamp(one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Checksum;

    #[test]
    fn no_block_is_placed_while_there_are_more_than_the_budget() {
        let budget = NearBudget::default();
        let take = |count, part: u64| budget.take(count, (800, part * PART_NS + 5));
        assert!(take(60, 0) && take(40, 0), "100 for an eighth of a second");
        assert!(!take(1, 0));
        assert!(!take(1, 1), "the part before had too many");
        assert!(take(99, 2) && take(1, 2), "and this one not");
        assert!(take(100, 3) && !take(1, 3));
        assert!(take(1, 5), "a part without any lies between");
        assert!(!take(101, 7) && !take(1, 8) && take(1, 9));
        assert!(!budget.take(1, (0, PART_NS * 20)));
        assert!(budget.take(1, (u64::MAX, u64::MAX)));
    }

    #[test]
    fn blocks_elsewhere_do_not_hide_where_the_neighbours_lie() {
        let place = |number| match Pbn::new(number) {
            Some(pbn) => MapEntry::Stored(pbn, Checksum(0)),
            None => MapEntry::Unmapped,
        };
        for (own, beside, middle) in [
            (7, [0, 0], 7),
            (7, [0, 9000], 7),
            (7, [9, 9000], 9),
            (8000, [9, 11], 11),
            (10, [11, 9], 10),
            (1, [11, 9], 9),
        ] {
            let found = middle_of(Pbn::new(own).unwrap(), beside.map(place));
            assert_eq!(found.number(), middle, "{own} {beside:?}");
        }
    }
}
