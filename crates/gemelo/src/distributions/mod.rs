//! A distribution by name or file, the same way for every command: `NAME|FILE`.
//!
//! A built-in name goes first (`./personal` is the file of that name), then a file of any format that
//! [`formats`] knows, recognised by its content; `-` is standard input.

pub(crate) mod formats;

use crate::exit::{OrBadInput, bad_input};
use crate::nearest::nearest_first;
use anyhow::{Context as _, anyhow};
use formats::Format;
use gemelo_content::{Distribution, ParseNote, Profile, built_in, built_in_names};
use std::io::Read;
use std::path::Path;

/// The most bytes of a distribution file: some ten million classes, and a bound on what `/dev/zero` costs.
const MOST_FILE_BYTES: u64 = 256 << 20;

/// Block size where a file does not say it, in bytes.
pub(crate) const USUAL_BLOCK_BYTES: u64 = 4096;

/// A distribution and what is known about it.
#[derive(Debug, Clone)]
pub(crate) struct NamedDistribution {
    /// The name or path it was asked by.
    pub(crate) name: String,
    /// Duplicates of contents.
    pub(crate) distribution: Distribution,
    /// With source, block size and the nature of contents, where the file says them.
    pub(crate) profile: Option<Profile>,
    /// What was odd about the file.
    pub(crate) notes: Vec<ParseNote>,
}

impl NamedDistribution {
    /// The block size at which the duplicates were counted, in bytes, if it is known.
    pub(crate) fn block_bytes(&self) -> Option<u64> {
        self.profile.as_ref().map(|profile| profile.block_bytes)
    }

    /// A profile in any case; without one, of `block_bytes` if given.
    pub(crate) fn to_profile(&self, block_bytes: Option<u64>) -> Profile {
        let mut profile = self.profile.clone().unwrap_or_else(|| {
            let name =
                Path::new(&self.name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
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

/// The distribution of this name or file.
///
/// # Errors
/// All are bad input: an unknown name, with the known ones; an unreadable file; a malformed one, with the line.
pub(crate) fn load(name: &str) -> anyhow::Result<NamedDistribution> {
    if let Some(profile) = built_in(name) {
        return of_profile(name, profile.or_bad_input()?);
    }
    let text = read(name)?;
    parse(name, &text).map_err(|error| bad_input(anyhow!("{error}")))
}

/// A text of any known format.
pub(crate) fn parse(name: &str, text: &str) -> Result<NamedDistribution, String> {
    let parsed = Format::of(text).parse(text).map_err(|problem| problem.at(name))?;
    Ok(NamedDistribution {
        name: name.to_owned(),
        distribution: parsed.distribution,
        profile: parsed.profile,
        notes: parsed.notes,
    })
}

fn of_profile(name: &str, profile: Profile) -> anyhow::Result<NamedDistribution> {
    let distribution = profile.to_distribution().or_bad_input()?;
    Ok(NamedDistribution {
        name: name.to_owned(),
        distribution,
        profile: Some(profile),
        notes: Vec::new(),
    })
}

/// The text of a file or of standard input.
pub(crate) fn read(name: &str) -> anyhow::Result<String> {
    if name == "-" {
        return read_limited(std::io::stdin().lock(), "standard input");
    }
    match std::fs::File::open(name) {
        Ok(file) => read_limited(file, name),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(bad_input(unknown(name))),
        Err(error) => Err(error).with_context(|| format!("cannot read {name}")).or_bad_input(),
    }
}

fn unknown(name: &str) -> anyhow::Error {
    let known = nearest_first(name, built_in_names()).join(", ");
    anyhow!("no file and no built-in distribution is called '{name}'; built in are {known}")
}

fn read_limited(source: impl Read, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    source
        .take(MOST_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {name} as a distribution"))
        .or_bad_input()?;
    if text.len() as u64 > MOST_FILE_BYTES {
        return Err(bad_input(anyhow!(
            "{name} has more than 256 MiB, which no distribution needs"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_names_and_files_of_every_format_are_found() {
        assert_eq!(load("unique").unwrap().block_bytes(), Some(4096));
        let folder = tempfile::tempdir().unwrap();
        let source = load("personal").unwrap();
        let profile = source.to_profile(Some(8192));
        for format in Format::ALL {
            let path = folder.path().join("file");
            std::fs::write(&path, format.write(&profile).unwrap()).unwrap();
            let read = load(path.to_str().unwrap()).unwrap();
            assert_eq!(read.distribution, source.distribution, "{format:?}");
            let known = matches!(format, Format::Profile | Format::Json);
            assert_eq!(read.block_bytes(), known.then_some(8192), "{format:?}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones_nearest_first() {
        let message = load("primery").unwrap_err().to_string();
        assert!(message.contains("'primery'; built in are primary, "), "{message}");
    }
}
