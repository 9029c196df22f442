//! What a change does to blocks, for those who need to know no more of it.

use super::Change;
use crate::types::{Checksum, Pbn, VolumeId};

impl Change {
    /// The block whose content was written before the change was made.
    #[must_use]
    pub const fn written_block(&self) -> Option<Pbn> {
        match self {
            Self::Store { pbn, .. }
            | Self::Move { to: pbn, .. }
            | Self::Suspect { pbn, is_suspect: false } => Some(*pbn),
            _ => None,
        }
    }

    /// The block that the change refers to, and the checksum of the content that must be there.
    #[must_use]
    pub const fn expected_content(&self) -> Option<(Pbn, Checksum)> {
        match self {
            Self::Store { pbn, checksum, .. }
            | Self::Share { pbn, checksum, .. }
            | Self::Move { to: pbn, checksum, .. } => Some((*pbn, *checksum)),
            _ => None,
        }
    }

    /// The volume whose blocks the change replaces, and the most blocks that it replaces there.
    #[must_use]
    pub const fn changed_blocks(&self) -> Option<(VolumeId, u64)> {
        match self {
            Self::Store { volume, .. } | Self::Share { volume, .. } => Some((*volume, 1)),
            Self::Unmap { volume, count, .. } | Self::Lose { volume, count, .. } => {
                Some((*volume, *count))
            }
            _ => None,
        }
    }
}
