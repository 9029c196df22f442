//! Gives the changes of the journal to the backend, those of many commits at once, so that it reads
//! the pages that they need in long lists.

use crate::error::Result;
use gemelo_format::Change;
use gemelo_metadata::MetadataBackend;

/// Changes that are gathered before they are made. They take less than 1 MiB of memory.
const CHANGES_AT_ONCE: usize = 4096;

/// Changes that were replayed and that the backend does not have yet.
#[derive(Default)]
pub(super) struct Replay(Vec<Change>);

impl Replay {
    /// Takes the changes of the next commit.
    pub(super) fn take(
        &mut self,
        changes: Vec<Change>,
        backend: &mut dyn MetadataBackend,
    ) -> Result<()> {
        self.0.extend(changes);
        if self.0.len() < CHANGES_AT_ONCE { Ok(()) } else { self.make(backend) }
    }

    /// Makes the changes that were taken.
    pub(super) fn make(&mut self, backend: &mut dyn MetadataBackend) -> Result<()> {
        backend.replay(&self.0, &mut Vec::new())?;
        self.0.clear();
        Ok(())
    }
}
