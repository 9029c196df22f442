//! The settings of a pool, which apply whenever it is opened: a small file in its directory.
//!
//! Keys and values are those of the options of `gemelo serve`: `commit-interval = "1s"`. Keys of
//! earlier versions, which had the unit in their names, are read as well.

use crate::failure::RequestFailure;
use crate::scrub::ScrubSchedule;
use gemelo_base::units::{parse_duration, parse_size};
use gemelo_disk::IoMode;
use gemelo_volume::{LayoutTuning, Tuning};
use serde::{Deserialize, Deserializer, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

pub(crate) const FILE: &str = "settings.toml";
/// Permissions of the file: the owner's alone, as of all files of a new pool.
const MODE: u32 = 0o600;

/// The settings of a pool. [`None`] stands for the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Longest time in milliseconds after which a write is durable.
    pub commit_interval_ms: Option<u64>,
    /// `true` to compare contents with their checksums at every read.
    pub verify_reads: Option<bool>,
    /// `true` to compare bytes before a block is shared.
    pub verify_bytes: Option<bool>,
    /// Time in milliseconds after a write before the finder reads the block.
    pub finder_delay_ms: Option<u64>,
    /// Most bytes a second that the finder reads.
    pub finder_bytes_per_s: Option<u64>,
    /// Time in milliseconds from the end of a scrub to the next; 0 for no scrubs.
    pub scrub_interval_ms: Option<u64>,
    /// Most bytes a second that a scrub by schedule reads.
    pub scrub_bytes_per_s: Option<u64>,
    /// Bytes of memory for the metadata of the backends `table` and `btree`.
    pub cache_bytes: Option<u64>,
    /// Most bytes a second of freed space that the collector gives back to the file system.
    pub collect_bytes_per_s: Option<u64>,
    /// Most bytes a second that the arranger moves.
    pub layout_bytes_per_s: Option<u64>,
    /// The way in which contents are written: past the page cache or through it.
    pub io: Option<IoMode>,
}

/// The file as it is read, with the names of options and those of earlier versions.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Read {
    #[serde(deserialize_with = "span")]
    commit_interval: Option<u64>,
    #[serde(rename = "commit_interval_ms")]
    old_commit_interval_ms: Option<u64>,
    #[serde(alias = "verify_reads", deserialize_with = "switch")]
    verify_reads: Option<bool>,
    #[serde(alias = "verify_bytes")]
    verify_bytes: Option<bool>,
    #[serde(deserialize_with = "span")]
    finder_delay: Option<u64>,
    #[serde(rename = "finder_delay_ms")]
    old_finder_delay_ms: Option<u64>,
    #[serde(alias = "finder_bytes_per_s", deserialize_with = "size")]
    finder_rate: Option<u64>,
    #[serde(deserialize_with = "span")]
    scrub_interval: Option<u64>,
    #[serde(deserialize_with = "size")]
    scrub_rate: Option<u64>,
    #[serde(alias = "cache_bytes", deserialize_with = "size")]
    cache: Option<u64>,
    #[serde(alias = "collect_bytes_per_s", deserialize_with = "size")]
    collect_rate: Option<u64>,
    #[serde(deserialize_with = "size")]
    layout_rate: Option<u64>,
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
    finder_rate: Option<u64>,
    scrub_interval: Option<String>,
    scrub_rate: Option<u64>,
    cache: Option<u64>,
    collect_rate: Option<u64>,
    layout_rate: Option<u64>,
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

/// Reads a size in bytes, such as `"256m"` or `268435456`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    parse_size(&value.text()).map(Some).map_err(serde::de::Error::custom)
}

/// Reads a duration in milliseconds from `"5s"`, or from `5`, which means seconds.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let span = parse_duration(&value.text()).map_err(serde::de::Error::custom)?;
    Ok(Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
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
            finder_rate: settings.finder_bytes_per_s,
            scrub_interval: settings.scrub_interval_ms.map(span_text),
            scrub_rate: settings.scrub_bytes_per_s,
            cache: settings.cache_bytes,
            collect_rate: settings.collect_bytes_per_s,
            layout_rate: settings.layout_bytes_per_s,
            io: settings.io.map(IoMode::name),
        }
    }
}

impl Read {
    fn settings(self) -> Result<Settings, String> {
        let one = |new: Option<u64>, old: Option<u64>, name: &str| match (new, old) {
            (Some(_), Some(_)) => {
                Err(format!("'{name}' is set twice, also as '{}_ms'", name.replace('-', "_")))
            }
            (new, old) => Ok(new.or(old)),
        };
        Ok(Settings {
            commit_interval_ms: one(
                self.commit_interval,
                self.old_commit_interval_ms,
                "commit-interval",
            )?,
            verify_reads: self.verify_reads,
            verify_bytes: self.verify_bytes,
            finder_delay_ms: one(self.finder_delay, self.old_finder_delay_ms, "finder-delay")?,
            finder_bytes_per_s: self.finder_rate,
            scrub_interval_ms: self.scrub_interval,
            scrub_bytes_per_s: self.scrub_rate,
            cache_bytes: self.cache,
            collect_bytes_per_s: self.collect_rate,
            layout_bytes_per_s: self.layout_rate,
            io: self.io,
        })
    }
}

/// Parses the file. An error names the line, unless it is about the whole file.
fn parse(text: &str) -> Result<Settings, String> {
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
    read.settings()
}

impl Settings {
    /// Reads the settings of a pool. A pool without the file has the defaults.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read or parsed.
    pub fn read(directory: &Path) -> Result<Self, RequestFailure> {
        let path = directory.join(FILE);
        let bad = |error: &dyn std::fmt::Display| {
            let advice = "correct the file, or remove it to have the defaults";
            RequestFailure::refused(format!("{}: {error}: {advice}", path.display()))
        };
        match fs::read_to_string(&path) {
            // The caller opens the pool next, and finds out whether it exists.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Self::default())
            }
            Err(error) => Err(bad(&error)),
            Ok(text) => parse(&text).map_err(|error| bad(&error)),
        }
    }

    /// Writes the file into the directory of a new pool, unless all settings are the defaults.
    ///
    /// # Errors
    /// Fails if the file exists already, and leaves it as it is. Fails if it cannot be written, and
    /// removes it.
    pub fn write(&self, directory: &Path) -> Result<(), RequestFailure> {
        let path = directory.join(FILE);
        if path.symlink_metadata().is_ok() {
            let text = format!(
                "'{}' exists already: it would change the new pool; remove it",
                path.display()
            );
            return Err(RequestFailure::refused(text));
        }
        if *self == Self::default() {
            return Ok(());
        }
        let failed =
            |error: &dyn std::error::Error| RequestFailure::of(&path.display().to_string(), error);
        let text = toml::to_string(&Written::from(*self)).map_err(|error| failed(&error))?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(&path)
            .map_err(|error| failed(&error))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // The first error is the one to report.
            let _ = fs::remove_file(&path);
            failed(&error)
        })
    }

    /// Takes the settings that are not given from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            commit_interval_ms: self.commit_interval_ms.or(other.commit_interval_ms),
            verify_reads: self.verify_reads.or(other.verify_reads),
            verify_bytes: self.verify_bytes.or(other.verify_bytes),
            finder_delay_ms: self.finder_delay_ms.or(other.finder_delay_ms),
            finder_bytes_per_s: self.finder_bytes_per_s.or(other.finder_bytes_per_s),
            scrub_interval_ms: self.scrub_interval_ms.or(other.scrub_interval_ms),
            scrub_bytes_per_s: self.scrub_bytes_per_s.or(other.scrub_bytes_per_s),
            cache_bytes: self.cache_bytes.or(other.cache_bytes),
            collect_bytes_per_s: self.collect_bytes_per_s.or(other.collect_bytes_per_s),
            layout_bytes_per_s: self.layout_bytes_per_s.or(other.layout_bytes_per_s),
            io: self.io.or(other.io),
        }
    }

    /// Returns the schedule of scrubs.
    #[must_use]
    pub fn scrub_schedule(&self) -> ScrubSchedule {
        let usual = ScrubSchedule::default();
        let interval_ms = self.scrub_interval_ms.filter(|interval_ms| *interval_ms > 0);
        ScrubSchedule {
            interval: interval_ms.map(Duration::from_millis).or(usual.interval),
            most_bytes_per_s: self.scrub_bytes_per_s.unwrap_or(usual.most_bytes_per_s),
        }
    }

    /// Returns the settings in the engine's types.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        let usual = Tuning::default();
        Tuning {
            commit_interval: self
                .commit_interval_ms
                .map_or(usual.commit_interval, Duration::from_millis),
            verify_reads: self.verify_reads.unwrap_or(usual.verify_reads),
            verify_bytes: self.verify_bytes.unwrap_or(usual.verify_bytes),
            finder_delay: self.finder_delay_ms.map_or(usual.finder_delay, Duration::from_millis),
            finder_bytes_per_s: self.finder_bytes_per_s.or(usual.finder_bytes_per_s),
            cache_bytes: self.cache_bytes.unwrap_or(usual.cache_bytes),
            collect_bytes_per_s: self.collect_bytes_per_s.unwrap_or(usual.collect_bytes_per_s),
            io: self.io.unwrap_or(usual.io),
            layout: LayoutTuning {
                bytes_per_s: self.layout_bytes_per_s.unwrap_or(usual.layout.bytes_per_s),
                ..usual.layout
            },
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Settings {
        Settings {
            commit_interval_ms: Some(250),
            verify_reads: Some(false),
            verify_bytes: Some(true),
            finder_delay_ms: Some(60_000),
            finder_bytes_per_s: Some(1 << 20),
            scrub_interval_ms: Some(604_800_000),
            scrub_bytes_per_s: Some(8 << 20),
            cache_bytes: Some(64 << 20),
            collect_bytes_per_s: Some(0),
            layout_bytes_per_s: Some(20 << 20),
            io: Some(IoMode::Buffered),
        }
    }

    #[test]
    fn settings_survive_by_the_names_of_the_options_and_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Settings::read(directory.path()).unwrap(), Settings::default());
        all().write(directory.path()).unwrap();
        assert_eq!(Settings::read(directory.path()).unwrap(), all());
        assert_eq!(all().tuning().commit_interval, Duration::from_millis(250));
        let path = directory.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        for line in ["commit-interval = \"250ms\"", "finder-delay = \"60s\"", "collect-rate = 0"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        let refused = Settings::default().write(directory.path()).unwrap_err();
        assert!(
            refused.kind == gemelo_base::FailureKind::BadInput
                && refused.text.contains("exists already"),
            "{refused}"
        );
    }

    #[test]
    fn values_are_those_of_the_options_and_old_names_are_understood() {
        let options = "io = \"buffered\"\ncommit-interval = \"250ms\"\nverify-reads = false\nverify-bytes = true\n\
                       scrub-interval = \"7d\"\nscrub-rate = \"8m\"\nlayout-rate = \"20m\"\n\
                       finder-delay = \"1m\"\nfinder-rate = \"1m\"\ncache = \"64m\"\ncollect-rate = 0\n";
        let old = "io = \"buffered\"\ncommit_interval_ms = 250\nverify_reads = false\nverify_bytes = true\n\
                   scrub-interval = \"168h\"\nscrub-rate = 8388608\n\
                   finder_delay_ms = 60000\nfinder_bytes_per_s = 1048576\ncache_bytes = 67108864\n\
                   collect_bytes_per_s = 0\nlayout-rate = 20971520\n";
        assert_eq!(parse(options).unwrap(), all());
        assert_eq!(parse(old).unwrap(), all());
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        for (text, parts) in [
            ("\ncommit-intervall = 3", &["line 2", "commit-intervall"][..]),
            ("cache = \"much\"", &["line 1", "much"]),
            ("verify-reads = 7", &["line 1", "boolean"]),
            ("io = \"fast\"", &["line 1", "direct"]),
            ("commit-interval = 5\ncommit_interval_ms = 5000", &["commit-interval", "twice"]),
            ("cache = 1\ncache_bytes = 1", &["duplicate", "cache"]),
            ("[", &["line 1"]),
        ] {
            fs::write(directory.path().join(FILE), text).unwrap();
            let failure = Settings::read(directory.path()).unwrap_err();
            assert!(
                failure.kind == gemelo_base::FailureKind::BadInput && failure.text.contains(FILE),
                "{failure}"
            );
            assert!(parts.iter().all(|part| failure.text.contains(part)), "{failure}");
            assert!(!failure.text.contains('\n'), "{failure}");
        }
    }
}
