//! The order in which the contents of a write buffer are written out.

use gemelo_format::Pbn;
use std::collections::VecDeque;

/// PBNs by the numbers of their contents, which go up with each write. Entries leave mostly in
/// their order, so they lie in a row, and none is searched for.
#[derive(Debug)]
pub(super) struct Queue {
    /// The number of the first entry.
    first: u64,
    /// [`None`] for a content that has left. The first entry is not one.
    entries: VecDeque<Option<Pbn>>,
    waiting: usize,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { first: 0, entries: VecDeque::new(), waiting: 0 }
    }

    /// Returns the number that the next content gets.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns the number of contents that wait.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of the content that waits longest.
    pub(super) fn oldest(&self) -> Option<u64> {
        (!self.entries.is_empty()).then_some(self.first)
    }

    /// The PBNs that wait, the oldest first.
    pub(super) fn pbns(&self) -> impl Iterator<Item = Pbn> {
        self.entries.iter().copied().flatten()
    }

    /// Adds a content, and returns its number.
    pub(super) fn push(&mut self, pbn: Pbn) -> u64 {
        let number = self.next_number();
        self.entries.push_back(Some(pbn));
        self.waiting += 1;
        number
    }

    /// Adds a content that has left, with the number that it had.
    pub(super) fn put_back(&mut self, number: u64, pbn: Pbn) {
        // All contents that came since then may have left, but there are no more of them than
        // slots.
        while number < self.first {
            self.first -= 1;
            self.entries.push_front(None);
        }
        assert!(number < self.next_number(), "a content that comes back was there before");
        let entry = usize::try_from(number - self.first).ok();
        let entry = entry.and_then(|at| self.entries.get_mut(at));
        assert!(matches!(entry, Some(None)), "a content that has left comes back once");
        if let Some(entry) = entry {
            *entry = Some(pbn);
            self.waiting += 1;
        }
    }

    /// Takes out the content with this number, if it waits.
    pub(super) fn remove(&mut self, number: u64) {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if at.and_then(|at| self.entries.get_mut(at)).and_then(Option::take).is_some() {
            self.waiting -= 1;
        }
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use std::collections::BTreeMap;

    /// Random steps against a map in the order of the numbers.
    #[test]
    fn contents_wait_in_the_order_of_their_numbers() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut queue, mut map) = (Queue::new(), BTreeMap::new());
            let mut left = Vec::new();
            for _ in 0..500 {
                let pbn = Pbn::new(random.below(1000) + 1).unwrap();
                match random.below(5) {
                    0 | 1 => assert!(map.insert(queue.push(pbn), pbn).is_none(), "seed {seed}"),
                    2 if !left.is_empty() => {
                        let (number, pbn) =
                            left.swap_remove(random.below(left.len() as u64) as usize);
                        queue.put_back(number, pbn);
                        map.insert(number, pbn);
                    }
                    _ if !map.is_empty() => {
                        let at = random.below(map.len() as u64) as usize;
                        let (number, pbn) = map.iter().nth(at).map(|(a, b)| (*a, *b)).unwrap();
                        queue.remove(number);
                        queue.remove(number);
                        map.remove(&number);
                        left.push((number, pbn));
                    }
                    _ => {}
                }
                assert_eq!(queue.waiting(), map.len(), "seed {seed}");
                assert_eq!(queue.oldest(), map.keys().next().copied(), "seed {seed}");
                assert!(queue.pbns().eq(map.values().copied()), "seed {seed}");
            }
        }
    }
}
