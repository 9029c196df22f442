//! Resources that a run makes, and giving them back.

use crate::error::StepError;
use crate::process::{self, ProcessId};
use crate::system::{Boot, mounts};
use gemelo_base::{FileIdentity, ShowPath as _, name_of_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
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
/// effect. Each kind has what proves that the thing found later is the one that was made: an
/// identity, a mark, or a name that nobody else has chosen. A path alone proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Resource {
    /// A directory, with everything in it. [`Journal`](crate::journal::Journal) makes it, and then
    /// notes its identity.
    Directory {
        #[serde(with = "gemelo_base::names::path")]
        path: PathBuf,
    },
    /// A mounted file system, in a directory that was made for it.
    Mount {
        #[serde(with = "gemelo_base::names::path")]
        path: PathBuf,
        parent: FileIdentity,
        boot: Boot,
    },
    /// A loop device on a file of the campaign.
    Loop {
        #[serde(with = "gemelo_base::names::path")]
        file: PathBuf,
        identity: FileIdentity,
        boot: Boot,
    },
    /// A process that keeps running beside the steps of a run.
    Process { process: ProcessId, name: String, boot: Boot },
    /// Processes that have the mark of a run in their environment.
    MarkedProcesses { mark: String },
    /// Something that a command gives back. The command also succeeds if nothing exists. The values
    /// of its environment have the form of [`gemelo_base::text_of_name`].
    Command {
        words: Vec<String>,
        environment: BTreeMap<String, String>,
        #[serde(with = "gemelo_base::names::path")]
        directory: PathBuf,
    },
}

/// What became of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It does not exist any more.
    Gone,
    /// Another thing is in its place, and stays. The text says why.
    NotOurs(String),
}

impl Resource {
    /// Returns what a script of `sh` gives back.
    pub(crate) fn of_script(script: String) -> Self {
        Self::Command {
            words: vec!["sh".to_owned(), "-c".to_owned(), script],
            environment: BTreeMap::new(),
            directory: "/".into(),
        }
    }

    /// Gives the resource back. `made` is the identity of a directory, once it was made. The
    /// programs that give back have a mark in their environment.
    pub(crate) fn undo(&self, made: Option<FileIdentity>, mark: &str) -> Result<Fate, StepError> {
        match self {
            Self::Directory { path } => remove_directory(path, made),
            // Neither mounts nor loop devices nor processes outlive the system.
            Self::Mount { boot, .. } | Self::Loop { boot, .. } | Self::Process { boot, .. }
                if *boot != Boot::this() =>
            {
                Ok(Fate::Gone)
            }
            Self::Mount { path, parent, .. } => unmount(path, *parent, mark),
            Self::Loop { file, identity, .. } => detach(file, *identity, mark),
            Self::Process { process, .. } => {
                process.end().map(|()| Fate::Gone).map_err(|error| self.kept(error))
            }
            Self::MarkedProcesses { mark: of_run } => process::marked(of_run)
                .iter()
                .try_for_each(ProcessId::end)
                .map(|()| Fate::Gone)
                .map_err(|e| self.kept(e)),
            Self::Command { words, environment, directory } => {
                let Some((program, arguments)) = words.split_first() else {
                    return Ok(Fate::Gone);
                };
                let mut command = Command::new(program);
                let environment =
                    environment.iter().map(|(name, value)| (name, name_of_text(value)));
                command.args(arguments).envs(environment);
                if directory.is_dir() {
                    command.current_dir(directory);
                }
                process::quick(&mut command, mark, COMMAND_LIMIT).map(|_| Fate::Gone)
            }
        }
    }

    /// Returns the process, if the resource is one.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        match self {
            Self::Process { process, boot, .. } if *boot == Boot::this() => Some(*process),
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
            Self::Directory { path } => write!(formatter, "the directory {}", path.shown()),
            Self::Mount { path, .. } => write!(formatter, "the mount at {}", path.shown()),
            Self::Loop { file, .. } => write!(formatter, "the loop device of {}", file.shown()),
            Self::Process { process, name, .. } => {
                write!(formatter, "the process {} ({name})", process.pid)
            }
            Self::MarkedProcesses { .. } => formatter.write_str("the processes of a run"),
            Self::Command { words, .. } => write!(formatter, "the result of '{}'", words.join(" ")),
        }
    }
}

/// Removes a directory that has this identity, with everything in it.
///
/// Without an identity the campaign ended between making the directory and noting that, and put
/// nothing into it: it goes only if it is empty. A mount below a directory would lose its files, so
/// the directory stays then.
fn remove_directory(path: &Path, made: Option<FileIdentity>) -> Result<Fate, StepError> {
    let not_ours = |reason: &str| Ok(Fate::NotOurs(format!("{}: {reason}", path.shown())));
    if let Some(mount) = mounts().into_iter().find(|mount| mount.starts_with(path)) {
        return Err(StepError::Undo {
            what: format!("the directory {}", path.shown()),
            reason: format!("something is mounted at {}", mount.shown()),
        });
    }
    let removed = match made {
        _ if path.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound) => Ok(()),
        Some(made) if made.is_at(path) => std::fs::remove_dir_all(path),
        Some(_) => return not_ours("the campaign did not make what is there now"),
        None => std::fs::remove_dir(path),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Fate::Gone),
        Err(error)
            if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory) =>
        {
            if made.is_some() {
                Err(StepError::io("remove", path)(error))
            } else {
                not_ours("the campaign did not make it, because it has files")
            }
        }
        other => other.map(|()| Fate::Gone).map_err(StepError::io("remove", path)),
    }
}

/// Unmounts, also several mounts at one place, if the place is in a directory of the campaign. A
/// mount that stays busy is taken out of the tree and ends when its last user ends.
fn unmount(path: &Path, parent: FileIdentity, mark: &str) -> Result<Fate, StepError> {
    let mut waited = Duration::ZERO;
    while mounts().iter().any(|mount| mount == path) {
        if !path.parent().is_some_and(|directory| parent.is_at(directory)) {
            let reason = "the campaign did not make the directory of this mount";
            return Ok(Fate::NotOurs(format!("{}: {reason}", path.shown())));
        }
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
    Ok(Fate::Gone)
}

/// Detaches all loop devices on a file, whatever its path is now.
fn detach(file: &Path, identity: FileIdentity, mark: &str) -> Result<Fate, StepError> {
    if !Path::new("/dev/loop-control").exists() {
        return Ok(Fate::Gone);
    }
    let columns = "NAME,BACK-INO,BACK-MAJ:MIN,BACK-FILE";
    let options = ["--list", "--noheadings", "--raw", "--output", columns];
    let listed = process::quick(Command::new("losetup").args(options), mark, COMMAND_LIMIT)?;
    for device in listed.lines().filter_map(|line| loop_on(line, file, identity)) {
        process::quick(Command::new("losetup").arg("--detach").arg(device), mark, COMMAND_LIMIT)?;
    }
    Ok(Fate::Gone)
}

/// Returns the loop device of a line of `losetup` if it is on this file. A file system in user
/// space that has ended tells no inode; then the path of the file decides.
fn loop_on<'a>(line: &'a str, file: &Path, identity: FileIdentity) -> Option<&'a str> {
    // Blanks, also those by which some versions align numbers, are escaped, as `name_of_text` reads
    // them.
    let plain = |word: &str| word.replace("\\x20", " ").trim().to_owned();
    let mut words = line.split(' ');
    let (name, inode, device) = (words.next()?, plain(words.next()?), plain(words.next()?));
    let path = name_of_text(words.next().unwrap_or_default().trim_start_matches("\\x20"));
    let ((major, minor), own) = identity.device_and_inode();
    let is_same = match inode.as_str() {
        "" | "0" => path == file.as_os_str(),
        inode => inode == own.to_string() && device == format!("{major}:{minor}"),
    };
    is_same.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_at(path: &Path) -> Option<FileIdentity> {
        FileIdentity::at(path).ok()
    }

    #[test]
    fn giving_back_what_was_never_made_succeeds() {
        let place = tempfile::tempdir().unwrap();
        let missing = place.path().join("missing");
        let parent = FileIdentity::at(place.path()).unwrap();
        let resources = [
            Resource::Directory { path: missing.clone() },
            Resource::Mount { path: missing.clone(), parent, boot: Boot::this() },
            Resource::MarkedProcesses { mark: "nobody-has-this-mark".to_owned() },
        ];
        for resource in resources {
            assert_eq!(resource.undo(None, "test").unwrap(), Fate::Gone);
            assert_eq!(resource.undo(Some(parent), "test").unwrap(), Fate::Gone);
        }
    }

    #[test]
    fn a_directory_goes_only_with_proof() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("work"), place.path().join("other"));
        let resource = Resource::Directory { path: path.clone() };
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis"), "precious").unwrap();
        let is_kept = |made| {
            let fate = resource.undo(made, "test").unwrap();
            matches!(fate, Fate::NotOurs(_)) && path.join("thesis").exists()
        };
        assert!(is_kept(None), "nothing proves that the campaign made it");
        std::fs::create_dir(&other).unwrap();
        assert!(is_kept(made_at(&other)), "another directory was made");
        assert_eq!(resource.undo(made_at(&path), "test").unwrap(), Fate::Gone);
        assert!(!path.exists());
        // One that was made, but not noted any more.
        std::fs::create_dir(&path).unwrap();
        assert_eq!(resource.undo(None, "test").unwrap(), Fate::Gone);
        assert!(!path.exists());
        // A link to somewhere else.
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(resource.undo(made_at(&other), "test").unwrap(), Fate::NotOurs(_)));
        assert!(matches!(resource.undo(None, "test").unwrap(), Fate::NotOurs(_)));
        assert!(other.exists());
    }

    #[test]
    fn a_process_of_another_start_of_the_system_is_left_alone() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let of_boot = |boot| Resource::Process { process, name: "sleep".to_owned(), boot };
        let earlier = of_boot(Boot::named("earlier"));
        assert_eq!(earlier.process(), None);
        assert_eq!(earlier.undo(None, "test").unwrap(), Fate::Gone);
        assert!(child.try_wait().unwrap().is_none(), "it runs on");
        of_boot(Boot::this()).undo(None, "test").unwrap();
        assert!(!process.is_running());
    }

    #[test]
    fn loop_devices_are_known_by_the_inode_of_their_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("disk");
        std::fs::write(&path, "").unwrap();
        let identity = FileIdentity::at(&path).unwrap();
        let ((major, minor), inode) = identity.device_and_inode();
        let of = |line: &str| loop_on(line, &path, identity).map(str::to_owned);
        let own = Some("/dev/loop3".to_owned());
        assert_eq!(of(&format!("/dev/loop3 {inode} {major}:{minor} /another/path")), own);
        let at_path = path.shown();
        assert_eq!(of(&format!("/dev/loop3 {} {major}:{minor} {at_path}", inode + 1)), None);
        assert_eq!(of(&format!("/dev/loop3 {inode} {major}:{} {at_path}", minor + 1)), None);
        let aligned = format!("/dev/loop3 {inode} \\x20\\x20{major}:{minor}\\x20 /a");
        assert_eq!(of(&aligned), own, "as version 2.38 prints it");
        assert_eq!(of(&format!("/dev/loop3   {at_path}")), own);
        assert_eq!(of("/dev/loop3   /another/path"), None);
    }

    /// A directory that a user put in the place of the campaign's own keeps its mounts.
    #[test]
    fn a_mount_in_a_directory_of_somebody_else_stays() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path().canonicalize().unwrap().join("mount");
        std::fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&at).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            gemelo_tools::skip!("root, for mounting");
        }
        let mount = |parent: &Path| Resource::Mount {
            path: at.clone(),
            parent: FileIdentity::at(parent).unwrap(),
            boot: Boot::this(),
        };
        let kept = mount(Path::new("/proc")).undo(None, "test").unwrap();
        assert!(matches!(kept, Fate::NotOurs(_)) && mounts().contains(&at));
        assert_eq!(mount(place.path()).undo(None, "test").unwrap(), Fate::Gone);
        assert!(!mounts().contains(&at));
    }
}
