//! Whether something else uses a block device or a file: a mount, swap, a mapping on top, a loop device.

use crate::TargetError;
use crate::error::AtPath;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The size of a block device; `None` of anything else.
pub(crate) fn size_bytes(path: &Path) -> Result<Option<u64>, TargetError> {
    let is_device = |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    if !rustix::fs::stat(path).is_ok_and(|status| is_device(&status)) {
        return Ok(None);
    }
    let device = fs::File::open(path).at("open", path)?;
    rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0)).at("measure", path).map(Some)
}

/// Refuses a block device that is mounted, holds swap, carries another device, backs a loop device or is otherwise
/// claimed.
pub(crate) fn check_unused(path: &Path, status: &Stat) -> Result<(), TargetError> {
    let in_use = |by: String| TargetError::InUse { path: path.to_owned(), by };
    let numbers = device_numbers(status.st_rdev);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for number in &numbers {
        if let Some(place) = mounted_at(&mounts, number) {
            return Err(in_use(format!("mounted at {place}")));
        }
        if let Some(holder) = first_entry(&sysfs(number).join("holders")) {
            return Err(in_use(format!("part of {holder}")));
        }
    }
    check_not_backing(path, status)?;
    claim(path).map(drop)
}

/// Refuses a file or device that holds swap or backs a loop device.
pub(crate) fn check_not_backing(path: &Path, status: &Stat) -> Result<(), TargetError> {
    let in_use = |by: String| TargetError::InUse { path: path.to_owned(), by };
    let is_same = |other: &Path| rustix::fs::stat(other).is_ok_and(|other| is_same_file(status, &other));
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swap_files = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if swap_files.map(unescape).any(|file| is_same(Path::new(&file))) {
        return Err(in_use("swap".to_owned()));
    }
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if !backing.is_empty() && is_same(Path::new(backing.trim_end_matches('\n'))) {
            return Err(in_use(format!("it backs /dev/{}", entry.file_name().to_string_lossy())));
        }
    }
    Ok(())
}

/// Opens the device for this program alone; the kernel refuses that for one in use.
fn claim(path: &Path) -> Result<OwnedFd, TargetError> {
    match rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Err(rustix::io::Errno::BUSY) => {
            Err(TargetError::InUse { path: path.to_owned(), by: "the kernel says so".to_owned() })
        }
        other => other.at("open", path),
    }
}

fn is_same_file(one: &Stat, other: &Stat) -> bool {
    let is_device = |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    if is_device(one) && is_device(other) {
        return one.st_rdev == other.st_rdev;
    }
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

fn sysfs(number: &str) -> PathBuf {
    Path::new("/sys/dev/block").join(number)
}

/// `major:minor` of the device and of its partitions.
fn device_numbers(device: u64) -> Vec<String> {
    let own = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let entries = fs::read_dir(sysfs(&own)).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists());
    let numbers = partitions.filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok());
    let mut all: Vec<String> = numbers.map(|number| number.trim().to_owned()).collect();
    all.push(own);
    all
}

/// Where a device is mounted: the third field of a line of mountinfo is the device, the fifth the place (proc(5)).
fn mounted_at(mounts: &str, number: &str) -> Option<String> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    line.split(' ').nth(4).map(unescape)
}

/// Undoes the `\040` of /proc's tables.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn first_entry(folder: &Path) -> Option<String> {
    let entry = fs::read_dir(folder).ok()?.flatten().next()?;
    Some(entry.file_name().to_string_lossy().into_owned())
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
}
