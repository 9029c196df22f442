//! Where a result goes, and how that place may be written.

use crate::exit::{OrBadInput, bad_input};
use anyhow::{Context as _, anyhow};
use rustix::fs::Access;
use std::fs::FileType;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// How temporary names begin and end: they say whose they are, should the program be killed before
/// they are renamed or removed. The name to be is no part of them, since that may be as long as
/// names can be.
pub(super) const TEMPORARY: (&str, &str) = (".gemelo-", ".part");

/// Symbolic links that lead to one file: the kernel follows no more either.
const MOST_LINKS: usize = 40;

/// Where a result goes.
#[derive(Debug)]
pub(super) enum OutputPlace {
    /// `-`, or a name of descriptor 1 such as `/dev/stdout`.
    StandardOutput,
    /// A name of descriptor 2.
    StandardError,
    /// A descriptor that the process was started with, such as that of the shell's `>(...)`.
    Descriptor(PathBuf),
    /// A device node or a FIFO: written through.
    Through { path: PathBuf, is_block_device: bool },
    /// A regular file, or nothing yet, at the end of all symbolic links: replaced as a whole.
    File { path: PathBuf, exists: bool },
}

impl OutputPlace {
    /// Finds out what a name stands for.
    ///
    /// # Errors
    /// If nothing can be written there: a directory, a socket, a link that must not be followed.
    /// All are bad input.
    pub(super) fn of(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::StandardOutput);
        }
        let cannot = || format!("cannot write {}", path.display());
        // The kernel decides first whether links may be followed (proc(5), protected_symlinks).
        let kind = match path.metadata() {
            Ok(status) => Some(status.file_type()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(cannot).or_bad_input(),
        };
        let mut end = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(descriptor) = descriptor_of(&end) {
                return Self::of_descriptor(descriptor, kind.is_some(), path);
            }
            if !end.symlink_metadata().is_ok_and(|status| status.is_symlink()) {
                return Self::of_kind(kind, end, path);
            }
            let named = end.read_link().with_context(cannot).or_bad_input()?;
            end = directory_of(&end).join(named);
        }
        Err(bad_input(anyhow!("{} leads through too many symbolic links", path.display())))
    }

    fn of_descriptor(descriptor: u32, is_open: bool, path: &Path) -> anyhow::Result<Self> {
        match descriptor {
            1 => Ok(Self::StandardOutput),
            2 => Ok(Self::StandardError),
            _ if !is_open => {
                Err(bad_input(anyhow!("{} is not an open descriptor", path.display())))
            }
            open => Ok(Self::Descriptor(format!("/proc/self/fd/{open}").into())),
        }
    }

    fn of_kind(kind: Option<FileType>, end: PathBuf, path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        match kind {
            Some(kind) if kind.is_dir() => {
                Err(bad_input(anyhow!("{name} is a directory: name a file in it")))
            }
            None if path.as_os_str().as_bytes().ends_with(b"/") => {
                Err(bad_input(anyhow!("{name} names a directory: name a file")))
            }
            Some(kind) if kind.is_socket() => Err(bad_input(anyhow!(
                "{name} is a socket, which takes no file: name another place"
            ))),
            Some(kind) if !kind.is_file() => {
                Ok(Self::Through { path: end, is_block_device: kind.is_block_device() })
            }
            kind => Ok(Self::File { path: end, exists: kind.is_some() }),
        }
    }

    /// What two names of one place have in common; none where several results may go.
    pub(super) fn key(&self) -> Option<PathBuf> {
        match self {
            Self::StandardOutput => Some("-".into()),
            Self::StandardError | Self::Through { .. } => None,
            Self::Descriptor(path) => Some(path.clone()),
            Self::File { path, .. } => {
                Some(directory_of(path).canonicalize().unwrap_or_default().join(path.file_name()?))
            }
        }
    }

    /// Refuses a place that exists and would be overwritten without `force`, or that cannot be
    /// written. `path` is its name in messages.
    pub(super) fn check(&self, path: &Path, force: bool) -> anyhow::Result<()> {
        match self {
            Self::StandardOutput | Self::StandardError | Self::Descriptor(_) => Ok(()),
            Self::Through { path: device, is_block_device } => {
                if *is_block_device {
                    gemelo_target::check_overwritable(device, force).or_bad_input()?;
                }
                rustix::fs::access(device, Access::WRITE_OK)
                    .with_context(|| format!("cannot write {}", path.display()))
                    .or_bad_input()
            }
            Self::File { exists: true, .. } if !force => Err(bad_input(anyhow!(
                "{} exists: name another file, or say --force",
                path.display()
            ))),
            Self::File { path: file, .. } => {
                // A file that does not exist below /dev is a misspelt device.
                gemelo_target::check_overwritable(file, force).or_bad_input()?;
                let directory = directory_of(file);
                if !directory.is_dir() {
                    let directory = directory.display();
                    return Err(bad_input(anyhow!(
                        "{directory} is not a directory: make it first"
                    )));
                }
                temporary_beside(file, path).map(drop).or_bad_input()
            }
        }
    }
}

/// The directory that a file is in.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The number of this process's descriptor that a path names, as `/dev/fd/63` and
/// `/proc/self/fd/63` do.
fn descriptor_of(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let directory = directory_of(path).canonicalize().ok()?;
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    (directory == own).then_some(number)
}

/// A temporary file that can become `file`; `path` is its name in messages.
pub(super) fn temporary_beside(
    file: &Path,
    path: &Path,
) -> anyhow::Result<tempfile::NamedTempFile> {
    let directory = directory_of(file);
    tempfile::Builder::new()
        .prefix(TEMPORARY.0)
        .suffix(TEMPORARY.1)
        // The umask takes from these what the user does not want.
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|error| match error.get_ref() {
            // The error of tempfile names its random path, which says nothing to the user.
            Some(_) => std::io::Error::from(error.kind()),
            None => error,
        })
        .with_context(|| {
            let (path, directory) = (path.display(), directory.display());
            format!("cannot write {path}: no file can be made in {directory}")
        })
}
