//! The machine under a campaign: mounts, programs, rights, the page cache.

use crate::error::StepError;
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories in which programs of administrators are, which not everybody has in the path.
const MORE_PATHS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A start of the system. Mounts, loop devices and processes do not outlive it, and the numbers of
/// processes begin anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boot(String);

impl Boot {
    /// Returns the start of the system that runs now.
    pub(crate) fn this() -> Self {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self(id.trim().to_owned())
    }

    #[cfg(test)]
    pub(crate) fn named(id: &str) -> Self {
        Self(id.to_owned())
    }
}

/// Returns the places of all mounts that this process sees.
pub(crate) fn mounts() -> Vec<PathBuf> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(mount_of).collect()
}

/// Returns the fifth word of a line, in which blanks are octal escapes (proc(5)).
fn mount_of(line: &[u8]) -> Option<PathBuf> {
    let word = line.split(|byte| *byte == b' ').nth(4)?;
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let code = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Some(std::ffi::OsString::from_vec(bytes).into())
}

/// The path in which programs are looked for, with the directories of administrators.
pub(crate) fn program_path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).chain(MORE_PATHS.map(PathBuf::from));
    std::env::join_paths(all).unwrap_or(path)
}

/// Returns whether a program exists.
pub(crate) fn has_program(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    std::env::split_paths(&program_path()).any(|directory| directory.join(name).is_file())
}

/// Returns what a program prints when it is asked about the machine: nothing if it is not there.
pub(crate) fn printed(program: &str, words: &[&str]) -> String {
    let asked = Command::new(program).args(words).env("PATH", program_path()).output();
    asked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
}

/// Returns the reason why programs, rights or devices are missing, if any is.
pub(crate) fn missing(programs: &[&str], needs_root: bool, files: &[&str]) -> Option<String> {
    if let Some(name) = programs.iter().find(|name| !has_program(name)) {
        return Some(format!("the program '{name}' is missing"));
    }
    if needs_root && !is_root() {
        return Some("root is needed".to_owned());
    }
    let file = files.iter().find(|file| !Path::new(file).exists())?;
    Some(format!("{file} is missing"))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Writes back all changed pages and drops the page cache, as the papers did before each run.
pub(crate) fn drop_caches() -> Result<(), StepError> {
    const DROP: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    // 3: page cache, directory entries and inodes (proc(5)).
    std::fs::write(DROP, "3").map_err(StepError::io("write", DROP))
}

/// Returns the ticks of all processors that were neither idle nor waiting, of the text of
/// `/proc/stat` (proc_stat(5)).
pub(crate) fn busy_ticks(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    let fields = line.split_whitespace().skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    // user, nice, system, idle, iowait, irq, softirq, steal; guest times are within user.
    fields.take(8).enumerate().filter(|(index, _)| ![3, 4].contains(index)).map(|(_, n)| n).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_the_places_of_mounts_are_decoded() {
        let line = br"36 35 98:0 / /mnt/two\040words\134x rw - ext4 /dev/root rw";
        assert_eq!(mount_of(line), Some(PathBuf::from(r"/mnt/two words\x")));
        assert!(mounts().contains(&PathBuf::from("/proc")));
    }

    #[test]
    fn missing_programs_are_named() {
        assert_eq!(missing(&["sh"], false, &[]), None);
        assert_eq!(
            missing(&["sh", "no-such-program"], false, &[]),
            Some("the program 'no-such-program' is missing".to_owned())
        );
    }
}
