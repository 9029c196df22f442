//! `gemelo bench`.

mod job_file;
mod options;
