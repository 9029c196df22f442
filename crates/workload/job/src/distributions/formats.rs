//! The file formats of distributions: the DEDISbench text, gemelo's profile as TOML or JSON, and
//! CSV.

use gemelo_base::Classified;
use gemelo_content::{Distribution, DistributionError, ParseNote, Profile, ProfileError};
use thiserror::Error;

/// A file format in which distributions are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DistributionFormat {
    /// Lines `<duplicates> <contents>`, as DEDISbench reads them
    Text,
    /// TOML with name, source, block size, entropy and compressibility
    Profile,
    /// A profile as JSON
    Json,
    /// CSV with the columns duplicates and contents
    Csv,
}

/// The distribution in a file.
#[derive(Debug)]
pub struct Parsed {
    /// The distribution of duplicates.
    pub distribution: Distribution,
    /// Source, block size and nature of the contents; [`None`] if the file does not state them.
    pub profile: Option<Profile>,
    /// Remarks about accepted oddities of the file.
    pub notes: Vec<ParseNote>,
}

/// A fault of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistributionProblem {
    /// Number of the line, counted from 1; [`None`] if the fault is not on one line.
    line: Option<usize>,
    message: String,
}

/// The reason why a distribution cannot be written in a format.
#[derive(Debug, Error, Classified)]
#[kind(Failed)]
pub enum DistributionFormatError {
    /// The profile has no valid distribution.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// TOML cannot hold the profile.
    #[error(transparent)]
    Toml(#[from] toml::ser::Error),
    /// JSON cannot hold the profile.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl DistributionProblem {
    /// Returns the fault with its place: `FILE:LINE: message`.
    #[must_use]
    pub fn at(&self, name: &str) -> String {
        match self.line {
            Some(line) => format!("{name}:{line}: {}", self.message),
            None => format!("{name}: {}", self.message),
        }
    }

    fn of(error: &DistributionError) -> Self {
        let message = error.to_string();
        match error {
            DistributionError::Line { line, .. }
            | DistributionError::CompressibleLine { line, .. } => {
                let prefix = format!("line {line}: ");
                let message = message.strip_prefix(&prefix).unwrap_or(&message).to_owned();
                Self { line: Some(*line), message }
            }
            _ => Self { line: None, message },
        }
    }

    fn of_profile(error: &ProfileError, text: &str) -> Self {
        let ProfileError::Toml(toml) = error else {
            return Self { line: None, message: error.to_string() };
        };
        let line = toml.span().map(|span| {
            text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count() + 1
        });
        // Further lines of the message only show the place in the text.
        let message = toml.message().lines().next().unwrap_or_default();
        Self { line, message: format!("not a profile: {message}") }
    }
}

/// Returns a remark with its place: `FILE:LINE: message`.
#[must_use]
pub fn note_at(name: &str, note: &ParseNote) -> String {
    let text = note.to_string();
    match text.strip_prefix("line ") {
        Some(rest) => format!("{name}:{rest}"),
        None => format!("{name}: {text}"),
    }
}

const CSV_HEADER: &str = "duplicates,contents";
/// The start of the row with the blocks of zeros, which are no contents.
const CSV_ZEROS: &str = "zeros,";

fn csv(distribution: &Distribution) -> String {
    let mut text = format!("{CSV_HEADER}\n");
    if distribution.zero_blocks() > 0 {
        text += &format!("{CSV_ZEROS}{}\n", distribution.zero_blocks());
    }
    for [duplicates, contents] in distribution.pairs() {
        text += &format!("{duplicates},{contents}\n");
    }
    text
}

impl DistributionFormat {
    /// All formats.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Text, Self::Profile, Self::Json, Self::Csv];

    /// Recognises the format of a text by its first line that is neither empty nor a comment.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let lines = text.lines().map(|line| line.trim_start_matches('\u{feff}').trim());
        let first =
            lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or("");
        if first.starts_with('{') {
            Self::Json
        } else if first.contains('=') || first.starts_with('[') {
            Self::Profile
        } else if first.contains(',') {
            Self::Csv
        } else {
            Self::Text
        }
    }

    /// Returns the format that the extension of a file's name stands for.
    #[must_use]
    pub fn of_name(path: &std::path::Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Profile,
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            _ => Self::Text,
        }
    }

    /// Reads a text of this format.
    ///
    /// # Errors
    /// Fails with the first fault of the text.
    pub fn parse(self, text: &str) -> Result<Parsed, DistributionProblem> {
        match self {
            Self::Text | Self::Csv => {
                let (distribution, notes) = Distribution::parse_with_notes(&self.plain(text))
                    .map_err(|error| DistributionProblem::of(&error))?;
                Ok(Parsed { distribution, profile: None, notes })
            }
            Self::Profile => parsed(Profile::parse(text), text),
            Self::Json => {
                let profile: Profile = serde_json::from_str(text).map_err(|error| {
                    let message = format!("not a profile: {error}");
                    DistributionProblem { line: Some(error.line()), message }
                })?;
                parsed(profile.checked(), text)
            }
        }
    }

    /// Returns all faults of a text of this format. There are none if [`DistributionFormat::parse`]
    /// reads it.
    #[must_use]
    pub fn problems(self, text: &str) -> Vec<DistributionProblem> {
        match self {
            Self::Text | Self::Csv => Distribution::problems(&self.plain(text))
                .iter()
                .map(DistributionProblem::of)
                .collect(),
            Self::Profile | Self::Json => self.parse(text).err().into_iter().collect(),
        }
    }

    /// Converts a CSV text to a DEDISbench one, line by line.
    fn plain(self, text: &str) -> std::borrow::Cow<'_, str> {
        if self == Self::Text {
            return text.into();
        }
        let plain = |line: &str| {
            let line = line.trim();
            match line.strip_prefix(CSV_ZEROS) {
                Some(blocks) if blocks.trim().parse::<u64>().is_ok() => {
                    format!("# zeros {blocks}\n")
                }
                _ if line == CSV_HEADER => "#\n".to_owned(),
                _ => line.replace(',', " ") + "\n",
            }
        };
        text.lines().map(plain).collect::<String>().into()
    }

    /// Writes a profile in this format. Text and CSV hold the distribution alone.
    ///
    /// # Errors
    /// Fails if the profile has no valid distribution, or the format cannot hold it.
    pub fn write(self, profile: &Profile) -> Result<String, DistributionFormatError> {
        let distribution = profile.to_distribution()?;
        Ok(match self {
            Self::Text => distribution.to_text(),
            Self::Profile => profile.to_toml()?,
            Self::Json => serde_json::to_string_pretty(profile)? + "\n",
            Self::Csv => csv(&distribution),
        })
    }
}

fn parsed(
    profile: Result<Profile, ProfileError>,
    text: &str,
) -> Result<Parsed, DistributionProblem> {
    let profile = profile.map_err(|error| DistributionProblem::of_profile(&error, text))?;
    let distribution =
        profile.to_distribution().map_err(|error| DistributionProblem::of(&error))?;
    Ok(Parsed { distribution, profile: Some(profile), notes: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_format_is_recognised_by_its_content() {
        for (text, format) in [
            ("0 5\n", DistributionFormat::Text),
            ("# a = b\n\n0 5\n", DistributionFormat::Text),
            ("", DistributionFormat::Text),
            ("schema = 'x'\n", DistributionFormat::Profile),
            ("[[class]]\n", DistributionFormat::Profile),
            ("  {\"a\": 1}", DistributionFormat::Json),
            ("duplicates,contents\n0,5\n", DistributionFormat::Csv),
            ("0,5\n", DistributionFormat::Csv),
            ("zeros,7\n0,5\n", DistributionFormat::Csv),
        ] {
            assert_eq!(DistributionFormat::of(text), format, "{text}");
        }
    }

    #[test]
    fn problems_say_file_and_line() {
        for (text, message) in [
            ("0 5\nx\n", "f:2: expected '<duplicates> <contents>', two whole numbers, found 'x'"),
            ("duplicates,contents\n0,5\n1;2\n", "f:3: expected"),
            ("", "f: the distribution has no blocks"),
            ("a = 1\nb = 2\n", "f:1: not a profile: unknown field"),
            ("{\n\"a\": 1}", "f:2: not a profile: unknown field"),
            (
                "schema = 'gemelo.profile/1'\nname = 'n'\nsource = 's'\nblock_bytes = 'x'\n",
                "f:4: not a profile",
            ),
        ] {
            let problem = DistributionFormat::of(text).problems(text).remove(0).at("f");
            assert!(problem.starts_with(message), "{problem}");
        }
    }

    #[test]
    fn every_format_keeps_the_zeros() {
        let text = "# zeros 7\n0 5\n3 2\n";
        let read = DistributionFormat::Text.parse(text).unwrap().distribution;
        let profile = Profile::new("n", "s", 4096, &read);
        for format in DistributionFormat::ALL {
            let written = format.write(&profile).unwrap();
            assert_eq!(DistributionFormat::of(&written), format, "{written}");
            assert_eq!(format.parse(&written).unwrap().distribution, read, "{written}");
        }
        let problem = DistributionFormat::Csv.problems("zeros,x\n").remove(0).at("f");
        assert!(problem.starts_with("f:1: expected"), "{problem}");
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "([0-9 ,{}\\[\\]=a-z\"#\\n]|\\PC){0,60}") {
            for format in DistributionFormat::ALL {
                let failed = format.parse(&text).is_err();
                prop_assert_eq!(failed, !format.problems(&text).is_empty());
            }
        }
    }
}
