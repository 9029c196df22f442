//! How a pool is to behave whenever it is opened: a small text in its directory.

use crate::failure::Failure;
use gemelo_volume::Tuning;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "settings.toml";

/// How a pool is to behave; what is not said is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Nothing stays without being made durable for longer, in milliseconds.
    pub commit_interval_ms: Option<u64>,
    /// Compare contents with their fingerprints at every read.
    pub verify_reads: Option<bool>,
    /// Compare bytes before a block is shared.
    pub verify_bytes: Option<bool>,
    /// How long the finder leaves blocks alone after they were written, in milliseconds.
    pub finder_delay_ms: Option<u64>,
    /// How much the finder reads at most a second, in bytes.
    pub finder_bytes_per_s: Option<u64>,
    /// Memory for the metadata of the backends `table` and `btree`, in bytes.
    pub cache_bytes: Option<u64>,
    /// How much freed space the background gives back a second, in bytes.
    pub collect_bytes_per_s: Option<u64>,
}

impl Settings {
    /// Those of a pool; the defaults if it has none.
    ///
    /// # Errors
    /// If the file is there and makes no sense.
    pub fn read(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(FILE);
        let bad = |error: &dyn std::fmt::Display| Failure::refused(format!("{}: {error}", path.display()));
        match std::fs::read_to_string(&path) {
            // Whether there is a pool at all is told by who opens it.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Self::default())
            }
            Err(error) => Err(bad(&error)),
            Ok(text) => toml::from_str(&text).map_err(|error| bad(&error.message())),
        }
    }

    /// Puts them into a pool's directory, unless they say nothing.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        if *self == Self::default() {
            return Ok(());
        }
        let path = directory.join(FILE);
        let failed = |error: &dyn std::error::Error| Failure::of(&path.display().to_string(), error);
        let text = toml::to_string(self).map_err(|error| failed(&error))?;
        std::fs::write(&path, text).map_err(|error| failed(&error))
    }

    /// These, where they say something, and those of `other` elsewhere.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            commit_interval_ms: self.commit_interval_ms.or(other.commit_interval_ms),
            verify_reads: self.verify_reads.or(other.verify_reads),
            verify_bytes: self.verify_bytes.or(other.verify_bytes),
            finder_delay_ms: self.finder_delay_ms.or(other.finder_delay_ms),
            finder_bytes_per_s: self.finder_bytes_per_s.or(other.finder_bytes_per_s),
            cache_bytes: self.cache_bytes.or(other.cache_bytes),
            collect_bytes_per_s: self.collect_bytes_per_s.or(other.collect_bytes_per_s),
        }
    }

    /// As the engine has them.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        let usual = Tuning::default();
        Tuning {
            commit_interval: self.commit_interval_ms.map_or(usual.commit_interval, Duration::from_millis),
            verify_reads: self.verify_reads.unwrap_or(usual.verify_reads),
            verify_bytes: self.verify_bytes.unwrap_or(usual.verify_bytes),
            finder_delay: self.finder_delay_ms.map_or(usual.finder_delay, Duration::from_millis),
            finder_bytes_per_s: self.finder_bytes_per_s.or(usual.finder_bytes_per_s),
            cache_bytes: self.cache_bytes.unwrap_or(usual.cache_bytes),
            collect_bytes_per_s: self.collect_bytes_per_s.unwrap_or(usual.collect_bytes_per_s),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_and_nonsense_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Settings::read(folder.path()).unwrap(), Settings::default());
        let settings = Settings { commit_interval_ms: Some(250), ..Settings::default() };
        settings.write(folder.path()).unwrap();
        assert_eq!(Settings::read(folder.path()).unwrap(), settings);
        assert_eq!(settings.tuning().commit_interval, Duration::from_millis(250));
        std::fs::write(folder.path().join(FILE), "commit_intervall_ms = 3").unwrap();
        let failure = Settings::read(folder.path()).unwrap_err();
        assert!(
            failure.is_refusal && failure.text.contains(FILE) && failure.text.contains("intervall"),
            "{failure}"
        );
    }
}
