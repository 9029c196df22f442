//! Contents that were written out and stay readable from memory until their slots are needed.
//!
//! They are kept by runs, as they were written, because neighbours in a run cost one entry. The run
//! that was neither written nor read for the longest time is given up first.

use super::memory::{Memory, Slot};
use gemelo_format::Pbn;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Runs that were read since they were last passed over, and are passed over at one search for
/// room. The search is under the lock of the buffer, so it is bounded.
const MAX_PASSED_OVER: usize = 8;

/// Contents of neighbouring PBNs.
#[derive(Debug)]
struct KeptRun {
    /// Tells the run from earlier ones that began at the same PBN.
    number: u64,
    slots: Vec<Slot>,
    was_read: bool,
}

/// The contents that are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By the numbers of their first PBNs. The runs do not overlap, and none is empty.
    runs: BTreeMap<u32, KeptRun>,
    /// The first PBN and the number of each run, the one to be given up next at the front. Entries
    /// of runs that have gone are left here.
    order: VecDeque<(u32, u64)>,
    contents: usize,
    next_number: u64,
}

impl Kept {
    /// Returns the number of contents that are kept.
    pub(super) const fn contents(&self) -> usize {
        self.contents
    }

    /// Returns the content of a PBN.
    pub(super) fn find(&mut self, pbn: Pbn) -> Option<&Slot> {
        let (first, run) = self.runs.range_mut(..=pbn.number()).next_back()?;
        let slot = run.slots.get((pbn.number() - first) as usize)?;
        run.was_read = true;
        Some(slot)
    }

    /// Keeps contents of neighbouring PBNs in place of what was kept of them.
    pub(super) fn keep(&mut self, first: Pbn, slots: Vec<Slot>, memory: &mut Memory) {
        let first = first.number();
        let length = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        self.forget(first..first.saturating_add(length), memory);
        if length > 0 {
            let number = self.insert(first, slots, false);
            self.order.push_back((first, number));
        }
    }

    fn insert(&mut self, first: u32, slots: Vec<Slot>, was_read: bool) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.contents += slots.len();
        self.runs.insert(first, KeptRun { number, slots, was_read });
        number
    }

    /// Forgets the contents of PBNs with these numbers.
    pub(super) fn forget(&mut self, numbers: Range<u32>, memory: &mut Memory) {
        while let Some((&first, run)) = self.runs.range_mut(..numbers.end).next_back() {
            let at = |number: u32| (number.saturating_sub(first) as usize).min(run.slots.len());
            let (start, end) = (at(numbers.start), at(numbers.end));
            if start == end {
                break;
            }
            let after = run.slots.split_off(end);
            let forgotten = run.slots.split_off(start);
            let (is_empty, was_read) = (run.slots.is_empty(), run.was_read);
            if is_empty {
                self.runs.remove(&first);
            }
            self.contents -= forgotten.len() + after.len();
            forgotten.into_iter().for_each(|slot| memory.put_back(slot));
            if !after.is_empty() {
                let number = self.insert(numbers.end, after, was_read);
                // Its turn comes early, as its place in the order is not searched for.
                self.order.push_front((numbers.end, number));
            }
        }
        self.drop_stale_entries();
    }

    /// Gives up contents until this many slots are free, if it has enough.
    pub(super) fn make_room(&mut self, wanted: usize, memory: &mut Memory) {
        let mut passed_over = 0;
        while memory.free() < wanted {
            let Some((first, number)) = self.order.pop_front() else { return };
            let run = self.runs.get_mut(&first).filter(|run| run.number == number);
            let Some(run) = run else { continue };
            if run.was_read && passed_over < MAX_PASSED_OVER {
                passed_over += 1;
                run.was_read = false;
                self.order.push_back((first, number));
                continue;
            }
            while memory.free() < wanted
                && let Some(slot) = run.slots.pop()
            {
                self.contents -= 1;
                memory.put_back(slot);
            }
            if run.slots.is_empty() {
                self.runs.remove(&first);
            } else {
                self.order.push_front((first, number));
            }
        }
    }

    /// Bounds the entries of runs that have gone.
    fn drop_stale_entries(&mut self) {
        if self.order.len() > 2 * self.runs.len() + MAX_PASSED_OVER {
            let runs = &self.runs;
            self.order
                .retain(|(first, number)| runs.get(first).is_some_and(|run| run.number == *number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use std::sync::Arc;

    /// Memory with this many slots, all free.
    fn memory(slots: usize) -> Memory {
        let mut memory = Memory::new(8, slots);
        while let Some(step) = memory.begin_step() {
            memory.add_step(step.make());
        }
        memory
    }

    fn pbn(number: u32) -> Pbn {
        Pbn::new(number).unwrap()
    }

    /// Keeps a run of new slots, with the id in their first bytes.
    fn keep(kept: &mut Kept, memory: &mut Memory, first: u32, ids: &[u64]) {
        kept.make_room(ids.len(), memory);
        let mut slots = memory.take(ids.len());
        for (slot, id) in slots.iter_mut().zip(ids) {
            Arc::get_mut(slot).unwrap().copy_from_slice(&id.to_le_bytes());
        }
        kept.keep(pbn(first), slots, memory);
    }

    fn id(kept: &mut Kept, number: u32) -> Option<u64> {
        kept.find(pbn(number)).map(|slot| u64::from_le_bytes(slot[..].try_into().unwrap()))
    }

    /// Random runs that overlap others, against a map.
    #[test]
    fn a_content_is_the_newest_one_of_its_pbn_or_none() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut kept, mut memory) = (Kept::default(), memory(64));
            let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
            for step in 1..500u64 {
                let (first, count) = (1 + random.below(50) as u32, random.below(12) as u32);
                if random.below(4) == 0 {
                    kept.forget(first..first + count, &mut memory);
                    newest.retain(|number, _| !(first..first + count).contains(number));
                } else {
                    let ids: Vec<u64> = (0..count).map(|at| step * 100 + u64::from(at)).collect();
                    keep(&mut kept, &mut memory, first, &ids);
                    newest.extend((first..).zip(ids));
                }
                let mut found = 0;
                for number in 1..70 {
                    if let Some(id) = id(&mut kept, number) {
                        assert_eq!(newest.get(&number), Some(&id), "seed {seed}");
                        found += 1;
                    }
                }
                assert_eq!(kept.contents(), found, "seed {seed}");
                assert_eq!(memory.free() + found, 64, "seed {seed}");
                assert!(kept.order.len() <= 2 * kept.runs.len() + 2 * MAX_PASSED_OVER);
            }
        }
    }

    #[test]
    fn room_comes_from_the_run_that_was_not_used_for_longest() {
        let (mut kept, mut memory) = (Kept::default(), memory(12));
        for first in [10, 20, 30] {
            keep(&mut kept, &mut memory, first, &[1, 2, 3, 4]);
        }
        assert_eq!(id(&mut kept, 11), Some(2));
        kept.make_room(5, &mut memory);
        assert_eq!(memory.free(), 5, "no more than is needed");
        let mut is_kept = |number: u32| id(&mut kept, number).is_some();
        assert!(is_kept(10) && is_kept(13), "it was read");
        assert!(!is_kept(20) && !is_kept(23));
        assert!(is_kept(30) && is_kept(32) && !is_kept(33));
    }

    /// The search for room is bounded, so a run that was read may go, too.
    #[test]
    fn a_search_for_room_passes_over_a_few_runs_that_were_read() {
        let (mut kept, mut memory) = (Kept::default(), memory(20));
        let firsts: Vec<u32> = (0..20).map(|at| 2 * at + 1).collect();
        for first in &firsts {
            keep(&mut kept, &mut memory, *first, &[1]);
            assert_eq!(id(&mut kept, *first), Some(1));
        }
        kept.make_room(1, &mut memory);
        let gone = firsts.iter().position(|first| !kept.runs.contains_key(first));
        assert_eq!((gone, kept.contents()), (Some(MAX_PASSED_OVER), 19));
    }

    #[test]
    fn room_is_made_although_all_runs_were_read() {
        let (mut kept, mut memory) = (Kept::default(), memory(40));
        for first in 0..40 {
            keep(&mut kept, &mut memory, 2 * first + 1, &[1]);
            assert_eq!(id(&mut kept, 2 * first + 1), Some(1));
        }
        kept.make_room(40, &mut memory);
        assert_eq!((memory.free(), kept.contents()), (40, 0));
    }
}
