//! A file that is read, by its place in the walk.

use crate::walk::{DirectoryNumber, Names};
use std::sync::Arc;

/// A file and its position in the scan.
#[derive(Debug, Clone)]
pub(crate) struct FileRef {
    pub(crate) names: Arc<Names>,
    pub(crate) index: usize,
    pub(crate) batch: u32,
    /// The bytes of the batch before this file.
    pub(crate) start_bytes: u64,
    pub(crate) in_locality: bool,
    /// The directory with which the file counts.
    pub(crate) directory: DirectoryNumber,
}
