//! Checks changes before they are made: what is refused leaves the state as it is.

use super::CachedBackend;
use super::layout::Layout;
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, Lbn, Pbn, VolumeId};

impl<L: Layout> CachedBackend<L> {
    /// Does the work of [`crate::backend::MetadataBackend::check_change`].
    pub(super) fn check_one(&self, change: &Change) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, .. } | Change::Share { volume, lbn, pbn, .. } => {
                self.check_place(*volume, *lbn, *pbn)
            }
            Change::Identify { pbn, .. } | Change::Suspect { pbn, .. } => self.check_pbn(*pbn),
            Change::Unmap { volume, .. }
            | Change::Remove { volume }
            | Change::Rename { volume, .. }
            | Change::SetMode { volume, .. }
            | Change::Hide { volume }
            | Change::Show { volume }
            | Change::Lose { volume, .. } => self.volume(*volume).map(drop),
            Change::Resize { volume, size_bytes } | Change::Shrink { volume, size_bytes } => {
                self.volume(*volume)?;
                self.check_size(*size_bytes)
            }
            Change::Create(record) => {
                self.check_size(record.size_bytes)?;
                self.check_unused(record.id)
            }
            Change::Clone { source, volume, .. } | Change::Begin { source, volume, .. } => {
                self.volume(*source)?;
                self.check_unused(*volume)
            }
            Change::Copy { source, volume, .. } => {
                self.volume(*source)?;
                self.volume(*volume).map(drop)
            }
            Change::Carry { .. } | Change::Grow { .. } => Ok(()),
        }
    }

    fn check_unused(&self, id: VolumeId) -> Result<()> {
        match self.volumes.contains_key(&id) {
            false => Ok(()),
            true => Err(VolumeError::damaged(format!("the metadata have volume {id} twice"))),
        }
    }

    pub(super) fn check_pbn(&self, pbn: Pbn) -> Result<()> {
        if u64::from(pbn.number()) < self.data_blocks {
            return Ok(());
        }
        Err(VolumeError::damaged(format!(
            "the metadata refer to block {}, which is outside of the data store",
            pbn.number()
        )))
    }

    pub(super) fn check_place(&self, id: VolumeId, lbn: Lbn, pbn: Pbn) -> Result<()> {
        self.check_pbn(pbn)?;
        if lbn.0 >= self.volume(id)?.record.size_bytes / self.block_bytes {
            return Err(VolumeError::damaged(format!(
                "volume {id} is too small to have a block {}",
                lbn.0
            )));
        }
        Ok(())
    }
}
