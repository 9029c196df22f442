//! The arrival of requests: a Poisson process, or one with pauses.

use gemelo_base::random::Random;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The distribution of requests over time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arrival {
    /// Independent requests with exponential gaps.
    Poisson,
    /// Bursts: a Poisson process runs for a share of the time and pauses for the rest. The lengths
    /// of both are exponential (an interrupted Poisson process: Kuczura, Bell System Technical
    /// Journal 52(3), 1973).
    Bursty {
        /// Share of the time with requests, above 0 and at most 1.
        busy_share: f64,
        /// Mean length of a burst in nanoseconds.
        burst_ns: u64,
    },
}

impl Arrival {
    /// Bursts of 10 seconds on average in a tenth of the time.
    pub const USUAL_BURSTS: Self = Self::Bursty { busy_share: 0.1, burst_ns: 10_000_000_000 };
}

/// The error for a text that names no arrival process.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not an arrival process: use poisson, bursty, or bursty:SHARE/LENGTH with the \
     percentage of busy time and the mean length of a burst, such as bursty:10/10s"
)]
pub struct ArrivalError(String);

impl FromStr for Arrival {
    type Err = ArrivalError;

    fn from_str(text: &str) -> Result<Self, ArrivalError> {
        use gemelo_base::units::{parse_duration, parse_percent};
        let error = || ArrivalError(text.to_owned());
        match text {
            "poisson" => return Ok(Self::Poisson),
            "bursty" => return Ok(Self::USUAL_BURSTS),
            _ => {}
        }
        let (share, length) =
            text.strip_prefix("bursty:").and_then(|rest| rest.split_once('/')).ok_or_else(error)?;
        let busy_share = parse_percent(share).map_err(|_| error())?;
        let burst_ns =
            parse_duration(length).ok().and_then(|length| u64::try_from(length.as_nanos()).ok());
        let burst_ns = burst_ns.filter(|length| *length > 0).ok_or_else(error)?;
        (busy_share > 0.0).then_some(Self::Bursty { busy_share, burst_ns }).ok_or_else(error)
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => formatter.write_str("poisson"),
            Self::Bursty { busy_share, burst_ns } => {
                write!(formatter, "bursty:{}/{burst_ns}ns", busy_share * 100.0)
            }
        }
    }
}

gemelo_base::text_in_results!(Arrival);

/// The endless sequence of request times.
#[derive(Debug, Clone)]
pub(super) struct Times {
    random: Random,
    now_ns: f64,
    /// Mean gap between requests within a burst.
    gap_ns: f64,
    bursts: Option<Bursts>,
}

#[derive(Debug, Clone)]
struct Bursts {
    left_ns: f64,
    burst_ns: f64,
    pause_ns: f64,
}

impl Times {
    /// Creates the times of a process with a mean of `requests_per_s`, which must be above 0.
    pub(super) fn new(arrival: Arrival, requests_per_s: f64, seed: u64) -> Self {
        let mean_gap_ns = 1e9 / requests_per_s;
        let (gap_ns, bursts) = match arrival {
            Arrival::Poisson => (mean_gap_ns, None),
            Arrival::Bursty { busy_share, burst_ns } => {
                let burst_ns = burst_ns as f64;
                let pause_ns = burst_ns * (1.0 - busy_share) / busy_share;
                (mean_gap_ns * busy_share, Some(Bursts { left_ns: 0.0, burst_ns, pause_ns }))
            }
        };
        Self { random: Random::new(seed), now_ns: 0.0, gap_ns, bursts }
    }

    #[inline]
    fn exponential(&mut self, mean: f64) -> f64 {
        // The argument 1 - u of the logarithm is above 0.
        -mean * (1.0 - self.random.unit()).ln()
    }

    /// Returns the arrival of the next request in nanoseconds from the start.
    #[inline]
    pub(super) fn next_ns(&mut self) -> u64 {
        let mut gap_ns = self.exponential(self.gap_ns);
        if let Some(mut bursts) = self.bursts.take() {
            while gap_ns > bursts.left_ns {
                gap_ns -= bursts.left_ns;
                self.now_ns += bursts.left_ns + self.exponential(bursts.pause_ns);
                bursts.left_ns = self.exponential(bursts.burst_ns);
            }
            bursts.left_ns -= gap_ns;
            self.bursts = Some(bursts);
        }
        self.now_ns += gap_ns;
        self.now_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(arrival: Arrival, seed: u64) -> (f64, f64) {
        const REQUESTS: u32 = 200_000;
        let mut times = Times::new(arrival, 100.0, seed);
        let mut in_second = std::collections::HashMap::new();
        let mut last_ns = 0;
        for _ in 0..REQUESTS {
            let now_ns = times.next_ns();
            assert!(now_ns >= last_ns);
            last_ns = now_ns;
            *in_second.entry(now_ns / 1_000_000_000).or_insert(0.0) += 1.0;
        }
        let count = (last_ns / 1_000_000_000 + 1) as f64;
        let mean = f64::from(REQUESTS) / count;
        let squares: f64 = in_second.values().map(|n: &f64| n * n).sum();
        (mean, (squares / count - mean * mean) / mean)
    }

    #[test]
    fn rates_hold_and_only_bursts_disperse() {
        for seed in 1..4 {
            let (rate, dispersion) = seconds(Arrival::Poisson, seed);
            assert!(
                (rate / 100.0 - 1.0).abs() < 0.02 && (dispersion - 1.0).abs() < 0.1,
                "{rate} {dispersion}"
            );
        }
        let bursty = Arrival::Bursty { busy_share: 0.2, burst_ns: 500_000_000 };
        let (rate, dispersion) = seconds(bursty, 7);
        // About 800 bursts have a standard deviation of 3.5 % in their sum, and a little less in
        // that of their pauses.
        assert!((rate / 100.0 - 1.0).abs() < 0.2 && dispersion > 20.0, "{rate} {dispersion}");
    }

    #[test]
    fn texts_are_read_as_written() {
        for text in ["poisson", "bursty:10/10000000000ns", "bursty:12.5/5ns"] {
            assert_eq!(text.parse::<Arrival>().unwrap().to_string(), text);
        }
        assert_eq!("bursty".parse(), Ok(Arrival::USUAL_BURSTS));
        for text in ["", "bursty:", "bursty:0/1s", "bursty:10", "bursty:10/0s", "uniform"] {
            assert!(text.parse::<Arrival>().is_err(), "{text}");
        }
    }
}
