//! The frame of every result file.

use crate::Provenance;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A result with all that is needed to read it alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultFile<Input, Measured> {
    /// Name and version of the layout, such as `gemelo.bench/1`.
    pub schema: String,
    /// Where, when and by what it was made.
    pub provenance: Provenance,
    /// The input as it was resolved: defaults filled in, files read.
    pub input: Input,
    /// What was measured.
    pub result: Measured,
    /// Advice computed from the data.
    pub warnings: Vec<String>,
}

/// Why a file is no result.
#[derive(Debug, Error)]
pub enum ResultFileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not JSON, or not of this layout.
    #[error("{} is not a {expected} result", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The schema that was expected.
        expected: &'static str,
        /// Where in the text.
        source: serde_json::Error,
    },
    /// A result of another command or version.
    #[error("{} has schema '{found}', expected '{expected}'", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
}

#[derive(Deserialize)]
struct SchemaOnly {
    schema: String,
}

/// Reads a result of the expected schema.
///
/// # Errors
/// If the file cannot be read, is no JSON of this layout, or has another schema.
pub fn read_result<Input: DeserializeOwned, Measured: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
) -> Result<ResultFile<Input, Measured>, ResultFileError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ResultFileError::Read { path: path.to_owned(), source })?;
    let layout = |source| ResultFileError::Layout { path: path.to_owned(), expected, source };
    let SchemaOnly { schema: found } = serde_json::from_str(&text).map_err(layout)?;
    if found != expected {
        return Err(ResultFileError::Schema { path: path.to_owned(), found, expected });
    }
    serde_json::from_str(&text).map_err(layout)
}

/// A result as indented JSON with a line end.
///
/// # Errors
/// If a map in it has keys that JSON cannot have.
pub fn to_json<Input: Serialize, Measured: Serialize>(
    result: &ResultFile<Input, Measured>,
) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(result)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_result_survives_its_file_and_other_schemas_are_refused() {
        let result = ResultFile {
            schema: "gemelo.test/1".to_owned(),
            provenance: Provenance::of_this_process(SystemTime::now()),
            input: 1u64,
            result: vec![2u64],
            warnings: vec!["three".to_owned()],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        std::fs::write(&path, to_json(&result).unwrap()).unwrap();
        assert_eq!(read_result::<u64, Vec<u64>>(&path, "gemelo.test/1").unwrap(), result);
        let other = read_result::<u64, Vec<u64>>(&path, "gemelo.test/2").unwrap_err();
        assert!(other.to_string().contains("'gemelo.test/1'"));
        std::fs::write(&path, "{").unwrap();
        assert!(read_result::<u64, Vec<u64>>(&path, "gemelo.test/1").is_err());
    }
}
