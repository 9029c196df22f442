//! The units of figures, which their names tell (see `gemelo_record::Figure`), and how figures are
//! written: with three significant digits and a unit that fits their size, or with all digits.

use gemelo_base::units::{
    format_count, format_duration_ns, format_percent, format_rate, format_size,
};

/// Digits of a figure that are shown. More would claim a precision that runs seldom have.
const SIGNIFICANT_DIGITS: i32 = 3;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time in nanoseconds.
    Nanoseconds,
    /// Sizes in bytes, shown in powers of 1024.
    Bytes,
    /// Rates in bytes a second, shown in powers of 1000.
    BytesPerSecond,
    /// Rates of anything else a second.
    PerSecond,
    /// Shares of one, shown as percentages.
    Share,
    /// Numbers without a unit, such as ratios.
    Number,
    /// Numbers of things, which are whole.
    Count,
}

/// A unit of a certain size, such as the microsecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    divisor: f64,
    /// Text of the unit, empty for a plain number.
    pub label: &'static str,
}

const NANOSECONDS: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
const BYTES: [(f64, &str); 5] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
];
const BYTES_PER_S: [(f64, &str); 4] = [(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")];

impl Unit {
    /// Returns the unit that the last words of a figure's name state.
    #[must_use]
    pub fn of_figure(name: &str) -> Self {
        let quantity = name.rsplit('/').next().unwrap_or(name);
        let ends = |word: &str| quantity == word || quantity.ends_with(&format!("_{word}"));
        if ends("bytes_per_s") {
            Self::BytesPerSecond
        } else if ends("per_s") {
            Self::PerSecond
        } else if ends("ns") {
            Self::Nanoseconds
        } else if ends("bytes") {
            Self::Bytes
        } else if ends("share") {
            Self::Share
        } else if ends("ratio") || ends("bits") {
            Self::Number
        } else {
            Self::Count
        }
    }

    /// Returns whether a figure is a speed or a time, and not an amount.
    #[must_use]
    pub const fn is_speed(self) -> bool {
        matches!(self, Self::Nanoseconds | Self::PerSecond | Self::BytesPerSecond)
    }

    /// Formats a value with all the digits that people compare: `1.50 ms`, `12,346/s`, `1.00 GiB`.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        if value < 0.0 {
            return format!("-{}", self.format(-value));
        }
        match self {
            Self::Nanoseconds => format_duration_ns(value.round() as u64),
            Self::BytesPerSecond => format_rate(value),
            Self::PerSecond => format!("{}/s", format_number(value)),
            Self::Bytes => format_size(value.round() as u64),
            Self::Share => format_percent(value),
            Self::Number | Self::Count => format_number(value),
        }
    }

    /// Returns the measure in which a value of this size is easy to read.
    #[must_use]
    pub fn measure(self, value: f64) -> Measure {
        let steps: &[(f64, &'static str)] = match self {
            Self::Nanoseconds => &NANOSECONDS,
            Self::Bytes => &BYTES,
            Self::BytesPerSecond => &BYTES_PER_S,
            Self::PerSecond => &[(1.0, "/s")],
            Self::Share => &[(0.01, "%")],
            Self::Number | Self::Count => &[(1.0, "")],
        };
        // A value that would be shown as 1000 of a unit is shown in the next one.
        let fits = |(divisor, _): &&(f64, &str)| value.abs() >= divisor * 0.9995;
        let (divisor, label) =
            steps.iter().rev().find(fits).or(steps.first()).copied().unwrap_or((1.0, ""));
        Measure { divisor, label }
    }

    /// Writes a value with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        self.measure(value).show(value)
    }

    /// Writes a range in the measure of its upper end: `1.31 to 1.55`.
    #[must_use]
    pub fn show_range(self, low: f64, high: f64) -> String {
        let measure = self.measure(low.abs().max(high.abs()));
        format!("{} to {}", measure.number(low), measure.show(high))
    }
}

impl Measure {
    /// Writes the number of a value, without the unit.
    #[must_use]
    pub fn number(self, value: f64) -> String {
        significant(value / self.divisor)
    }

    /// Writes a value with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self.label {
            "" => self.number(value),
            "/s" => format!("{}/s", self.number(value)),
            label => format!("{} {label}", self.number(value)),
        }
    }

    /// Converts a value to this measure.
    #[must_use]
    pub fn scaled(self, value: f64) -> f64 {
        value / self.divisor
    }

    /// Converts a value of this measure to the unit.
    #[must_use]
    pub fn unscaled(self, value: f64) -> f64 {
        value * self.divisor
    }
}

/// The number from which on a power of ten is written: its digits would fill a line.
const MAX_COUNTED: f64 = 1e18;

/// Writes a number with three significant digits: `0.0123`, `1.42`, `412`, `109,000`, `1.42e20`.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.is_nan() {
        return "none".to_owned();
    }
    // The magnitude after rounding: 0.9997 is shown as 1.00.
    let rounded = format!("{:.*e}", SIGNIFICANT_DIGITS as usize - 1, value.abs());
    let magnitude: i32 = rounded.rsplit('e').next().and_then(|e| e.parse().ok()).unwrap_or(0);
    if value.abs() >= MAX_COUNTED {
        return format!("{value:.*e}", SIGNIFICANT_DIGITS as usize - 1);
    }
    let decimals = SIGNIFICANT_DIGITS - 1 - magnitude;
    if decimals > 0 {
        return format!("{value:.*}", decimals.min(9) as usize);
    }
    let step = 10f64.powi(-decimals);
    let rounded = (value.abs() / step).round() * step;
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", format_count(rounded as u64))
}

/// Formats a number with at least three significant digits.
fn format_number(value: f64) -> String {
    /// Above this number, the digits after the point are left out.
    const MANY: f64 = 1000.0;
    match value {
        _ if value >= MANY => format_count(value.round() as u64),
        _ if value.fract() == 0.0 => format!("{value}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_unit() {
        let text = |name: &str, value: f64| Unit::of_figure(name).format(value);
        assert_eq!(text("write/latency_mean_ns", 1_500_000.4), "1.50 ms");
        assert_eq!(text("write/bytes_per_s", 4.7e9), "4.70 GB/s");
        assert_eq!(text("write/operations_per_s", 12_345.6), "12,346/s");
        assert_eq!(text("space/data_bytes", -1024.0), "-1.00 KiB");
        assert_eq!(text("usage/cpu_share", 1.5), "150.00 %");
        assert_eq!(["a", "a", "a"].map(|name| text(name, 12.34)), ["12.3", "12.3", "12.3"]);
        assert_eq!((text("a", 3.0), text("a", 1.2345)), ("3".to_owned(), "1.234".to_owned()));
    }

    #[test]
    fn the_last_word_is_the_unit() {
        assert_eq!(Unit::of_figure("write/latency_p99.9_ns"), Unit::Nanoseconds);
        assert_eq!(Unit::of_figure("job.write/bytes_per_s"), Unit::BytesPerSecond);
        assert_eq!(Unit::of_figure("all/operations_per_s"), Unit::PerSecond);
        assert_eq!(Unit::of_figure("space/dedup_ratio"), Unit::Number);
    }
}
