//! The quantity of a figure, by the last word of its name, and its text for people.

use gemelo_base::units::{
    format_count, format_duration_ns, format_percent, format_rate, format_size,
};

/// The unit in which a figure is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// A time in nanoseconds (`_ns`).
    Nanoseconds,
    /// Bytes a second (`bytes_per_s`).
    BytesPerSecond,
    /// Other events a second (`_per_s`).
    PerSecond,
    /// A size in bytes (`_bytes`).
    Bytes,
    /// A share of one (`_share`).
    Share,
    /// A number without a unit, such as a ratio or a count.
    Number,
}

/// Returns the quantity of the figure with this name.
#[must_use]
pub fn quantity(name: &str) -> Quantity {
    let endings = [
        ("_ns", Quantity::Nanoseconds),
        ("bytes_per_s", Quantity::BytesPerSecond),
        ("_per_s", Quantity::PerSecond),
        ("_bytes", Quantity::Bytes),
        ("_share", Quantity::Share),
    ];
    let found = endings.into_iter().find(|(ending, _)| name.ends_with(ending));
    found.map_or(Quantity::Number, |(_, quantity)| quantity)
}

impl Quantity {
    /// Formats a value for people: `1.50 ms`, `4.70 GB/s`, `12,300/s`, `1.00 GiB`.
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
            Self::Number => format_number(value),
        }
    }
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
        let text = |name: &str, value: f64| quantity(name).format(value);
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
        assert_eq!(quantity("write/latency_p99.9_ns"), Quantity::Nanoseconds);
        assert_eq!(quantity("job.write/bytes_per_s"), Quantity::BytesPerSecond);
        assert_eq!(quantity("all/operations_per_s"), Quantity::PerSecond);
        assert_eq!(quantity("space/dedup_ratio"), Quantity::Number);
    }
}
