//! Data sources: what is written into the files of a fileset. A new one is a file here and a line in [`SOURCES`].

mod duplicates;
mod entro;
mod file;
mod random;
mod two_symbols;

#[cfg(test)]
mod tests;

pub use two_symbols::METHODS;

use gemelo_content::{ContentError, Distribution};
use std::path::PathBuf;
use thiserror::Error;

/// `datasource=NAME,attribute=value,...` as the script has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceSpec {
    /// Name of the source.
    pub name: String,
    /// Its attributes and their values.
    pub attributes: Vec<(String, String)>,
}

/// Why a source cannot be had.
#[derive(Debug, Error)]
pub enum SourceError {
    /// A name that no source has.
    #[error("there is no data source '{name}'; there are {}", names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// An attribute that the source does not have.
    #[error("the data source '{name}' has no attribute '{attribute}'")]
    Attribute {
        /// The source.
        name: String,
        /// The attribute.
        attribute: String,
    },
    /// A value out of range.
    #[error("{attribute} is '{value}', it has to be {expected}")]
    Value {
        /// The attribute.
        attribute: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// Contents that cannot be made.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The distribution cannot be had.
    #[error("distribution '{name}': {reason}")]
    Distribution {
        /// Its name or file.
        name: String,
        /// Why.
        reason: String,
    },
    /// The sample cannot be read.
    #[error("cannot read the sample {}", path.display())]
    Sample {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The sample holds nothing, or too much.
    #[error("the sample {} has {bytes} bytes, it has to have from 1 byte to 1 GiB", path.display())]
    SampleSize {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
    },
}

/// Finds a distribution by name or file.
pub type Distributions<'a> = &'a dyn Fn(&str) -> Result<Distribution, String>;

/// What a source is opened with.
pub struct Surroundings<'a> {
    /// Decides contents.
    pub seed: u64,
    /// Tells unique contents of runs apart.
    pub run_id: u64,
    /// Bytes of the fileset.
    pub data_bytes: u64,
    /// Where distributions come from.
    pub distributions: Distributions<'a>,
}

/// Makes data for all threads.
pub trait DataSource: Send + Sync {
    /// The data of one thread; every thread has a number of its own.
    fn stream(&self, number: u32) -> Box<dyn DataStream>;

    /// What of the attributes cannot be had, in words for the user.
    fn shortfalls(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Makes data for one thread.
pub trait DataStream: Send {
    /// Fills the buffer with the next data.
    fn fill(&mut self, buffer: &mut [u8]);
}

/// Opens a source as its attributes say.
pub type OpenSource =
    fn(&SourceSpec, &Surroundings<'_>) -> Result<Box<dyn DataSource>, SourceError>;

/// A source by name.
pub struct Registration {
    /// Its name.
    pub name: &'static str,
    /// Its attributes, and what they mean.
    pub attributes: &'static [(&'static str, &'static str)],
    /// Checks values without opening anything.
    pub check: fn(&SourceSpec) -> Result<(), SourceError>,
    /// Opens the source.
    pub open: OpenSource,
}

/// Every source.
pub const SOURCES: &[Registration] =
    &[entro::REGISTRATION, duplicates::REGISTRATION, random::REGISTRATION, file::REGISTRATION];

/// The source of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Registration> {
    SOURCES.iter().find(|registration| registration.name == name)
}

/// The names of all sources.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    SOURCES.iter().map(|registration| registration.name)
}

/// The attributes of all sources, each once.
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
/// If there is no such source, a value is out of range, or a file cannot be read.
pub fn open(
    spec: &SourceSpec,
    around: &Surroundings<'_>,
) -> Result<Box<dyn DataSource>, SourceError> {
    let registration =
        find(&spec.name).ok_or_else(|| SourceError::Unknown { name: spec.name.clone() })?;
    (registration.open)(spec, around)
}

impl SourceSpec {
    /// Reads `NAME,attribute=value,...` as an option has it, and checks it.
    ///
    /// # Errors
    /// If there is no such source or attribute, or a value is out of range.
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

    /// `NAME,attribute=value,...`.
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

    /// The same source with one attribute set.
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

/// The largest byte entropy.
const MOST_ENTROPY_BITS: f64 = 8.0;

fn entropy_of(spec: &SourceSpec) -> Result<f64, SourceError> {
    spec.number("entropy", MOST_ENTROPY_BITS, 0.0..=MOST_ENTROPY_BITS)
}
