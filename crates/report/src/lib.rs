//! Result files: what a command measured, with everything needed to read it years later.
//!
//! Every measuring command writes the same frame, a [`ResultFile`]: a schema name with a version, the provenance, the
//! input as it was resolved, the result, and the warnings.

mod provenance;
mod result_file;

pub use provenance::Provenance;
pub use result_file::{ResultFile, ResultFileError, read_result, to_json};
