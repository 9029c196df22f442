//! Statistics of repeated measurements: intervals of means, medians and ratios, tests of a
//! difference, correction for many comparisons, power, effect sizes, and means of time series.
//!
//! A [`Sample`] holds independent repetitions of one figure, and a [`Timeline`] holds a quantity
//! over the time of one run, whose values depend on each other. The types keep the two apart,
//! because the formulas for repetitions give intervals that are far too narrow for a time series.
//!
//! [`compare`] is the entry for a comparison of two samples, and [`compare_pairs`] for sides that
//! were measured in the same rounds: they select the test and the interval that fit.
//! [`Confidence::shared_by`] corrects the level of many comparisons, and [`PlannedLooks`] that of
//! data that are looked at several times. The documentation of each function names the source of
//! its formula.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod autocorrelation;
mod choice;
mod distribution;
mod effect;
mod interval;
mod looks;
mod mean;
mod pairs;
mod ranks;
mod ratio;
mod repetitions;
mod sample;
mod timeline;
mod welch;

pub use autocorrelation::autocorrelation_time;
pub use choice::{Comparison, FEWEST_FOR_RANKS, compare, compare_pairs, fits_ranks, has_outlier};
pub use effect::{cliffs_delta, hedges_g};
pub use interval::{Confidence, ConfidenceError, Estimate, Interval};
pub use looks::PlannedLooks;
pub use mean::{centre_with_interval, difference_of_means, mean_with_interval};
pub use pairs::{Directions, Pairs, difference_of_pairs, paired_test, ratio_of_pairs};
pub use ranks::{ShiftBounds, rank_test};
pub use ratio::{ratio_of_geometric_means, ratio_of_means, ratio_of_medians};
pub use repetitions::RatioNoise;
pub use sample::{LARGEST_VALUE, Sample, SampleError};
pub use timeline::{FEWEST_POINTS, Timeline, TimelineError, ratio_over_time};
pub use welch::{TestMethod, TestOutcome, log_test, welch_test};
