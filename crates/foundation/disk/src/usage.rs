//! Finds other uses of a block device or a file: a mount, swap, a mapping on top, a loop device.

use crate::error::{DiskError, Result};
use crate::lock;
use gemelo_base::{name_of_text, text_of_name};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Refuses a block device that is mounted, holds swap, carries another device, backs a loop device
/// or is claimed in another way.
///
/// # Errors
/// Fails if the device is in use, or cannot be opened.
pub fn check_unused(path: &Path, status: &Stat) -> Result<()> {
    check_no_user(path, status)?;
    claim(path)
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

/// Claims the device from the kernel for a moment, which fails if the device is in use.
fn claim(path: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(_) => Ok(()),
        Err(rustix::io::Errno::BUSY) => {
            let by = "the kernel reports another user".to_owned();
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
