//! Mounts that can show the scan the same directory or file at several places: bind mounts, and
//! file systems that are mounted more than once.
//!
//! The list of mounts is read once. Only if some file system is reached by more than one mount, the
//! walk remembers the directories that it has listed, by device and inode number: 16 bytes each,
//! and nothing for their files. The files of a directory that it meets again are left out. Only if
//! a file is mounted on its own, all files are remembered as well.

use super::Root;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The list of the mounts of this process.
const LIST: &str = "/proc/self/mountinfo";

/// A file or a directory: its device and its inode number.
pub(crate) type Identity = (u64, u64);

/// The mounts below the paths of a scan.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    /// `true` if several mounts of one file system are reached.
    pub(crate) can_repeat: bool,
    /// `true` if one of these mounts is of a single file.
    pub(crate) has_files: bool,
}

impl Mounts {
    /// Looks at the mounts that a scan of these paths reaches. Where the list cannot be read, none
    /// are known.
    pub(crate) fn of(roots: &[Root]) -> Self {
        let list = std::fs::read(LIST).unwrap_or_default();
        let paths: Vec<PathBuf> =
            roots.iter().filter_map(|root| root.path.canonicalize().ok()).collect();
        let (can_repeat, points) = reached(&list, &paths);
        let is_file = |point: &PathBuf| std::fs::metadata(point).is_ok_and(|file| file.is_file());
        Self { can_repeat, has_files: can_repeat && points.iter().any(is_file) }
    }
}

/// Returns whether several mounts of one file system are reached, and the places of the mounts
/// strictly below the paths.
fn reached(list: &[u8], paths: &[PathBuf]) -> (bool, Vec<PathBuf>) {
    let all: Vec<Mount> = list.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
    let mut points = Vec::new();
    let mut of_device: HashMap<&[u8], HashSet<&[u8]>> = HashMap::new();
    for path in paths {
        let around = all.iter().filter(|mount| path.starts_with(&mount.point));
        let own = around.max_by_key(|mount| mount.point.components().count());
        let below =
            all.iter().filter(|mount| mount.point.starts_with(path) && mount.point != *path);
        points.extend(below.clone().map(|mount| mount.point.clone()));
        for mount in own.into_iter().chain(below) {
            of_device.entry(mount.device).or_default().insert(mount.id);
        }
    }
    (of_device.values().any(|mounts| mounts.len() > 1), points)
}

/// A line of the list.
struct Mount<'line> {
    id: &'line [u8],
    /// The device numbers of the file system, the same for all of its mounts.
    device: &'line [u8],
    point: PathBuf,
}

impl<'line> Mount<'line> {
    fn parse(line: &'line [u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let (id, device) = (words.next()?, words.nth(1)?);
        let point = PathBuf::from(OsString::from_vec(unescaped(words.nth(1)?)));
        Some(Self { id, device, point })
    }
}

/// Returns a path without the escapes of the kernel: a backslash and three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, others)) = rest.split_first() {
        let code = rest.get(1..4).and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        if let Some(byte) = byte.filter(|_| *first == b'\\') {
            path.push(byte);
            rest = rest.get(4..).unwrap_or_default();
        } else {
            path.push(*first);
            rest = others;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const LIST: &[u8] = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        23 22 0:5 / /proc rw - proc proc rw\n\
        40 22 8:1 /data/a /srv/a\\040b/c rw - ext4 /dev/sda1 rw\n\
        41 22 8:2 / /mnt rw - ext4 /dev/sda2 rw\n\
        nonsense\n";

    fn reached_by(paths: &[&str]) -> (bool, Vec<PathBuf>) {
        reached(LIST, &paths.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_file_system_that_is_reached_twice_can_repeat_directories() {
        for (paths, can_repeat) in [
            (&["/"][..], true),
            (&["/srv"], true),
            (&["/srv/a b"], true),
            (&["/srv/a b/c"], false),
            (&["/data", "/srv/a b/c"], true),
            (&["/data"], false),
            (&["/mnt"], false),
            (&["/data", "/mnt"], false),
        ] {
            assert_eq!(reached_by(paths).0, can_repeat, "{paths:?}");
        }
        assert_eq!(reached_by(&["/srv"]).1, [Path::new("/srv/a b/c")]);
    }
}
