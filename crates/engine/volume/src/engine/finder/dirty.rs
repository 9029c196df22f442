//! The blocks of a volume that the finder has to look at.
//!
//! A write marks its block in its *group*. A group has two sets of marks: blocks written since the
//! finder turned the group last (young), and blocks written before and not since (old). A block
//! that is written again becomes young again, so a block that is written all the time is never due.

use super::rewrites::{DelayBounds, Rewrites};
use gemelo_base::random::mix_pair;
use gemelo_format::Lbn;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// LBNs of a group: the bits of a word.
pub(super) const GROUP_BLOCKS: u64 = u64::BITS as u64;
/// Most groups that a volume remembers: some 10 MiB. Further blocks are found by going through the
/// whole volume.
const MAX_GROUPS: usize = 131_072;

/// A group with marked blocks. The times are those of the engine's clock.
#[derive(Debug, Clone, Copy)]
struct Group {
    number: u64,
    young: u64,
    old: u64,
    /// The time of the last write.
    written_ns: u64,
}

/// The bits of a group that are taken at once, and the others.
fn split_lowest(bits: u64, most: usize) -> (u64, u64) {
    let mut rest = bits;
    for _ in 0..most.min(GROUP_BLOCKS as usize) {
        rest &= rest.wrapping_sub(1);
    }
    (bits & !rest, rest)
}

/// The numbers of the bits that are set.
pub(super) fn set_bits(bits: u64) -> impl Iterator<Item = usize> {
    let rests = std::iter::successors(Some(bits), |rest| Some(rest & rest.wrapping_sub(1)));
    rests.take_while(|rest| *rest != 0).map(|rest| rest.trailing_zeros() as usize)
}

/// The course through the whole volume.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    next: u64,
    began_ns: u64,
    /// `true` while blocks from `next` on are examined.
    is_under_way: bool,
    /// `true` if blocks before `next`, or under examination, were written and not marked.
    is_stale: bool,
}

impl Sweep {
    const fn new(began_ns: u64) -> Self {
        Self { next: 0, began_ns, is_under_way: false, is_stale: false }
    }
}

/// The blocks of a volume that were written since the finder looked at them.
#[derive(Debug)]
pub(crate) struct DirtyGroups {
    groups: HashTable<Group>,
    /// Each group with the time at which it was marked first or turned, in the order of the times.
    queue: VecDeque<(u64, u64)>,
    marked_blocks: u64,
    /// Marked blocks that were written again, since the pool was opened.
    rewritten_blocks: u64,
    sweep: Option<Sweep>,
    rewrites: Rewrites,
}

/// The figures of the blocks that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backlog {
    pub(crate) groups: u64,
    pub(crate) blocks: u64,
    /// The time at which the oldest group was marked first, or looked at last.
    pub(crate) oldest_ns: Option<u64>,
    /// `true` if the whole volume has to be searched.
    pub(crate) is_swept: bool,
    /// The delay at present.
    pub(crate) delay_ns: u64,
    /// Marked blocks that were written again before they were examined.
    pub(crate) rewritten_blocks: u64,
    /// Examined blocks of a sample.
    pub(crate) sampled_blocks: u64,
    /// Those of them that were overwritten within the longest delay.
    pub(crate) wasted_blocks: u64,
}

/// The hash of the number of a group.
fn hash(number: u64) -> u64 {
    mix_pair(number, 0)
}

impl DirtyGroups {
    pub(crate) const fn new(bounds: DelayBounds) -> Self {
        Self {
            groups: HashTable::new(),
            queue: VecDeque::new(),
            marked_blocks: 0,
            rewritten_blocks: 0,
            sweep: None,
            rewrites: Rewrites::new(bounds),
        }
    }

    /// Changes the bounds of the delay.
    pub(crate) const fn set_bounds(&mut self, bounds: DelayBounds) {
        self.rewrites.set_bounds(bounds);
    }

    /// Marks blocks that were written.
    pub(crate) fn mark(&mut self, lbns: impl Iterator<Item = Lbn>, now_ns: u64) {
        let mut run: Option<(u64, u64)> = None;
        for lbn in lbns {
            let (number, bit) = (lbn.0 / GROUP_BLOCKS, 1 << (lbn.0 % GROUP_BLOCKS));
            match &mut run {
                Some((group, bits)) if *group == number => *bits |= bit,
                _ => {
                    if let Some((group, bits)) = run.replace((number, bit)) {
                        self.mark_bits(group, bits, now_ns);
                    }
                }
            }
        }
        if let Some((group, bits)) = run {
            self.mark_bits(group, bits, now_ns);
        }
    }

    fn mark_bits(&mut self, number: u64, bits: u64, now_ns: u64) {
        let hash = hash(number);
        if Rewrites::has(hash) {
            self.rewrites.note_written(number, bits, now_ns);
        }
        if let Some(group) = self.groups.find_mut(hash, |group| group.number == number) {
            let fresh = bits & !(group.young | group.old);
            self.rewritten_blocks += u64::from((bits & !fresh).count_ones());
            group.young |= bits;
            group.old &= !bits;
            group.written_ns = now_ns;
            self.marked_blocks += u64::from(fresh.count_ones());
            return;
        }
        if self.groups.len() >= MAX_GROUPS {
            self.mark_unlisted(number * GROUP_BLOCKS, now_ns);
            return;
        }
        self.marked_blocks += u64::from(bits.count_ones());
        self.queue.push_back((now_ns, number));
        self.add(Group { number, young: bits, old: 0, written_ns: now_ns });
    }

    fn add(&mut self, group: Group) {
        self.groups.insert_unique(hash(group.number), group, |group| hash(group.number));
    }

    fn remove(&mut self, number: u64) -> Option<Group> {
        let entry = self.groups.find_entry(hash(number), |group| group.number == number).ok()?;
        Some(entry.remove().0)
    }

    /// Has the course through the whole volume find a group for which the list has no room.
    fn mark_unlisted(&mut self, lbn: u64, now_ns: u64) {
        match &mut self.sweep {
            Some(sweep) => sweep.is_stale |= sweep.is_under_way || lbn < sweep.next,
            None => self.sweep = Some(Sweep::new(now_ns)),
        }
    }

    /// Marks the whole volume, because nothing is known about its groups.
    pub(crate) fn mark_all(&mut self) {
        self.clear();
        self.sweep = Some(Sweep::new(0));
    }

    /// Forgets all marks.
    pub(crate) fn clear(&mut self) {
        *self =
            Self { rewritten_blocks: self.rewritten_blocks, ..Self::new(self.rewrites.bounds()) };
    }

    /// Returns whether [`Self::take_due`] would return a block, or turn a group. A course through
    /// the whole volume is always due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let delay_ns = self.rewrites.delay_ns();
        let is_old = |(at_ns, _): &(u64, u64)| now_ns.saturating_sub(*at_ns) >= delay_ns;
        self.sweep.is_some() || self.queue.front().is_some_and(is_old)
    }

    /// Takes at most `most` blocks that were last written at least the delay ago. A block whose
    /// group is written all the time may be returned a second delay later.
    pub(crate) fn take_due(&mut self, now_ns: u64, most: usize) -> Vec<Lbn> {
        let delay_ns = self.rewrites.delay_ns();
        let mut taken = Vec::new();
        while let Some((at_ns, number)) = self.queue.front().copied()
            && now_ns.saturating_sub(at_ns) >= delay_ns
            && taken.len() < most
        {
            self.queue.pop_front();
            let Some(group) = self.remove(number) else { continue };
            let is_quiet = now_ns.saturating_sub(group.written_ns) >= delay_ns;
            let (due, young) =
                if is_quiet { (group.young | group.old, 0) } else { (group.old, group.young) };
            let (now, later) = split_lowest(due, most - taken.len());
            self.note_taken(number, now, &mut taken);
            if later != 0 {
                self.queue.push_front((at_ns, number));
                self.add(Group { old: later, young, ..group });
            } else if young != 0 {
                self.queue.push_back((now_ns, number));
                self.add(Group { old: young, young: 0, ..group });
            }
        }
        taken.sort_unstable();
        taken
    }

    /// Takes at most `most` blocks of groups that were marked or turned no later than `until_ns`,
    /// whenever they were written.
    pub(crate) fn take_until(&mut self, until_ns: u64, most: usize) -> Vec<Lbn> {
        let mut taken = Vec::new();
        while let Some((at_ns, number)) = self.queue.front().copied()
            && at_ns <= until_ns
            && taken.len() < most
        {
            self.queue.pop_front();
            let Some(group) = self.remove(number) else { continue };
            let (now, later) = split_lowest(group.young | group.old, most - taken.len());
            self.note_taken(number, now, &mut taken);
            if later != 0 {
                self.queue.push_front((at_ns, number));
                self.add(Group { old: later, young: 0, ..group });
            }
        }
        taken.sort_unstable();
        taken
    }

    fn note_taken(&mut self, number: u64, bits: u64, taken: &mut Vec<Lbn>) {
        self.marked_blocks -= u64::from(bits.count_ones());
        if Rewrites::has(hash(number)) {
            self.rewrites.note_examined(number, bits);
        }
        taken.extend(set_bits(bits).map(|bit| Lbn(number * GROUP_BLOCKS + bit as u64)));
    }

    /// Returns whether a block is marked. The course through the whole volume leaves such blocks to
    /// their marks.
    pub(crate) fn is_marked(&self, lbn: Lbn) -> bool {
        let number = lbn.0 / GROUP_BLOCKS;
        let group = self.groups.find(hash(number), |group| group.number == number);
        group.is_some_and(|group| (group.young | group.old) & (1 << (lbn.0 % GROUP_BLOCKS)) != 0)
    }

    /// Returns the LBN at which the course through the whole volume goes on, if there is one that
    /// began no later than `until_ns`. The blocks from there on are under examination until
    /// [`Self::note_swept`].
    pub(crate) fn sweep_from(&mut self, until_ns: u64) -> Option<u64> {
        let sweep = self.sweep.as_mut().filter(|sweep| sweep.began_ns <= until_ns)?;
        sweep.is_under_way = true;
        Some(sweep.next)
    }

    /// Notes that the course through the whole volume came from `from` to `next`, or to the end. It
    /// may have been restarted meanwhile.
    pub(crate) fn note_swept(&mut self, from: u64, next: Option<u64>, now_ns: u64) {
        let Some(sweep) = self.sweep.as_mut().filter(|sweep| sweep.next == from) else { return };
        sweep.is_under_way = false;
        match next {
            Some(next) => sweep.next = next,
            None if sweep.is_stale => {
                self.sweep = Some(Sweep::new(now_ns));
            }
            None => self.sweep = None,
        }
    }

    /// Returns the figures of the blocks that wait.
    pub(crate) fn backlog(&self) -> Backlog {
        let (sampled_blocks, wasted_blocks) = self.rewrites.wasted();
        Backlog {
            groups: self.groups.len() as u64,
            blocks: self.marked_blocks,
            oldest_ns: self.queue.front().map(|(at_ns, _)| *at_ns),
            is_swept: self.sweep.is_some(),
            delay_ns: self.rewrites.delay_ns(),
            rewritten_blocks: self.rewritten_blocks,
            sampled_blocks,
            wasted_blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use std::collections::BTreeMap;

    const DELAY_NS: u64 = 100;

    fn empty() -> DirtyGroups {
        DirtyGroups::new(DelayBounds { min_ns: DELAY_NS, max_ns: DELAY_NS })
    }

    fn waiting(dirty: &DirtyGroups) -> (u64, u64, Option<u64>) {
        let backlog = dirty.backlog();
        (backlog.groups, backlog.blocks, backlog.oldest_ns)
    }

    fn marked(lbns: impl IntoIterator<Item = u64>, now_ns: u64) -> DirtyGroups {
        let mut dirty = empty();
        dirty.mark(lbns.into_iter().map(Lbn), now_ns);
        dirty
    }

    fn numbers(taken: Vec<Lbn>) -> Vec<u64> {
        taken.into_iter().map(|lbn| lbn.0).collect()
    }

    #[test]
    fn a_block_is_due_a_delay_after_its_write_and_taken_once() {
        let mut dirty = marked([3, 64, 65], 10);
        assert_eq!(waiting(&dirty), (2, 3, Some(10)));
        assert!(!dirty.is_due(109));
        assert!(numbers(dirty.take_due(109, 99)).is_empty());
        assert!(dirty.is_due(110));
        assert_eq!(numbers(dirty.take_due(110, 2)), [3, 64]);
        assert_eq!(dirty.backlog().blocks, 1);
        assert_eq!(numbers(dirty.take_due(110, 2)), [65]);
        assert_eq!(waiting(&dirty), (0, 0, None));
    }

    #[test]
    fn a_block_that_is_written_all_the_time_is_left_alone_and_its_neighbours_are_not() {
        let mut dirty = marked([5, 6], 0);
        for now_ns in (0..1000).step_by(50) {
            dirty.mark([Lbn(5)].into_iter(), now_ns);
            let taken = numbers(dirty.take_due(now_ns, 99));
            assert!(!taken.contains(&5), "at {now_ns}");
            assert_eq!(taken.contains(&6), now_ns == 2 * DELAY_NS, "at {now_ns}");
        }
        assert_eq!(numbers(dirty.take_due(1050, 99)), [5]);
        assert_eq!(dirty.backlog().rewritten_blocks, 20, "the first of them was the second write");
    }

    /// Random writes and takings against the time of each block's last write.
    #[test]
    fn every_block_is_taken_after_one_delay_and_before_three() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut dirty, mut written) = (empty(), BTreeMap::new());
            for now_ns in 0..2000 {
                let lbn = random.below(300);
                dirty.mark([Lbn(lbn)].into_iter(), now_ns);
                written.insert(lbn, now_ns);
                let most = 1 + random.below(8) as usize;
                let taken = dirty.take_due(now_ns, most);
                assert!(taken.len() <= most);
                for lbn in numbers(taken) {
                    let at_ns =
                        written.remove(&lbn).unwrap_or_else(|| panic!("{lbn}, seed {seed}"));
                    assert!(now_ns - at_ns >= DELAY_NS, "{lbn} is hot, seed {seed}");
                }
                assert_eq!(dirty.backlog().blocks, written.len() as u64, "seed {seed}");
            }
            let late = written.values().filter(|at_ns| 1999 - **at_ns >= 3 * DELAY_NS).count();
            assert_eq!(late, 0, "seed {seed}");
            for lbn in 0..300 {
                let is_waiting = written.contains_key(&lbn);
                assert_eq!(dirty.is_marked(Lbn(lbn)), is_waiting, "{lbn}, seed {seed}");
            }
            let rest = numbers(dirty.take_until(1999, usize::MAX));
            assert_eq!(rest, written.into_keys().collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn a_command_takes_what_was_marked_before_it_began() {
        let mut dirty = marked([1], 10);
        dirty.mark([Lbn(100)].into_iter(), 20);
        assert_eq!(numbers(dirty.take_until(10, 99)), [1]);
        assert!(numbers(dirty.take_until(19, 99)).is_empty());
        assert_eq!(numbers(dirty.take_until(20, 99)), [100]);
    }

    #[test]
    fn a_full_list_has_the_whole_volume_gone_through_and_again_for_what_came_behind() {
        let groups = MAX_GROUPS as u64;
        let mut dirty = marked((0..groups + 1).map(|number| number * GROUP_BLOCKS), 5);
        assert_eq!(dirty.backlog().groups, groups);
        assert_eq!((dirty.sweep_from(4), dirty.sweep_from(5)), (None, Some(0)));
        assert!(dirty.is_marked(Lbn(64)) && !dirty.is_marked(Lbn(65)));
        dirty.note_swept(0, Some(groups * GROUP_BLOCKS + 64), 6);
        dirty.mark([Lbn(groups * GROUP_BLOCKS)].into_iter(), 7);
        dirty.note_swept(groups * GROUP_BLOCKS + 64, None, 8);
        assert_eq!((dirty.sweep_from(7), dirty.sweep_from(8)), (None, Some(0)));
        // What is written while its neighbours are examined may have been looked up before.
        dirty.note_swept(0, Some(1024), 9);
        assert_eq!(dirty.sweep_from(9), Some(1024));
        dirty.mark([Lbn(groups * GROUP_BLOCKS)].into_iter(), 10);
        dirty.note_swept(1024, Some(groups * GROUP_BLOCKS + 64), 11);
        dirty.note_swept(groups * GROUP_BLOCKS + 64, None, 12);
        assert_eq!(dirty.sweep_from(12), Some(0));
        dirty.note_swept(0, None, 13);
        assert!(!dirty.backlog().is_swept);
    }
}
