//! The state that one lock guards: the metadata, the open commit, and copies under way.

mod change;

use super::commit::OpenCommit;
use super::copy::Copying;
use gemelo_metadata::{MetadataBackend, MovableBackend};

/// The metadata, the open commit and the copies under way; see the module.
pub(crate) struct State {
    pub(super) backend: MovableBackend,
    pub(super) open: OpenCommit,
    /// Volumes that are being copied.
    pub(super) copies: Vec<Copying>,
}

impl State {
    pub(super) fn new(backend: Box<dyn MetadataBackend>, open: OpenCommit) -> Self {
        Self { backend: MovableBackend::new(backend), open, copies: Vec::new() }
    }

    /// The backend that has the metadata.
    pub(crate) fn backend(&self) -> &dyn MetadataBackend {
        &self.backend
    }

    /// The same as [`Self::backend`], to be changed.
    pub(super) fn backend_mut(&mut self) -> &mut dyn MetadataBackend {
        &mut self.backend
    }

    /// Tells states of the pool apart: every change gives another version.
    pub(crate) const fn version(&self) -> (u64, usize) {
        self.open.version()
    }

    /// Blocks that changes of the open commit have freed.
    pub(crate) const fn freed_blocks(&self) -> usize {
        self.open.freed_blocks()
    }

    pub(super) const fn open(&self) -> &OpenCommit {
        &self.open
    }
}
