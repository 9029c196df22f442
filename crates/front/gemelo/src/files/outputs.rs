//! The files that jobs write in addition to their results.

use super::NewFile;
use gemelo_job::{OutputError, OutputFile, OutputFiles};
use std::path::Path;

/// Creates each output as a [`NewFile`].
pub(crate) struct NewFiles;

impl OutputFiles for NewFiles {
    fn create(&self, path: &Path, force: bool) -> Result<Box<dyn OutputFile>, OutputError> {
        Ok(Box::new(NewFile::create(path, force)?))
    }
}

impl OutputFile for NewFile {
    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        Ok((*self).finish()?)
    }
}
