//! Why a request was not done, in a form that crosses the control socket.

use gemelo_disk::DiskError;
use gemelo_volume::VolumeError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Failure {
    /// In words, with its causes.
    pub text: String,
    /// Whether it was refused before anything was touched.
    pub is_refusal: bool,
}

impl Failure {
    /// Refused before anything was touched.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_refusal: true }
    }

    /// Failed on the way.
    pub fn midway(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_refusal: false }
    }

    /// Failed on the way, with the causes of an error.
    pub(crate) fn of(what: &str, error: &dyn std::error::Error) -> Self {
        Self::midway(format!("{what}: {}", with_causes(error)))
    }

    /// A pool that cannot be opened: nothing was touched.
    pub(crate) fn of_opening(error: &VolumeError) -> Self {
        let advice = match error {
            VolumeError::Damaged { .. } => ": see what is left with `gemelo pool check`",
            _ => "",
        };
        Self::refused(format!("{}{advice}", with_causes(error)))
    }

    /// The same, said of something.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }
}

/// An error and what it comes from, in one line.
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
