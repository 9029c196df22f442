//! A device that this process serves: its queues, and the way to its end.

use crate::abi::{Command, DeviceInfo, SECTOR_BYTES, State};
use crate::control;
use crate::driver::{Driver, DriverKind, QueueBody};
use crate::error::UblkError;
use crate::gate::Ticket;
use crate::guard::Guard;
use crate::identity::{Record, Records, owner_data};
use crate::kept::{self, Kept};
use crate::queue::{Ended, Side};
use gemelo_base::{Clock, Monitor, ShowPath as _, SystemClock, with_causes};
use gemelo_device::Export;
use gemelo_disk::DiskError;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Length of the longest request in bytes.
const MAX_REQUEST_BYTES: u32 = 1 << 20;

/// Most queues of a device. Each processor has one, unless there are more.
const MAX_QUEUES: usize = 32;

/// The number from which on devices are given none.
const MAX_NUMBER: u32 = 4096;

/// Time in which the kernel notices the death of a process that served a device, and in which the
/// files of a device appear.
pub(crate) const PATIENCE_NS: u64 = 10_000_000_000;
/// The same time while another process with the number of the dead one lives.
const SHORT_PATIENCE_NS: u64 = 1_000_000_000;
pub(crate) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The state of this process that all its devices need.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) kind: DriverKind,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) records: Records,
    /// The directory of changes that are kept.
    pub(crate) kept: PathBuf,
    pub(crate) write_through: bool,
    /// Removes devices that no server takes back, if they shall not wait for ever.
    pub(crate) guard: Option<Arc<Guard>>,
}

impl Host {
    /// Has a device watched that this server has now.
    fn watch(&self, info: &DeviceInfo) -> Result<(), UblkError> {
        self.guard.as_ref().map_or(Ok(()), |guard| guard.watch(info.number, info.owner_data))
    }

    /// Removes a device that is no disk, or not any more.
    pub(crate) fn remove(&self, number: u32) -> Result<(), UblkError> {
        let removed = self.driver.remove(number);
        self.forget(number);
        removed
    }

    /// Forgets a device that is gone.
    fn forget(&self, number: u32) {
        if let Some(guard) = &self.guard {
            guard.forget(number);
        }
        self.records.remove(number);
        // Memory that stays is used again by the next device of this number.
        let _ = kept::remove(&kept::path(&self.kept, number));
    }
}

/// A device that this process serves.
pub(crate) struct ServedDevice {
    /// The name of the export when it was last looked at.
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) number: u32,
    host: Host,
    side: Arc<Side>,
    threads: Vec<JoinHandle<()>>,
    ends: Arc<Mutex<Vec<Ended>>>,
    /// The size in bytes of which the kernel was told last.
    told_bytes: AtomicU64,
}

impl ServedDevice {
    /// Makes a new disk of an export.
    pub(crate) fn add(host: &Host, export: Export, record: &Record) -> Result<Self, UblkError> {
        let max_bytes = MAX_REQUEST_BYTES.min(export.geometry().maximum_request_bytes);
        let info = Self::add_unused(host, queues() as u16, max_bytes, record)?;
        let added = Added { host, number: info.number };
        let geometry = export.geometry();
        let path = kept::path(&host.kept, info.number);
        let kept = Kept::create(&path, info.owner_data, info.queues, host.write_through)
            .map_err(|source| UblkError::State { path: path.shown().to_string(), source })?;
        host.watch(&info)?;
        let device = Self::serve(host, export, &info, kept)?;
        if let Err(error) = host.driver.start(&info, &geometry, host.write_through) {
            device.leave();
            return Err(error);
        }
        std::mem::forget(added);
        Ok(device)
    }

    /// Adds a device with a number that no other one has. The rules of udev read its file when its
    /// own files appear.
    fn add_unused(
        host: &Host,
        queues: u16,
        max_bytes: u32,
        record: &Record,
    ) -> Result<DeviceInfo, UblkError> {
        let owner_data = owner_data(&record.identity);
        let used = host.kind.numbers();
        for number in (0..MAX_NUMBER).filter(|number| !used.contains(number)) {
            host.records.write(number, record)?;
            match host.driver.add(number, queues, max_bytes, owner_data) {
                Ok(Some(info)) => return Ok(info),
                // Another process was faster.
                Ok(None) => host.records.remove(number),
                Err(error) => {
                    host.records.remove(number);
                    return Err(error);
                }
            }
        }
        Err(UblkError::TooMany { limit: MAX_NUMBER as usize })
    }

    /// Takes a device over whose process has died.
    pub(crate) fn take_over(
        host: &Host,
        export: Export,
        info: &DeviceInfo,
        record: &Record,
    ) -> Result<Self, UblkError> {
        let number = info.number;
        let device = host.kind.disk_path(number);
        let lost = |source| UblkError::Lost { device: device.clone(), source };
        let open = || Kept::open(&kept::path(&host.kept, number), info.owner_data, info.queues);
        // Without it nothing is begun that cannot be ended.
        open().map_err(lost)?;
        let clock = SystemClock::new();
        let is_served = info.state == State::Live && is_alive(info.process);
        let patience_ns = if is_served { SHORT_PATIENCE_NS } else { PATIENCE_NS };
        while let Err(error) = host.driver.begin_recovery(info) {
            if error != Errno::BUSY {
                return Err(control::refused(Command::BeginRecovery, number, error));
            }
            if clock.now_ns() > patience_ns {
                let (name, process) = (export.name, info.process);
                return Err(UblkError::Served { device, name, process });
            }
            gemelo_base::pause(LOOK_AGAIN_AFTER);
        }
        let kept = open().map_err(lost)?;
        kept.make_again(&*export.device)
            .map_err(|source| UblkError::NotMadeAgain { device: device.clone(), source })?;
        host.records.write(number, record)?;
        host.watch(info)?;
        let device = Self::serve(host, export, info, kept)?;
        if let Err(error) = host.driver.end_recovery(number) {
            device.leave();
            return Err(error);
        }
        Ok(device)
    }

    /// Starts the queues of a device. All of them can serve when this returns, or none.
    fn serve(
        host: &Host,
        export: Export,
        info: &DeviceInfo,
        kept: Kept,
    ) -> Result<Self, UblkError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC);
        let side = Arc::new(Side {
            device: export.device,
            stop: stop.map_err(|error| UblkError::Serve(error.into()))?,
            write_through: host.write_through || kept.is_write_through(),
            kept,
        });
        let mut device = Self {
            name: export.name,
            identity: export.identity,
            number: info.number,
            host: host.clone(),
            side,
            threads: Vec::new(),
            ends: Arc::default(),
            told_bytes: AtomicU64::new(0),
        };
        let bodies = match host.driver.queues(info, &device.side) {
            Ok(bodies) => bodies,
            Err(error) => {
                device.leave();
                return Err(error);
            }
        };
        let (own, tickets) = Ticket::of(bodies.len());
        for (body, ticket) in bodies.into_iter().zip(tickets) {
            match device.start_queue(body, ticket) {
                Ok(thread) => device.threads.push(thread),
                Err(error) => {
                    drop(own);
                    device.leave();
                    return Err(UblkError::Serve(error));
                }
            }
        }
        if own.pass() {
            return Ok(device);
        }
        let ends = Arc::clone(&device.ends);
        device.leave();
        let ends = std::mem::take(&mut *ends.lock().unwrap_or_else(PoisonError::into_inner));
        let failed = ends.into_iter().find_map(|ended| match ended {
            Ended::Failed(error) => Some(error),
            _ => None,
        });
        Err(UblkError::Serve(failed.unwrap_or_else(|| io::Error::other("a queue has ended"))))
    }

    /// Starts the thread of a queue. The kernel takes commands of one queue from one thread only.
    fn start_queue(&self, body: QueueBody, ticket: Ticket) -> io::Result<JoinHandle<()>> {
        let ends = Arc::clone(&self.ends);
        let body = move || {
            let ended = body(ticket);
            ends.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        };
        std::thread::Builder::new()
            .name("gemelo-ublk".into())
            .spawn(body)
            .map_err(gemelo_base::threads::refused)
    }

    fn ends(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the disk show the size of its volume, if it does not. Returns what to do if it cannot,
    /// or why it failed.
    pub(crate) fn follow_size(&self) -> Option<String> {
        let size_bytes = self.side.device.geometry().size_bytes;
        if self.told_bytes.swap(size_bytes, Ordering::Relaxed) == size_bytes {
            return None;
        }
        let disk = self.disk();
        if shown_bytes(&disk) == Some(size_bytes) {
            return None;
        }
        match self.host.driver.resize(self.number, size_bytes) {
            Ok(true) => None,
            Ok(false) => Some(format!(
                "{disk} shows its old size: this kernel learns the new one of volume '{}' by \
                 'gemelo detach' and 'gemelo attach'",
                self.name
            )),
            Err(error) => Some(format!("{disk} shows its old size: {}", with_causes(&error))),
        }
    }

    pub(crate) fn disk(&self) -> String {
        self.host.kind.disk_path(self.number)
    }

    /// Returns whether a queue has ended, so that the kernel gives this process no more requests.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ends().is_empty()
    }

    /// Returns the reason why the device is not served any more, unless somebody removed it or the
    /// server ends.
    pub(crate) fn failure(&self) -> Option<String> {
        self.ends().iter().find_map(|ended| match ended {
            Ended::Stopped | Ended::Removed => None,
            Ended::MayNotAnswer => Some("another host may have its data".to_owned()),
            Ended::Panicked => Some("its volume panicked".to_owned()),
            Ended::Failed(error) => Some(error.to_string()),
        })
    }

    /// Ends the queues. The kernel keeps the disk and further requests for the next server.
    pub(crate) fn leave(self) {
        // This cannot fail: the counter is far from its limit.
        let _ = rustix::io::write(&self.side.stop, &1u64.to_ne_bytes());
        for thread in self.threads {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
        // What is not durable stays kept.
        let _ = self.side.kept.flush(&*self.side.device);
    }

    /// Ends with its server. An unused disk goes. One in use waits for the next server.
    pub(crate) fn end(self, monitor: &dyn Monitor) {
        let (disk, name) = (self.disk(), self.name.clone());
        match check_unused(&disk) {
            Ok(()) => {
                if let Err(error) = self.remove() {
                    monitor.warn(&format!("{disk}: {}", with_causes(&error)));
                }
            }
            Err(_) => {
                self.leave();
                monitor.warn(&format!(
                    "{disk} is in use: its requests wait until volume '{name}' is served again"
                ));
            }
        }
    }

    /// Forgets a disk that somebody else has removed, and removes what is left of it.
    pub(crate) fn forget(self) {
        let (host, number, owner) = (self.host.clone(), self.number, owner_data(&self.identity));
        self.leave();
        // Its number may have been given to another device by now.
        if host.driver.look(number).is_some_and(|info| info.owner_data == owner) {
            let _ = host.driver.remove(number);
        }
        host.forget(number);
    }

    /// Removes the disk. Requests that the kernel still has fail.
    pub(crate) fn remove(self) -> Result<(), UblkError> {
        let (host, number) = (self.host.clone(), self.number);
        let stopped = host.driver.stop(number);
        self.leave();
        stopped?;
        host.remove(number)
    }
}

/// Refuses a disk that is mounted, holds swap, or is used by another device.
pub(crate) fn check_unused(disk: &str) -> Result<(), UblkError> {
    let open = |error: Errno| UblkError::Open { path: disk.to_owned(), source: error.into() };
    let status = rustix::fs::stat(disk).map_err(open)?;
    gemelo_disk::check_unused(disk.as_ref(), &status)
        .and_then(|()| gemelo_disk::check_not_open(disk.as_ref(), &status))
        .map_err(|use_of_it| UblkError::InUse { use_of_it })
}

/// Does the same, for a command that has looked at the disk with its own rights: libvirt leaves
/// disks that only root may open.
pub(crate) fn check_unused_as_far_as_seen(disk: &str) -> Result<(), UblkError> {
    match check_unused(disk) {
        Err(UblkError::InUse { use_of_it: DiskError::File { source, .. } })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Returns the size that the kernel shows of a disk.
fn shown_bytes(disk: &str) -> Option<u64> {
    let name = Path::new(disk).file_name()?;
    let sectors = std::fs::read_to_string(Path::new("/sys/block").join(name).join("size"));
    sectors.ok()?.trim_end().parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)
}

/// Returns the number of queues of a new device.
pub(crate) fn queues() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_QUEUES)
}

/// A device that was added, and is removed again unless it starts.
struct Added<'h> {
    host: &'h Host,
    number: u32,
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        // The error that led here is the one to report.
        let _ = self.host.remove(self.number);
    }
}

fn is_alive(process: i32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
