//! Faults of a plan, each with its line.

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a text is not a plan.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum PlanError {
    /// The file cannot be read.
    #[error("cannot read {}", path.shown())]
    Read {
        /// Path of the plan.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Neither a plan that ships nor a file has the name.
    #[error("there is no plan '{name}': give a file, or one of {known}")]
    NoSuchPlan {
        /// The name as it was given.
        name: String,
        /// Names of the plans that ship, separated by commas.
        known: String,
    },
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// Line of the fault.
        line: usize,
        /// Message of the TOML parser.
        message: String,
    },
    /// A table has a key that it does not know.
    #[error(
        "line {line}: {place} has no key '{key}'{}",
        nearest.as_ref().map(|name| format!("; a similar key is '{name}'")).unwrap_or_default()
    )]
    UnknownKey {
        /// Line of the key.
        line: usize,
        /// The table, such as `[campaign]`.
        place: String,
        /// The key as the plan has it.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// A table lacks a key that it must have.
    #[error("line {line}: {place} lacks the key '{key}'")]
    MissingKey {
        /// Line of the table.
        line: usize,
        /// The table, such as `[campaign]`.
        place: String,
        /// The key that is missing.
        key: String,
    },
    /// A value is not valid for its key.
    #[error("line {line}: {message}")]
    Value {
        /// Line of the value.
        line: usize,
        /// The reason and the valid values.
        message: String,
    },
    /// A text uses a name in braces that is neither a parameter nor a value of a matrix.
    #[error(
        "line {line}: '{{{name}}}' is not a parameter{}; write '{{{{' for a brace",
        nearest.as_ref().map(|name| format!(", a similar one is '{name}'")).unwrap_or_default()
    )]
    UnknownParameter {
        /// Line of the text.
        line: usize,
        /// The name in braces.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// A parameter that was set on the command line does not exist.
    #[error("the plan has no parameter '{name}': it has {known}")]
    NoSuchParameter {
        /// The name that was set.
        name: String,
        /// The names of the plan's parameters, separated by commas.
        known: String,
    },
    /// The plan has more of something than is allowed.
    #[error("the plan has more than {most} {what}: split it")]
    TooMany {
        /// The largest allowed number.
        most: usize,
        /// The things that were counted.
        what: &'static str,
    },
}
