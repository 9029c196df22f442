//! The names of storage, as users write them.

use gemelo_base::text_of_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;

/// The name of storage that load can run against: a path, or a scheme and a place, such as `null:`
/// or `pool:DIRECTORY/VOLUME`. [`crate::Targets`] knows the schemes. A path in it has the form of
/// [`text_of_name`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct TargetUri(String);

impl TargetUri {
    /// Returns the scheme, if the name has one, and the rest. A name that begins with a slash or a
    /// dot is always a path.
    #[must_use]
    pub fn parts(&self) -> (Option<&str>, &str) {
        match scheme_of(&self.0) {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, &self.0),
        }
    }
}

/// Splits `scheme:rest`.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

impl From<String> for TargetUri {
    /// Reads a name. `file:PATH` is the path itself, so that equal storage has equal names.
    fn from(text: String) -> Self {
        match scheme_of(&text) {
            Some(("file", path)) if !path.is_empty() => {
                let needs_dot = scheme_of(path).is_some();
                Self(if needs_dot { format!("./{path}") } else { path.to_owned() })
            }
            _ => Self(text),
        }
    }
}

impl From<OsString> for TargetUri {
    /// Reads a name as the command line has it, which need not be UTF-8.
    fn from(name: OsString) -> Self {
        Self::from(text_of_name(&name))
    }
}

impl From<&str> for TargetUri {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<TargetUri> for String {
    fn from(uri: TargetUri) -> Self {
        uri.0
    }
}

impl fmt::Display for TargetUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_schemes_are_told_apart() {
        assert_eq!(TargetUri::from("null:").parts(), (Some("null"), ""));
        for text in ["/dev/sda", "data", "./a:b", "/a:b", "C:x", "."] {
            assert_eq!(TargetUri::from(text).parts(), (None, text));
        }
        assert_eq!(TargetUri::from("nbd+unix:///x").parts(), (Some("nbd+unix"), "///x"));
        assert_eq!(TargetUri::from("file:").parts(), (Some("file"), ""));
    }

    #[test]
    fn a_name_reads_back_as_it_is_printed() {
        for (text, printed) in
            [("file:/a", "/a"), ("file:a:b", "./a:b"), ("pool:/a b/c/disk", "pool:/a b/c/disk")]
        {
            let uri = TargetUri::from(text);
            assert_eq!(uri.to_string(), printed);
            assert_eq!(TargetUri::from(printed), uri);
        }
    }
}
