//! The reasons why a device cannot be made, served or removed.

use crate::abi::Command;
use gemelo_base::{Classified, FailureKind};
use std::io;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum UblkError {
    #[error(
        "the kernel has no /dev/ublk-control: load its driver with modprobe ublk_drv (Linux 6.1 or \
         later)"
    )]
    NoDriver,
    #[error(
        "/dev/ublk-control cannot be used: run the server as root, or with CAP_SYS_ADMIN as a user \
         that may open it"
    )]
    NotPermitted,
    #[error("the kernel has no driver for NBD: load it with modprobe nbd")]
    NoNbd,
    #[error("the kernel's NBD cannot be used: run the server as root, or with CAP_SYS_ADMIN")]
    NotPermittedNbd,
    #[error(
        "the kernel's NBD refuses {device}: it has to keep the name of a disk's server, as that of \
         Linux 5.14 and later does"
    )]
    OldNbd { device: String },
    #[error("the kernel cannot keep a device while no process serves it: that needs Linux 6.1")]
    NoRecovery,
    #[error("cannot open {path}")]
    Open { path: String, source: io::Error },
    #[error("cannot {} {device}", command.name())]
    Refused { command: Command, device: String, source: io::Error },
    #[error(
        "the kernel does not end its command to {} {device}: its driver hangs, and only a boot of \
         the host ends that", command.name()
    )]
    Hangs { command: Command, device: String },
    #[error("cannot serve a device")]
    Serve(#[source] io::Error),
    #[error("the process that watches for a dead server cannot be reached")]
    Guard(#[source] io::Error),
    #[error("cannot write {path}")]
    State { path: String, source: io::Error },
    #[error(
        "what {device} has acknowledged last is lost: remove it with `gemelo detach --force`, and \
         check the data on its volume"
    )]
    Lost { device: String, source: io::Error },
    #[error("what {device} has acknowledged last cannot be written again")]
    NotMadeAgain { device: String, source: gemelo_device::DeviceError },
    #[error("volume '{name}' cannot be a device: {why}")]
    Unservable { name: String, why: String },
    #[error("{device} belongs to volume '{name}', and process {process} serves it")]
    Served { device: String, name: String, process: i32 },
    #[error("{device} belongs to the volume '{name}' and to {claimed}, so nothing touches it")]
    Contradiction { device: String, name: String, claimed: String },
    #[error("volume '{name}' is not attached")]
    NotAttached { name: String },
    #[error("volume '{name}' is attached already, as {device}")]
    Attached { name: String, device: String },
    #[error("there is no volume '{name}' to attach")]
    NoVolume { name: String },
    #[error("{use_of_it}: unmount it first, or use --force to fail its requests")]
    InUse { use_of_it: gemelo_disk::DiskError },
    #[error("there are {limit} devices already, which is the most: detach one")]
    TooMany { limit: usize },
}

impl Classified for UblkError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Served { .. } | Self::InUse { .. } | Self::Contradiction { .. } => {
                FailureKind::InUse
            }
            Self::Lost { .. } | Self::NotMadeAgain { .. } | Self::Guard(_) => FailureKind::Failed,
            Self::Open { .. }
            | Self::Refused { .. }
            | Self::Hangs { .. }
            | Self::Serve(_)
            | Self::State { .. } => FailureKind::Failed,
            _ => FailureKind::BadInput,
        }
    }
}
