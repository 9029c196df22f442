//! The file of the settings: its keys and the forms of their values.

use super::{Settings, whole_percent};
use gemelo_base::DailyWindow;
use gemelo_base::units::{parse_duration, parse_percent, parse_size};
use gemelo_disk::IoMode;
use gemelo_volume::{IndexSampling, InlineOverload};
use serde::{Deserialize, Deserializer, Serialize};

/// The file as it is read, with the names of options.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Read {
    #[serde(deserialize_with = "span")]
    commit_interval: Option<u64>,
    #[serde(deserialize_with = "switch")]
    verify_reads: Option<bool>,
    verify_bytes: Option<bool>,
    #[serde(deserialize_with = "span")]
    finder_delay: Option<u64>,
    #[serde(deserialize_with = "span")]
    finder_max_delay: Option<u64>,
    #[serde(deserialize_with = "size")]
    finder_rate: Option<u64>,
    #[serde(deserialize_with = "span")]
    finder_interval: Option<u64>,
    #[serde(deserialize_with = "window")]
    finder_window: Option<DailyWindow>,
    #[serde(deserialize_with = "percent")]
    finder_cpu: Option<u32>,
    #[serde(deserialize_with = "size")]
    finder_memory: Option<u64>,
    #[serde(deserialize_with = "inline_overload")]
    inline_overload: Option<InlineOverload>,
    #[serde(deserialize_with = "span")]
    scrub_interval: Option<u64>,
    #[serde(deserialize_with = "size")]
    scrub_rate: Option<u64>,
    #[serde(deserialize_with = "size")]
    layout_rate: Option<u64>,
    #[serde(deserialize_with = "size")]
    metadata_cache: Option<u64>,
    #[serde(deserialize_with = "sample")]
    index_sample: Option<IndexSampling>,
    #[serde(deserialize_with = "size")]
    cache: Option<u64>,
    #[serde(deserialize_with = "size")]
    write_buffer: Option<u64>,
    #[serde(deserialize_with = "size")]
    journal_data: Option<u64>,
    #[serde(deserialize_with = "size")]
    collect_rate: Option<u64>,
    #[serde(deserialize_with = "io_mode")]
    io: Option<IoMode>,
}

/// The file as it is written.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Written {
    commit_interval: Option<String>,
    verify_reads: Option<bool>,
    verify_bytes: Option<bool>,
    finder_delay: Option<String>,
    finder_max_delay: Option<String>,
    finder_rate: Option<u64>,
    finder_interval: Option<String>,
    finder_window: Option<String>,
    finder_cpu: Option<u32>,
    finder_memory: Option<u64>,
    inline_overload: Option<&'static str>,
    scrub_interval: Option<String>,
    scrub_rate: Option<u64>,
    layout_rate: Option<u64>,
    metadata_cache: Option<u64>,
    index_sample: Option<u32>,
    cache: Option<u64>,
    write_buffer: Option<u64>,
    journal_data: Option<u64>,
    collect_rate: Option<u64>,
    io: Option<&'static str>,
}

/// A value in the form of an option, or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Reads a switch: `true` and `false`, or `"on"` and `"off"` as the option has it.
fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a boolean, \"on\" or \"off\"")]
    enum Switch {
        Bool(bool),
        Word(Word),
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        On,
        Off,
    }
    Ok(Some(match Switch::deserialize(deserializer)? {
        Switch::Bool(is_on) => is_on,
        Switch::Word(word) => matches!(word, Word::On),
    }))
}

/// Reads the name of a mode of input and output.
fn io_mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IoMode>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom("expected \"direct\" or \"buffered\"");
    IoMode::from_name(&name).ok_or_else(unknown).map(Some)
}

/// Reads the name of a policy for in-line volumes under overload.
fn inline_overload<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<InlineOverload>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom("expected \"wait\" or \"defer\"");
    InlineOverload::from_name(&name).ok_or_else(unknown).map(Some)
}

/// Reads a size in bytes, such as `"256m"` or `268435456`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    parse_size(&value.text()).map(Some).map_err(serde::de::Error::custom)
}

/// Reads the contents of which one is in an index, such as `32`.
fn sample<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IndexSampling>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    value.text().parse().map(Some).map_err(serde::de::Error::custom)
}

/// Reads a duration in milliseconds from `"5s"`, or from `5`, which means seconds.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let span = parse_duration(&value.text()).map_err(serde::de::Error::custom)?;
    Ok(Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

/// Reads a window of the day, such as `"01:00-05:00"`.
fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DailyWindow>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Reads a percentage, such as `20` or `"20%"`.
fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let share = parse_percent(&value.text()).map_err(serde::de::Error::custom)?;
    Ok(Some(whole_percent(share)))
}

/// Formats a duration in the form of an option.
fn span_text(span_ms: u64) -> String {
    if span_ms.is_multiple_of(1000) {
        format!("{}s", span_ms / 1000)
    } else {
        format!("{span_ms}ms")
    }
}

impl From<Settings> for Written {
    fn from(settings: Settings) -> Self {
        Self {
            commit_interval: settings.commit_interval_ms.map(span_text),
            verify_reads: settings.verify_reads,
            verify_bytes: settings.verify_bytes,
            finder_delay: settings.finder_delay_ms.map(span_text),
            finder_max_delay: settings.finder_max_delay_ms.map(span_text),
            finder_rate: settings.finder_bytes_per_s,
            finder_interval: settings.finder_interval_ms.map(span_text),
            finder_window: settings.finder_window.map(|window| window.to_string()),
            finder_cpu: settings.finder_cpu_percent,
            finder_memory: settings.finder_memory_bytes,
            inline_overload: settings.inline_overload.map(InlineOverload::name),
            scrub_interval: settings.scrub_interval_ms.map(span_text),
            scrub_rate: settings.scrub_bytes_per_s,
            layout_rate: settings.layout_bytes_per_s,
            metadata_cache: settings.metadata_cache_bytes,
            index_sample: settings.index_sample.map(IndexSampling::rate),
            cache: settings.cache_bytes,
            write_buffer: settings.write_buffer_bytes,
            journal_data: settings.max_journal_data_bytes,
            collect_rate: settings.collect_bytes_per_s,
            io: settings.io.map(IoMode::name),
        }
    }
}

impl From<Read> for Settings {
    fn from(read: Read) -> Self {
        Self {
            commit_interval_ms: read.commit_interval,
            verify_reads: read.verify_reads,
            verify_bytes: read.verify_bytes,
            finder_delay_ms: read.finder_delay,
            finder_max_delay_ms: read.finder_max_delay,
            finder_bytes_per_s: read.finder_rate,
            finder_interval_ms: read.finder_interval,
            finder_window: read.finder_window,
            finder_cpu_percent: read.finder_cpu,
            finder_memory_bytes: read.finder_memory,
            inline_overload: read.inline_overload,
            scrub_interval_ms: read.scrub_interval,
            scrub_bytes_per_s: read.scrub_rate,
            layout_bytes_per_s: read.layout_rate,
            metadata_cache_bytes: read.metadata_cache,
            index_sample: read.index_sample,
            cache_bytes: read.cache,
            write_buffer_bytes: read.write_buffer,
            max_journal_data_bytes: read.journal_data,
            collect_bytes_per_s: read.collect_rate,
            io: read.io,
        }
    }
}

/// Parses the file. An error names the line, unless it is about the whole file.
pub(super) fn parse(text: &str) -> Result<Settings, String> {
    let read: Read = toml::from_str(text).map_err(|error| {
        // The place of an error about the whole file has several lines.
        let place = error
            .span()
            .filter(|span| text.get(span.clone()).is_some_and(|part| !part.contains('\n')));
        let before = place.and_then(|span| text.get(..span.start));
        let line = before.map_or_else(String::new, |before| {
            format!("line {}: ", before.matches('\n').count() + 1)
        });
        format!("{line}{}", error.message().trim_end())
    })?;
    Ok(read.into())
}

/// Returns the text of a file with these settings.
pub(super) fn text_of(settings: Settings) -> Result<String, toml::ser::Error> {
    toml::to_string(&Written::from(settings))
}
