//! Fewer points for what a screen shows: a run can have millions of operations and hours of time.

use std::collections::BTreeMap;

/// Points of a line over time. A drawing is 470 units wide, and letters take some of them.
const MAX_TIME_POINTS: usize = 120;
/// Points of a latency curve for each nine of its axis.
const POINTS_PER_NINE: u32 = 16;
/// Nines at which a latency curve ends at the latest: one operation in a million.
const MAX_NINES: u32 = 6;

/// Returns the points, or the means of equal intervals of time if there are too many.
pub(crate) fn over_time(points: &[(u64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= MAX_TIME_POINTS {
        return points.iter().map(|(time, value)| (*time as f64, *value)).collect();
    }
    group_means(points, MAX_TIME_POINTS)
}

/// Returns the means of this many equal intervals of time, each at the mean of its times. Intervals
/// without a point are left out.
pub(crate) fn group_means(points: &[(u64, f64)], most: usize) -> Vec<(f64, f64)> {
    let times = || points.iter().map(|(time, _)| *time);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Vec::new();
    };
    let length = ((last - first) as f64 / most as f64).max(1.0);
    let mut groups: BTreeMap<u64, (f64, f64, f64)> = BTreeMap::new();
    for (time, value) in points {
        let group = ((time - first) as f64 / length) as u64;
        let (count, times, values) =
            groups.entry(group.min(most as u64 - 1)).or_insert((0.0, 0.0, 0.0));
        *count += 1.0;
        *times += *time as f64;
        *values += value;
    }
    groups.into_values().map(|(count, times, values)| (times / count, values / count)).collect()
}

/// The latencies of operations, in ascending order, with the number of operations up to each.
pub(crate) struct Percentiles {
    cumulative: Vec<(u64, u64)>,
    total: u64,
}

impl Percentiles {
    /// Gathers latencies and their counts, in any order.
    pub(crate) fn new<'a>(counts: impl IntoIterator<Item = &'a [u64; 2]>) -> Self {
        let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
        for [latency, count] in counts {
            let sum = merged.entry(*latency).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
        let mut total = 0u64;
        let cumulative = merged
            .into_iter()
            .map(|(latency, count)| {
                total = total.saturating_add(count);
                (latency, total)
            })
            .collect();
        Self { cumulative, total }
    }

    /// Returns the smallest latency that at least this share of operations does not exceed.
    pub(crate) fn at(&self, share: f64) -> Option<u64> {
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let place = self.cumulative.partition_point(|(_, upto)| *upto < rank);
        self.cumulative.get(place).or(self.cumulative.last()).map(|(latency, _)| *latency)
    }

    /// Returns the points of the curve: shares of operations and their latencies. The curve ends
    /// where a single operation decides.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let steps = MAX_NINES * POINTS_PER_NINE;
        (0..=steps)
            .map(|step| 1.0 - 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE)))
            .take_while(|share| (1.0 - share) * self.total as f64 >= 1.0)
            .filter_map(|share| Some((share, self.at(share)? as f64)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_mean_and_its_ends() {
        let points: Vec<(u64, f64)> = (0..10_000).map(|t| (t, (t % 10) as f64)).collect();
        let thin = over_time(&points);
        assert_eq!(thin.len(), MAX_TIME_POINTS);
        let mean = thin.iter().map(|(_, value)| value).sum::<f64>() / thin.len() as f64;
        assert!((mean - 4.5).abs() < 0.05, "{mean}");
        assert!(thin.first().unwrap().0 < 100.0 && thin.last().unwrap().0 > 9_900.0);
    }

    #[test]
    fn the_mean_of_repetitions_is_one_line() {
        let repetitions = [(0, 1.0), (1, 3.0), (100, 5.0), (101, 7.0)];
        assert_eq!(group_means(&repetitions, 2), [(0.5, 2.0), (100.5, 6.0)]);
        // A file of another program may have them in any order.
        let unordered = [(100, 5.0), (0, 1.0), (101, 7.0), (1, 3.0)];
        assert_eq!(group_means(&unordered, 2), [(0.5, 2.0), (100.5, 6.0)]);
    }

    #[test]
    fn percentiles_are_those_of_all_operations() {
        let all = Percentiles::new(&[[10, 90], [20, 9], [500, 1]]);
        for (share, latency) in [(0.0, 10), (0.9, 10), (0.91, 20), (0.99, 20), (1.0, 500)] {
            assert_eq!(all.at(share), Some(latency), "{share}");
        }
        assert_eq!(all.curve().last().unwrap().1, 20.0, "one operation decides beyond 99 %");
        assert_eq!(Percentiles::new(&[]).at(0.5), None);
    }
}
