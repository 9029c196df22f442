//! The order of runs.
//!
//! One repetition of everything precedes the next, and the targets of a workload follow one another
//! in an order that rotates from repetition to repetition and from workload to workload. A drift of
//! the machine then falls on all targets alike, and every target has every place in the order about
//! equally often (a Latin square). The seed of the campaign chooses the first order.

use gemelo_base::random::Random;

/// A pair of a workload and a target, by their places in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) workload: usize,
    pub(crate) target: usize,
}

/// Returns the order of one repetition of some pairs.
pub(crate) fn order(pairs: &[Pair], seed: u64, repetition: u32) -> Vec<Pair> {
    let mut workloads: Vec<usize> = pairs.iter().map(|pair| pair.workload).collect();
    workloads.dedup();
    let mut ordered = Vec::with_capacity(pairs.len());
    for (index, workload) in workloads.into_iter().enumerate() {
        let mut targets: Vec<Pair> =
            pairs.iter().copied().filter(|pair| pair.workload == workload).collect();
        shuffle(&mut targets, seed);
        let step = index + repetition as usize;
        let count = targets.len().max(1);
        targets.rotate_left(step % count);
        ordered.extend(targets);
    }
    ordered
}

/// Permutes by the seed (Fisher and Yates).
fn shuffle(pairs: &mut [Pair], seed: u64) {
    let mut random = Random::new(seed);
    for last in (1..pairs.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        pairs.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(workloads: usize, targets: usize) -> Vec<Pair> {
        (0..workloads)
            .flat_map(|workload| (0..targets).map(move |target| Pair { workload, target }))
            .collect()
    }

    #[test]
    fn every_target_has_every_place_equally_often() {
        let all = pairs(2, 3);
        let mut places = [[0; 3]; 3];
        for repetition in 0..3 {
            let ordered = order(&all, 7, repetition);
            for (place, pair) in ordered.iter().take(3).enumerate() {
                assert_eq!(pair.workload, 0);
                places[pair.target][place] += 1;
            }
            let mut sorted = ordered.clone();
            sorted.sort();
            assert_eq!(sorted, all);
        }
        assert_eq!(places, [[1; 3]; 3]);
    }

    #[test]
    fn the_seed_decides_the_order() {
        let all = pairs(1, 8);
        assert_eq!(order(&all, 1, 0), order(&all, 1, 0));
        assert_ne!(order(&all, 1, 0), order(&all, 2, 0));
    }
}
