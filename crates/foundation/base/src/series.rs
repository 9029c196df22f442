//! Time series: the figures of the parts of a run, such as its seconds, in order of time. Those of
//! processes or hosts that began at the same moment are added up part by part.

/// Length of a second on the clock.
pub const SECOND_NS: u64 = 1_000_000_000;
/// Most parts that a run keeps: one day of seconds. Later ones count in its totals alone.
pub const MAX_PARTS: usize = 86_400;

/// The figures of a part of a run.
pub trait TimePart: Clone {
    /// Returns the position of the part. Parts of several runs are the same part of the time if
    /// their positions are equal.
    fn position(&self) -> u64;

    /// Adds the figures of the same part of another run.
    fn add(&mut self, other: &Self);
}

/// Parts of a run in order of their positions, each position at most once.
#[derive(Debug, Clone)]
pub struct TimeSeries<T>(Vec<T>);

impl<T> Default for TimeSeries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: TimePart> TimeSeries<T> {
    /// Adds up parts of runs that began at the same moment.
    pub fn together<'a>(parts: impl IntoIterator<Item = &'a T>) -> Self
    where
        T: 'a,
    {
        let mut all = Self::default();
        all.extend(parts);
        all
    }

    /// Returns the part at a position, which `make` makes if there is none yet. The last part is
    /// found at once.
    #[inline]
    pub fn at(&mut self, position: u64, make: impl FnOnce() -> T) -> &mut T {
        let last = self.0.last().map(T::position);
        let index = match last {
            Some(last) if last == position => self.0.len() - 1,
            _ => self.find(position).unwrap_or_else(|index| {
                self.0.insert(index, make());
                index
            }),
        };
        &mut self.0[index]
    }

    /// Returns the part at a position.
    pub fn get(&self, position: u64) -> Option<&T> {
        self.find(position).ok().map(|index| &self.0[index])
    }

    /// Adds the parts of another run.
    pub fn extend<'a>(&mut self, parts: impl IntoIterator<Item = &'a T>)
    where
        T: 'a,
    {
        for part in parts {
            match self.find(part.position()) {
                Ok(index) => self.0[index].add(part),
                Err(index) => self.0.insert(index, part.clone()),
            }
        }
    }

    /// Returns all parts in order.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Returns all parts in order.
    #[must_use]
    pub fn into_parts(self) -> Vec<T> {
        self.0
    }

    fn find(&self, position: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&position, T::position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Counted(u64, u64);

    impl TimePart for Counted {
        fn position(&self) -> u64 {
            self.0
        }

        fn add(&mut self, other: &Self) {
            self.1 += other.1;
        }
    }

    #[test]
    fn parts_are_added_by_their_positions_and_kept_in_order() {
        let (one, other) = ([Counted(0, 1), Counted(4, 2)], [Counted(2, 10), Counted(4, 20)]);
        let mut all = TimeSeries::together(one.iter().chain(&other));
        assert_eq!(all.as_slice(), [Counted(0, 1), Counted(2, 10), Counted(4, 22)]);
        for position in [4, 3, 0, 9] {
            all.at(position, || Counted(position, 0)).1 += 100;
        }
        assert_eq!((all.get(3), all.get(5)), (Some(&Counted(3, 100)), None));
        let counts = all.into_parts().iter().map(|part| part.1).collect::<Vec<_>>();
        assert_eq!(counts, [101, 10, 100, 122, 100]);
    }
}
