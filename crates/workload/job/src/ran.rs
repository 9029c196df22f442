//! A job of any kind that ran: all of its result file but the process, and what is in no result.

use gemelo_record::{Provenance, ResultFile};

/// A job that ran.
#[derive(Debug)]
pub struct Ran<Input, Measured, Error> {
    /// The job, as a result file keeps it.
    pub input: Input,
    /// The figures.
    pub result: Measured,
    /// What is to be known of the figures.
    pub warnings: Vec<String>,
    /// The failures that are in no result, in the order in which they came.
    pub errors: Vec<Error>,
    /// `true` if all was done that was asked for, and every block that was checked was right.
    pub is_success: bool,
    pub(crate) schema: &'static str,
    pub(crate) target: Option<String>,
    pub(crate) seed: Option<u64>,
}

impl<Input, Measured, Error> Ran<Input, Measured, Error> {
    /// Returns the result as a file keeps it.
    #[must_use]
    pub fn into_file(self, mut provenance: Provenance) -> ResultFile<Input, Measured> {
        provenance.target = self.target;
        provenance.seed = self.seed;
        ResultFile {
            schema: self.schema.to_owned(),
            provenance,
            input: self.input,
            result: self.result,
            warnings: self.warnings,
        }
    }
}
