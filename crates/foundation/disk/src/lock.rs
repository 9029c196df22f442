//! Locks on open disks, and the processes that hold them.
//!
//! The lock is the system's (`flock`) on the file or device node itself. So it follows the storage
//! through every name, link and copied directory, needs no file of its own, and ends with the
//! process. The lock does not cover other nodes of the same device; writers of a device therefore
//! also claim it from the kernel, which knows the device behind the node.

use rustix::fs::{FlockOperation, Stat, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Attempts to lock a device. `udev` holds a shared lock for some milliseconds after a device was
/// written.
const DEVICE_ATTEMPTS: u32 = 50;
/// The wait between two attempts.
const ATTEMPT_EVERY: Duration = Duration::from_millis(20);
/// The most open files of one process that are searched for the locked one.
const MAX_FILES: usize = 65_536;

/// The access for which a disk is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAccess {
    /// Reading, shared with other readers.
    Shared,
    /// Reading and writing, exclusively.
    Exclusive,
}

/// Takes the lock without waiting for another program's work. Returns `false` if another process
/// holds it.
pub(crate) fn take(file: &File, access: DiskAccess, is_device: bool) -> io::Result<bool> {
    let operation = match access {
        DiskAccess::Shared => FlockOperation::NonBlockingLockShared,
        DiskAccess::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    let attempts = if is_device { DEVICE_ATTEMPTS } else { 1 };
    for attempt in 1..=attempts {
        match flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if attempt < attempts => gemelo_base::pause(ATTEMPT_EVERY),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Names the holder of a lock on this file: "process 12 (gemelo)", or "another process" if the
/// system does not tell.
pub(crate) fn holder(file: &File) -> String {
    let Ok(status) = rustix::fs::fstat(file) else { return unknown() };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let named = || flocks(&locks).filter(|lock| lock.inode == status.st_ino);
    let found = named()
        .find(|lock| has_open(lock.process, &status) == Some(true))
        .or_else(|| named().find(|lock| has_open(lock.process, &status).is_none()))
        // Some file systems report other numbers in the table than in `stat`. This process may have
        // a lock on another file.
        .or_else(|| {
            let mut others = flocks(&locks).filter(|lock| lock.process != std::process::id());
            others.find(|lock| has_open(lock.process, &status) == Some(true))
        });
    found.map_or_else(unknown, |lock| name(lock.process))
}

/// Names the holder of an exclusive lock on a file. Returns `None` if there is none, or if the file
/// cannot be opened.
pub(crate) fn locked_by(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let is_free = take(&file, DiskAccess::Shared, false).unwrap_or(true);
    (!is_free).then(|| holder(&file))
}

fn unknown() -> String {
    "another process".to_owned()
}

/// Names a process by its number and, if the system tells it, by its command.
fn name(process: u32) -> String {
    match fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(command) => format!("process {process} ({})", command.trim_end().escape_debug()),
        Err(_) => format!("process {process}"),
    }
}

/// A lock in the system's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flock {
    process: u32,
    inode: u64,
}

/// Parses the locks that are held, in lines such as `1: FLOCK ADVISORY WRITE 708 fe:00:1234 0 EOF`
/// (proc_locks(5)). Lines with an arrow are of waiting processes and are skipped.
fn flocks(table: &str) -> impl Iterator<Item = Flock> {
    table.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next()? == "FLOCK";
        let process = words.nth(2)?.parse().ok()?;
        let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
        is_flock.then_some(Flock { process, inode })
    })
}

/// Returns whether a process has a file open, or `None` if the process belongs to another user and
/// cannot be inspected.
fn has_open(process: u32, status: &Stat) -> Option<bool> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let is_same = |path: &Path| {
        rustix::fs::stat(path)
            .is_ok_and(|other| (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino))
    };
    Some(files.flatten().take(MAX_FILES).any(|entry| is_same(&entry.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_table_is_understood() {
        let table = "1: POSIX  ADVISORY  WRITE 1 fe:00:1 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 6379 fe:00:5464355 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 6380 fe:00:5464355 0 EOF\n\
                     3: OFDLCK ADVISORY  READ -1 fe:00:2 0 EOF\n\
                     nonsense\n";
        let found: Vec<Flock> = flocks(table).collect();
        assert_eq!(found, [Flock { process: 6379, inode: 5_464_355 }]);
    }

    #[test]
    fn readers_share_and_a_writer_is_alone_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let open = || File::open(&path).unwrap();
        let (one, two, three) = (open(), open(), open());
        assert!(take(&one, DiskAccess::Shared, false).unwrap());
        assert!(take(&two, DiskAccess::Shared, false).unwrap());
        assert!(!take(&three, DiskAccess::Exclusive, false).unwrap());
        let command = fs::read_to_string("/proc/self/comm").unwrap();
        let ours = format!("process {} ({})", std::process::id(), command.trim_end());
        assert_eq!(holder(&three), ours);
        // A lock on another file must not count as a lock on this one.
        let other = File::create(directory.path().join("other")).unwrap();
        assert!(take(&other, DiskAccess::Exclusive, false).unwrap());
        drop((one, two));
        assert_eq!(holder(&three), "another process");
        assert!(take(&three, DiskAccess::Exclusive, false).unwrap());
    }
}
