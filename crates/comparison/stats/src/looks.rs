//! Looks at data that grow: when more repetitions are decided on, and the level that keeps.

use crate::Confidence;

/// Most looks at the data of one comparison. Each look takes an equal part of the errors, so more
/// of them make every interval wider.
const MAX_LOOKS: u32 = 3;

/// The numbers of repetitions after which a measurement looks whether it is decided, and stops.
///
/// An interval that is looked at again after each repetition until it is narrow, or leaves out a
/// value, misses its true value too often: the data choose the moment. Here the moments are fixed
/// in advance, and the errors are spent on them in equal parts: each interval has the level of
/// [`PlannedLooks::share`], so that the intervals of all looks together keep the level, whatever
/// decides about going on. Sources: Pocock, "Group sequential methods in the design and analysis of
/// clinical trials", Biometrika 64 (1977); Lan and DeMets, "Discrete sequential boundaries for
/// clinical trials", Biometrika 70 (1983). The parts add up to the level by Bonferroni's
/// inequality, so nothing is assumed of the dependence between looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedLooks {
    counts: Vec<u32>,
}

impl PlannedLooks {
    /// Plans the looks from the fewest to the most repetitions: at both, and once between them if
    /// there is room, with equal ratios of the numbers.
    #[must_use]
    pub fn new(fewest: u32, most: u32) -> Self {
        let most = most.max(fewest);
        let ratio = f64::from(most) / f64::from(fewest.max(1));
        let count = |step: u32| {
            let share = f64::from(step) / f64::from(MAX_LOOKS - 1);
            (f64::from(fewest) * ratio.powf(share)).round() as u32
        };
        let mut counts: Vec<u32> = (0..MAX_LOOKS).map(count).collect();
        counts.dedup();
        Self { counts }
    }

    /// Returns the numbers of repetitions at the looks, in ascending order.
    #[must_use]
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the number of repetitions at the look after `count` repetitions, or `None` if there
    /// is none.
    #[must_use]
    pub fn after(&self, count: u32) -> Option<u32> {
        self.counts.iter().copied().find(|next| *next > count)
    }

    /// Returns the level of the intervals at each look, for this level of all looks together.
    #[must_use]
    pub fn share(&self, confidence: Confidence) -> Confidence {
        confidence.shared_by(self.counts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_and_end_with_the_most() {
        let counts = |fewest, most| PlannedLooks::new(fewest, most).counts().to_vec();
        assert_eq!(counts(5, 20), [5, 10, 20]);
        assert_eq!(counts(3, 4), [3, 4]);
        assert_eq!(counts(5, 5), [5]);
        assert_eq!(counts(1, 2), [1, 2]);
        let looks = PlannedLooks::new(5, 20);
        assert_eq!(
            [5, 7, 10, 20].map(|count| looks.after(count)),
            [Some(10), Some(10), Some(20), None]
        );
        assert_eq!(looks.share(Confidence::USUAL), Confidence::USUAL.shared_by(3));
        assert_eq!(PlannedLooks::new(5, 5).share(Confidence::USUAL), Confidence::USUAL);
    }
}
