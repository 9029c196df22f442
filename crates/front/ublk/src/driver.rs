//! The seam between the disks of a server and the driver of the kernel that makes them: ublk, or
//! NBD for kernels that have no ublk.

use crate::abi::DeviceInfo;
use crate::control::UblkDriver;
use crate::error::UblkError;
use crate::gate::Ticket;
use crate::kernel_nbd::{FamilySocket, NbdDriver};
use crate::queue::{Ended, Side};
use crate::rights::RightsRing;
use gemelo_device::Geometry;
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A driver of the kernel that makes disks of volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverKind {
    /// `ublk_drv`: disks `/dev/ublkbN`.
    #[default]
    Ublk,
    /// `nbd`: disks `/dev/nbdN`, over sockets of this process.
    Nbd,
}

impl DriverKind {
    /// Does of the opening what needs the right to administer the system.
    pub(crate) fn begin(self) -> Result<BegunDriver, UblkError> {
        Ok(match self {
            Self::Ublk => BegunDriver::Ublk(UblkDriver::begin()?),
            Self::Nbd => BegunDriver::Nbd(NbdDriver::begin()?),
        })
    }

    /// Returns the numbers of the devices of this host that may belong to a server.
    pub(crate) fn numbers(self) -> Vec<u32> {
        match self {
            Self::Ublk => crate::control::numbers(),
            Self::Nbd => crate::kernel_nbd::numbers(),
        }
    }

    /// The disk of a device.
    pub(crate) fn disk_path(self, number: u32) -> String {
        match self {
            Self::Ublk => crate::control::disk_path(number),
            Self::Nbd => crate::kernel_nbd::disk_path(number),
        }
    }

    /// The word that addresses of its disks begin with.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ublk => "ublk",
            Self::Nbd => "nbd",
        }
    }

    /// The name of the task that makes its disks.
    pub(crate) const fn task(self) -> &'static str {
        match self {
            Self::Ublk => "disks",
            Self::Nbd => "nbd-disks",
        }
    }

    /// The other driver.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Ublk => Self::Nbd,
            Self::Nbd => Self::Ublk,
        }
    }

    /// The directory of the files of devices, as the udev rule names it.
    pub(crate) fn records(self) -> PathBuf {
        PathBuf::from("/run/gemelo").join(self.word())
    }

    /// The directory of changes that are kept for the next server: in memory, which the next boot
    /// loses together with the devices.
    pub(crate) fn kept(self) -> PathBuf {
        PathBuf::from(match self {
            Self::Ublk => "/dev/shm/gemelo",
            Self::Nbd => "/dev/shm/gemelo-nbd",
        })
    }
}

/// A driver that keeps the right for its commands, and has run none yet.
pub(crate) enum BegunDriver {
    Ublk(RightsRing),
    Nbd(FamilySocket),
}

impl BegunDriver {
    /// Opens the driver. With NBD, requests fail after this time without a server.
    pub(crate) fn finish(self, timeout: Option<Duration>) -> Result<Arc<dyn Driver>, UblkError> {
        Ok(match self {
            Self::Ublk(ring) => Arc::new(UblkDriver::open(ring)?),
            Self::Nbd(socket) => Arc::new(NbdDriver::open(socket, timeout)?),
        })
    }
}

/// What the thread of a queue does. It begins to serve when all queues can.
pub(crate) type QueueBody = Box<dyn FnOnce(Ticket) -> Ended + Send>;

/// A driver, opened.
pub(crate) trait Driver: Send + Sync {
    /// Returns the device of this number, if there is one that this process may look at.
    fn look(&self, number: u32) -> Option<DeviceInfo>;

    /// Adds a device with this number that outlives its process, and returns it as it became. It
    /// is no disk yet. Returns [`None`] if there is a device of the number.
    fn add(
        &self,
        number: u32,
        queues: u16,
        max_request_bytes: u32,
        owner_data: u64,
    ) -> Result<Option<DeviceInfo>, UblkError>;

    /// Makes the disk. This returns when its queues are served.
    fn start(
        &self,
        info: &DeviceInfo,
        geometry: &Geometry,
        write_through: bool,
    ) -> Result<(), UblkError>;

    /// Begins to take a device over. Fails with [`Errno::BUSY`] while the process that served it is
    /// not quite dead.
    fn begin_recovery(&self, info: &DeviceInfo) -> Result<(), Errno>;

    /// Gives a device that was taken over its requests again.
    fn end_recovery(&self, number: u32) -> Result<(), UblkError>;

    /// Tells the kernel the size of a disk. Returns `false` if the kernel cannot learn it of a disk
    /// that is there.
    fn resize(&self, number: u32, size_bytes: u64) -> Result<bool, UblkError>;

    /// Removes the disk, and fails its requests.
    fn stop(&self, number: u32) -> Result<(), UblkError>;

    /// Removes a device, which goes when no process has its files open.
    fn remove(&self, number: u32) -> Result<(), UblkError>;

    /// Returns what the threads of the queues do.
    fn queues(&self, info: &DeviceInfo, side: &Arc<Side>) -> Result<Vec<QueueBody>, UblkError>;
}
