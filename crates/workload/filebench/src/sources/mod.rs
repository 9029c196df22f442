//! Data sources make the data written into the files of a fileset. A new source is one module here
//! and one entry in [`SOURCES`].

mod duplicates;
mod entro;
mod file;
mod random;
mod two_symbols;

#[cfg(test)]
mod tests;

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
pub use two_symbols::METHODS;

use gemelo_content::{ContentError, Distribution};
use std::path::PathBuf;
use thiserror::Error;

/// A data source with its attributes, `datasource=NAME,attribute=value,...` in a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceSpec {
    /// Name of the source.
    pub name: String,
    /// Attributes and their values.
    pub attributes: Vec<(String, String)>,
}

/// The reason why a source cannot be used.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum SourceError {
    /// No source has this name.
    #[error(
        "there is no data source '{name}'; known are {}",
        names().collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// Given name.
        name: String,
    },
    /// The source has no attribute of this name.
    #[error("the data source '{name}' has no attribute '{attribute}'")]
    Attribute {
        /// Name of the source.
        name: String,
        /// Name of the attribute.
        attribute: String,
    },
    /// A value is outside its range.
    #[error("{attribute} is '{value}'; it must be {expected}")]
    Value {
        /// Name of the attribute.
        attribute: &'static str,
        /// Given value.
        value: String,
        /// Permitted values.
        expected: String,
    },
    /// The specification of the contents is invalid.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The distribution cannot be loaded.
    #[error("distribution '{name}': {reason}")]
    Distribution {
        /// Name or file of the distribution.
        name: String,
        /// Error message.
        reason: String,
    },
    /// Reading the sample failed.
    #[error("cannot read the sample {}", path.shown())]
    Sample {
        /// Path of the sample.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The sample is empty or too large.
    #[error("the sample {} has {bytes} bytes; it must have from 1 byte to 1 GiB", path.shown())]
    SampleSize {
        /// Path of the sample.
        path: PathBuf,
        /// Size of the sample in bytes.
        bytes: u64,
    },
}

/// Loads a distribution by name or file.
pub type Distributions<'a> = &'a dyn Fn(&str) -> Result<Distribution, String>;

/// The inputs for opening a source.
pub struct Surroundings<'a> {
    /// Seed of the contents.
    pub seed: u64,
    /// Number that separates the unique contents of different runs.
    pub run_id: u64,
    /// Bytes of all files of the fileset.
    pub data_bytes: u64,
    /// Function that loads distributions.
    pub distributions: Distributions<'a>,
}

/// Makes data for all threads.
pub trait DataSource: Send + Sync {
    /// Returns the data stream of one thread. Every thread has a different number.
    fn stream(&self, number: u32) -> Box<dyn DataStream>;

    /// Returns messages for the user on attributes that the source cannot satisfy exactly.
    fn shortfalls(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Makes data for one thread.
pub trait DataStream: Send {
    /// Fills the buffer with the next data of the stream.
    fn fill(&mut self, buffer: &mut [u8]);
}

/// Opens a source with its attributes.
pub type OpenSource =
    fn(&SourceSpec, &Surroundings<'_>) -> Result<Box<dyn DataSource>, SourceError>;

/// The entry of a source in [`SOURCES`].
pub struct Registration {
    /// Name of the source.
    pub name: &'static str,
    /// Names of the attributes and their descriptions.
    pub attributes: &'static [(&'static str, &'static str)],
    /// Checks attributes without opening anything.
    pub check: fn(&SourceSpec) -> Result<(), SourceError>,
    /// Opens the source.
    pub open: OpenSource,
}

/// All data sources.
pub const SOURCES: &[Registration] =
    &[entro::REGISTRATION, duplicates::REGISTRATION, random::REGISTRATION, file::REGISTRATION];

/// Returns the source with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Registration> {
    SOURCES.iter().find(|registration| registration.name == name)
}

/// Returns the names of all sources.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SOURCES.iter().map(|registration| registration.name)
}

/// Returns the attributes of all sources, each once.
#[must_use]
pub fn attribute_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = SOURCES
        .iter()
        .flat_map(|registration| registration.attributes)
        .map(|(name, _)| *name)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Opens a source.
///
/// # Errors
/// Fails if there is no such source, a value is outside its range, or a file cannot be read.
pub fn open(
    spec: &SourceSpec,
    around: &Surroundings<'_>,
) -> Result<Box<dyn DataSource>, SourceError> {
    let registration =
        find(&spec.name).ok_or_else(|| SourceError::Unknown { name: spec.name.clone() })?;
    (registration.open)(spec, around)
}

impl SourceSpec {
    /// Parses and checks `NAME,attribute=value,...`, the form of an option.
    ///
    /// # Errors
    /// Fails if there is no such source or attribute, or a value is outside its range.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default().trim().to_owned();
        let registration =
            find(&name).ok_or_else(|| SourceError::Unknown { name: name.clone() })?;
        let mut spec = Self { name, attributes: Vec::new() };
        for part in parts {
            let (attribute, value) = part.split_once('=').unwrap_or((part, "true"));
            let attribute = attribute.trim();
            if !registration.attributes.iter().any(|(known, _)| *known == attribute) {
                return Err(SourceError::Attribute {
                    name: spec.name,
                    attribute: attribute.to_owned(),
                });
            }
            spec.attributes.push((attribute.to_owned(), value.trim().to_owned()));
        }
        (registration.check)(&spec)?;
        Ok(spec)
    }

    /// Returns the form `NAME,attribute=value,...`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let attributes = self.attributes.iter().map(|(name, value)| format!(",{name}={value}"));
        std::iter::once(self.name.clone()).chain(attributes).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the same source with one attribute set.
    #[must_use]
    pub fn with(&self, attribute: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.attributes.retain(|(known, _)| known != attribute);
        changed.attributes.push((attribute.to_owned(), value.to_owned()));
        changed
    }

    fn number(
        &self,
        attribute: &'static str,
        default: f64,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<f64, SourceError> {
        let Some(text) = self.get(attribute) else { return Ok(default) };
        let digits = if attribute == "compressibility" { text.trim_end_matches('%') } else { text };
        digits.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            SourceError::Value {
                attribute,
                value: text.to_owned(),
                expected: format!("a number from {} to {}", range.start(), range.end()),
            }
        })
    }
}

/// Largest byte entropy.
const MAX_ENTROPY_BITS: f64 = 8.0;

fn entropy_of(spec: &SourceSpec) -> Result<f64, SourceError> {
    spec.number("entropy", MAX_ENTROPY_BITS, 0.0..=MAX_ENTROPY_BITS)
}
