//! Parsing and formatting of sizes, counts and durations as users write and read them.
//!
//! `4k`, `4K` and `4KiB` mean 4096 bytes, as in storage tools. `4kB` means 4000 bytes, as in the
//! capacities of disks and the rates of links.

use crate::Classified;
use std::time::Duration;
use thiserror::Error;

/// The error for a text that is not a valid size, duration or percentage.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
#[error("'{text}' is not {expected}")]
pub struct UnitError {
    /// The text that was parsed.
    pub text: String,
    /// A description of the valid texts, with examples.
    pub expected: &'static str,
}

const SIZE: &str = "a size in bytes, such as 4096, 4k or 4KiB (4096), 1.5g, 2TiB or 2TB \
     (2 * 10^12), at most 16 EiB - 1";
const DURATION: &str = "a duration, such as 30s, 500ms, 5m, 2h or 1h30m";
const SHARE: &str = "a percentage from 0 to 100, such as 25 or 12.5%";

/// The factors between the binary prefixes (`k`, `KiB`) and between the decimal ones (`kB`), in
/// bytes.
const KIB: u64 = 1024;
const KB: u64 = 1000;
/// The letters of the prefixes, in ascending order of their powers.
const SIZE_LETTERS: [&str; 6] = ["k", "m", "g", "t", "p", "e"];

/// Returns the bytes in a unit given in lower case: `g`, `gib`, `gb`, `b` or the empty text.
fn size_unit(suffix: &str) -> Option<u64> {
    let power = |letter: &str| {
        (1..).zip(SIZE_LETTERS).find(|(_, name)| *name == letter).map(|(power, _)| power)
    };
    if suffix.is_empty() || suffix == "b" {
        return Some(1);
    }
    if let Some(letter) = suffix.strip_suffix("ib") {
        return Some(KIB.pow(power(letter)?));
    }
    match suffix.strip_suffix('b') {
        Some(letter) => Some(KB.pow(power(letter)?)),
        None => Some(KIB.pow(power(suffix)?)),
    }
}

fn error(text: &str, expected: &'static str) -> UnitError {
    UnitError { text: text.to_owned(), expected }
}

/// Splits "1.5GiB" into "1.5" and "gib".
fn split_number(text: &str) -> (&str, String) {
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    (number, suffix.trim().to_ascii_lowercase())
}

/// Returns the number times `unit`. Whole numbers are exact. Returns `None` if the text is not a
/// number or the product exceeds 64 bits.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let number = number.replace('_', "");
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let value = number.parse::<f64>().ok()? * unit as f64;
    (value.is_finite() && value < u64::MAX as f64).then_some(value.round() as u64)
}

/// Parses a size in bytes.
///
/// # Errors
/// Fails if the text is not a number with an optional suffix, or if the size exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, suffix) = split_number(text.trim());
    size_unit(&suffix).and_then(|unit| scaled(number, unit)).ok_or_else(|| error(text, SIZE))
}

/// Parses a duration. A number without a unit means seconds.
///
/// # Errors
/// Fails if a part of the text is not a number with a unit, or if the sum exceeds 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let mut rest = text.trim();
    let mut total_ns: u64 = 0;
    if rest.is_empty() {
        return Err(error(text, DURATION));
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let part_ns = duration_unit_ns(unit.trim())
            .and_then(|unit_ns| scaled(number, unit_ns))
            .ok_or_else(|| error(text, DURATION))?;
        total_ns = total_ns.checked_add(part_ns).ok_or_else(|| error(text, DURATION))?;
        rest = tail;
    }
    Ok(Duration::from_nanos(total_ns))
}

fn duration_unit_ns(unit: &str) -> Option<u64> {
    const SECOND_NS: u64 = 1_000_000_000;
    Some(match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => SECOND_NS,
        "m" | "min" => 60 * SECOND_NS,
        "h" => 3600 * SECOND_NS,
        "d" => 86_400 * SECOND_NS,
        _ => return None,
    })
}

/// Parses a percentage into a share from 0 to 1.
///
/// # Errors
/// Fails if the text is not a number from 0 to 100, with or without a percent sign.
pub fn parse_percent(text: &str) -> Result<f64, UnitError> {
    let number = text.trim().trim_end_matches('%').trim_end();
    number
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| error(text, SHARE))
}

/// Formats a number of bytes in powers of 1024: `1.50 GiB`, `512 B`.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    if bytes < KIB {
        return format!("{bytes} B");
    }
    let mut exponent = (63 - bytes.leading_zeros()) / 10;
    let mut value = bytes as f64 / (1u64 << (10 * exponent)) as f64;
    // A value that rounds to 1024.00 of a unit is shown as 1.00 of the next.
    if value >= 1023.995 {
        exponent += 1;
        value /= 1024.0;
    }
    let letter = ["", "K", "M", "G", "T", "P", "E"].get(exponent as usize).copied().unwrap_or("");
    format!("{value:.2} {letter}iB")
}

/// Formats a number of bytes without rounding, for limits: `16 TiB`, `1000 bytes`.
#[must_use]
pub fn format_exact_size(bytes: u64) -> String {
    let steps = if bytes == 0 { 0 } else { bytes.trailing_zeros() / 10 };
    let unit = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].get(steps as usize);
    format!("{} {}", bytes >> (10 * steps), unit.copied().unwrap_or("bytes"))
}

/// Formats a share from 0 to 1 as a percentage: `76.03 %`.
#[must_use]
pub fn format_percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Formats a rate in bytes a second in powers of 1000, as is usual for links and disks: `4.70
/// GB/s`.
#[must_use]
pub fn format_rate(bytes_per_s: f64) -> String {
    let mut value = bytes_per_s;
    for unit in ["B/s", "kB/s", "MB/s", "GB/s"] {
        if value < 1000.0 {
            return format!("{value:.2} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.2} TB/s")
}

/// Formats a count with commas between groups of three digits: `1,234,567`.
#[must_use]
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with a noun whose plural ends in s: `1 volume`, `1,234 volumes`.
#[must_use]
pub fn format_counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", format_count(count), if count == 1 { "" } else { "s" })
}

/// Formats a count with a noun whose plural is irregular: `1 directory`, `2 directories`.
#[must_use]
pub fn format_counted_as(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", format_count(count), if count == 1 { one } else { several })
}

/// Makes a text safe to print on one line: control characters, which file names can contain, are
/// escaped.
#[must_use]
pub fn format_line(text: &str) -> String {
    escape_controls(text, |_| false)
}

/// Makes a text of several lines safe to print: control characters other than line feeds are
/// escaped.
#[must_use]
pub fn format_lines(text: &str) -> String {
    escape_controls(text, |letter| letter == '\n')
}

fn escape_controls(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && !keeps(letter) {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Formats a duration: `1.50 µs`, `12.0 s`, `1 h 02 m`.
#[must_use]
pub fn format_duration_ns(nanoseconds: u64) -> String {
    let value = nanoseconds as f64;
    match nanoseconds {
        0..=999 => format!("{nanoseconds} ns"),
        1_000..=999_999 => format!("{:.2} µs", value / 1e3),
        1_000_000..=999_999_999 => format!("{:.2} ms", value / 1e6),
        1_000_000_000..=119_999_999_999 => format!("{:.1} s", value / 1e9),
        _ => {
            let minutes = nanoseconds / 60_000_000_000;
            if minutes < 60 {
                format!("{minutes} m {:02} s", nanoseconds / 1_000_000_000 % 60)
            } else {
                format!("{} h {:02} m", minutes / 60, minutes % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_sizes_have_the_largest_unit_that_leaves_a_whole_number() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1000, "1000 bytes"),
            (1536, "1536 bytes"),
            (64 << 10, "64 KiB"),
            ((1 << 44) - 4096, "17179869180 KiB"),
            (1 << 44, "16 TiB"),
            (1 << 63, "8 EiB"),
        ] {
            assert_eq!(format_exact_size(bytes), text);
        }
    }

    #[test]
    fn sizes_are_powers_of_1024_but_for_units_that_end_in_b_alone() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4 kB", 4000),
            ("4096B", 4096),
            ("1GB", 1_000_000_000),
            ("1.5 gb", 1_500_000_000),
            ("1GiB", 1 << 30),
            ("2TB", 2_000_000_000_000),
            ("15EiB", 15 << 60),
            ("1.5g", 1_610_612_736),
            ("1_000", 1000),
            ("2T", 2 << 40),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_text_in_the_message() {
        for text in [
            "",
            "k",
            "-1",
            "4x",
            "1.2.3",
            "16e",
            "99999999999999999999",
            "nan",
            "inf",
            "4k8",
            "1e9",
            "4ib",
            "4bb",
        ] {
            let message = parse_size(text).unwrap_err().to_string();
            assert!(message.contains(&format!("'{text}'")), "{message}");
        }
    }

    #[test]
    fn durations_add_their_parts() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        for text in ["", "s", "5 parsecs", "1h-5m", "9999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_are_from_0_to_100() {
        assert_eq!(parse_percent("12.5%"), Ok(0.125));
        for text in ["-1", "101", "", "%", "NaN", "x"] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_sizes_counts_and_durations() {
        assert_eq!(format_size(1023), "1023 B");
        assert_eq!(format_size(1536), "1.50 KiB");
        assert_eq!(
            [0, 1, 2000].map(|count| format_counted(count, "volume")),
            ["0 volumes", "1 volume", "2,000 volumes"]
        );
        assert_eq!(format_size((1 << 30) - 4096), "1.00 GiB");
        assert_eq!(format_size((1 << 30) - (1 << 20)), "1023.00 MiB");
        assert_eq!(format_size(u64::MAX), "16.00 EiB");
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(format_count(12), "12");
        assert_eq!(format_duration_ns(1_500), "1.50 µs");
        assert_eq!(format_duration_ns(3_725_000_000_000), "1 h 02 m");
        assert_eq!(format_rate(4.7e9), "4.70 GB/s");
    }

    #[test]
    fn control_characters_are_shown_and_do_nothing() {
        assert_eq!(format_line("a\nb\u{1b}[31m\té\u{9b}"), "a\\nb\\u{1b}[31m\\té\\u{9b}");
        assert_eq!(format_lines("a\nb\r"), "a\nb\\r");
        assert_eq!(format_counted_as(1, "directory", "directories"), "1 directory");
        assert_eq!(format_counted_as(0, "directory", "directories"), "0 directories");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,24}") {
            let _ = parse_size(&text);
            let _ = parse_duration(&text);
            let _ = parse_percent(&text);
        }

        #[test]
        fn a_whole_number_of_bytes_is_itself(bytes: u64) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }
    }
}
