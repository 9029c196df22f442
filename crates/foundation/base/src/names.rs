//! Names of files as text. A name on Unix is a string of bytes, and need not be UTF-8.
//!
//! The text of a name is the name itself, except that a byte that is no part of UTF-8 becomes
//! `\xHH`, with two hexadecimal digits. A backslash that would look like the start of such an
//! escape becomes `\x5c`. So [`name_of_text`] gives back every name byte for byte.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Returns the text of a name.
#[must_use]
pub fn text_of_name(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find("\\x") {
            let (before, escape) = rest.split_at(at);
            text += before;
            text += if escaped_byte(escape.as_bytes()).is_some() { "\\x5c" } else { "\\" };
            rest = escape.get(1..).unwrap_or_default();
        }
        text += rest;
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Returns the name whose text [`text_of_name`] gives.
#[must_use]
pub fn name_of_text(text: &str) -> OsString {
    let mut rest = text.as_bytes();
    let mut name = Vec::with_capacity(rest.len());
    while let Some((first, others)) = rest.split_first() {
        if let Some(byte) = escaped_byte(rest) {
            name.push(byte);
            rest = rest.get(4..).unwrap_or_default();
        } else {
            name.push(*first);
            rest = others;
        }
    }
    OsString::from_vec(name)
}

/// Returns the byte of an escape `\xHH` at the start of a text.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |letter: &u8| char::from(*letter).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// A path that is shown as the text of its name.
#[derive(Debug, Clone, Copy)]
pub struct ShownPath<'a>(&'a Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&text_of_name(self.0.as_os_str()))
    }
}

/// Shows paths in messages. Unlike `Path::display`, it keeps every byte.
pub trait ShowPath {
    /// Returns the path in a form that can be printed.
    fn shown(&self) -> ShownPath<'_>;
}

impl ShowPath for Path {
    fn shown(&self) -> ShownPath<'_> {
        ShownPath(self)
    }
}

/// Paths in JSON and other text formats, for `#[serde(with = "gemelo_base::names::path")]`.
pub mod path {
    use super::{name_of_text, text_of_name};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::path::{Path, PathBuf};

    /// Writes the text of a path.
    ///
    /// # Errors
    /// Fails if the serializer does.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text_of_name(path.as_os_str()))
    }

    /// Reads a path.
    ///
    /// # Errors
    /// Fails if there is no text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(name_of_text(&String::deserialize(deserializer)?).into())
    }
}

/// Lists of paths, for `#[serde(with = "gemelo_base::names::paths")]`.
pub mod paths {
    use super::{name_of_text, text_of_name};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::path::PathBuf;

    /// Writes the texts of paths.
    ///
    /// # Errors
    /// Fails if the serializer does.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| text_of_name(path.as_os_str())))
    }

    /// Reads paths.
    ///
    /// # Errors
    /// Fails if there is no list of texts.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        Ok(texts.iter().map(|text| name_of_text(text).into()).collect())
    }
}

/// Paths that may be absent, for `#[serde(with = "gemelo_base::names::optional_path")]`.
pub mod optional_path {
    use super::{name_of_text, text_of_name};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::path::PathBuf;

    /// Writes the text of a path, or none.
    ///
    /// # Errors
    /// Fails if the serializer does.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| text_of_name(path.as_os_str())).serialize(serializer)
    }

    /// Reads a path, or none.
    ///
    /// # Errors
    /// Fails if there is neither a text nor none.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.map(|text| name_of_text(&text).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_names_stay_and_other_bytes_are_escaped() {
        let text = |name: &[u8]| text_of_name(OsStr::from_bytes(name));
        assert_eq!(text("grüße/a b\\c".as_bytes()), "grüße/a b\\c");
        assert_eq!(text(b"caf\xe9.img"), "caf\\xe9.img");
        assert_eq!(text(b"\\xe9"), "\\x5cxe9");
        assert_eq!(text(b"\\xyz\\"), "\\xyz\\");
        assert_eq!(format!("{:>6}", Path::new("a").shown()), "     a");
    }

    proptest! {
        #[test]
        fn every_name_comes_back(
            name in proptest::collection::vec(
                prop_oneof![Just(b'\\'), Just(b'x'), Just(b'5'), Just(b'c'), any::<u8>()], 0..40
            )
        ) {
            let name = OsStr::from_bytes(&name);
            let text = text_of_name(name);
            let is_kept = !text.contains(char::REPLACEMENT_CHARACTER) || name.to_str().is_some();
            prop_assert!(is_kept);
            prop_assert_eq!(name_of_text(&text), name);
        }
    }
}
