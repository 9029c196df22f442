//! The control device of the driver: commands that add, start, stop and remove devices.
//!
//! Its commands need the rights that `rights` keeps.

use crate::abi::{Command, ControlCommand, DeviceInfo, Parameters, SECTOR_BYTES, State, feature};
use crate::device::{LOOK_AGAIN_AFTER, PATIENCE_NS};
use crate::driver::{Driver, QueueBody};
use crate::error::UblkError;
use crate::queue::{Ended, Queue, Side};
use crate::rights::{COMMAND_FILE, RightsRing};
use gemelo_base::{Clock, SystemClock};
use gemelo_device::Geometry;
use io_uring::opcode;
use io_uring::squeue::Entry128;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const PATH: &str = "/dev/ublk-control";

/// Requests of a queue at a time.
const DEPTH: u16 = 64;

/// Time in which the kernel ends a command, unless it hangs. The end of a disk waits for requests.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);

/// The control device, opened.
pub(crate) struct UblkDriver {
    ring: RightsRing,
    /// Features of the driver.
    features: u64,
}

/// Memory that a command reads or fills.
enum Argument<'a> {
    None,
    Given(&'a [u8]),
    Filled(&'a mut [u8]),
}

impl Argument<'_> {
    fn place(&mut self) -> (u64, u16) {
        let (address, length) = match self {
            Self::None => return (0, 0),
            Self::Given(bytes) => (bytes.as_ptr(), bytes.len()),
            Self::Filled(bytes) => (bytes.as_mut_ptr().cast_const(), bytes.len()),
        };
        assert!(length <= usize::from(u16::MAX), "an argument is one of the driver's structures");
        (address.addr() as u64, length as u16)
    }
}

impl UblkDriver {
    /// Makes the ring for the control device.
    pub(crate) fn begin() -> Result<RightsRing, UblkError> {
        let file = File::options().read(true).write(true).open(PATH);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::NotPermitted,
            _ => UblkError::Open { path: PATH.to_owned(), source: error },
        })?;
        RightsRing::new(&file, opcode::UringCmd80::CODE).map_err(UblkError::Serve)
    }

    pub(crate) fn open(ring: RightsRing) -> Result<Self, UblkError> {
        // A kernel that does not answer has none of the features that are asked for here.
        let features = feature::IOCTL_NUMBERS;
        let mut control = Self { ring, features };
        let mut features = [0; 8];
        let asked = Argument::Filled(&mut features);
        control.features = match control.run(Command::GetFeatures, 0, asked, 0) {
            Ok(_) => u64::from_ne_bytes(features),
            Err(Errno::PERM | Errno::ACCESS) => return Err(UblkError::NotPermitted),
            Err(_) => feature::USER_RECOVERY | feature::REISSUE,
        };
        Ok(control)
    }

    /// Runs a command and waits for its end. Returns its result.
    fn run(
        &self,
        command: Command,
        device: u32,
        mut argument: Argument<'_>,
        data: u64,
    ) -> Result<i32, Errno> {
        let entry = self.entry(command, device, argument.place(), data);
        // SAFETY: the argument is borrowed until this function returns.
        unsafe { self.ring.run(entry) }
    }

    /// Runs a command that has to end soon, and names no memory. The driver of Linux 6.12 can hang
    /// for good where a server has ended under load, and then only this device is lost. The start
    /// of a disk is none of these: it reads the partition table from the volume.
    fn order(&self, command: Command, device: u32, data: u64) -> Result<(), Errno> {
        let entry = self.entry(command, device, Argument::None.place(), data);
        self.ring.run_bounded(device, entry, COMMAND_PATIENCE).map(|_| ())
    }

    fn entry(
        &self,
        command: Command,
        device: u32,
        (address, length): (u64, u16),
        data: u64,
    ) -> Entry128 {
        opcode::UringCmd80::new(COMMAND_FILE, command.code() & self.code_mask())
            .cmd(ControlCommand { device, address, length, data }.encode())
            .build()
    }

    fn ask(
        &self,
        command: Command,
        device: u32,
        argument: Argument<'_>,
        data: u64,
    ) -> Result<(), UblkError> {
        self.run(command, device, argument, data)
            .map_err(|error| refused(command, device, error))?;
        Ok(())
    }

    /// Returns the bits of the codes of commands that the kernel knows.
    const fn code_mask(&self) -> u32 {
        if self.features & feature::IOCTL_NUMBERS == 0 { 0xff } else { u32::MAX }
    }
}

impl Driver for UblkDriver {
    fn look(&self, number: u32) -> Option<DeviceInfo> {
        let mut bytes = [0; DeviceInfo::BYTES];
        let asked = Argument::Filled(&mut bytes);
        self.run(Command::GetDevice, number, asked, 0).ok()?;
        Some(DeviceInfo::decode(&bytes))
    }

    fn add(
        &self,
        number: u32,
        queues: u16,
        max_request_bytes: u32,
        owner_data: u64,
    ) -> Result<Option<DeviceInfo>, UblkError> {
        let kept = feature::USER_RECOVERY | feature::REISSUE;
        let wanted = DeviceInfo {
            queues,
            depth: DEPTH,
            state: State::Dead,
            max_request_bytes,
            number,
            process: 0,
            features: kept | self.features & (feature::IOCTL_NUMBERS | feature::UPDATE_SIZE),
            owner_data,
        };
        let mut bytes = wanted.encode();
        match self.run(Command::Add, number, Argument::Filled(&mut bytes), 0) {
            Ok(_) => {}
            Err(Errno::EXIST) => return Ok(None),
            Err(error) => return Err(refused(Command::Add, number, error)),
        }
        let added = DeviceInfo::decode(&bytes);
        if added.features & kept != kept {
            self.remove(added.number)?;
            return Err(UblkError::NoRecovery);
        }
        Ok(Some(added))
    }

    fn start(
        &self,
        info: &DeviceInfo,
        geometry: &Geometry,
        write_through: bool,
    ) -> Result<(), UblkError> {
        let parameters = Parameters::encode(geometry, write_through, info.max_request_bytes);
        self.ask(Command::SetParameters, info.number, Argument::Given(&parameters), 0)?;
        // This returns when the kernel has read the partition table.
        self.ask(Command::Start, info.number, Argument::None, own_process())
    }

    fn begin_recovery(&self, info: &DeviceInfo) -> Result<(), Errno> {
        match self.order(Command::BeginRecovery, info.number, 0) {
            Ok(()) => Ok(()),
            // A server has begun this and died before its end. The device is as if it began now.
            Err(Errno::INVAL) if info.state == State::Quiesced => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn end_recovery(&self, number: u32) -> Result<(), UblkError> {
        self.order(Command::EndRecovery, number, own_process())
            .map_err(|error| refused(Command::EndRecovery, number, error))
    }

    fn resize(&self, number: u32, size_bytes: u64) -> Result<bool, UblkError> {
        if self.features & feature::UPDATE_SIZE == 0 {
            return Ok(false);
        }
        let sectors = size_bytes / SECTOR_BYTES;
        match self.order(Command::UpdateSize, number, sectors) {
            Ok(()) => Ok(true),
            // The device is of a server that did not ask for it.
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(refused(Command::UpdateSize, number, error)),
        }
    }

    fn stop(&self, number: u32) -> Result<(), UblkError> {
        self.order(Command::Stop, number, 0).map_err(|error| refused(Command::Stop, number, error))
    }

    fn remove(&self, number: u32) -> Result<(), UblkError> {
        match self.order(Command::RemoveLater, number, 0) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => self
                .order(Command::Remove, number, 0)
                .map_err(|error| refused(Command::Remove, number, error)),
            Err(error) => Err(refused(Command::RemoveLater, number, error)),
        }
    }

    fn queues(&self, info: &DeviceInfo, side: &Arc<Side>) -> Result<Vec<QueueBody>, UblkError> {
        let file = Arc::new(open(&queue_path(info.number))?);
        let (depth, bytes) = (info.depth, info.max_request_bytes as usize);
        let code_mask = self.code_mask();
        let body = |number| {
            let (side, file) = (Arc::clone(side), Arc::clone(&file));
            let open = move || Queue::open(side, file, number, (depth, bytes), code_mask);
            Box::new(move |ticket| match open() {
                Ok(queue) => queue.serve(ticket),
                Err(error) => Ended::Failed(error),
            }) as QueueBody
        };
        Ok((0..info.queues).map(body).collect())
    }
}

pub(crate) fn refused(command: Command, number: u32, error: Errno) -> UblkError {
    let device = disk_path(number);
    match error {
        Errno::TIMEDOUT => UblkError::Hangs { command, device },
        error => UblkError::Refused { command, device, source: error.into() },
    }
}

fn own_process() -> u64 {
    u64::from(std::process::id())
}

/// The disk of a device.
pub(crate) fn disk_path(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

/// The file by which a process serves a device.
fn queue_path(number: u32) -> String {
    format!("/dev/ublkc{number}")
}

/// Opens the file of a device. It appears a moment after the device, and the process that had it
/// closes it a moment after its death.
fn open(path: &str) -> Result<File, UblkError> {
    let clock = SystemClock::new();
    loop {
        match File::options().read(true).write(true).open(path) {
            Ok(file) => return Ok(file),
            Err(source) if clock.now_ns() > PATIENCE_NS => {
                return Err(UblkError::Open { path: path.to_owned(), source });
            }
            Err(_) => gemelo_base::pause(LOOK_AGAIN_AFTER),
        }
    }
}

/// Returns the numbers of all devices of this host.
pub(crate) fn numbers() -> Vec<u32> {
    let entries = std::fs::read_dir("/sys/class/ublk-char").into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.strip_prefix("ublkc")?.parse::<u32>().ok()
    };
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
