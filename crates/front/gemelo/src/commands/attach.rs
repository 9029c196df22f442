//! `gemelo attach` and `gemelo detach`, which make volumes devices of this host.

use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::values::Span;
use gemelo_place::VolumePath;
use gemelo_serve::{PoolRequest, Reply};
use gemelo_ublk::DriverKind;
use std::ffi::OsString;
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Use the kernel's driver for NBD, on a kernel without ublk
    #[arg(long)]
    nbd: bool,
}

pub(super) fn attach(arguments: &Attach, context: &Context) -> crate::Result<Outcome> {
    let volume = &arguments.volume;
    let driver = if arguments.nbd { DriverKind::Nbd } else { DriverKind::Ublk };
    let request =
        PoolRequest::Attach { name: volume.name.clone(), driver: driver.word().to_owned() };
    match pools::change(&volume.pool, &request, context)? {
        Reply::Attached { path } => context.print(&format!("{path}\n"))?,
        _ => return Err(pools::other_version()),
    }
    Ok(Outcome::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Detach {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Remove a device in use as well: its requests fail
    #[arg(long)]
    force: bool,
}

pub(super) fn detach(arguments: &Detach, context: &Context) -> crate::Result<Outcome> {
    let Detach { volume, force } = arguments;
    if !force {
        check_unused(volume)?;
    }
    let request = PoolRequest::Detach { name: volume.name.clone(), force: *force };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: detached\n"))?;
    Ok(Outcome::Done)
}

/// Refuses a disk in use. The server does so as well, but may see less than this process.
fn check_unused(volume: &VolumePath) -> crate::Result<()> {
    let disk = Path::new("/dev/gemelo").join(volume.pool.short_name()).join(&volume.name);
    let Ok(status) = rustix::fs::stat(&disk) else { return Ok(()) };
    gemelo_disk::check_unused(&disk, &status)
        .and_then(|()| gemelo_disk::check_not_open(&disk, &status))
        .map_err(|error| refused!("{error}: end that first, or use --force to fail its requests"))
}

/// Name of the command that a server starts.
pub(super) const GUARD: &str = "guard-devices";

/// Remove the block devices of a dead server that no other one takes back
#[derive(Debug, Args)]
pub(crate) struct Guard {
    /// Time after the death of the server
    #[arg(long, value_name = "DURATION")]
    timeout: Span,
}

/// Returns the arguments of this program for [`guard`].
pub(super) fn guard_arguments(timeout: Span) -> Vec<OsString> {
    [GUARD.to_owned(), format!("--timeout={}ms", timeout.0.as_millis())]
        .map(OsString::from)
        .to_vec()
}

pub(super) fn guard(arguments: &Guard, context: &Context) -> crate::Result<Outcome> {
    gemelo_ublk::guard_devices(arguments.timeout.0, &*context.monitor)?;
    Ok(Outcome::Done)
}
