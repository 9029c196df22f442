//! Result files: the measurements of a command, with the information needed to read them years
//! later.
//!
//! Every measuring command writes the same frame, a [`ResultFile`]: a schema name with a version,
//! the provenance, the resolved input, the result, and the warnings.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod provenance;
mod result_file;

pub use provenance::Provenance;
pub use result_file::{ResultFile, ResultFileError, read_result, to_json};
