//! The contents of a job: which one each write has, and its bytes.

use crate::job::Job;
use gemelo_content::{Assignment, ContentError, ContentSpec, Generator};

/// The contents of a job.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Which content each write has.
    pub assignment: Assignment,
    /// The bytes of contents.
    pub generator: Generator,
}

impl Contents {
    /// The contents that this specification gives the job.
    ///
    /// # Errors
    /// If a figure is out of its range, or the block size is not the job's.
    pub fn new(spec: &ContentSpec, job: &Job) -> Result<Self, ContentError> {
        if spec.block_bytes != job.spec().block_bytes {
            return Err(ContentError::Range {
                what: "the block size of the contents",
                value: spec.block_bytes.to_string(),
                range: "that of the job",
            });
        }
        Ok(Self {
            assignment: Assignment::new(spec, job.data_set_blocks(), job.spec().processes)?,
            generator: Generator::new(spec)?,
        })
    }
}
