//! Distributes duplicates over contents by a power law.
//!
//! The number of contents with d duplicates is proportional to d^-a for d from 1 to a maximum: a
//! discrete power law with a cut-off (Clauset, Shalizi, Newman: "Power-law distributions in
//! empirical data", SIAM Review 51, 2009, section 2). The mean falls strictly as the exponent a
//! rises, because the derivative of the mean by a is minus the covariance of d and ln d. The
//! exponent with the requested mean is therefore unique, and bisection finds it.
//!
//! Above [`DENSE_DUPLICATES`], one number of duplicates stands for its neighbours. Rounding keeps
//! the number of contents exact. Then single contents get more or fewer duplicates, until their sum
//! is exact too.

use super::DuplicateClass;
use std::collections::BTreeMap;

/// Up to this limit, every number of duplicates is a class of its own.
const DENSE_DUPLICATES: u64 = 100;

/// The ratio between successive classes above [`DENSE_DUPLICATES`].
const SPARSE_STEP: f64 = 1.05;

/// The limit of the exponent, positive and negative. To the precision of a double, its ends mean
/// "all contents have one duplicate" and "all contents have the maximum".
const STEEPEST: f64 = 1e5;

/// The number of bisection steps: 2e5 / 2^100 is below the precision of a double.
const BISECTIONS: u32 = 100;

/// Returns the numbers of duplicates that are used, each with the count of numbers it stands for.
fn grid(most: u64) -> Vec<(u64, f64)> {
    let mut numbers: Vec<u64> = (1..=most.min(DENSE_DUPLICATES)).collect();
    let mut next = DENSE_DUPLICATES as f64 * SPARSE_STEP;
    while (next as u64) < most {
        numbers.push(next as u64);
        next *= SPARSE_STEP;
    }
    if numbers.last().is_some_and(|last| *last < most) {
        numbers.push(most);
    }
    let edge_after = |index: usize| match (numbers.get(index), numbers.get(index + 1)) {
        (Some(this), Some(next)) => f64::midpoint(*this as f64, *next as f64),
        _ => most as f64 + 0.5,
    };
    let mut edge_before = 0.5;
    numbers
        .iter()
        .enumerate()
        .map(|(index, number)| {
            let width = edge_after(index) - edge_before;
            edge_before = edge_after(index);
            (*number, width)
        })
        .collect()
}

/// Returns the shares of the grid's numbers under a power law with this exponent.
fn law(grid: &[(u64, f64)], exponent: f64) -> Vec<f64> {
    let logs = || grid.iter().map(|(number, width)| width.ln() - exponent * (*number as f64).ln());
    // Weights are relative to the largest one, so no exponent makes them overflow.
    let largest = logs().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = logs().map(|log| (log - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}

fn mean(grid: &[(u64, f64)], shares: &[f64]) -> f64 {
    grid.iter().zip(shares).map(|((number, _), share)| *number as f64 * share).sum()
}

/// Distributes `duplicates` over `contents` by the power law over 1 to `most`. The caller has
/// checked that this is possible: `contents <= duplicates <= contents * most`.
pub(super) fn power_law(contents: u64, duplicates: u64, most: u64) -> Vec<DuplicateClass> {
    if contents == 0 {
        return Vec::new();
    }
    let grid = grid(most);
    let asked = duplicates as f64 / contents as f64;
    let (mut flat, mut steep) = (-STEEPEST, STEEPEST);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(flat, steep);
        if mean(&grid, &law(&grid, middle)) > asked {
            flat = middle;
        } else {
            steep = middle;
        }
    }
    let shares = law(&grid, f64::midpoint(flat, steep));
    let mut counts = BTreeMap::new();
    let (mut share_above, mut given) = (0.0, 0);
    for ((number, _), share) in grid.iter().zip(&shares).rev() {
        share_above += share;
        let due =
            if *number == 1 { contents } else { (share_above * contents as f64).round() as u64 };
        if due.min(contents) > given {
            counts.insert(*number, due.min(contents) - given);
            given = due.min(contents);
        }
    }
    give_exactly(&mut counts, duplicates, most);
    counts
        .into_iter()
        .map(|(duplicates, contents)| DuplicateClass { duplicates, contents })
        .collect()
}

/// Changes the duplicates of single contents, within 1 to `most`, until the sum is `duplicates`.
fn give_exactly(counts: &mut BTreeMap<u64, u64>, duplicates: u64, most: u64) {
    loop {
        let given: u64 = counts.iter().map(|(number, contents)| number * contents).sum();
        let (from, to) = if given < duplicates {
            let more = duplicates - given;
            // Choose the largest content that can take all of the difference. If there is none, the
            // smallest content takes as many as it can.
            let roomy = counts.range(..=most.saturating_sub(more)).next_back();
            let from = roomy.or_else(|| counts.iter().next()).map_or(most, |(number, _)| *number);
            (from, most.min(from + more))
        } else {
            let from = counts.keys().next_back().copied().unwrap_or(1);
            (from, from.saturating_sub(given - duplicates).max(1))
        };
        if from == to {
            return;
        }
        if let Some(contents) = counts.get_mut(&from) {
            *contents -= 1;
            if *contents == 0 {
                counts.remove(&from);
            }
        }
        *counts.entry(to).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn contents_fall_with_their_duplicates() {
        let classes = power_law(1_000_000, 2_760_000, 10_000);
        let dense: Vec<u64> = classes.iter().take(20).map(|class| class.contents).collect();
        assert!(dense.windows(2).all(|pair| pair[0] > pair[1]), "{dense:?}");
        // A power law has 2^-a times the contents at twice the duplicates, so the quotient is
        // constant.
        let quotient = |low: usize, high: usize| dense[low - 1] as f64 / dense[high - 1] as f64;
        assert!((quotient(1, 2) / quotient(4, 8) - 1.0).abs() < 0.05, "{dense:?}");
    }

    proptest! {
        /// Every possible pair of counts is met exactly.
        #[test]
        fn counts_are_met_exactly(
            contents in 1u64..100_000, more in 0u64..10_000_000, most in 1u64..1_000_000
        ) {
            let most = most.max((contents + more).div_ceil(contents));
            let classes = power_law(contents, contents + more, most);
            let duplicates =
                classes.iter().map(|class| class.contents * class.duplicates).sum::<u64>();
            prop_assert_eq!(classes.iter().map(|class| class.contents).sum::<u64>(), contents);
            prop_assert_eq!(duplicates, contents + more);
            prop_assert!(classes.iter().all(|class| (1..=most).contains(&class.duplicates)));
        }
    }
}
