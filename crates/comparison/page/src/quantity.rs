//! The names of figures in words, and the texts of shares and ratios.

pub(crate) use gemelo_figures::{Measure, Unit, significant};

use gemelo_figures::{NameParts, name_parts};

/// Ratio of the ends of an interval from which the interval tells nothing, and the largest ratio
/// that its ends are written as.
const TELLS_NOTHING: f64 = 1e4;
const MAX_TOLD: f64 = 100.0;

/// Writes the interval of a ratio: `0.88 to 0.98`, `exact` if it is one number, and only how far it
/// reaches if it tells nothing.
pub(crate) fn ratio_range((low, high): (f64, f64)) -> String {
    if low >= high {
        return "exact".to_owned();
    }
    if low * TELLS_NOTHING >= high {
        return Unit::Number.show_range(low, high);
    }
    let low = if low < 1.0 / MAX_TOLD { "below 0.01".to_owned() } else { significant(low) };
    let high = if high > MAX_TOLD { "above 100".to_owned() } else { significant(high) };
    format!("{low} to {high}")
}

/// Writes a share as a percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    match share.is_nan() {
        // A share of nothing.
        true => "none".to_owned(),
        false => format!("{:.1} %", 100.0 * share),
    }
}

/// The parts of a figure's name, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FigureName {
    /// Part of a suite or sweep, such as `nurand-write`.
    pub(crate) job: Option<String>,
    /// Kind of operation or the thing that was measured, such as `write` or `system`.
    pub(crate) kind: String,
    /// Quantity in words, such as `99th percentile of write latency`.
    pub(crate) words: String,
}

/// Returns the name of a figure in words.
pub(crate) fn figure_name(name: &str) -> FigureName {
    let parts = name_parts(name);
    FigureName {
        job: parts.job.map(str::to_owned),
        kind: parts.kind.to_owned(),
        words: words(parts),
    }
}

/// Returns the name of a figure in words, with its job in front.
pub(crate) fn figure_title(name: &str) -> String {
    let FigureName { job, words, .. } = figure_name(name);
    match job {
        Some(job) => format!("{job}: {words}"),
        None => capitalised(&words),
    }
}

/// Returns a text with a capital first letter.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn words(NameParts { kind, quantity, .. }: NameParts<'_>) -> String {
    let stem = ["_bytes_per_s", "_per_s", "_bytes", "_ns", "_share"]
        .iter()
        .find_map(|unit| quantity.strip_suffix(unit))
        .unwrap_or(quantity);
    let kind_of = |noun: &str| match kind {
        "all" | "" | "run" => noun.to_owned(),
        "system" | "target" | "monitor" => format!("{noun} of the {kind}"),
        "usage" => format!("{noun} of the load generator"),
        "space" => format!("space, {noun}"),
        "hosts" => format!("throughput of the {noun} host, of the mean of all"),
        kind => format!("{kind} {noun}"),
    };
    match (stem, quantity) {
        (_, "bytes_per_s") => kind_of("throughput"),
        (_, "operations_per_s") => kind_of("operations"),
        ("dedup_ratio", _) => kind_of("dedup ratio"),
        ("cpu", _) => kind_of("processor time"),
        ("service", _) => kind_of("service time"),
        ("elapsed", _) => kind_of("time"),
        _ => {
            let timed = [("latency_", "latency"), ("service_", "service time")];
            let of_time = timed.iter().find_map(|(prefix, noun)| {
                stem.strip_prefix(prefix).map(|rank| format!("{noun}, {}", percentile_words(rank)))
            });
            kind_of(&of_time.unwrap_or_else(|| stem.replace('_', " ")))
        }
    }
}

fn percentile_words(rank: &str) -> String {
    match rank {
        "max" => return "maximum".to_owned(),
        "min" => return "minimum".to_owned(),
        "p50" => return "median".to_owned(),
        _ => {}
    }
    match rank.strip_prefix('p') {
        Some(number) if number.parse::<f64>().is_ok() => format!("{number}th percentile"),
        _ => rank.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit_that_fits() {
        for (unit, value, text) in [
            (Unit::Nanoseconds, 999.7, "1.00 µs"),
            (Unit::Nanoseconds, 12_345.0, "12.3 µs"),
            (Unit::Bytes, 1_572_864.0, "1.50 MiB"),
            (Unit::BytesPerSecond, 412_345_678.0, "412 MB/s"),
            (Unit::PerSecond, 109_173.1, "109,000/s"),
            (Unit::Share, 0.2271, "22.7 %"),
            (Unit::Number, 1.4249, "1.42"),
            (Unit::Number, -0.5, "-0.500"),
            (Unit::Count, 0.0, "0"),
            (Unit::Count, -1.42e20, "-1.42e20"),
            (Unit::Number, f64::INFINITY, "inf"),
            (Unit::Number, f64::NAN, "none"),
        ] {
            assert_eq!(unit.show(value), text, "{unit:?}");
        }
        assert_eq!(Unit::BytesPerSecond.show_range(9e8, 1.1e9), "0.900 to 1.10 GB/s");
        assert_eq!((percent(0.0716), percent(f64::NAN)), ("7.2 %".into(), "none".into()));
    }

    #[test]
    fn the_interval_of_a_ratio_shows_no_digits_that_say_nothing() {
        for (interval, text) in [
            ((0.881, 0.98), "0.881 to 0.980"),
            ((0.832, 0.832), "exact"),
            ((0.000_008, 3020.0), "below 0.01 to above 100"),
            ((0.05, 3020.0), "0.0500 to above 100"),
            ((2000.0, 3020.0), "2,000 to 3,020"),
        ] {
            assert_eq!(ratio_range(interval), text);
        }
    }

    #[test]
    fn the_name_of_a_figure_tells_its_unit_and_its_words() {
        for (name, unit, words) in [
            ("write/bytes_per_s", Unit::BytesPerSecond, "Write throughput"),
            ("all/operations_per_s", Unit::PerSecond, "Operations"),
            ("read/latency_p99.9_ns", Unit::Nanoseconds, "Read latency, 99.9th percentile"),
            (
                "nurand-write.write/latency_mean_ns",
                Unit::Nanoseconds,
                "nurand-write: write latency, mean",
            ),
            ("usage/cpu_share", Unit::Share, "Processor time of the load generator"),
            ("pool/metadata_memory_bytes", Unit::Bytes, "Pool metadata memory"),
            ("space/dedup_ratio", Unit::Number, "Space, dedup ratio"),
            ("space/data_bytes", Unit::Bytes, "Space, data"),
        ] {
            assert_eq!(Unit::of_figure(name), unit, "{name}");
            assert_eq!(figure_title(name), words, "{name}");
        }
    }
}
