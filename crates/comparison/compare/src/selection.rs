//! The figures that are compared.

use gemelo_base::Classified;
use gemelo_record::{Better, Figure, Stats};
use gemelo_stats::{Confidence, Interval};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// The settings of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Confidence level. The comparisons of one call share it: the intervals of all their ratios
    /// contain the true ratios together at this level.
    pub confidence: Confidence,
    /// The ratios that count as the same.
    pub margin: Margin,
    /// The figures that are compared.
    pub selection: Selection,
}

impl Default for Settings {
    fn default() -> Self {
        Self { confidence: Confidence::USUAL, margin: Margin::USUAL, selection: Selection::Main }
    }
}

/// The error for a share that is not a margin.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
#[error("{share} is not a margin: give a share above 0 and below 1, such as 0.1 for 10 %")]
pub struct MarginError {
    /// The number that was given.
    pub share: f64,
}

/// The equivalence margin: the largest difference that does not matter, as a share. Two sides are
/// called the same only if the whole interval of their ratio lies in it. Source: Schuirmann, "A
/// comparison of the two one-sided tests procedure and the power approach for assessing the
/// equivalence of average bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15
/// (1987).
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Margin(f64);

impl Margin {
    /// 10 % to each side: ratios of 0.9 to 1.1.
    pub const USUAL: Self = Self(0.1);

    /// Creates a margin.
    ///
    /// # Errors
    /// Fails if the share is not above 0 and below 1.
    pub fn new(share: f64) -> Result<Self, MarginError> {
        if share > 0.0 && share < 1.0 { Ok(Self(share)) } else { Err(MarginError { share }) }
    }

    /// Returns the share, such as 0.1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0
    }

    /// Returns whether all ratios of an interval count as the same.
    #[must_use]
    pub fn contains(self, interval: Interval) -> bool {
        interval.low() >= 1.0 - self.0 && interval.high() <= 1.0 + self.0
    }

    /// Returns the factor to each side of a ratio within which its interval is narrow enough to
    /// decide, whatever the ratio: an interval that contains 1 then lies in the margin.
    #[must_use]
    pub fn reach(self) -> f64 {
        (1.0 + self.0).sqrt()
    }
}

/// The choice of figures. Each further figure makes the correction for many comparisons stricter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The figures by which people judge a run: rates, mean and 99th percentile of latencies, use
    /// of processors and memory, space.
    Main,
    /// All figures that both results have.
    All,
    /// The figures with these names, with or without the name of a job in front.
    Named(Vec<String>),
    /// The figures with exactly these names.
    Exactly(Vec<String>),
}

/// The endings of main figures.
const MAIN: [&str; 11] = [
    "/operations_per_s",
    "/latency_mean_ns",
    "/latency_p99_ns",
    "run/elapsed_ns",
    "usage/cpu_share",
    "target/cpu_share",
    "space/data_bytes",
    "space/metadata_bytes",
    "scan/bytes_per_s",
    "scan/dedup_ratio",
    "scan/saved_bytes",
];

impl Selection {
    /// Returns whether the figure `name` of a run with all these `figures` is compared.
    #[must_use]
    pub fn contains(&self, name: &str, figures: &Stats) -> bool {
        match self {
            Self::All => true,
            Self::Exactly(names) => names.iter().any(|given| given == name),
            Self::Named(names) => names.iter().any(|given| {
                let rest = name.strip_suffix(given.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
            Self::Main => {
                let is_main = MAIN.iter().any(|ending| name.ends_with(ending));
                is_main && !repeats_another(name, figures) && !is_set_by_user(name, figures)
            }
        }
    }
}

/// Returns `true` for the length of a run with a time limit, which is no result.
fn is_set_by_user(name: &str, figures: &Stats) -> bool {
    let of_name = |figure: &&Figure| figure.name == name;
    let is_merit = |figure: &Figure| figure.better != Better::Neither;
    name.ends_with("run/elapsed_ns") && !figures.figures.iter().find(of_name).is_some_and(is_merit)
}

/// Returns `true` for the sum over all operations in a run that has only one kind of them: it is
/// the same number again.
fn repeats_another(name: &str, figures: &Stats) -> bool {
    let Some((job, quantity)) = name.rsplit_once("all/") else { return false };
    let has = |kind: &str| figures.value(&format!("{job}{kind}/{quantity}")).is_some();
    ["write", "read", "trim", "mixed"].into_iter().filter(|kind| has(kind)).count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_is_narrow_enough_is_decided_whatever_its_ratio() {
        let margin = Margin::USUAL;
        for ratio in [0.7, 0.9, 0.96, 1.0, 1.04, 1.1, 1.3] {
            let reach = margin.reach();
            let interval = Interval::new(ratio / reach, ratio * reach).unwrap();
            assert!(!interval.contains(1.0) || margin.contains(interval), "{ratio}");
        }
        assert!(Margin::new(0.0).is_err() && Margin::new(1.0).is_err());
    }

    #[test]
    fn the_sum_of_one_kind_of_operations_is_not_compared_again() {
        let mut figures = Stats::default();
        figures.push("job.write/operations_per_s", 1.0, Better::Higher);
        figures.push("job.all/operations_per_s", 1.0, Better::Higher);
        let is_main = |name: &str, figures: &Stats| Selection::Main.contains(name, figures);
        assert!(!is_main("job.all/operations_per_s", &figures));
        assert!(is_main("job.write/operations_per_s", &figures));
        figures.push("job.read/operations_per_s", 1.0, Better::Higher);
        assert!(is_main("job.all/operations_per_s", &figures));
        assert!(!is_main("job.write/latency_p99.99_ns", &figures));
    }

    #[test]
    fn the_length_of_a_run_is_a_result_unless_the_user_set_it() {
        for (better, is_main) in [(Better::Lower, true), (Better::Neither, false)] {
            let mut figures = Stats::default();
            figures.push("job.run/elapsed_ns", 1.0, better);
            assert_eq!(Selection::Main.contains("job.run/elapsed_ns", &figures), is_main);
        }
    }

    #[test]
    fn names_match_with_and_without_a_job() {
        let named = Selection::Named(vec!["write/bytes_per_s".to_owned()]);
        let figures = Stats::default();
        assert!(named.contains("write/bytes_per_s", &figures));
        assert!(named.contains("job.write/bytes_per_s", &figures));
        assert!(!named.contains("overwrite/bytes_per_s", &figures));
    }
}
