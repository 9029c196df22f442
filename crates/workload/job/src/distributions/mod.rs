//! Finds a distribution by its name or file, in the same way for every job and command.
//!
//! A built-in name comes first (`./personal` is the file of that name). Else the name is a file in
//! a format that [`formats`] recognises by its content; `-` is standard input.

pub mod formats;

use crate::nearest::nearest_first;
use formats::DistributionFormat;
use gemelo_base::Classified;
use gemelo_content::{
    Distribution, DistributionError, ParseNote, Profile, ProfileError, built_in, built_in_names,
};
use std::io::{self, Read};
use std::path::Path;
use thiserror::Error;

/// Longest distribution file in bytes. It holds ten million classes, and bounds the cost of reading
/// a device such as `/dev/zero`.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Block size in bytes of a distribution whose file states none.
pub const USUAL_BLOCK_BYTES: u64 = 4096;

/// A distribution with its name and further statements of its file.
#[derive(Debug, Clone)]
pub struct NamedDistribution {
    /// The name or path that the user gave.
    pub name: String,
    /// The distribution of duplicates.
    pub distribution: Distribution,
    /// Source, block size and nature of the contents; [`None`] if the file does not state them.
    pub profile: Option<Profile>,
    /// Remarks about accepted oddities of the file.
    pub notes: Vec<ParseNote>,
}

impl NamedDistribution {
    /// Returns the block size in bytes at which the duplicates were counted, if it is known.
    #[must_use]
    pub fn block_bytes(&self) -> Option<u64> {
        self.profile.as_ref().map(|profile| profile.block_bytes)
    }

    /// Returns the profile, or makes one if the file is not a profile. A given block size replaces
    /// that of the profile.
    #[must_use]
    pub fn to_profile(&self, block_bytes: Option<u64>) -> Profile {
        let mut profile = self.profile.clone().unwrap_or_else(|| {
            let name = Path::new(&self.name).file_stem().map(gemelo_base::text_of_name);
            let name = name.unwrap_or_else(|| self.name.clone());
            Profile::new(
                &name,
                &format!("file {}", self.name),
                USUAL_BLOCK_BYTES,
                &self.distribution,
            )
        });
        profile.block_bytes = block_bytes.unwrap_or(profile.block_bytes);
        profile
    }
}

/// The reason why a distribution cannot be found or read.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum NamedDistributionError {
    /// There is no file and no built-in distribution of this name.
    #[error(
        "there is no file and no built-in distribution '{name}'; the built-in ones are {known}"
    )]
    Unknown {
        /// The name as the user gave it.
        name: String,
        /// The built-in names, the most similar ones first.
        known: String,
    },
    /// The file cannot be opened.
    #[error("cannot read {name}")]
    Open {
        /// The path as the user gave it.
        name: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// The file cannot be read to its end, or it is not text.
    #[error("cannot read {name} as a distribution")]
    Read {
        /// The path as the user gave it.
        name: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// The file is too large.
    #[error("{name} is larger than 256 MiB, the limit of a distribution: name another file")]
    TooLarge {
        /// The path as the user gave it.
        name: String,
    },
    /// The file has a fault. The text includes its place.
    #[error("{0}")]
    Malformed(String),
    /// A built-in profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The distribution of a built-in profile cannot be used.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
}

/// Finds the distribution of this name or file.
///
/// # Errors
/// Fails if the name is unknown, and if the file cannot be read or is malformed.
pub fn load(name: &str) -> Result<NamedDistribution, NamedDistributionError> {
    if let Some(profile) = built_in(name) {
        return of_profile(name, profile?);
    }
    let text = read(name)?;
    parse(name, &text).map_err(NamedDistributionError::Malformed)
}

/// Reads a text of any known format.
///
/// # Errors
/// Fails with the first fault of the text and its place.
pub fn parse(name: &str, text: &str) -> Result<NamedDistribution, String> {
    let parsed = DistributionFormat::of(text).parse(text).map_err(|problem| problem.at(name))?;
    Ok(NamedDistribution {
        name: name.to_owned(),
        distribution: parsed.distribution,
        profile: parsed.profile,
        notes: parsed.notes,
    })
}

fn of_profile(name: &str, profile: Profile) -> Result<NamedDistribution, NamedDistributionError> {
    let distribution = profile.to_distribution()?;
    Ok(NamedDistribution {
        name: name.to_owned(),
        distribution,
        profile: Some(profile),
        notes: Vec::new(),
    })
}

/// Reads the text of a file or of standard input.
///
/// # Errors
/// Fails if the file does not exist, is not text, or is longer than the limit.
pub fn read(name: &str) -> Result<String, NamedDistributionError> {
    if name == "-" {
        return read_limited(io::stdin().lock(), "standard input");
    }
    match std::fs::File::open(gemelo_base::name_of_text(name)) {
        Ok(file) => read_limited(file, name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let known = nearest_first(name, built_in_names()).join(", ");
            Err(NamedDistributionError::Unknown { name: name.to_owned(), known })
        }
        Err(source) => Err(NamedDistributionError::Open { name: name.to_owned(), source }),
    }
}

fn read_limited(source: impl Read, name: &str) -> Result<String, NamedDistributionError> {
    let mut text = String::new();
    source
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|source| NamedDistributionError::Read { name: name.to_owned(), source })?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(NamedDistributionError::TooLarge { name: name.to_owned() });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_names_and_files_of_every_format_are_found() {
        assert_eq!(load("unique").unwrap().block_bytes(), Some(4096));
        let directory = tempfile::tempdir().unwrap();
        let source = load("personal").unwrap();
        let profile = source.to_profile(Some(8192));
        for format in DistributionFormat::ALL {
            let path = directory.path().join("file");
            std::fs::write(&path, format.write(&profile).unwrap()).unwrap();
            let read = load(path.to_str().unwrap()).unwrap();
            assert_eq!(read.distribution, source.distribution, "{format:?}");
            let known = matches!(format, DistributionFormat::Profile | DistributionFormat::Json);
            assert_eq!(read.block_bytes(), known.then_some(8192), "{format:?}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones_nearest_first() {
        let message = load("primery").unwrap_err().to_string();
        assert!(message.contains("'primery'; the built-in ones are primary, "), "{message}");
    }
}
