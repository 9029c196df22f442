//! The settings of a pool and of its volumes, which apply whenever it is opened: a small file in
//! its directory, or a value of the member.
//!
//! [`table`] declares them, [`value`] has the forms of their values, and [`in_effect`] those of an
//! open pool.

mod file;
mod in_effect;
mod keep;
mod limits;
mod table;
mod value;

pub(crate) use in_effect::{PoolSettings, read_changes};
pub use in_effect::{SettingReport, SettingSource};
pub use keep::KeepRule;
pub use table::{Applies, SETTINGS, Scope, Setting, setting};
pub use value::{Kind, Value};

use crate::failure::RequestFailure;
use crate::report::Thresholds;
use crate::scrub::ScrubSchedule;
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_size;
use gemelo_disk::IoMode;
use gemelo_place::PoolPlace;
use gemelo_volume::{FinderTuning, InlineOverload, LayoutTuning, Pool, Tuning, VolumeTuning};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The name of the file, and of the value of a member with the same text.
pub const FILE: &str = "settings.toml";
/// Permissions of the file: the owner's alone, as of all files of a new pool.
const MODE: u32 = 0o600;

/// Chosen values of settings, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// Sets a value; [`None`] takes the choice back.
    pub fn set(&mut self, setting: &'static Setting, value: Option<Value>) {
        match value {
            Some(value) => self.0.insert(setting.name, value),
            None => self.0.remove(setting.name),
        };
    }

    /// Returns the chosen value of a setting.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns all chosen values with the names of their settings.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Returns whether nothing was chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these choices, and those of `below` where there are none.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        let mut all = below.0.clone();
        all.extend(self.0.iter().map(|(name, value)| (*name, value.clone())));
        Self(all)
    }

    /// Returns the chosen value, or the default if that is a value.
    fn value(&self, name: &str) -> Option<Value> {
        let known = setting(name);
        debug_assert!(known.is_some(), "'{name}' is in the table");
        let usual = || known.and_then(|known| known.kind.parse(known.default).ok());
        self.get(name).cloned().or_else(usual)
    }

    /// Returns a number of bytes, unless it is left to the program.
    #[must_use]
    pub fn size(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Size(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns a duration; zero for never.
    #[must_use]
    pub fn span(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Span(span) | Value::Interval(span)) => span,
            _ => Duration::ZERO,
        }
    }

    /// Returns whether a switch is on.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Switch(true)))
    }

    /// Returns a number.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        match self.value(name) {
            Some(Value::Count(count)) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// Returns the schedule of scrubs.
    #[must_use]
    pub fn scrub_schedule(&self) -> ScrubSchedule {
        let interval = self.span("scrub-interval");
        let usual = ScrubSchedule::default();
        ScrubSchedule {
            interval: (!interval.is_zero()).then_some(interval),
            max_bytes_per_s: self.size("scrub-rate").unwrap_or(usual.max_bytes_per_s),
        }
    }

    /// Returns the shares of use at which the server warns.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        match self.value("warn-used") {
            Some(Value::Percents(shares)) => Thresholds::new(shares),
            _ => Thresholds::default(),
        }
    }

    /// Returns the settings of the schedule of a volume: the time between two snapshots, and those
    /// that are kept. [`None`] stands for never, and for all.
    #[must_use]
    pub fn snapshots(&self) -> (Option<Duration>, Option<KeepRule>) {
        let every = self.span("every");
        let keep = match self.value("keep") {
            Some(Value::Keep(rule)) => Some(rule),
            _ => None,
        };
        ((!every.is_zero()).then_some(every), keep)
    }

    /// Returns the settings in the engine's types.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        let usual = Tuning::default();
        let sample = match self.value("index-sample") {
            Some(Value::Sample(sample)) => sample,
            _ => usual.index_sampling,
        };
        Tuning {
            commit_interval: self.span("commit-interval"),
            verify_reads: self.is_on("verify-reads"),
            verify_bytes: self.is_on("verify-bytes"),
            finder: self.finder_tuning(),
            inline_overload: InlineOverload::from_name(self.word("inline-overload"))
                .unwrap_or_default(),
            cache_bytes: self.size("metadata-cache"),
            index_sampling: sample,
            content_cache_bytes: self.size("cache"),
            write_buffer_bytes: self.size("write-buffer").unwrap_or(usual.write_buffer_bytes),
            max_journal_data_bytes: self.size("journal-data"),
            collect_bytes_per_s: self.size("collect-rate").unwrap_or(usual.collect_bytes_per_s),
            io: IoMode::from_name(self.word("io")).unwrap_or(usual.io),
            layout: LayoutTuning {
                bytes_per_s: self.size("layout-rate").unwrap_or(usual.layout.bytes_per_s),
                ..usual.layout
            },
            ..usual
        }
    }

    fn finder_tuning(&self) -> FinderTuning {
        let usual = FinderTuning::default();
        FinderTuning {
            delay: self.span("finder-delay"),
            max_delay: self.span("finder-max-delay"),
            interval: self.span("finder-interval"),
            window: match self.value("finder-window") {
                Some(Value::Window(window)) => Some(window),
                _ => None,
            },
            bytes_per_s: self.size("finder-rate"),
            busy_cpu_percent: match self.value("finder-cpu") {
                Some(Value::Percents(shares)) => shares.first().copied().map_or(1, whole_percent),
                _ => usual.busy_cpu_percent,
            },
            memory_bytes: self.size("finder-memory").unwrap_or(usual.memory_bytes),
        }
    }

    /// Returns the settings of a volume that has these.
    #[must_use]
    pub fn volume_tuning(&self) -> VolumeTuning {
        VolumeTuning {
            remembers_fingerprints: self.is_on("finder-remember"),
            ..self.tuning().volume_tuning()
        }
    }

    /// Checks that the caches and buffers whose sizes are given fit into a machine.
    ///
    /// # Errors
    /// Fails if they would take more than all its memory together.
    pub fn fit(&self, memory_bytes: u64) -> Result<(), RequestFailure> {
        let given: Vec<(&str, u64)> = ["metadata-cache", "cache", "write-buffer", "finder-memory"]
            .into_iter()
            .filter(|name| self.get(name).is_some())
            .filter_map(|name| Some((name, self.size(name)?)))
            .collect();
        let all_bytes = given.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if all_bytes <= memory_bytes {
            return Ok(());
        }
        let told: Vec<_> =
            given.iter().map(|(name, bytes)| format!("{name} {}", format_size(*bytes))).collect();
        let (machine, told) = (format_size(memory_bytes), told.join(", "));
        Err(RequestFailure::refused(format!(
            "this process may have {machine} of memory, less than {told}"
        )))
    }
}

/// Returns a share from 0 to 1 in percent, rounded, and at least 1: with 0, the finder would never
/// work.
fn whole_percent(share: f64) -> u32 {
    // The cast is safe: a share is at most 1.
    (share * 100.0).round().clamp(1.0, 100.0) as u32
}

/// The settings of a pool and of its volumes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Those of the pool.
    pub pool: Values,
    /// Those of volumes that have some for themselves, by name.
    pub volumes: BTreeMap<String, Values>,
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
            Ok(Some(text)) => file::parse(&text).map_err(|error| bad(&error)),
        }
    }

    /// Returns the text that keeps the settings.
    #[must_use]
    pub fn text(&self) -> String {
        file::text_of(self)
    }

    /// Gives the volumes of a pool that was just opened with these settings those that they have
    /// for themselves.
    pub fn give_to_volumes(&self, pool: &Pool) {
        let names = match self.pool.is_on("finder-remember") {
            true => self.volumes.keys().cloned().collect(),
            false => pool.volume_names(),
        };
        for name in names {
            // One that is gone needs none.
            let _ = pool
                .set_volume_tuning(&name, self.of_volume(&name).over(&self.pool).volume_tuning());
        }
    }

    /// Returns the choices of a volume.
    #[must_use]
    pub fn of_volume(&self, name: &str) -> Values {
        self.volumes.get(name).cloned().unwrap_or_default()
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
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(&path)
            .map_err(|error| failed(&error))?;
        let written = file.write_all(self.text().as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| {
            // The first error is the one to report.
            let _ = fs::remove_file(&path);
            failed(&error)
        })
    }
}

#[cfg(test)]
mod tests;
