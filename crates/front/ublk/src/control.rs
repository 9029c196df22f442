//! The control device of the driver: commands that add, start, stop and remove devices.
//!
//! The kernel wants the right to administer the system for each command. A server that is not root
//! has it only until the control device is open: the ring keeps it, and takes nothing but commands
//! to this device from then on. The process itself gives it up.

use crate::abi::{Command, ControlCommand, DeviceInfo, Parameters, State, feature};
use crate::error::UblkError;
use io_uring::register::Restriction;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PATH: &str = "/dev/ublk-control";

/// Entries of the ring. One command is in flight at a time.
const RING_ENTRIES: u32 = 4;

/// The control device among the files of the ring.
const CONTROL_FILE: types::Fixed = types::Fixed(0);

type Ring = IoUring<squeue::Entry128, cqueue::Entry>;

/// The control device, opened.
pub(crate) struct Control {
    ring: Mutex<Ring>,
    /// The rights with which commands run.
    personality: u16,
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

impl Control {
    pub(crate) fn open() -> Result<Self, UblkError> {
        let file = File::options().read(true).write(true).open(PATH);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::NotPermitted,
            _ => UblkError::Open { path: PATH.to_owned(), source: error },
        })?;
        let (ring, personality) = make_ring(&file).map_err(UblkError::Serve)?;
        give_up_rights().map_err(UblkError::Serve)?;
        // A kernel that does not answer has none of the features that are asked for here.
        let features = feature::IOCTL_NUMBERS;
        let mut control = Self { ring: Mutex::new(ring), personality, features };
        let mut features = [0; 8];
        let asked = Argument::Filled(&mut features);
        control.features = match control.run(Command::GetFeatures, 0, asked, 0) {
            Ok(_) => u64::from_ne_bytes(features),
            Err(Errno::PERM | Errno::ACCESS) => return Err(UblkError::NotPermitted),
            Err(_) => feature::USER_RECOVERY | feature::REISSUE,
        };
        Ok(control)
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command and waits for its end. Returns its result.
    fn run(
        &self,
        command: Command,
        device: u32,
        mut argument: Argument<'_>,
        data: u64,
    ) -> Result<i32, Errno> {
        let (address, length) = argument.place();
        let code = command.code() & self.code_mask();
        let entry = opcode::UringCmd80::new(CONTROL_FILE, code)
            .cmd(ControlCommand { device, address, length, data }.encode())
            .build()
            .personality(self.personality);
        let mut ring = self.lock();
        // SAFETY: the argument is borrowed until this function returns, and it returns when the
        // command is complete.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            return Err(Errno::BUSY);
        }
        loop {
            let entered = ring.submit_and_wait(1);
            if let Some(done) = ring.completion().next() {
                let result = done.result();
                let is_error = |result: i32| Errno::from_raw_os_error(result.saturating_neg());
                return if result < 0 { Err(is_error(result)) } else { Ok(result) };
            }
            if let Err(error) = entered
                && !matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN))
            {
                // The kernel may still work on the command, and its argument must stay: wait.
                gemelo_base::pause(std::time::Duration::from_millis(1));
            }
        }
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

    /// Returns the device of this number, if there is one that this process may look at.
    pub(crate) fn look(&self, number: u32) -> Option<DeviceInfo> {
        let mut bytes = [0; DeviceInfo::BYTES];
        let asked = Argument::Filled(&mut bytes);
        self.run(Command::GetDevice, number, asked, 0).ok()?;
        Some(DeviceInfo::decode(&bytes))
    }

    /// Adds a device with this number that outlives its process, and returns it as it became.
    /// Returns [`None`] if there is a device of the number.
    pub(crate) fn add(
        &self,
        number: u32,
        queues: u16,
        depth: u16,
        max_request_bytes: u32,
        owner_data: u64,
    ) -> Result<Option<DeviceInfo>, UblkError> {
        let kept = feature::USER_RECOVERY | feature::REISSUE;
        let wanted = DeviceInfo {
            queues,
            depth,
            state: State::Dead,
            max_request_bytes,
            number,
            process: 0,
            features: kept | self.features & feature::IOCTL_NUMBERS,
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

    pub(crate) fn set_parameters(
        &self,
        number: u32,
        parameters: &[u8; Parameters::BYTES],
    ) -> Result<(), UblkError> {
        self.ask(Command::SetParameters, number, Argument::Given(parameters), 0)
    }

    /// Makes the disk. This returns when the kernel has read its partition table.
    pub(crate) fn start(&self, number: u32) -> Result<(), UblkError> {
        self.ask(Command::Start, number, Argument::None, own_process())
    }

    /// Begins to take a device over. Fails with [`Errno::BUSY`] while the process that served it is
    /// not quite dead.
    pub(crate) fn begin_recovery(&self, number: u32) -> Result<(), Errno> {
        self.run(Command::BeginRecovery, number, Argument::None, 0).map(|_| ())
    }

    /// Gives a device that was taken over its requests again.
    pub(crate) fn end_recovery(&self, number: u32) -> Result<(), UblkError> {
        self.ask(Command::EndRecovery, number, Argument::None, own_process())
    }

    /// Removes the disk, and fails its requests.
    pub(crate) fn stop(&self, number: u32) -> Result<(), UblkError> {
        self.ask(Command::Stop, number, Argument::None, 0)
    }

    /// Removes a device, which goes when no process has its files open. Kernels before 6.9 wait for
    /// that.
    pub(crate) fn remove(&self, number: u32) -> Result<(), UblkError> {
        match self.run(Command::RemoveLater, number, Argument::None, 0) {
            Ok(_) => Ok(()),
            Err(Errno::OPNOTSUPP) => self.ask(Command::Remove, number, Argument::None, 0),
            Err(error) => Err(refused(Command::RemoveLater, number, error)),
        }
    }

    /// Returns the bits of the codes of commands that the kernel knows.
    pub(crate) const fn code_mask(&self) -> u32 {
        if self.features & feature::IOCTL_NUMBERS == 0 { 0xff } else { u32::MAX }
    }
}

/// Makes a ring that has the rights of this process, and takes nothing but commands to this file.
/// Returns it with the number of the rights.
fn make_ring(file: &File) -> io::Result<(Ring, u16)> {
    let ring = Ring::builder().setup_r_disabled().build(RING_ENTRIES)?;
    let submitter = ring.submitter();
    submitter.register_files(&[file.as_raw_fd()])?;
    let personality = submitter.register_personality()?;
    submitter.register_restrictions(&mut [
        Restriction::sqe_op(opcode::UringCmd80::CODE),
        Restriction::sqe_flags_required(squeue::Flags::FIXED_FILE.bits()),
    ])?;
    submitter.register_enable_rings()?;
    Ok((ring, personality))
}

/// Gives the right to administer the system up, unless this process is root.
fn give_up_rights() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(CapabilitySet::SYS_ADMIN);
    }
    Ok(set_capabilities(None, sets)?)
}

pub(crate) fn refused(command: Command, number: u32, error: Errno) -> UblkError {
    UblkError::Refused { command, device: disk_path(number), source: error.into() }
}

fn own_process() -> u64 {
    u64::from(std::process::id())
}

/// The disk of a device.
pub(crate) fn disk_path(number: u32) -> String {
    format!("/dev/ublkb{number}")
}

/// The file by which a process serves a device.
pub(crate) fn queue_path(number: u32) -> String {
    format!("/dev/ublkc{number}")
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
