//! The error of a request, in a form that crosses the control socket.

use gemelo_disk::DiskError;
use gemelo_volume::VolumeError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Failure {
    /// Message, with the causes of the error.
    pub text: String,
    /// `true` if the request was refused before it changed anything.
    pub is_refusal: bool,
}

impl Failure {
    /// Makes the error of a request that was refused before it changed anything.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_refusal: true }
    }

    /// Makes the error of a request that failed while it was performed.
    pub fn midway(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_refusal: false }
    }

    /// Makes the error of a request that failed while it was performed, with the causes of `error`.
    pub(crate) fn of(what: &str, error: &dyn std::error::Error) -> Self {
        Self::midway(format!("{what}: {}", with_causes(error)))
    }

    /// Makes the error of a pool that cannot be opened. Nothing was changed.
    pub(crate) fn of_opening(error: &VolumeError) -> Self {
        let advice = match error {
            VolumeError::Damaged { .. } => ": see what is left with `gemelo pool check`",
            _ => "",
        };
        Self::refused(format!("{}{advice}", with_causes(error)))
    }

    /// Puts the name of the thing that the error is about before the message.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }
}

/// Returns the message of an error with those of its causes, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        let is_refusal = match &error {
            VolumeError::Disk(DiskError::File { source, .. }) => {
                source.kind() != std::io::ErrorKind::StorageFull
            }
            VolumeError::Disk(_)
            | VolumeError::NotAPool { .. }
            | VolumeError::OldFormat { .. }
            | VolumeError::PresentFormat
            | VolumeError::InUse { .. }
            | VolumeError::LostDisk { .. }
            | VolumeError::OneDisk { .. }
            | VolumeError::SmallDevice { .. }
            | VolumeError::BadOption { .. }
            | VolumeError::ReadOnly
            | VolumeError::NoSuchVolume { .. }
            | VolumeError::VolumeExists { .. }
            | VolumeError::TooManyReferences => true,
            _ => false,
        };
        Self { text: with_causes(&error), is_refusal }
    }
}
