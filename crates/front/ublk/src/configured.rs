//! What a server is told about its disks, and the opening of their drivers.

use crate::device::Host;
use crate::driver::{BegunDriver, Driver, DriverKind};
use crate::error::UblkError;
use crate::guard::{Guard, guard};
use crate::identity::{Records, owner_data};
use crate::rights::give_up_rights;
use gemelo_base::Monitor;
use gemelo_device::FrontEndError;
use std::ffi::OsString;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The exports that a server makes devices of by itself. It takes back all that an earlier one had.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// None: devices are made on request.
    #[default]
    None,
    /// All exports, also later ones.
    All,
    /// These exports.
    Only(Vec<String>),
}

/// Disks by one of the drivers, configured.
#[derive(Default)]
pub struct UblkFrontEnd {
    /// The driver that makes the disks.
    pub driver: DriverKind,
    /// The name of the pool, which is a part of the names of its devices.
    pub pool: String,
    /// The exports that become devices.
    pub wanted: Wanted,
    /// `true` if every change has to be durable before it is acknowledged.
    pub write_through: bool,
    /// Time after which the requests of a device fail that no server has taken back; [`None`] lets
    /// them wait for ever.
    pub timeout: Option<Duration>,
    /// The arguments with which this program runs [`guard_devices`] for the same time.
    pub guard: Vec<OsString>,
    /// The driver, opened by [`open_drivers`]. A process that is not root does that before it
    /// starts threads, each of which would keep the rights that this one gives up.
    pub opened: OpenedDriver,
    /// The other driver of this server.
    pub other: OpenedDriver,
}

/// The driver, once it is open. A clone is the same one.
#[derive(Clone, Default)]
pub struct OpenedDriver(Arc<OnceLock<Host>>);

impl std::fmt::Debug for OpenedDriver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OpenedDriver").finish_non_exhaustive()
    }
}

/// A driver whose commands have the rights of this process, and which has run none yet: the kernel
/// may run them in a thread that keeps the rights of the moment.
struct Begun {
    driver: BegunDriver,
    guard: Option<Guard>,
}

impl UblkFrontEnd {
    /// Opens the driver, unless that was done before, and gives up the rights for that.
    pub(crate) fn host(&self) -> Result<Host, UblkError> {
        if let Some(host) = self.opened.0.get() {
            // Whether changes are durable was unknown when the driver was opened.
            return Ok(Host { write_through: self.write_through, ..host.clone() });
        }
        let begun = self.begin()?;
        give_up_rights().map_err(UblkError::Serve)?;
        self.finish(begun)
    }

    /// Returns the disk that the other driver has of an export, if it has one.
    pub(crate) fn disk_by_other(&self, identity: &str) -> Option<String> {
        let kind = self.driver.other();
        let owner = |number| match self.other.0.get() {
            Some(host) => host.driver.look(number).map(|info| info.owner_data),
            None => Some(owner_data(identity)),
        };
        let number = number_of(identity, kind.numbers(), &Records::new(kind.records()), owner)?;
        Some(kind.disk_path(number))
    }

    /// Returns whether a server has left a file that says that an export has a disk.
    pub(crate) fn has_record(&self, identity: &str) -> bool {
        let (numbers, records) = (self.driver.numbers(), Records::new(self.driver.records()));
        number_of(identity, numbers, &records, |_| Some(owner_data(identity))).is_some()
    }

    /// Does what needs the rights.
    fn begin(&self) -> Result<Begun, UblkError> {
        let driver = self.driver.begin()?;
        // The driver for NBD ends requests by itself.
        let timeout = self.timeout.filter(|_| self.driver == DriverKind::Ublk);
        let guard = timeout.map(|_| {
            let mut command = Command::new("/proc/self/exe");
            command.args(&self.guard);
            Guard::start(command)
        });
        Ok(Begun { driver, guard: guard.transpose()? })
    }

    fn finish(&self, begun: Begun) -> Result<Host, UblkError> {
        let driver = begun.driver.finish(self.timeout)?;
        let host = host(self.driver, driver, self.write_through, begun.guard);
        Ok(self.opened.0.get_or_init(|| host).clone())
    }
}

/// Returns the one of these devices whose file says that it is of an export. `owner` returns what
/// the driver knows of it: the file may be left of a device whose number another one has.
fn number_of(
    identity: &str,
    numbers: Vec<u32>,
    records: &Records,
    owner: impl Fn(u32) -> Option<u64>,
) -> Option<u32> {
    numbers.into_iter().find(|number| {
        let record = records.read(*number);
        record.is_some_and(|record| record.identity == identity)
            && owner(*number) == Some(owner_data(identity))
    })
}

/// Opens the drivers of these front ends, those that are there, and gives up the rights that this
/// takes. They are opened again, and failures reported, when they are needed.
///
/// From then on, neither this thread nor those that it starts wait for disks where they need memory
/// or write to files ([`rustix::process::configure_io_flusher_behavior`]). The kernel frees memory
/// by writing to disks, also to those whose server this is, or is about to be. A process without
/// the right for it has to do without.
pub fn open_drivers(front_ends: &[UblkFrontEnd]) {
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let begun: Vec<_> = front_ends.iter().map(UblkFrontEnd::begin).collect();
    let _ = give_up_rights();
    for (front_end, begun) in front_ends.iter().zip(begun) {
        let _ = begun.and_then(|begun| front_end.finish(begun));
    }
}

/// Watches the devices of the server that has started this process, until the server ends. Removes
/// those that no other server has taken back after the given time.
///
/// # Errors
/// Fails if the driver cannot be used.
pub fn guard_devices(timeout: Duration, monitor: &dyn Monitor) -> Result<(), FrontEndError> {
    let front_end = UblkFrontEnd::default();
    let host = front_end.host().map_err(FrontEndError::of)?;
    guard(&host, std::io::stdin().lock(), timeout, monitor);
    Ok(())
}

fn host(
    kind: DriverKind,
    driver: Arc<dyn Driver>,
    write_through: bool,
    guard: Option<Guard>,
) -> Host {
    let (records, kept) = (Records::new(kind.records()), kind.kept());
    Host { kind, driver, records, kept, write_through, guard: guard.map(Arc::new) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Record;

    #[test]
    fn a_disk_is_of_an_export_if_its_file_and_its_driver_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path());
        for (number, identity) in [(1, "them"), (3, "us")] {
            let record = Record { identity: identity.to_owned(), link: "pool/disk".to_owned() };
            records.write(number, &record).unwrap();
        }
        let found = |numbers: &[u32], owner: Option<&str>| {
            number_of("us", numbers.to_vec(), &records, |_| owner.map(owner_data))
        };
        assert_eq!(found(&[1, 2, 3], Some("us")), Some(3));
        assert_eq!(found(&[1, 2], Some("us")), None, "no file says so");
        assert_eq!(found(&[3], Some("them")), None, "another device has the number");
        assert_eq!(found(&[3], None), None, "the device is gone");
    }
}
