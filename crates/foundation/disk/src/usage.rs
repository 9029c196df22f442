//! Finds other uses of a block device or a file: a mount, swap, a mapping on top, a loop device.

use crate::error::{DiskError, Result};
use crate::lock;
use gemelo_base::{name_of_text, text_of_name};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks for processes with an open device, and the time between two.
const OPEN_LOOKS: u32 = 10;
const OPEN_PAUSE: Duration = Duration::from_millis(100);

/// Refuses a block device that is mounted, holds swap, carries another device, backs a loop device
/// or is claimed in another way.
///
/// # Errors
/// Fails if the device is in use, or cannot be opened.
pub fn check_unused(path: &Path, status: &Stat) -> Result<()> {
    check_no_user(path, status)?;
    claim(path)
}

/// Refuses a block device that a process has open, as programs do that do not claim their disks, or
/// that the kernel's target for NVMe exports. Only processes are found that this one may look at.
/// One that opens the device for a moment, as udev does, is waited for.
///
/// # Errors
/// Fails if the device is open.
pub fn check_not_open(path: &Path, status: &Stat) -> Result<()> {
    let in_use = |by| Err(DiskError::DeviceInUse { path: path.to_owned(), by });
    if let Some(by) = exported_by(Path::new("/sys/kernel/config/nvmet/subsystems"), status) {
        return in_use(by);
    }
    for looks_left in (0..OPEN_LOOKS).rev() {
        match opened_by(status) {
            None => return Ok(()),
            Some(by) if looks_left == 0 => return in_use(by),
            Some(_) => gemelo_base::pause(OPEN_PAUSE),
        }
    }
    Ok(())
}

/// Does the same as [`check_unused`], for a caller that claims the device itself.
///
/// # Errors
/// Fails if the device is in use.
pub fn check_no_user(path: &Path, status: &Stat) -> Result<()> {
    match user_of(status) {
        Some(by) => Err(DiskError::DeviceInUse { path: path.to_owned(), by }),
        None => Ok(()),
    }
}

/// Refuses a file that holds swap, backs a loop device, or is locked by another process, as the
/// disks of an open pool are.
///
/// # Errors
/// Fails if the file is in use.
pub fn check_file_unused(path: &Path, status: &Stat) -> Result<()> {
    match backed_by(status).or_else(|| lock::locked_by(path)) {
        Some(by) => Err(DiskError::DeviceInUse { path: path.to_owned(), by }),
        None => Ok(()),
    }
}

/// Returns whether both are the same file or block device.
fn is_same(one: &Stat, other: &Stat) -> bool {
    let is_device =
        |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    if is_device(one) && is_device(other) {
        return one.st_rdev == other.st_rdev;
    }
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Returns whether two paths lead to the same existing file or block device.
#[must_use]
pub fn are_same(one: &Path, other: &Path) -> bool {
    match (rustix::fs::stat(one), rustix::fs::stat(other)) {
        (Ok(one), Ok(other)) => is_same(&one, &other),
        _ => false,
    }
}

/// Describes the use of a block device, as far as the system tells it.
pub(crate) fn user_of(status: &Stat) -> Option<String> {
    let numbers = device_numbers(status.st_rdev);
    let mounts = table(Path::new("/proc/self/mountinfo"));
    for number in &numbers {
        if let Some(place) = mounted_at(&mounts, number) {
            return Some(format!("mounted at {place}"));
        }
        if let Some(holder) = first_entry(&sysfs(number).join("holders")) {
            return Some(format!("part of {holder}"));
        }
    }
    backed_by(status)
}

/// Describes the use of a file or device as swap or below a loop device.
fn backed_by(status: &Stat) -> Option<String> {
    let is_it = |other: &Path| rustix::fs::stat(other).is_ok_and(|other| is_same(status, &other));
    let swaps = table(Path::new("/proc/swaps"));
    let swap_files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if swap_files.map(unescape).any(|file| is_it(Path::new(&name_of_text(&file)))) {
        return Some("swap".to_owned());
    }
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read(entry.path().join("loop/backing_file")).unwrap_or_default();
        let backing = backing.strip_suffix(b"\n").unwrap_or(&backing);
        if !backing.is_empty() && is_it(Path::new(OsStr::from_bytes(backing))) {
            return Some(format!("it backs /dev/{}", text_of_name(&entry.file_name())));
        }
    }
    None
}

/// Describes a process that has the device open.
fn opened_by(status: &Stat) -> Option<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let name = text_of_name(&process.file_name());
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let is_it = |file: fs::DirEntry| {
            rustix::fs::stat(file.path()).is_ok_and(|other| is_same(status, &other))
        };
        if files.into_iter().any(is_it) {
            let program = fs::read(process.path().join("comm")).unwrap_or_default();
            let program = String::from_utf8_lossy(&program).trim_end().to_owned();
            return Some(format!("open in process {name} ({program})"));
        }
    }
    None
}

/// Describes the subsystem of the kernel's target for NVMe that exports the device.
fn exported_by(subsystems: &Path, status: &Stat) -> Option<String> {
    for subsystem in fs::read_dir(subsystems).into_iter().flatten().flatten() {
        let spaces = fs::read_dir(subsystem.path().join("namespaces")).into_iter().flatten();
        for space in spaces.flatten().map(|space| space.path()) {
            let text = |name| fs::read_to_string(space.join(name)).unwrap_or_default();
            let device = text("device_path");
            let is_it =
                rustix::fs::stat(device.trim_end()).is_ok_and(|other| is_same(status, &other));
            if text("enable").trim_end() == "1" && is_it {
                let name = text_of_name(&subsystem.file_name());
                return Some(format!("exported by the NVMe subsystem {name}"));
            }
        }
    }
    None
}

/// Claims the device from the kernel for a moment, which fails if the device is in use.
fn claim(path: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::BUSY) => {
            let by =
                "mounted where this process does not see it, or claimed by a program".to_owned();
            Err(DiskError::DeviceInUse { path: path.to_owned(), by })
        }
        Err(error) => {
            Err(DiskError::File { action: "open", path: path.to_owned(), source: error.into() })
        }
    }
}

fn sysfs(number: &str) -> PathBuf {
    Path::new("/sys/dev/block").join(number)
}

/// The `major:minor` numbers of the device and of its partitions.
fn device_numbers(device: u64) -> Vec<String> {
    let own = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let entries = fs::read_dir(sysfs(&own)).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    let numbers = partitions.filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok());
    let mut all: Vec<String> = numbers.map(|number| number.trim().to_owned()).collect();
    all.push(own);
    all
}

/// Reads a table in /proc, in which a backslash of a name is escaped already.
fn table(path: &Path) -> String {
    text_of_name(OsStr::from_bytes(&fs::read(path).unwrap_or_default()))
}

/// Returns the mount point of a device. In a line of mountinfo the third field is the device, the
/// fifth the mount point (proc(5)).
fn mounted_at(mounts: &str, number: &str) -> Option<String> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    line.split(' ').nth(4).map(unescape)
}

/// Decodes the octal escapes of tables in /proc, such as `\040`.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn first_entry(directory: &Path) -> Option<String> {
    let entry = fs::read_dir(directory).ok()?.flatten().next()?;
    Some(text_of_name(&entry.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_device_is_found_by_its_numbers() {
        let mounts = "36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 - ext3 /dev/root rw\n";
        assert_eq!(mounted_at(mounts, "98:0").as_deref(), Some("/mnt two"));
        assert_eq!(mounted_at(mounts, "98:1"), None);
        assert_eq!(mounted_at("", "98:0"), None);
    }

    #[test]
    fn a_process_with_an_open_file_is_its_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let file = fs::File::create(&path).unwrap();
        let status = rustix::fs::stat(&path).unwrap();
        let used = check_not_open(&path, &status).unwrap_err().to_string();
        assert!(used.contains(&format!("open in process {}", std::process::id())), "{used}");
        drop(file);
        check_not_open(&path, &status).unwrap();
    }

    #[test]
    fn a_subsystem_for_nvme_is_the_user_of_what_it_exports() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        fs::write(&disk, "").unwrap();
        let status = rustix::fs::stat(&disk).unwrap();
        let space = directory.path().join("remote/namespaces/1");
        fs::create_dir_all(&space).unwrap();
        fs::write(space.join("device_path"), format!("{}\n", disk.display())).unwrap();
        for (enabled, user) in
            [("0\n", None), ("1\n", Some("exported by the NVMe subsystem remote"))]
        {
            fs::write(space.join("enable"), enabled).unwrap();
            assert_eq!(exported_by(directory.path(), &status).as_deref(), user);
        }
        let other = rustix::fs::stat(directory.path()).unwrap();
        assert_eq!(exported_by(directory.path(), &other), None);
    }

    #[test]
    fn a_mount_point_that_is_not_utf_8_does_not_hide_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mountinfo");
        let mounts =
            b"36 35 98:0 / /mnt/\xff rw - ext3 /dev/a rw\n37 35 98:1 / /b rw - ext3 b rw\n";
        fs::write(&path, mounts).unwrap();
        assert_eq!(mounted_at(&table(&path), "98:1").as_deref(), Some("/b"));
        assert_eq!(mounted_at(&table(&path), "98:0").as_deref(), Some("/mnt/\\xff"));
    }
}
