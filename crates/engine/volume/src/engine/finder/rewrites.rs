//! Measures by a sample how soon blocks of a volume are written again, and the delay that follows
//! from it.
//!
//! Examining a block that is overwritten soon is wasted work: its write would have replaced it
//! anyway. The sample has one group in 64, chosen by its number, with the time of each block's last
//! write. It gives the distances between two writes of a block, and the share of the examined
//! blocks that a longer delay would have left alone.

use super::dirty::{GROUP_BLOCKS, set_bits};
use std::collections::BTreeMap;
use std::time::Duration;

/// One group in this many is in the sample.
const GROUPS_PER_SAMPLED: u64 = 64;
/// Most groups in the sample: 1 MiB of times, for some 32 GiB of blocks of 4 KiB that are written.
const MAX_GROUPS: usize = 2048;
/// Classes of distances: below 1, 2, 4, ... milliseconds, up to 2.3 hours.
const CLASSES: usize = 24;
const NS_PER_MS: u64 = 1_000_000;
/// Writes in the sample after which the delay is chosen anew.
const WRITES_PER_CHOICE: u64 = 512;
/// The delay is the shortest one with which at most this share of the examined blocks, in percent,
/// is overwritten within the longest delay.
const MAX_WASTED_PERCENT: u64 = 10;
/// The same as a share of the written blocks: so little work is not worth a longer delay.
const MAX_WASTED_WRITES_PERCENT: u64 = 2;

/// The bounds of the delay in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DelayBounds {
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

impl DelayBounds {
    /// A longest delay below the least one means a fixed delay.
    pub(crate) fn new(delay: Duration, max_delay: Duration) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let min_ns = ns(delay);
        Self { min_ns, max_ns: ns(max_delay).max(min_ns) }
    }
}

impl Default for DelayBounds {
    fn default() -> Self {
        let usual = super::tuning::FinderTuning::default();
        Self::new(usual.delay, usual.max_delay)
    }
}

/// A group in the sample.
#[derive(Debug)]
struct Watched {
    /// The time of the last write of each block; 0 before the first one that was seen.
    written_ns: [u64; GROUP_BLOCKS as usize],
    /// Blocks that were examined since their last write.
    examined: u64,
    newest_ns: u64,
}

/// The sample of a volume; see the module.
#[derive(Debug)]
pub(crate) struct Rewrites {
    bounds: DelayBounds,
    delay_ns: u64,
    groups: BTreeMap<u64, Watched>,
    /// No group is added before this time, because the sample is full of recent ones.
    full_until_ns: u64,
    /// Writes since the last choice, and half of those before.
    writes: u64,
    writes_since_choice: u64,
    /// The rewrites among them, by distance.
    classes: [u64; CLASSES],
    examined_blocks: u64,
    wasted_blocks: u64,
}

impl Rewrites {
    pub(crate) const fn new(bounds: DelayBounds) -> Self {
        Self {
            bounds,
            delay_ns: bounds.min_ns,
            groups: BTreeMap::new(),
            full_until_ns: 0,
            writes: 0,
            writes_since_choice: 0,
            classes: [0; CLASSES],
            examined_blocks: 0,
            wasted_blocks: 0,
        }
    }

    /// Changes the bounds. The delay is the least one until it is chosen anew.
    pub(super) const fn set_bounds(&mut self, bounds: DelayBounds) {
        if self.bounds.min_ns != bounds.min_ns || self.bounds.max_ns != bounds.max_ns {
            self.bounds = bounds;
            self.delay_ns = bounds.min_ns;
        }
    }

    pub(super) const fn bounds(&self) -> DelayBounds {
        self.bounds
    }

    /// The delay at present.
    pub(super) const fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// Blocks of the sample that were examined, and those of them that were overwritten within the
    /// longest delay after they had been written.
    pub(super) const fn wasted(&self) -> (u64, u64) {
        (self.examined_blocks, self.wasted_blocks)
    }

    /// Returns whether the sample has a group with this hash.
    pub(super) const fn has(hash: u64) -> bool {
        hash.is_multiple_of(GROUPS_PER_SAMPLED)
    }

    /// Notes writes of blocks of a group of the sample.
    pub(super) fn note_written(&mut self, number: u64, bits: u64, now_ns: u64) {
        let max_ns = self.bounds.max_ns;
        let is_known = self.groups.contains_key(&number);
        if !is_known && !self.make_room(now_ns) {
            return;
        }
        let group = self.groups.entry(number).or_insert_with(|| Watched {
            written_ns: [0; GROUP_BLOCKS as usize],
            examined: 0,
            newest_ns: now_ns,
        });
        group.newest_ns = now_ns;
        for bit in set_bits(bits) {
            let Some(written_ns) = group.written_ns.get_mut(bit) else { continue };
            let before_ns = std::mem::replace(written_ns, now_ns.max(1));
            let distance_ns = now_ns.saturating_sub(before_ns);
            if before_ns > 0 && distance_ns <= max_ns {
                let class = (u64::BITS - (distance_ns / NS_PER_MS).leading_zeros()) as usize;
                if let Some(count) = self.classes.get_mut(class.min(CLASSES - 1)) {
                    *count += 1;
                }
                self.wasted_blocks += group.examined >> bit & 1;
            }
        }
        group.examined &= !bits;
        let writes = u64::from(bits.count_ones());
        self.writes += writes;
        self.writes_since_choice += writes;
        if self.writes_since_choice >= WRITES_PER_CHOICE {
            self.choose();
        }
    }

    /// Notes that blocks of a group of the sample are examined.
    pub(super) fn note_examined(&mut self, number: u64, bits: u64) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.examined |= bits;
            self.examined_blocks += u64::from(bits.count_ones());
        }
    }

    /// Makes room for a group. Groups without recent writes go first.
    fn make_room(&mut self, now_ns: u64) -> bool {
        if self.groups.len() < MAX_GROUPS {
            return true;
        }
        if now_ns < self.full_until_ns {
            return false;
        }
        let max_ns = self.bounds.max_ns;
        self.groups.retain(|_, group| now_ns.saturating_sub(group.newest_ns) <= max_ns);
        self.full_until_ns = now_ns.saturating_add(max_ns / 4);
        self.groups.len() < MAX_GROUPS
    }

    /// Chooses the delay, and halves the counts, so that the past fades.
    fn choose(&mut self) {
        let DelayBounds { min_ns, max_ns } = self.bounds;
        let all = self.rewrites_within(max_ns);
        let mut delay_ns = min_ns.max(1);
        while delay_ns < max_ns {
            let avoided = self.rewrites_within(delay_ns);
            let (wasted, examined) = (all - avoided, self.writes.saturating_sub(avoided));
            if wasted * 100 <= examined * MAX_WASTED_PERCENT
                || wasted * 100 <= self.writes * MAX_WASTED_WRITES_PERCENT
            {
                break;
            }
            delay_ns = delay_ns.saturating_mul(2);
        }
        self.delay_ns = delay_ns.min(max_ns).max(min_ns);
        self.writes_since_choice = 0;
        self.writes /= 2;
        self.classes.iter_mut().for_each(|count| *count /= 2);
    }

    /// Rewrites with distances of classes that end within a delay.
    fn rewrites_within(&self, delay_ns: u64) -> u64 {
        let ends = (0..CLASSES).map(|class| (1u64 << class).saturating_mul(NS_PER_MS));
        let counts = self.classes.iter().zip(ends);
        // The class that holds the longest delay has no longer distances, so it counts as a whole.
        let is_within = |end_ns: u64| end_ns <= delay_ns || delay_ns == self.bounds.max_ns;
        counts.filter(|(_, end_ns)| is_within(*end_ns)).map(|(count, _)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    const S: u64 = 1_000 * NS_PER_MS;
    const BOUNDS: DelayBounds = DelayBounds { min_ns: S, max_ns: 64 * S };

    /// Writes random blocks for a minute, 1000 a second: each other one is one of `hot` blocks, and
    /// the rest are hardly ever written again.
    fn write(rewrites: &mut Rewrites, from_s: u64, hot: u64) {
        let mut random = Random::new(7);
        for at in 0..60_000 {
            let block = if at % 2 == 0 { random.below(hot) } else { hot + random.below(900_000) };
            let now_ns = (from_s * 1000 + at) * NS_PER_MS;
            rewrites.note_written(block / 64, 1 << (block % 64), now_ns);
        }
    }

    #[test]
    fn the_delay_follows_the_distances_within_its_bounds() {
        // A hot block is written again after 4 s on average.
        let mut rewrites = Rewrites::new(BOUNDS);
        write(&mut rewrites, 0, 2000);
        assert!((8 * S..=32 * S).contains(&rewrites.delay_ns()), "{}", rewrites.delay_ns());
        // 64 ms.
        write(&mut rewrites, 60, 32);
        assert_eq!(rewrites.delay_ns(), S);
        // Half an hour: hardly a block is written again in time.
        write(&mut rewrites, 120, 900_000);
        assert_eq!(rewrites.delay_ns(), S);
        let fixed = DelayBounds { min_ns: S, max_ns: S };
        let mut rewrites = Rewrites::new(fixed);
        write(&mut rewrites, 0, 2000);
        assert_eq!(rewrites.delay_ns(), S);
    }

    #[test]
    fn work_is_wasted_if_a_longer_delay_had_avoided_it() {
        let mut rewrites = Rewrites::new(BOUNDS);
        rewrites.note_written(0, 0b111, 5 * S);
        rewrites.note_examined(0, 0b11);
        rewrites.note_examined(9, 0b11);
        assert_eq!(rewrites.wasted(), (2, 0), "the sample has no group 9");
        rewrites.note_written(0, 0b101, 60 * S);
        assert_eq!(rewrites.wasted(), (2, 1));
        rewrites.note_written(0, 0b1, 61 * S);
        assert_eq!(rewrites.wasted(), (2, 1), "it was not examined since");
        rewrites.note_written(0, 0b10, 70 * S);
        assert_eq!(rewrites.wasted(), (2, 1), "after more than the longest delay");
    }

    #[test]
    fn a_full_sample_gives_up_groups_without_recent_writes() {
        let mut rewrites = Rewrites::new(BOUNDS);
        let most = MAX_GROUPS as u64;
        (0..most).for_each(|number| rewrites.note_written(number, 1, S));
        rewrites.note_written(0, 1, 70 * S);
        rewrites.note_written(most, 1, 66 * S);
        assert_eq!(rewrites.groups.keys().copied().collect::<Vec<_>>(), [0, most]);
    }
}
