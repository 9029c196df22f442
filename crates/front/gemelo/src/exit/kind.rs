//! The kind of an error, which follows from its type and from the time at which it was found.

use gemelo_base::units::UnitError;
use gemelo_base::{Classified, FailureKind};
use std::error::Error;

/// The time at which an error was found, if its type does not imply it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorMoment {
    /// Before anything was touched.
    Untouched,
    /// After work had begun.
    Midway,
}

/// An error with a mark that says when it was found. The mark adds no text.
#[derive(Debug)]
struct MarkedError {
    error: anyhow::Error,
    found: ErrorMoment,
}

impl std::fmt::Display for MarkedError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(formatter)
    }
}

impl Error for MarkedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Marks the error of a result as bad input.
pub(crate) trait OrBadInput<T> {
    /// Marks the error, if there is one, as found before anything was touched.
    fn or_bad_input(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrBadInput<T> for Result<T, E> {
    fn or_bad_input(self) -> anyhow::Result<T> {
        self.map_err(|error| bad_input(error.into()))
    }
}

/// Marks an error as found before anything was touched. A plain failure then counts as bad input.
pub(crate) fn bad_input(error: anyhow::Error) -> anyhow::Error {
    MarkedError { error, found: ErrorMoment::Untouched }.into()
}

/// Marks an error as found after work had begun. It then does not count as bad input.
pub(crate) fn midway(error: impl Into<anyhow::Error>) -> anyhow::Error {
    MarkedError { error: error.into(), found: ErrorMoment::Midway }.into()
}

/// Returns the kind of an error. It is the kind of the outermost cause with a known type, changed
/// by the outermost mark.
pub(super) fn kind_of(error: &anyhow::Error) -> FailureKind {
    let kind = find(error, &typed_kind).unwrap_or(FailureKind::Failed);
    let mark = |cause: &(dyn Error + 'static)| Some(cause.downcast_ref::<MarkedError>()?.found);
    match error.chain().find_map(mark) {
        Some(ErrorMoment::Untouched) => kind.untouched(),
        Some(ErrorMoment::Midway) => kind.midway(),
        None => kind,
    }
}

/// Returns the first answer to a question about the error and its causes, from the outside in.
pub(super) fn find<T>(
    error: &anyhow::Error,
    ask: &dyn Fn(&(dyn Error + 'static)) -> Option<T>,
) -> Option<T> {
    // A marked error hides the type of the error that it marks, but not those of its causes.
    error.chain().find_map(|cause| match cause.downcast_ref::<MarkedError>() {
        Some(marked) => find(&marked.error, ask),
        None => ask(cause),
    })
}

/// Asks an error of one type for its kind.
fn kind_as<E: Classified + 'static>(error: &(dyn Error + 'static)) -> Option<FailureKind> {
    error.downcast_ref::<E>().map(Classified::kind)
}

type KindAs = fn(&(dyn Error + 'static)) -> Option<FailureKind>;

/// A function for each error type of the libraries.
const KNOWN: &[KindAs] = &[
    kind_as::<UnitError>,
    kind_as::<gemelo_content::ContentError>,
    kind_as::<gemelo_content::DistributionError>,
    kind_as::<gemelo_content::ProfileError>,
    kind_as::<gemelo_campaign::CampaignError>,
    kind_as::<gemelo_campaign::PlanError>,
    kind_as::<gemelo_check::CheckError>,
    kind_as::<gemelo_compare::CompareError>,
    kind_as::<gemelo_compare::SettingsError>,
    kind_as::<gemelo_device::DeviceError>,
    kind_as::<gemelo_device::FrontEndError>,
    kind_as::<gemelo_disk::DiskError>,
    kind_as::<gemelo_fleet::FleetError>,
    kind_as::<gemelo_format::FormatError>,
    kind_as::<gemelo_filebench::WorkloadError>,
    kind_as::<gemelo_filebench::ScriptError>,
    kind_as::<gemelo_filebench::sources::SourceError>,
    kind_as::<gemelo_job::bench::ExecuteError>,
    kind_as::<gemelo_job::bench::ResolveError>,
    kind_as::<gemelo_job::contents::ContentOptionsError>,
    kind_as::<gemelo_job::distributions::NamedDistributionError>,
    kind_as::<gemelo_job::distributions::formats::DistributionFormatError>,
    kind_as::<gemelo_job::filebench::FilebenchJobError>,
    kind_as::<gemelo_job::job_file::JobFileError>,
    kind_as::<gemelo_job::replay::ReplayJobError>,
    kind_as::<gemelo_job::verify::VerifyError>,
    kind_as::<gemelo_load::GenerateError>,
    kind_as::<gemelo_load::JobError>,
    kind_as::<gemelo_load::LogError>,
    kind_as::<gemelo_load::OtherLayout>,
    kind_as::<gemelo_load::RunError>,
    kind_as::<gemelo_member::MemberError>,
    kind_as::<gemelo_nbd::server::TlsError>,
    kind_as::<gemelo_nbd::client::ClientError>,
    kind_as::<gemelo_nbd::client::UriError>,
    kind_as::<gemelo_nbd::server::ListenError>,
    kind_as::<gemelo_nbd::server::ServeError>,
    kind_as::<gemelo_page::PageError>,
    kind_as::<gemelo_place::PlaceError>,
    kind_as::<gemelo_replay::PlanError>,
    kind_as::<gemelo_replay::ReplayError>,
    kind_as::<gemelo_record::ResultFileError>,
    kind_as::<gemelo_scan::OptionsError>,
    kind_as::<gemelo_scan::SavedSetError>,
    kind_as::<gemelo_scan::ScanError>,
    kind_as::<gemelo_serve::RequestFailure>,
    kind_as::<gemelo_serve::TransferError>,
    kind_as::<gemelo_target::AdapterError>,
    kind_as::<gemelo_target::TargetError>,
    kind_as::<gemelo_trace::BlockError>,
    kind_as::<gemelo_trace::StatError>,
    kind_as::<gemelo_trace::SynthesisError>,
    kind_as::<gemelo_trace::TraceError>,
    kind_as::<gemelo_trace::WriteError>,
    kind_as::<gemelo_volume::VolumeError>,
    kind_as::<std::io::Error>,
];

/// Returns the kind of an error with a known type.
fn typed_kind(error: &(dyn Error + 'static)) -> Option<FailureKind> {
    KNOWN.iter().find_map(|kind_as| kind_as(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use gemelo_volume::VolumeError;

    fn in_use() -> VolumeError {
        VolumeError::InUse { holder: "process 1".to_owned() }
    }

    #[test]
    fn a_typed_cause_tells_the_kind_through_contexts_and_marks() {
        let kind = |error: anyhow::Error| kind_of(&error);
        assert_eq!(kind(in_use().into()), FailureKind::InUse);
        assert_eq!(kind(anyhow::Error::from(in_use()).context("pool")), FailureKind::InUse);
        assert_eq!(kind(bad_input(in_use().into())), FailureKind::InUse);
        assert_eq!(kind(bad_input(in_use().into()).context("pool")), FailureKind::InUse);
        assert_eq!(kind(anyhow!("text")), FailureKind::Failed);
        assert_eq!(kind(bad_input(anyhow!("text"))), FailureKind::BadInput);
        assert_eq!(kind(bad_input(anyhow!("text")).context("pool")), FailureKind::BadInput);
        assert_eq!(kind(midway(VolumeError::ReadOnly)), FailureKind::Failed);
    }

    #[test]
    fn a_full_disk_is_exhausted_whatever_was_written() {
        let full: std::io::Result<()> = Err(std::io::ErrorKind::StorageFull.into());
        let error = full.context("cannot write result.json").unwrap_err();
        assert_eq!(kind_of(&error), FailureKind::Exhausted);
    }
}
