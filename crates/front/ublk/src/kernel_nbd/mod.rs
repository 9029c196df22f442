//! The kernel's NBD as a driver of disks, without `nbd-client`: disks `/dev/nbdN` whose requests
//! come over sockets of this process, one for each queue.
//!
//! Commands go by generic netlink (`netlink`), and `queue` answers the requests. The kernel keeps
//! the identity of a disk's server as the name of its backend, and gives sockets of another server
//! to the disk only if that has the same name. When all sockets are closed, it lets requests wait.
//! It sends what was in flight again, [`REQUEST_TIMEOUT_S`] after it had sent it.

mod netlink;
mod queue;

use crate::abi::{Command, DeviceInfo, State};
use crate::driver::{Driver, QueueBody};
use crate::error::UblkError;
use crate::gate::Ticket;
use crate::queue::{Ended, Side};
use gemelo_device::Geometry;
pub(crate) use netlink::FamilySocket;
use netlink::{Attributes, Family};
use queue::{Link, Links};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after which the kernel sends a request again over another socket.
const REQUEST_TIMEOUT_S: u64 = 30;
/// Time that requests wait for a server if they shall wait for ever: ten years.
const FOR_EVER_S: u64 = 315_000_000;
/// Unit of requests in bytes. File systems remember it, so it is the one of ublk.
const BLOCK_BYTES: u64 = 512;
/// Most queues of a device that another server has left.
const MAX_QUEUES: u16 = 64;

/// The commands of the driver, and their attributes.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const CLIENT_FLAGS: u16 = 6;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT: u16 = 8;
const BACKEND: u16 = 10;
/// Attributes of the list of sockets.
const SOCKET_ITEM: u16 = 1;
const SOCKET_FILE: u16 = 1;

/// The device goes when it is disconnected, and with it its name.
const DESTROY_ON_DISCONNECT: u64 = 1;

/// What the server can do: it says so, is read-only, flushes, makes durable, trims, zeroes, and has
/// one state behind several connections.
const HAS_FLAGS: u64 = 1;
const READ_ONLY: u64 = 1 << 1;
const FLUSH: u64 = 1 << 2;
const FUA: u64 = 1 << 3;
const TRIM: u64 = 1 << 5;
const WRITE_ZEROES: u64 = 1 << 6;
const SEVERAL_CONNECTIONS: u64 = 1 << 8;

/// The driver, opened.
pub(crate) struct NbdDriver {
    family: Arc<Mutex<Family>>,
    /// Time after which requests fail without a server.
    timeout: Option<Duration>,
    /// The sockets of devices that are about to be served.
    new: Mutex<HashMap<u32, NewSockets>>,
}

/// The two ends of the sockets of a device's queues.
struct NewSockets {
    ours: Vec<UnixStream>,
    theirs: Vec<UnixStream>,
}

impl NewSockets {
    fn pairs(queues: u16) -> io::Result<Self> {
        let pairs: io::Result<Vec<_>> = (0..queues).map(|_| UnixStream::pair()).collect();
        let (ours, theirs) = pairs?.into_iter().unzip();
        Ok(Self { ours, theirs })
    }
}

fn directory(number: u32) -> String {
    format!("/sys/block/nbd{number}")
}

/// The disk of a device.
pub(crate) fn disk_path(number: u32) -> String {
    format!("/dev/nbd{number}")
}

/// Returns the numbers of all devices of this host that have a server, or had one.
pub(crate) fn numbers() -> Vec<u32> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let number =
        |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("nbd")?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = entries.filter_map(number).filter(|one| is_used(*one)).collect();
    numbers.sort_unstable();
    numbers
}

fn is_used(number: u32) -> bool {
    Path::new(&directory(number)).join("pid").exists()
}

/// The name of a backend, by which the kernel knows the servers of a device.
fn backend(info: &DeviceInfo) -> String {
    format!("gemelo {} {} {}", info.owner_data, info.queues, info.max_request_bytes)
}

/// Returns the device of a backend, if it is one of a gemelo.
fn parse(number: u32, backend: &str) -> Option<DeviceInfo> {
    let words: Vec<&str> = backend.trim_end().split(' ').collect();
    let ["gemelo", owner, queues, bytes] = words.as_slice() else { return None };
    let queues = queues.parse().ok().filter(|queues| (1..=MAX_QUEUES).contains(queues))?;
    Some(DeviceInfo {
        queues,
        depth: 0,
        // A pool has one server, so the one before it has died.
        state: State::Quiesced,
        max_request_bytes: bytes.parse().ok()?,
        number,
        process: 0,
        features: 0,
        owner_data: owner.parse().ok()?,
    })
}

fn look(number: u32) -> Option<DeviceInfo> {
    parse(number, &fs::read_to_string(Path::new(&directory(number)).join("backend")).ok()?)
}

fn server_flags(geometry: &Geometry, write_through: bool) -> u64 {
    let always = HAS_FLAGS | SEVERAL_CONNECTIONS;
    let cache = if write_through { 0 } else { FLUSH | FUA };
    let access = if geometry.read_only { READ_ONLY } else { TRIM | WRITE_ZEROES };
    always | cache | access
}

/// The list of sockets for the kernel.
fn sockets<'s>(theirs: impl Iterator<Item = &'s UnixStream>) -> Result<Attributes, Errno> {
    theirs.into_iter().try_fold(Attributes::default(), |list, socket| {
        let file = u32::try_from(socket.as_raw_fd()).map_err(|_| Errno::BADF)?;
        let item = Attributes::default().with_u32(SOCKET_FILE, file);
        Ok(list.with_nested(SOCKET_ITEM, &item))
    })
}

impl NbdDriver {
    /// Opens the socket for commands.
    pub(crate) fn begin() -> Result<FamilySocket, UblkError> {
        FamilySocket::open().map_err(UblkError::Serve)
    }

    pub(crate) fn open(socket: FamilySocket, timeout: Option<Duration>) -> Result<Self, UblkError> {
        let family = Family::find(socket, "nbd").map_err(UblkError::Serve)?;
        let family = Arc::new(Mutex::new(family.ok_or(UblkError::NoNbd)?));
        Ok(Self { family, timeout, new: Mutex::default() })
    }

    fn new_sockets(&self) -> MutexGuard<'_, HashMap<u32, NewSockets>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, command: u8, attributes: &Attributes) -> Result<(), Errno> {
        run(&self.family, command, attributes)
    }

    /// Returns the sockets of the kernel of a device that is about to be served.
    fn theirs(&self, number: u32) -> Vec<UnixStream> {
        self.new_sockets().remove(&number).map(|sockets| sockets.theirs).unwrap_or_default()
    }
}

fn run(family: &Mutex<Family>, command: u8, attributes: &Attributes) -> Result<(), Errno> {
    let family = family.lock().unwrap_or_else(PoisonError::into_inner);
    family.command(command, attributes).map(|_| ())
}

/// Gives sockets to a device in the place of closed ones. Those for which there is no place are
/// left alone, and the kernel does not say so.
fn reconnect(
    family: &Mutex<Family>,
    info: &DeviceInfo,
    theirs: &[UnixStream],
) -> Result<(), Errno> {
    let attributes = Attributes::default()
        .with_u32(INDEX, info.number)
        .with_text(BACKEND, &backend(info))
        .with_nested(SOCKETS, &sockets(theirs.iter())?);
    run(family, RECONFIGURE, &attributes)
}

fn refused(command: Command, number: u32, error: Errno) -> UblkError {
    match error {
        Errno::PERM => UblkError::NotPermittedNbd,
        error => UblkError::Refused { command, device: disk_path(number), source: error.into() },
    }
}

impl Driver for NbdDriver {
    fn look(&self, number: u32) -> Option<DeviceInfo> {
        look(number)
    }

    fn add(
        &self,
        number: u32,
        queues: u16,
        max_request_bytes: u32,
        owner_data: u64,
    ) -> Result<Option<DeviceInfo>, UblkError> {
        if is_used(number) {
            return Ok(None);
        }
        self.new_sockets().insert(number, NewSockets::pairs(queues).map_err(UblkError::Serve)?);
        Ok(Some(DeviceInfo {
            queues,
            depth: 0,
            state: State::Dead,
            max_request_bytes,
            number,
            process: 0,
            features: 0,
            owner_data,
        }))
    }

    fn start(
        &self,
        info: &DeviceInfo,
        geometry: &Geometry,
        write_through: bool,
    ) -> Result<(), UblkError> {
        let number = info.number;
        let dead_timeout = self.timeout.map_or(FOR_EVER_S, |timeout| timeout.as_secs().max(1));
        let theirs = self.theirs(number);
        let list = sockets(theirs.iter()).map_err(|error| refused(Command::Add, number, error))?;
        let attributes = Attributes::default()
            .with_u32(INDEX, number)
            .with_u64(SIZE_BYTES, geometry.size_bytes)
            .with_u64(BLOCK_SIZE_BYTES, BLOCK_BYTES)
            .with_u64(TIMEOUT, REQUEST_TIMEOUT_S)
            .with_u64(DEAD_CONNECTION_TIMEOUT, dead_timeout)
            .with_u64(SERVER_FLAGS, server_flags(geometry, write_through))
            .with_u64(CLIENT_FLAGS, DESTROY_ON_DISCONNECT)
            .with_text(BACKEND, &backend(info))
            .with_nested(SOCKETS, &list);
        self.run(CONNECT, &attributes).map_err(|error| match error {
            Errno::INVAL => UblkError::OldNbd { device: disk_path(number) },
            error => refused(Command::Add, number, error),
        })
    }

    fn begin_recovery(&self, info: &DeviceInfo) -> Result<(), Errno> {
        let sockets = NewSockets::pairs(info.queues).map_err(|_| Errno::MFILE)?;
        self.new_sockets().insert(info.number, sockets);
        Ok(())
    }

    fn end_recovery(&self, number: u32) -> Result<(), UblkError> {
        let error = |error| refused(Command::EndRecovery, number, error);
        let info = look(number).ok_or_else(|| error(Errno::NODEV))?;
        let theirs = self.theirs(number);
        // A queue whose socket the kernel has not taken tries again.
        reconnect(&self.family, &info, &theirs).map_err(error)
    }

    fn resize(&self, number: u32, size_bytes: u64) -> Result<bool, UblkError> {
        let error = |error| refused(Command::UpdateSize, number, error);
        let info = look(number).ok_or_else(|| error(Errno::NODEV))?;
        let attributes = Attributes::default()
            .with_u32(INDEX, number)
            .with_text(BACKEND, &backend(&info))
            .with_u64(SIZE_BYTES, size_bytes);
        self.run(RECONFIGURE, &attributes).map_err(error)?;
        Ok(true)
    }

    fn stop(&self, number: u32) -> Result<(), UblkError> {
        let disconnected = self.run(DISCONNECT, &Attributes::default().with_u32(INDEX, number));
        disconnected.map_err(|error| refused(Command::Stop, number, error))
    }

    /// A device that is no disk any more is gone.
    fn remove(&self, number: u32) -> Result<(), UblkError> {
        self.new_sockets().remove(&number);
        Ok(())
    }

    fn queues(&self, info: &DeviceInfo, side: &Arc<Side>) -> Result<Vec<QueueBody>, UblkError> {
        let ours = self
            .new_sockets()
            .get_mut(&info.number)
            .map(|sockets| std::mem::take(&mut sockets.ours));
        let links = Arc::new(Links::new(ours.unwrap_or_default()));
        let body = |number| {
            let link = Link {
                links: Arc::clone(&links),
                family: Arc::clone(&self.family),
                side: Arc::clone(side),
                info: *info,
                number,
            };
            let body = move |ticket: Ticket| match ticket.pass() {
                true => link.serve(),
                false => Ended::Stopped,
            };
            Box::new(body) as QueueBody
        };
        Ok((0..info.queues).map(body).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_read_as_it_was_written_and_one_of_others_is_none() {
        let written = DeviceInfo {
            queues: 4,
            depth: 0,
            state: State::Quiesced,
            max_request_bytes: 1 << 20,
            number: 3,
            process: 0,
            features: 0,
            owner_data: u64::MAX,
        };
        assert_eq!(parse(3, &format!("{}\n", backend(&written))), Some(written));
        for strange in
            ["", "gemelo", "qemu 1 4 9", "gemelo 1 0 9", "gemelo 1 65 9", "gemelo 1 4 9 1"]
        {
            assert_eq!(parse(3, strange), None, "{strange}");
        }
    }

    #[test]
    fn the_kernel_is_told_of_the_cache_and_of_what_may_be_changed() {
        let geometry = |read_only| Geometry {
            size_bytes: 1 << 20,
            minimum_block_bytes: 512,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 1 << 20,
            read_only,
        };
        for (read_only, write_through, flags) in
            [(false, false, 0x16d), (false, true, 0x161), (true, false, 0x10f), (true, true, 0x103)]
        {
            assert_eq!(server_flags(&geometry(read_only), write_through), flags);
        }
    }
}
