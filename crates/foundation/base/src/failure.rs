//! The kinds of failures. A library says of each of its errors which kind it is; the command line
//! alone knows which exit status belongs to a kind.

use serde::{Deserialize, Serialize};
use std::io;

/// The kind of a failure: it tells what the user can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The request is invalid and nothing was touched. The user has to change the request.
    BadInput,
    /// Another process uses the pool, file, device or address, and nothing was touched. The user
    /// has to wait or to end that use.
    InUse,
    /// An operation failed or was interrupted. Work done before it may remain.
    Failed,
    /// Stored data do not match their checksums or contradict each other. The user has to repair
    /// them or to restore a copy.
    Damaged,
    /// Space, memory or another limited resource is used up. The user has to free some of it.
    Exhausted,
    /// This process may not act for a member of a domain any more: another host may have taken the
    /// member. The user has to ask that host, or to start again.
    Displaced,
    /// The program contradicts itself. The user has to report it.
    Bug,
}

impl FailureKind {
    /// The kinds in the order of their declaration, for tables and tests of all of them.
    pub const ALL: [Self; 7] = [
        Self::BadInput,
        Self::InUse,
        Self::Failed,
        Self::Damaged,
        Self::Exhausted,
        Self::Displaced,
        Self::Bug,
    ];

    /// Returns the kind of a failed system call. A file that is missing or may not be read is
    /// [`FailureKind::Failed`] here, because only the caller knows whether the user named it.
    #[must_use]
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::OutOfMemory => Self::Exhausted,
            io::ErrorKind::ResourceBusy
            | io::ErrorKind::AddrInUse
            | io::ErrorKind::ExecutableFileBusy => Self::InUse,
            _ => Self::Failed,
        }
    }

    /// Returns the kind for a failure that was found before anything was touched: a plain failure
    /// counts as bad input then.
    #[must_use]
    pub const fn untouched(self) -> Self {
        match self {
            Self::Failed => Self::BadInput,
            other => other,
        }
    }

    /// Returns the kind for a failure that was found after the work had begun: it cannot count as
    /// bad input then.
    #[must_use]
    pub const fn midway(self) -> Self {
        match self {
            Self::BadInput => Self::Failed,
            other => other,
        }
    }
}

/// A change with which a request would succeed. Libraries state it; the command line alone knows
/// the options that make the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Name another device, or overwrite this one.
    Overwrite,
    /// Give another target, or overwrite the existing file.
    OverwriteFile,
    /// Give another target, or overwrite the storage, which holds data.
    OverwriteTarget,
    /// Give a volume of the pool as target, or another place.
    TargetVolume {
        /// The directory of the pool, if it is known.
        pool: Option<String>,
        /// The name that was probably meant as that of a volume.
        volume: Option<String>,
    },
    /// Force the removal of a volume that holds data or has clients.
    ForceRemoval,
    /// Roll back a volume although it has clients.
    ForceRollback,
    /// Force a volume to a size at which it loses data.
    ForceCut,
    /// Use a program that is as new as the pool.
    UseNewer,
    /// Check the pool to learn what is left of it.
    Check,
    /// Export the volume with zeros in place of the bad blocks.
    Salvage,
    /// Encrypt connections, or allow plain ones from the network.
    Encrypt,
    /// Name an address to listen at.
    Listen,
    /// Name a unix socket as an address to listen at.
    ListenAtFile,
    /// Serve the pool.
    Serve,
    /// Grant more memory, or allow fewer connections.
    MemoryForClients,
    /// Grant more memory, or count less of a trace.
    MemoryForTrace,
    /// Do without direct I/O.
    NoDirect,
    /// Use system calls that perform one operation each.
    UsePsync,
    /// Use an engine that keeps several operations in flight.
    UseIoUring,
    /// Use one process.
    OneProcess,
    /// Verify the data after the run only.
    VerifyFinal,
    /// Verify nothing.
    VerifyNothing,
    /// Leave out the check of reads.
    CheckNoReads,
    /// Skip lines of a trace that are malformed.
    SkipMalformed,
    /// Name the format of a trace.
    NameFormat,
    /// Merge some files of a trace first.
    MergeTraces,
    /// Use blocks of this many bytes, or of a multiple.
    BlockSize(u32),
    /// Map the places of a trace to fewer ones, or use larger storage.
    FoldOrDense,
    /// Name the size to which places of a trace are folded.
    FoldToSize,
    /// Reuse the files of a fileset, or remove them.
    ReuseFileset,
}

/// An error that knows its kind. The derive of this name takes it from attributes of the variants:
///
/// ```
/// # use gemelo_base::{Classified, FailureKind, Remedy};
/// #[derive(Debug, thiserror::Error, Classified)]
/// enum CopyError {
///     #[kind(source, untouched)]
///     #[error("cannot open the source")]
///     Open(#[source] std::io::Error),
///     #[kind(Damaged)]
///     #[error("the source is damaged")]
///     Damaged,
///     #[kind(BadInput, remedy = Overwrite)]
///     #[error("the target holds data")]
///     HoldsData,
/// }
/// let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
/// assert_eq!(CopyError::Open(absent).kind(), FailureKind::BadInput);
/// assert_eq!(CopyError::Damaged.kind(), FailureKind::Damaged);
/// assert_eq!(CopyError::HoldsData.remedy(), Some(Remedy::Overwrite));
/// ```
///
/// A variant without a kind does not build:
///
/// ```compile_fail
/// # use gemelo_base::Classified;
/// #[derive(Debug, thiserror::Error, Classified)]
/// enum CopyError {
///     #[error("the source is damaged")]
///     Damaged,
/// }
/// ```
pub trait Classified: std::error::Error {
    /// Returns the kind of this error.
    fn kind(&self) -> FailureKind;

    /// Returns the change with which the request would succeed, if the error knows one.
    fn remedy(&self) -> Option<Remedy> {
        None
    }
}

/// Returns the message of an error with those of its causes, in one line.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl<E: Classified> Classified for Box<E> {
    fn kind(&self) -> FailureKind {
        (**self).kind()
    }

    fn remedy(&self) -> Option<Remedy> {
        (**self).remedy()
    }
}

impl Classified for io::Error {
    fn kind(&self) -> FailureKind {
        FailureKind::of_io(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_exhausted_and_a_busy_device_is_in_use() {
        let kind = |kind: io::ErrorKind| FailureKind::of_io(&kind.into());
        assert_eq!(kind(io::ErrorKind::StorageFull), FailureKind::Exhausted);
        assert_eq!(kind(io::ErrorKind::ResourceBusy), FailureKind::InUse);
        assert_eq!(kind(io::ErrorKind::NotFound), FailureKind::Failed);
    }

    #[test]
    fn only_a_plain_failure_and_bad_input_depend_on_when_they_are_found() {
        for kind in FailureKind::ALL {
            let is_plain = matches!(kind, FailureKind::Failed | FailureKind::BadInput);
            assert_eq!(kind.untouched() == FailureKind::BadInput, is_plain, "{kind:?}");
            assert_eq!(kind.midway() == FailureKind::Failed, is_plain, "{kind:?}");
        }
    }
}
