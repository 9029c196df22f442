//! Advice on errors of the libraries, in the words of the command line.
//!
//! Libraries do not know the options of the command line. They return typed errors, and this module
//! names the option that helps.

use gemelo_base::{ShowPath as _, text_of_name};
use gemelo_disk::{DiskError, PoolPart};
use gemelo_serve::{Remedy, RequestFailure, TransferError};
use gemelo_target::TargetError;
use gemelo_trace::{BlockError, StatError, TraceError};
use gemelo_volume::VolumeError;
use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

type Advice = Cow<'static, str>;

/// Returns advice on an error that names the options which help, if there are any. The advice
/// follows the text of the error after a colon.
pub(super) fn advice(error: &(dyn Error + 'static)) -> Option<Advice> {
    const ASKED: [fn(&(dyn Error + 'static)) -> Option<Advice>; 12] = [
        |error| of_volume(error.downcast_ref()?),
        |error| of_disk(error.downcast_ref()?),
        |error| of_failure(error.downcast_ref()?),
        |error| of_transfer(error.downcast_ref()?),
        |error| of_target(error.downcast_ref()?),
        |error| of_trace(error.downcast_ref()?),
        |error| of_job(error.downcast_ref()?),
        |error| of_run(error.downcast_ref()?),
        |error| of_plan(error.downcast_ref()?),
        |error| of_replay(error.downcast_ref()?),
        |error| of_stat(error.downcast_ref()?),
        |error| of_filebench(error.downcast_ref()?),
    ];
    let of_block = error.downcast_ref().map(block_size);
    let known = of_block.or_else(|| ASKED.iter().find_map(|ask| ask(error)));
    known.or_else(|| advice(inner(error)?))
}

/// Returns the error inside a transparent error of the crate `job`. Chains of causes do not show
/// it, because the outer error has the same text.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    use gemelo_job::bench::ResolveError;
    use gemelo_job::filebench::FilebenchJobError;
    use gemelo_job::replay::ReplayJobError;
    use gemelo_job::verify::VerifyError;
    if let Some(error) = error.downcast_ref::<Box<ResolveError>>() {
        return Some(error.as_ref());
    }
    let of_bench = error.downcast_ref().and_then(|error: &'a ResolveError| match error {
        ResolveError::Job(error) => Some(error as &'a (dyn Error + 'static)),
        ResolveError::Target(error) => Some(error),
        _ => None,
    });
    let of_replay = error.downcast_ref().and_then(|error: &'a ReplayJobError| match error {
        ReplayJobError::Trace(error) => Some(error as &'a (dyn Error + 'static)),
        ReplayJobError::Plan(error) => Some(error),
        ReplayJobError::Target(error) => Some(error),
        ReplayJobError::Replay(error) => Some(error),
        _ => None,
    });
    let of_filebench = error.downcast_ref().and_then(|error: &'a FilebenchJobError| match error {
        FilebenchJobError::Refused(error) => Some(error as &'a (dyn Error + 'static)),
        _ => None,
    });
    let of_verify = error.downcast_ref().and_then(|error: &'a VerifyError| match error {
        VerifyError::Target(error) | VerifyError::Close(error) => {
            Some(error as &'a (dyn Error + 'static))
        }
        _ => None,
    });
    of_bench.or(of_replay).or(of_filebench).or(of_verify)
}

const ANOTHER_DEVICE: &str = "name another device, or use --force to overwrite it";

const NEWER: &str = "use the version of gemelo that the pool was made with, or a newer one";

fn of_volume(error: &VolumeError) -> Option<Advice> {
    Some(match error {
        VolumeError::Disk(error) => return of_disk(error),
        VolumeError::Unknown { .. } => NEWER.into(),
        _ => return None,
    })
}

fn of_disk(error: &DiskError) -> Option<Advice> {
    match error {
        DiskError::HoldsData { .. } => Some(ANOTHER_DEVICE.into()),
        DiskError::OfPool { path, part } => Some(of_pool(path, part)),
        _ => None,
    }
}

/// Names the volume that was meant: a path in a pool's directory is often a target without `pool:`.
fn of_pool(path: &Path, part: &PoolPart) -> Advice {
    let name = path.file_name().filter(|_| !path.exists());
    let volume = name.map_or("VOLUME".into(), text_of_name);
    let target = match (part, path.parent()) {
        (PoolPart::Directory, _) => format!("pool:{}/VOLUME", path.shown()),
        (PoolPart::FileIn(_), Some(pool)) if !path.is_symlink() => {
            let pool = if pool.as_os_str().is_empty() { Path::new(".") } else { pool };
            format!("pool:{}/{volume}", pool.shown())
        }
        (PoolPart::FileIn(pool), _) => format!("pool:{}/VOLUME", pool.shown()),
        (PoolPart::Disk, _) => "pool:DIR/VOLUME".to_owned(),
    };
    format!("give {target} as target for a volume of it, or another place").into()
}

fn of_failure(failure: &RequestFailure) -> Option<Advice> {
    Some(match failure.remedy? {
        Remedy::ForceRemoval => "use --force to remove it".into(),
        Remedy::ForceCut => "use --force to cut it".into(),
        Remedy::Overwrite => ANOTHER_DEVICE.into(),
        Remedy::UseNewer => NEWER.into(),
        Remedy::Check => "run `gemelo pool check` to see what is left".into(),
        Remedy::Encrypt => "encrypt with --tls-certificate and --tls-key, or use --insecure".into(),
        Remedy::Listen => {
            "give --listen unix:PATH, --listen tcp:HOST:PORT, --vhost-user DIR or --ublk".into()
        }
        Remedy::Serve => "run `gemelo serve POOL --ublk` as root, or its unit".into(),
        Remedy::ListenAtFile => {
            "give --listen unix:PATH, or leave out --socket-mode and --socket-group".into()
        }
        Remedy::Memory => "raise --memory, or allow fewer clients with --max-connections".into(),
    })
}

fn of_transfer(error: &TransferError) -> Option<Advice> {
    let is_read = matches!(error, TransferError::Volume { action: "read", .. });
    is_read.then(|| "--salvage exports the rest, with zeros in place of bad blocks".into())
}

fn of_target(error: &TargetError) -> Option<Advice> {
    Some(match error {
        TargetError::Exists { .. } => {
            "give another target, or use --force to overwrite the file".into()
        }
        TargetError::HoldsData { .. } => {
            "give another target, or use --force to overwrite it".into()
        }
        TargetError::NoDirect { .. } => {
            "use --sync none or --sync fsync, and leave out --direct".into()
        }
        TargetError::NoIoUring(_) => "use --engine psync".into(),
        TargetError::Device(error) => return of_disk(error),
        _ => return None,
    })
}

fn of_trace(error: &TraceError) -> Option<Advice> {
    Some(match error {
        TraceError::Line { .. } => "use --skip-malformed to skip such lines".into(),
        TraceError::Unrecognised { .. } => "give its format with --format".into(),
        TraceError::TooManyFiles { .. } => {
            "merge some of the files first with `gemelo trace convert`".into()
        }
        _ => return None,
    })
}

fn block_size(error: &BlockError) -> Advice {
    format!("use --block-size {}, or a multiple of it", error.hash_bytes).into()
}

fn of_stat(error: &StatError) -> Option<Advice> {
    Some(match error {
        StatError::Block(error) => block_size(error),
        StatError::Memory { .. } => "raise --memory, or count fewer records or devices".into(),
        StatError::Place { .. } => return None,
    })
}

fn of_job(error: &gemelo_load::JobError) -> Option<Advice> {
    Some(match error {
        gemelo_load::JobError::SynchronousDepth => "use --engine io-uring".into(),
        gemelo_load::JobError::NothingRead => "use --verify final".into(),
        _ => return None,
    })
}

fn of_run(error: &gemelo_load::RunError) -> Option<Advice> {
    Some(match error {
        gemelo_load::RunError::NothingToVerify => "use --verify none".into(),
        gemelo_load::RunError::OtherLayout(_) => return None,
    })
}

fn of_plan(error: &gemelo_replay::PlanError) -> Option<Advice> {
    use gemelo_replay::PlanError;
    Some(match error {
        PlanError::TooSmall { .. } => "use --map fold or --map dense, or a larger target".into(),
        PlanError::NoCapacity => "give --size with --map fold".into(),
        PlanError::Block(error) => block_size(error),
        PlanError::Trace(error) => return of_trace(error),
        _ => return None,
    })
}

fn of_replay(error: &gemelo_replay::ReplayError) -> Option<Advice> {
    use gemelo_replay::ReplayError;
    Some(match error {
        ReplayError::OneQueue => "use --processes 1".into(),
        ReplayError::NothingToVerify => "leave out --verify".into(),
        ReplayError::Block(error) => block_size(error),
        ReplayError::Trace(error) => return of_trace(error),
        ReplayError::Target(error) => return of_target(error),
        _ => return None,
    })
}

fn of_filebench(error: &gemelo_filebench::WorkloadError) -> Option<Advice> {
    match error {
        gemelo_filebench::WorkloadError::Exists { .. } => Some(
            "add reuse to the fileset to use the existing files, or use --force to remove them"
                .into(),
        ),
        gemelo_filebench::WorkloadError::Pool(error) => of_disk(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_on_an_error_of_a_library_names_the_option_that_helps() {
        let of = |error: &(dyn Error + 'static)| advice(error).unwrap_or_default().into_owned();
        let exists = TargetError::Exists { path: "x".into() };
        assert!(of(&exists).contains("--force"));
        assert!(of(&gemelo_load::JobError::SynchronousDepth).contains("--engine io-uring"));
        let block = BlockError { hash_bytes: 512, block_bytes: 100 };
        assert!(of(&block).contains("--block-size 512"));
        assert!(of(&gemelo_replay::PlanError::Block(block)).contains("--block-size 512"));
        assert!(
            of(&RequestFailure::refused("x").with_remedy(Remedy::Encrypt)).contains("--tls-key")
        );
        assert_eq!(advice(&RequestFailure::refused("x")), None);
    }
}
