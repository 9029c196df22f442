//! Resources that a run makes, and giving them back.

use crate::error::StepError;
use crate::process::{self, ProcessId};
use crate::system::mounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest wait for a mount that is busy. Programs that were just ended may hold it for a moment.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// Pause between attempts to unmount.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Longest time that a user's command may take to give something back.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// Something that exists because of a campaign. Giving it back twice, or before it was made, has no
/// effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Resource {
    /// A directory that did not exist before, with everything in it.
    Directory { path: PathBuf },
    /// A mounted file system.
    Mount { path: PathBuf },
    /// A loop device on a file.
    Loop { file: PathBuf },
    /// A process that keeps running beside the steps of a run.
    Process { process: ProcessId, name: String },
    /// Processes that have the mark of a run in their environment.
    MarkedProcesses { mark: String },
    /// Something that a command gives back. The command also succeeds if nothing exists.
    Command { words: Vec<String>, environment: BTreeMap<String, String>, directory: PathBuf },
}

impl Resource {
    /// Gives the resource back. The programs that do it have a mark in their environment.
    pub(crate) fn undo(&self, mark: &str) -> Result<(), StepError> {
        match self {
            Self::Directory { path } => remove_directory(path),
            Self::Mount { path } => unmount(path, mark),
            Self::Loop { file } => detach(file, mark),
            Self::Process { process, .. } => process.end().map_err(|error| self.kept(error)),
            Self::MarkedProcesses { mark: of_run } => process::marked(of_run)
                .iter()
                .try_for_each(ProcessId::end)
                .map_err(|e| self.kept(e)),
            Self::Command { words, environment, directory } => {
                let Some((program, arguments)) = words.split_first() else { return Ok(()) };
                let mut command = Command::new(program);
                command.args(arguments).envs(environment);
                if directory.is_dir() {
                    command.current_dir(directory);
                }
                process::quick(&mut command, mark, COMMAND_LIMIT).map(drop)
            }
        }
    }

    /// Returns the process, if the resource is one.
    pub(crate) const fn process(&self) -> Option<ProcessId> {
        match self {
            Self::Process { process, .. } => Some(*process),
            _ => None,
        }
    }

    /// Returns the mark of processes, if the resource is all processes with a mark.
    pub(crate) fn mark(&self) -> Option<&str> {
        match self {
            Self::MarkedProcesses { mark } => Some(mark),
            _ => None,
        }
    }

    fn kept(&self, reason: impl std::fmt::Display) -> StepError {
        StepError::Undo { what: self.to_string(), reason: reason.to_string() }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory { path } => write!(formatter, "the directory {}", path.display()),
            Self::Mount { path } => write!(formatter, "the mount at {}", path.display()),
            Self::Loop { file } => write!(formatter, "the loop device of {}", file.display()),
            Self::Process { process, name } => {
                write!(formatter, "the process {} ({name})", process.pid)
            }
            Self::MarkedProcesses { .. } => formatter.write_str("the processes of a run"),
            Self::Command { words, .. } => write!(formatter, "the result of '{}'", words.join(" ")),
        }
    }
}

/// Removes a directory. A mount below it would lose its files, so it is refused then.
fn remove_directory(path: &Path) -> Result<(), StepError> {
    if let Some(mount) = mounts().into_iter().find(|mount| mount.starts_with(path)) {
        return Err(StepError::Undo {
            what: format!("the directory {}", path.display()),
            reason: format!("something is mounted at {}", mount.display()),
        });
    }
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StepError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Unmounts, also several mounts at one place. A mount that stays busy is taken out of the tree and
/// ends when its last user ends.
fn unmount(path: &Path, mark: &str) -> Result<(), StepError> {
    let mut waited = Duration::ZERO;
    while mounts().iter().any(|mount| mount == path) {
        let umount = |options: &[&str]| {
            process::quick(Command::new("umount").args(options).arg(path), mark, COMMAND_LIMIT)
        };
        if umount(&[]).is_ok() {
            continue;
        }
        if waited >= BUSY_PATIENCE {
            umount(&["--lazy"])?;
            continue;
        }
        gemelo_base::pause(BUSY_PAUSE);
        waited += BUSY_PAUSE;
    }
    Ok(())
}

/// Detaches all loop devices of a file.
fn detach(file: &Path, mark: &str) -> Result<(), StepError> {
    if !Path::new("/dev/loop-control").exists() {
        return Ok(());
    }
    let listed = process::quick(
        Command::new("losetup").arg("--associated").arg(file).args([
            "--noheadings",
            "--output",
            "NAME",
        ]),
        mark,
        COMMAND_LIMIT,
    )?;
    for device in listed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        process::quick(Command::new("losetup").arg("--detach").arg(device), mark, COMMAND_LIMIT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_back_what_was_never_made_succeeds() {
        let place = tempfile::tempdir().unwrap();
        let missing = place.path().join("missing");
        let resources = [
            Resource::Directory { path: missing.clone() },
            Resource::Mount { path: missing.clone() },
            Resource::MarkedProcesses { mark: "nobody-has-this-mark".to_owned() },
        ];
        for resource in resources {
            resource.undo("test").unwrap();
        }
    }
}
