//! The file of the settings: the forms of their values.

use super::{Settings, whole_percent};
use gemelo_base::DailyWindow;
use gemelo_base::units::{parse_duration, parse_percent, parse_size};
use gemelo_disk::IoMode;
use gemelo_volume::{IndexSampling, InlineOverload};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
pub(super) fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
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
pub(super) fn io_mode<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IoMode>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom("expected \"direct\" or \"buffered\"");
    IoMode::from_name(&name).ok_or_else(unknown).map(Some)
}

/// Reads the name of a policy for in-line volumes under overload.
pub(super) fn overload<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<InlineOverload>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom("expected \"wait\" or \"defer\"");
    InlineOverload::from_name(&name).ok_or_else(unknown).map(Some)
}

/// Reads a size in bytes, such as `"256m"` or `268435456`.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    parse_size(&value.text()).map(Some).map_err(serde::de::Error::custom)
}

/// Reads the contents of which one is in an index, such as `32`.
pub(super) fn sample<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IndexSampling>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    value.text().parse().map(Some).map_err(serde::de::Error::custom)
}

/// Reads a duration in milliseconds from `"5s"`, or from `5`, which means seconds.
pub(super) fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let span = parse_duration(&value.text()).map_err(serde::de::Error::custom)?;
    Ok(Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

/// Reads a window of the day, such as `"01:00-05:00"`.
pub(super) fn window<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DailyWindow>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Reads a percentage, such as `20` or `"20%"`.
pub(super) fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let share = parse_percent(&value.text()).map_err(serde::de::Error::custom)?;
    Ok(Some(whole_percent(share)))
}

/// Writes a duration in the form of an option.
pub(super) fn span_text<S: Serializer>(
    span_ms: &Option<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = |span_ms: u64| match span_ms.is_multiple_of(1000) {
        true => format!("{}s", span_ms / 1000),
        false => format!("{span_ms}ms"),
    };
    span_ms.map(text).serialize(serializer)
}

/// Writes a window of the day.
pub(super) fn window_text<S: Serializer>(
    window: &Option<DailyWindow>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    window.map(|window| window.to_string()).serialize(serializer)
}

/// Writes the name of a policy for in-line volumes under overload.
pub(super) fn overload_name<S: Serializer>(
    policy: &Option<InlineOverload>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    policy.map(InlineOverload::name).serialize(serializer)
}

/// Writes the name of a mode of input and output.
pub(super) fn io_name<S: Serializer>(
    mode: &Option<IoMode>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    mode.map(IoMode::name).serialize(serializer)
}

/// Parses the file. An error names the line, unless it is about the whole file.
pub(super) fn parse(text: &str) -> Result<Settings, String> {
    toml::from_str(text).map_err(|error| {
        // The place of an error about the whole file has several lines.
        let place = error
            .span()
            .filter(|span| text.get(span.clone()).is_some_and(|part| !part.contains('\n')));
        let before = place.and_then(|span| text.get(..span.start));
        let line = before.map_or_else(String::new, |before| {
            format!("line {}: ", before.matches('\n').count() + 1)
        });
        format!("{line}{}", error.message().trim_end())
    })
}
