//! How storage is named on a command line.

use crate::TargetError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Names storage that load can run against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetUri {
    /// `null:`, which takes every write and answers every read at once.
    Null,
    /// A directory, a file or a block device: a plain path or `file:PATH`.
    Path(PathBuf),
}

impl FromStr for TargetUri {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.is_empty() {
            return Err(TargetError::NoTarget);
        }
        match scheme_of(text) {
            None => Ok(Self::Path(PathBuf::from(text))),
            Some(("null", "")) => Ok(Self::Null),
            Some(("file", path)) if !path.is_empty() => Ok(Self::Path(PathBuf::from(path))),
            Some(_) => Err(TargetError::Scheme { uri: text.to_owned() }),
        }
    }
}

/// Splits `scheme:rest`. What begins with a slash or a dot is always a path.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

impl fmt::Display for TargetUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null:"),
            Self::Path(path) => path.display().fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_schemes_are_told_apart() {
        let path = |text: &str| TargetUri::Path(PathBuf::from(text));
        assert_eq!("null:".parse::<TargetUri>().unwrap(), TargetUri::Null);
        for text in ["/dev/sda", "data", "./a:b", "/a:b", "C:x", "."] {
            assert_eq!(text.parse::<TargetUri>().unwrap(), path(text));
        }
        assert_eq!("file:a:b".parse::<TargetUri>().unwrap(), path("a:b"));
    }

    #[test]
    fn unknown_schemes_are_refused_by_name() {
        for text in ["nbd://host/x", "nbd+unix:///x?socket=y", "pool:a/b", "null:x", "file:", "a:b"] {
            let error = text.parse::<TargetUri>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        assert!("".parse::<TargetUri>().is_err());
    }
}
