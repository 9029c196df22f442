//! `gemelo bench`.

pub(crate) mod job_file;
pub(crate) mod options;
