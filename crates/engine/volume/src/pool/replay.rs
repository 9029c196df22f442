//! Gives the changes of the journal to the backend, those of many commits at once, so that it reads
//! the pages that they need in long lists.

use crate::error::Result;
use gemelo_base::units::format_counted;
use gemelo_format::{Change, Replayed};
use gemelo_metadata::{Damage, MetadataBackend};

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

/// Notes parts of the journal that could not be read, and that were not needed.
pub(super) fn note_unreadable(replayed: &Replayed, damage: &mut Damage) {
    for number in &replayed.mended {
        damage.harmless.push(format!("both copies of commit {number} in part"));
    }
    if replayed.unreadable_pages > 0 {
        let pages = format_counted(replayed.unreadable_pages, "page");
        damage.harmless.push(format!("{pages} of the journal, which the disk cannot read"));
    }
}
