//! Checks changes before they are made: what is refused leaves the state as it is.

use super::LogBackend;
use crate::error::{MetadataError, Result};
use gemelo_format::{Change, Lbn, Pbn, VolumeId};

impl LogBackend {
    /// Does the work of [`crate::MetadataBackend::check_change`].
    pub(super) fn check_one(&self, change: &Change) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, .. } | Change::Share { volume, lbn, pbn, .. } => {
                self.check_pbn(*pbn)?;
                self.check_lbn(*volume, *lbn)
            }
            Change::Identify { pbn, .. } | Change::Suspect { pbn, .. } => self.check_pbn(*pbn),
            Change::Unmap { volume, .. }
            | Change::Remove { volume }
            | Change::Rename { volume, .. }
            | Change::SetMode { volume, .. }
            | Change::SetCompression { volume, .. }
            | Change::Hide { volume }
            | Change::Lose { volume, .. } => self.volume(*volume).map(drop),
            Change::Resize { volume, size_bytes } | Change::Shrink { volume, size_bytes } => {
                self.volume(*volume)?;
                self.check_size(*size_bytes)
            }
            Change::Create(record) => {
                self.check_size(record.size_bytes)?;
                self.check_unused(record.id)
            }
            Change::Clone { source, volume, .. } => {
                self.volume(*source)?;
                self.check_unused(*volume)
            }
            Change::JournalData { .. } | Change::Grow { .. } => Ok(()),
            Change::Show { .. } | Change::Begin { .. } | Change::Copy { .. } => {
                Err(Self::foreign_change())
            }
        }
    }

    /// The error of a change that only a backend makes whose clones are copied in pieces.
    pub(super) fn foreign_change() -> MetadataError {
        MetadataError::damaged("a change in the journal belongs to another kind of backend")
    }

    fn check_unused(&self, id: VolumeId) -> Result<()> {
        match self.volumes.contains_key(&id) {
            false => Ok(()),
            true => Err(MetadataError::damaged(format!("the metadata have volume {id} twice"))),
        }
    }

    fn check_lbn(&self, id: VolumeId, lbn: Lbn) -> Result<()> {
        if lbn.0 < self.volume(id)?.record.size_bytes / self.block_bytes {
            return Ok(());
        }
        let what = format!("volume {id} is too small to have a block {}", lbn.0);
        Err(MetadataError::damaged(what))
    }

    pub(super) fn check_pbn(&self, pbn: Pbn) -> Result<()> {
        if pbn.number() < self.pbn_end() {
            return Ok(());
        }
        Err(MetadataError::damaged(format!(
            "the metadata refer to block {}, which is outside of the data store",
            pbn.number()
        )))
    }
}
