//! The settings of a pool, which apply whenever it is opened: a small file in its directory.
//!
//! Keys and values are those of the options of `gemelo serve`: `commit-interval = "1s"`.

mod file;

use crate::failure::RequestFailure;
use crate::scrub::ScrubSchedule;
use file::{
    io_mode, io_name, overload, overload_name, parse, percent, sample, size, span, span_text,
    switch, window, window_text,
};
use gemelo_base::DailyWindow;
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_size;
use gemelo_disk::IoMode;
use gemelo_place::PoolPlace;
use gemelo_volume::{FinderTuning, IndexSampling, InlineOverload, LayoutTuning, Tuning};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The name of the file, and of the value of a member with the same text.
pub const FILE: &str = "settings.toml";
/// Permissions of the file: the owner's alone, as of all files of a new pool.
const MODE: u32 = 0o600;

/// The settings of a pool, with their keys in the file. [`None`] stands for the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Longest time in milliseconds after which a write is durable.
    #[serde(rename = "commit-interval", deserialize_with = "span", serialize_with = "span_text")]
    pub commit_interval_ms: Option<u64>,
    /// `true` to compare contents with their checksums at every read.
    #[serde(deserialize_with = "switch")]
    pub verify_reads: Option<bool>,
    /// `true` to compare bytes before a block is shared.
    pub verify_bytes: Option<bool>,
    /// Time in milliseconds after a write before the finder reads the block.
    #[serde(rename = "finder-delay", deserialize_with = "span", serialize_with = "span_text")]
    pub finder_delay_ms: Option<u64>,
    /// Most time in milliseconds to which that time grows.
    #[serde(rename = "finder-max-delay", deserialize_with = "span", serialize_with = "span_text")]
    pub finder_max_delay_ms: Option<u64>,
    /// Most bytes a second that the finder reads.
    #[serde(rename = "finder-rate", deserialize_with = "size")]
    pub finder_bytes_per_s: Option<u64>,
    /// Time in milliseconds from the beginning of a round of the finder to that of the next one.
    #[serde(rename = "finder-interval", deserialize_with = "span", serialize_with = "span_text")]
    pub finder_interval_ms: Option<u64>,
    /// The part of each day in which the finder works.
    #[serde(deserialize_with = "window", serialize_with = "window_text")]
    pub finder_window: Option<DailyWindow>,
    /// Most processor time that the finder uses while requests are under way, in percent of a core.
    #[serde(rename = "finder-cpu", deserialize_with = "percent")]
    pub finder_cpu_percent: Option<u32>,
    /// Bytes of memory for fingerprints that are taken while contents are written.
    #[serde(rename = "finder-memory", deserialize_with = "size")]
    pub finder_memory_bytes: Option<u64>,
    /// The policy for blocks of in-line volumes while the write buffer is full.
    #[serde(deserialize_with = "overload", serialize_with = "overload_name")]
    pub inline_overload: Option<InlineOverload>,
    /// Time in milliseconds from the end of a scrub to the next; 0 for no scrubs.
    #[serde(rename = "scrub-interval", deserialize_with = "span", serialize_with = "span_text")]
    pub scrub_interval_ms: Option<u64>,
    /// Most bytes a second that a scrub by schedule reads.
    #[serde(rename = "scrub-rate", deserialize_with = "size")]
    pub scrub_bytes_per_s: Option<u64>,
    /// Bytes of memory for pages and changes of the metadata.
    #[serde(rename = "metadata-cache", deserialize_with = "size")]
    pub metadata_cache_bytes: Option<u64>,
    /// The contents that an index in memory has.
    #[serde(deserialize_with = "sample")]
    pub index_sample: Option<IndexSampling>,
    /// Bytes of memory for contents that were written lately or are read often, for readers.
    #[serde(rename = "cache", deserialize_with = "size")]
    pub cache_bytes: Option<u64>,
    /// Bytes of memory for contents that were written, until they are on the disk.
    #[serde(rename = "write-buffer", deserialize_with = "size")]
    pub write_buffer_bytes: Option<u64>,
    /// Most bytes of new contents that a flush writes into the journal.
    #[serde(rename = "journal-data", deserialize_with = "size")]
    pub max_journal_data_bytes: Option<u64>,
    /// Most bytes a second of freed space that the collector gives back to the file system.
    #[serde(rename = "collect-rate", deserialize_with = "size")]
    pub collect_bytes_per_s: Option<u64>,
    /// Most bytes a second that the arranger moves.
    #[serde(rename = "layout-rate", deserialize_with = "size")]
    pub layout_bytes_per_s: Option<u64>,
    /// The way in which contents are written: past the page cache or through it.
    #[serde(deserialize_with = "io_mode", serialize_with = "io_name")]
    pub io: Option<IoMode>,
}

/// Returns a share from 0 to 1 in percent, rounded, and at least 1: with 0, the finder would never
/// work.
#[must_use]
pub fn whole_percent(share: f64) -> u32 {
    // The cast is safe: a share is at most 1.
    (share * 100.0).round().clamp(1.0, 100.0) as u32
}

impl Settings {
    /// Reads the settings of a pool. A pool without the file has the defaults.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read or parsed.
    pub fn read(place: &PoolPlace) -> Result<Self, RequestFailure> {
        let bad = |error: &dyn std::fmt::Display| {
            let text = match place.directory() {
                Some(path) => format!(
                    "{}: {error}: correct the file, or remove it to have the defaults",
                    path.join(FILE).shown()
                ),
                None => format!("the settings of {place}: {error}"),
            };
            RequestFailure::refused(text)
        };
        let text = place.read_text(FILE);
        let text = text.map_err(|error| RequestFailure::of_place(&error).about_place(place))?;
        match text {
            // The caller opens the pool next, and finds out whether it exists.
            Ok(None) => Ok(Self::default()),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                let text = match place.directory() {
                    Some(path) => format!("cannot read {}: {error}", path.join(FILE).shown()),
                    None => format!("cannot read the settings of {place}: {error}"),
                };
                Err(RequestFailure::refused(text))
            }
            Err(error) => Err(bad(&error)),
            Ok(Some(text)) => parse(&text).map_err(|error| bad(&error)),
        }
    }

    /// Returns the text that keeps the settings of a new member. Defaults are kept by no text.
    ///
    /// # Errors
    /// Fails if the settings cannot be written as text.
    pub fn text(&self) -> Result<Option<String>, RequestFailure> {
        if *self == Self::default() {
            return Ok(None);
        }
        toml::to_string(self).map(Some).map_err(|error| RequestFailure::of("settings", &error))
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
                path.shown()
            );
            return Err(RequestFailure::refused(text));
        }
        if *self == Self::default() {
            return Ok(());
        }
        let failed =
            |error: &dyn std::error::Error| RequestFailure::of(&path.shown().to_string(), error);
        let text = toml::to_string(self).map_err(|error| failed(&error))?;
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
            finder_max_delay_ms: self.finder_max_delay_ms.or(other.finder_max_delay_ms),
            finder_bytes_per_s: self.finder_bytes_per_s.or(other.finder_bytes_per_s),
            finder_interval_ms: self.finder_interval_ms.or(other.finder_interval_ms),
            finder_window: self.finder_window.or(other.finder_window),
            finder_cpu_percent: self.finder_cpu_percent.or(other.finder_cpu_percent),
            finder_memory_bytes: self.finder_memory_bytes.or(other.finder_memory_bytes),
            inline_overload: self.inline_overload.or(other.inline_overload),
            scrub_interval_ms: self.scrub_interval_ms.or(other.scrub_interval_ms),
            scrub_bytes_per_s: self.scrub_bytes_per_s.or(other.scrub_bytes_per_s),
            metadata_cache_bytes: self.metadata_cache_bytes.or(other.metadata_cache_bytes),
            index_sample: self.index_sample.or(other.index_sample),
            cache_bytes: self.cache_bytes.or(other.cache_bytes),
            write_buffer_bytes: self.write_buffer_bytes.or(other.write_buffer_bytes),
            max_journal_data_bytes: self.max_journal_data_bytes.or(other.max_journal_data_bytes),
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
            max_bytes_per_s: self.scrub_bytes_per_s.unwrap_or(usual.max_bytes_per_s),
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
            finder: self.finder_tuning(),
            inline_overload: self.inline_overload.unwrap_or(usual.inline_overload),
            cache_bytes: self.metadata_cache_bytes.or(usual.cache_bytes),
            index_sampling: self.index_sample.unwrap_or(usual.index_sampling),
            content_cache_bytes: self.cache_bytes.or(usual.content_cache_bytes),
            write_buffer_bytes: self.write_buffer_bytes.unwrap_or(usual.write_buffer_bytes),
            max_journal_data_bytes: self.max_journal_data_bytes.or(usual.max_journal_data_bytes),
            collect_bytes_per_s: self.collect_bytes_per_s.unwrap_or(usual.collect_bytes_per_s),
            io: self.io.unwrap_or(usual.io),
            layout: LayoutTuning {
                bytes_per_s: self.layout_bytes_per_s.unwrap_or(usual.layout.bytes_per_s),
                ..usual.layout
            },
            ..usual
        }
    }

    /// Checks that the caches and buffers whose sizes are given fit into a machine.
    ///
    /// # Errors
    /// Fails if they would take more than all its memory together.
    pub fn fit(&self, memory_bytes: u64) -> Result<(), RequestFailure> {
        let parts = [
            ("metadata-cache", self.metadata_cache_bytes),
            ("cache", self.cache_bytes),
            ("write-buffer", self.write_buffer_bytes),
            ("finder-memory", self.finder_memory_bytes),
        ];
        let given = || parts.iter().filter_map(|(name, bytes)| Some((name, (*bytes)?)));
        let all_bytes = given().fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes));
        if all_bytes <= memory_bytes {
            return Ok(());
        }
        let told: Vec<_> =
            given().map(|(name, bytes)| format!("{name} {}", format_size(bytes))).collect();
        let (machine, told) = (format_size(memory_bytes), told.join(", "));
        Err(RequestFailure::refused(format!(
            "this process may have {machine} of memory, less than {told}"
        )))
    }

    fn finder_tuning(&self) -> FinderTuning {
        let usual = FinderTuning::default();
        let span = |span_ms: Option<u64>, usual| span_ms.map_or(usual, Duration::from_millis);
        FinderTuning {
            delay: span(self.finder_delay_ms, usual.delay),
            max_delay: span(self.finder_max_delay_ms, usual.max_delay),
            interval: span(self.finder_interval_ms, usual.interval),
            window: self.finder_window.or(usual.window),
            bytes_per_s: self.finder_bytes_per_s.or(usual.bytes_per_s),
            busy_cpu_percent: self.finder_cpu_percent.unwrap_or(usual.busy_cpu_percent),
            memory_bytes: self.finder_memory_bytes.unwrap_or(usual.memory_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_and_buffers_fit_into_the_machine_together() {
        let gibibyte = Some(1 << 30);
        let settings =
            Settings { cache_bytes: gibibyte, write_buffer_bytes: gibibyte, ..Settings::default() };
        settings.fit(2 << 30).unwrap();
        let refused = settings.fit((2 << 30) - 1).unwrap_err().to_string();
        assert!(
            refused.ends_with("memory, less than cache 1.00 GiB, write-buffer 1.00 GiB"),
            "{refused}"
        );
        assert!(Settings { write_buffer_bytes: Some(u64::MAX), ..settings }.fit(1 << 40).is_err());
        // The defaults are taken as they are needed, so a small machine may have less memory.
        Settings::default().fit(1 << 20).unwrap();
    }

    fn all() -> Settings {
        Settings {
            commit_interval_ms: Some(250),
            verify_reads: Some(false),
            verify_bytes: Some(true),
            finder_delay_ms: Some(60_000),
            finder_max_delay_ms: Some(120_000),
            finder_bytes_per_s: Some(1 << 20),
            finder_interval_ms: Some(600_000),
            finder_window: Some("22:00-06:00".parse().unwrap()),
            finder_cpu_percent: Some(35),
            finder_memory_bytes: Some(8 << 20),
            inline_overload: Some(InlineOverload::Defer),
            scrub_interval_ms: Some(604_800_000),
            scrub_bytes_per_s: Some(8 << 20),
            metadata_cache_bytes: Some(64 << 20),
            index_sample: IndexSampling::one_in(32),
            cache_bytes: Some(96 << 20),
            write_buffer_bytes: Some(32 << 20),
            max_journal_data_bytes: Some(128 << 10),
            collect_bytes_per_s: Some(0),
            layout_bytes_per_s: Some(20 << 20),
            io: Some(IoMode::Buffered),
        }
    }

    #[test]
    fn settings_survive_by_the_names_of_the_options_and_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Settings::read(&directory.path().into()).unwrap(), Settings::default());
        all().write(directory.path()).unwrap();
        assert_eq!(Settings::read(&directory.path().into()).unwrap(), all());
        assert_eq!(all().tuning().commit_interval, Duration::from_millis(250));
        let path = directory.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        for line in [
            "commit-interval = \"250ms\"",
            "finder-delay = \"60s\"",
            "finder-window = \"22:00-06:00\"",
            "finder-cpu = 35",
            "collect-rate = 0",
        ] {
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
    fn values_are_those_of_the_options() {
        let options = "io = \"buffered\"\ncommit-interval = \"250ms\"\nverify-reads = false\nverify-bytes = true\n\
                       finder-delay = \"1m\"\nfinder-max-delay = \"2m\"\nfinder-rate = \"1m\"\nfinder-interval = \"10m\"\n\
                       finder-window = \"22:00-06:00\"\nfinder-cpu = \"35%\"\n\
                       scrub-interval = \"7d\"\nscrub-rate = \"8m\"\nlayout-rate = \"20m\"\n\
                       finder-memory = \"8m\"\nmetadata-cache = \"64m\"\nindex-sample = 32\ncache = \"96m\"\nwrite-buffer = \"32m\"\njournal-data = \"128k\"\n\
                       collect-rate = 0\ninline-overload = \"defer\"\n";
        assert_eq!(parse(options).unwrap(), all());
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        for (text, parts) in [
            ("\ncommit-intervall = 3", &["line 2", "commit-intervall"][..]),
            ("cache = \"much\"", &["line 1", "much"]),
            ("finder-window = \"1-5\"", &["line 1", "01:00-05:00"]),
            ("finder-cpu = 120", &["line 1", "120"]),
            ("verify-reads = 7", &["line 1", "boolean"]),
            ("io = \"fast\"", &["line 1", "direct"]),
            ("inline-overload = \"fast\"", &["line 1", "defer"]),
            ("commit_interval_ms = 5000", &["line 1", "commit_interval_ms"]),
            ("cache = 1\ncache = 1", &["line 2", "duplicate"]),
            ("[", &["line 1"]),
        ] {
            fs::write(directory.path().join(FILE), text).unwrap();
            let failure = Settings::read(&directory.path().into()).unwrap_err();
            assert!(
                failure.kind == gemelo_base::FailureKind::BadInput && failure.text.contains(FILE),
                "{failure}"
            );
            assert!(parts.iter().all(|part| failure.text.contains(part)), "{failure}");
            assert!(!failure.text.contains('\n'), "{failure}");
        }
    }
}
