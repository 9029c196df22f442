//! The frame that all result files share.

use crate::Provenance;
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A result, with all the information needed to interpret it without other files.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ResultFile<Input, Measured> {
    /// The name and version of the layout, such as `gemelo.bench/1`.
    pub schema: String,
    /// The program version, command line, machine and time of the measurement.
    pub provenance: Provenance,
    /// The input after defaults were filled in and the files it names were read.
    pub input: Input,
    /// The measurements, whose fields the schema describes.
    pub result: Measured,
    /// Advice to the user, computed from the measurements.
    pub warnings: Vec<String>,
}

/// The reason why a file cannot be read as a result.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ResultFileError {
    /// Reading the file failed.
    #[error("cannot read {}", path.shown())]
    Read {
        /// The path of the result file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The text is not JSON, or its structure is not that of the schema.
    #[error("{} is not a {expected} result", path.shown())]
    Layout {
        /// The path of the result file.
        path: PathBuf,
        /// The schema that the command reads.
        expected: &'static str,
        /// The parser's error, with its line and column.
        source: serde_json::Error,
    },
    /// The file is a result of another command or another version.
    #[error(
        "{} has schema '{found}', but '{expected}' is needed: give a result of the right command \
         and version",
        path.shown()
    )]
    Schema {
        /// The path of the result file.
        path: PathBuf,
        /// The schema that the file names.
        found: String,
        /// The schema that the command reads.
        expected: &'static str,
    },
}

#[derive(Deserialize)]
pub(crate) struct SchemaOnly {
    pub(crate) schema: String,
}

/// Reads a result file, of one host or with the parts of hosts, that must have the schema
/// `expected`.
///
/// # Errors
/// Fails if the file cannot be read, if it is not JSON of this structure, or if its schema is not
/// `expected`.
pub fn read_result<File: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
) -> Result<File, ResultFileError> {
    let failed = |source| ResultFileError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if text.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is empty")));
    }
    let layout = |source| ResultFileError::Layout { path: path.to_owned(), expected, source };
    let SchemaOnly { schema: found } = serde_json::from_str(&text).map_err(layout)?;
    if found != expected {
        return Err(ResultFileError::Schema { path: path.to_owned(), found, expected });
    }
    serde_json::from_str(&text).map_err(layout)
}

/// Serialises a result as indented JSON that ends with a line feed.
///
/// # Errors
/// Fails if the result contains a map whose keys JSON cannot represent.
pub fn to_json(result: &impl Serialize) -> Result<String, serde_json::Error> {
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
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        std::fs::write(&path, to_json(&result).unwrap()).unwrap();
        assert_eq!(
            read_result::<ResultFile<u64, Vec<u64>>>(&path, "gemelo.test/1").unwrap(),
            result
        );
        let other = read_result::<ResultFile<u64, Vec<u64>>>(&path, "gemelo.test/2").unwrap_err();
        assert!(other.to_string().contains("'gemelo.test/1'"));
        std::fs::write(&path, "{").unwrap();
        assert!(read_result::<ResultFile<u64, Vec<u64>>>(&path, "gemelo.test/1").is_err());
    }
}
