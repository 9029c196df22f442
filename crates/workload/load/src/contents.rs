//! The contents of a job: assigns a content to each write and makes its bytes.

use crate::job::Job;
use gemelo_content::{Assignment, ContentError, ContentSpec, Generator};

/// The contents of a job.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Assigns a content to each write of each process.
    pub assignment: Assignment,
    /// Makes the bytes of a content.
    pub generator: Generator,
}

impl Contents {
    /// Derives the contents of a job from a specification.
    ///
    /// # Errors
    /// Fails if a figure is outside its range, or the block size differs from the job's.
    pub fn new(spec: &ContentSpec, job: &Job) -> Result<Self, ContentError> {
        if spec.block_bytes != job.spec().block_bytes {
            return Err(ContentError::Range {
                what: "the block size of the contents",
                value: spec.block_bytes.to_string(),
                range: "equal to the block size of the job",
            });
        }
        Ok(Self {
            assignment: Assignment::of_hosts(spec, job.data_set_blocks(), job.spec().numbers())?,
            generator: Generator::new(spec)?,
        })
    }
}
