//! The values of settings: their forms, as options, the file and `get` have them.

use super::keep::KeepRule;
use gemelo_base::DailyWindow;
use gemelo_base::units::{UnitError, parse_duration, parse_percent, parse_size};
use gemelo_format::Compression as Compressed;
use gemelo_volume::IndexSampling;
use std::fmt;
use std::time::Duration;

/// The shortest time between two snapshots of a schedule.
const MIN_PERIOD: Duration = Duration::from_secs(60);

/// The form of the values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number of bytes.
    Size,
    /// Bytes a second.
    Rate,
    /// A duration.
    Span,
    /// A duration, or never.
    Interval,
    /// The time between two snapshots.
    Period,
    /// A share in percent, from 1.
    Percent,
    /// Several shares.
    Percents,
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A part of the day.
    Window,
    /// The contents of which one is in an index.
    Sample,
    /// A number from 1 to this one.
    Count(u64),
    /// The snapshots that are kept.
    Keep,
    /// A compression.
    Compression,
}

impl Kind {
    /// Returns the name of a value, for the help.
    #[must_use]
    pub const fn value_name(self) -> &'static str {
        match self {
            Self::Size => "SIZE",
            Self::Rate => "SIZE/S",
            Self::Span | Self::Interval | Self::Period => "DURATION",
            Self::Percent => "PERCENT",
            Self::Percents => "PERCENT,...",
            Self::Switch => "on|off",
            Self::Word(words) => match words.len() {
                0..=2 => "WORD",
                _ => "MODE",
            },
            Self::Window => "FROM-TO",
            Self::Sample | Self::Count(_) => "COUNT",
            Self::Keep => "COUNTS",
            Self::Compression => "KIND",
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// Fails with the allowed values.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let told = |error: UnitError| error.to_string();
        let text = text.trim();
        match self {
            Self::Size => parse_size(text).map(Value::Size).map_err(told),
            Self::Rate => {
                let per_s = text.strip_suffix("/s").unwrap_or(text);
                parse_size(per_s).map(Value::Size).map_err(told)
            }
            Self::Interval if text == "never" => Ok(Value::Interval(Duration::ZERO)),
            Self::Interval => parse_duration(text).map(Value::Interval).map_err(told),
            Self::Span => parse_duration(text).map(Value::Span).map_err(told),
            Self::Period if text == "never" => Ok(Value::Interval(Duration::ZERO)),
            Self::Period => match parse_duration(text).map_err(told)? {
                period if period < MIN_PERIOD => Err(format!("'{text}' is less than 1m")),
                period => Ok(Value::Interval(period)),
            },
            Self::Percent => {
                let share = parse_percent(text).map_err(told)?;
                Ok(Value::Percents(vec![share]))
            }
            Self::Percents => {
                let shares = text.split(',').map(parse_percent).collect::<Result<_, _>>();
                shares.map(Value::Percents).map_err(told)
            }
            Self::Switch => match text {
                "on" | "true" => Ok(Value::Switch(true)),
                "off" | "false" => Ok(Value::Switch(false)),
                _ => Err(format!("'{text}' is not on or off")),
            },
            Self::Word(words) => {
                let known = words.iter().find(|word| **word == text);
                known.map(|word| Value::Word(word)).ok_or_else(|| {
                    let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                    format!("'{text}' is none of {}", words.join(", "))
                })
            }
            Self::Window => text.parse().map(Value::Window).map_err(told),
            Self::Sample => text.parse().map(Value::Sample),
            Self::Count(most) => match text.parse() {
                Ok(count) if (1..=most).contains(&count) => Ok(Value::Count(count)),
                _ => Err(format!("'{text}' is not a number from 1 to {most}")),
            },
            Self::Keep => text.parse().map(Value::Keep),
            Self::Compression => {
                let allowed = "allowed: off, lz4, zstd, zstd:1 to zstd:19";
                let known = Compressed::from_name(text).map(Value::Compression);
                known.ok_or_else(|| format!("'{text}' is no compression; {allowed}"))
            }
        }
    }
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Bytes, or bytes a second.
    Size(u64),
    /// A duration.
    Span(Duration),
    /// A duration, or never if it is zero.
    Interval(Duration),
    /// Shares from 0 to 1.
    Percents(Vec<f64>),
    /// A switch.
    Switch(bool),
    /// One of the words of the setting.
    Word(&'static str),
    /// A part of the day.
    Window(DailyWindow),
    /// The contents of an index.
    Sample(IndexSampling),
    /// A number.
    Count(u64),
    /// The snapshots that are kept.
    Keep(KeepRule),
    /// A compression.
    Compression(Compressed),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => {
                let steps = if *bytes == 0 { 0 } else { bytes.trailing_zeros() / 10 };
                let unit = ["", "k", "m", "g", "t", "p", "e"].get(steps as usize);
                write!(out, "{}{}", bytes >> (10 * steps), unit.copied().unwrap_or_default())
            }
            Self::Interval(span) if span.is_zero() => out.write_str("never"),
            Self::Span(span) | Self::Interval(span) => out.write_str(&span_text(*span)),
            Self::Percents(shares) => {
                let texts: Vec<_> =
                    shares.iter().map(|share| format!("{}%", rounded(share * 100.0))).collect();
                out.write_str(&texts.join(","))
            }
            Self::Switch(is_on) => out.write_str(if *is_on { "on" } else { "off" }),
            Self::Word(word) => out.write_str(word),
            Self::Window(window) => window.fmt(out),
            Self::Sample(sample) => sample.fmt(out),
            Self::Count(count) => count.fmt(out),
            Self::Keep(rule) => rule.fmt(out),
            Self::Compression(compression) => compression.fmt(out),
        }
    }
}

/// Six digits after the point are more than anybody writes, and fewer than those of the errors of
/// floating-point numbers.
fn rounded(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

/// Returns the shortest text of a duration in one unit.
fn span_text(span: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    let ns = span.as_nanos();
    let whole = UNITS.iter().find(|(unit_ns, _)| ns > 0 && ns.is_multiple_of(*unit_ns));
    match whole {
        Some((unit_ns, unit)) => format!("{}{unit}", ns / unit_ns),
        None if ns == 0 => "0s".to_owned(),
        None => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for (kind, text, written) in [
            (Kind::Size, "256m", "256m"),
            (Kind::Size, "1000", "1000"),
            (Kind::Rate, "1536k/s", "1536k"),
            (Kind::Span, "1h30m", "90m"),
            (Kind::Span, "0", "0s"),
            (Kind::Interval, "0s", "never"),
            (Kind::Interval, "1d", "1d"),
            (Kind::Span, "250ms", "250ms"),
            (Kind::Period, "1d", "1d"),
            (Kind::Period, "never", "never"),
            (Kind::Percents, "80, 99.9", "80%,99.9%"),
            (Kind::Switch, "true", "on"),
            (Kind::Window, "1:00-5:00", "01:00-05:00"),
            (Kind::Keep, "7d 24h", "24h 7d"),
            (Kind::Compression, "zstd:7", "zstd:7"),
        ] {
            let value = kind.parse(text).unwrap();
            assert_eq!(value.to_string(), written);
            assert_eq!(kind.parse(written).unwrap(), value);
        }
        for (kind, text) in [
            (Kind::Period, "59s"),
            (Kind::Count(9), "10"),
            (Kind::Count(9), "0"),
            (Kind::Word(&["a", "b"]), "c"),
            (Kind::Switch, "yes"),
        ] {
            assert!(kind.parse(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn names_are_used_once_and_defaults_are_values_or_words() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            assert!(SETTINGS.iter().skip(at + 1).all(|other| other.name != setting.name));
            if let Ok(value) = setting.kind.parse(setting.default) {
                assert_eq!(value.to_string(), setting.default, "{}", setting.name);
            }
            assert!(!setting.about.ends_with('.'), "{}", setting.name);
        }
    }
}
