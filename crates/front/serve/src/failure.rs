//! The error of a request, in a form that crosses the control socket.

use gemelo_base::{Classified, FailureKind, with_causes};
use gemelo_disk::DiskError;
use gemelo_place::{PlaceError, PoolPlace};
use gemelo_volume::VolumeError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct RequestFailure {
    /// The reason and its causes, in words.
    pub text: String,
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The remedy, if the request or the way of serving can be changed so that it succeeds.
    pub remedy: Option<Remedy>,
}

/// A change with which a request would succeed. The caller knows the words for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Force the removal of a volume that holds data or has clients.
    ForceRemoval,
    /// Force a volume to a size at which it loses data.
    ForceCut,
    /// Overwrite a device that holds data.
    Overwrite,
    /// Use a program that is as new as the pool.
    UseNewer,
    /// Check the pool to learn what is left of it.
    Check,
    /// Encrypt connections, or allow plain ones from the network.
    Encrypt,
    /// Name an address to listen at.
    Listen,
    /// Grant more memory, or allow fewer connections.
    Memory,
    /// Name a unix socket as an address to listen at.
    ListenAtFile,
    /// Serve the pool.
    Serve,
}

impl RequestFailure {
    /// Makes the error of a request that was refused before it changed anything.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: FailureKind::BadInput, remedy: None }
    }

    /// Makes the error of a request that failed while it was performed.
    pub fn midway(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: FailureKind::Failed, remedy: None }
    }

    /// Makes the error of a request that failed while it was performed, with the causes of `error`.
    pub(crate) fn of(what: &str, error: &dyn std::error::Error) -> Self {
        Self::midway(format!("{what}: {}", with_causes(error)))
    }

    /// Makes the error of a pool that cannot be opened. Nothing was changed.
    pub(crate) fn of_opening(error: &VolumeError) -> Self {
        let failure = Self::of_error(error);
        let is_damaged = matches!(error, VolumeError::Damaged { .. });
        let remedy = if is_damaged { Some(Remedy::Check) } else { failure.remedy };
        Self { kind: failure.kind.untouched(), remedy, ..failure }
    }

    /// Makes the error of a pool that cannot be opened or used at its place.
    pub(crate) fn of_place(error: &PlaceError) -> Self {
        match error {
            PlaceError::Volume(error) => Self::of_opening(error),
            error => Self::of_error(error),
        }
    }

    /// Puts the name of the pool before the message.
    pub(crate) fn about_place(self, place: &PoolPlace) -> Self {
        self.about(&place.to_string())
    }

    /// Makes a failure with the text and the kind of an error.
    pub(crate) fn of_error(error: &(impl Classified + 'static)) -> Self {
        let remedy = (error as &(dyn std::error::Error + 'static))
            .downcast_ref::<VolumeError>()
            .and_then(remedy_of);
        Self { text: with_causes(error), kind: error.kind(), remedy }
    }

    /// Returns the same failure, found after work had begun.
    pub(crate) fn found_midway(self) -> Self {
        Self { kind: self.kind.midway(), ..self }
    }

    /// Returns the same failure with a remedy.
    #[must_use]
    pub fn with_remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Puts the name of the thing that the error is about before the message.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        Self { text: format!("{what}: {}", self.text), ..self }
    }
}

impl Classified for RequestFailure {
    fn kind(&self) -> FailureKind {
        self.kind
    }
}

const fn remedy_of(error: &VolumeError) -> Option<Remedy> {
    match error {
        VolumeError::Unknown { .. } => Some(Remedy::UseNewer),
        VolumeError::Disk(DiskError::HoldsData { .. }) => Some(Remedy::Overwrite),
        _ => None,
    }
}

impl From<PlaceError> for RequestFailure {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Volume(error) => error.into(),
            error => Self::of_error(&error),
        }
    }
}

impl From<VolumeError> for RequestFailure {
    fn from(error: VolumeError) -> Self {
        Self::of_error(&error)
    }
}
