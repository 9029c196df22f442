//! The destination of a result, and the checks whether it can be written.

use crate::exit::{OrFailure as _, refused};
use gemelo_base::ShowPath as _;
use rustix::fs::Access;
use std::fs::FileType;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Prefix and suffix of temporary names. They identify files that a killed program left behind. The
/// final name is not part of them, because it may already have the greatest length of a name.
pub(super) const TEMPORARY: (&str, &str) = (".gemelo-", ".part");

/// Most symbolic links that are followed to one file. The kernel has the same limit.
const MAX_LINKS: usize = 40;

/// The destination of a result.
#[derive(Debug)]
pub(super) enum OutputPlace {
    /// Standard output: `-`, or a name of descriptor 1 such as `/dev/stdout`.
    StandardOutput,
    /// Standard error: a name of descriptor 2.
    StandardError,
    /// A descriptor that the process inherited, such as that of the shell's `>(...)`.
    Descriptor(PathBuf),
    /// A device node or a FIFO, which is written directly.
    Through { path: PathBuf, is_block_device: bool },
    /// A regular file, or a name that does not exist, at the end of all symbolic links. It is
    /// replaced as a whole.
    File { path: PathBuf, exists: bool },
}

impl OutputPlace {
    /// Returns the destination that a name stands for.
    ///
    /// # Errors
    /// Fails with bad input if nothing can be written there, for example because the name is a
    /// directory, a socket, or a link that must not be followed.
    pub(super) fn of(path: &Path) -> crate::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::StandardOutput);
        }
        let cannot = || format!("cannot write {}", path.shown());
        // The kernel decides whether links may be followed (proc(5), protected_symlinks).
        let kind = match path.metadata() {
            Ok(status) => Some(status.file_type()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(cannot).or_bad_input(),
        };
        let mut end = path.to_owned();
        for _ in 0..MAX_LINKS {
            if let Some(descriptor) = descriptor_of(&end) {
                return Self::of_descriptor(descriptor, kind.is_some(), path);
            }
            if !end.symlink_metadata().is_ok_and(|status| status.is_symlink()) {
                return Self::of_kind(kind, end, path);
            }
            let named = end.read_link().with_context(cannot).or_bad_input()?;
            end = directory_of(&end).join(named);
        }
        Err(refused!("{} leads through too many symbolic links", path.shown()))
    }

    fn of_descriptor(descriptor: u32, is_open: bool, path: &Path) -> crate::Result<Self> {
        match descriptor {
            1 => Ok(Self::StandardOutput),
            2 => Ok(Self::StandardError),
            _ if !is_open => Err(refused!("{} is not an open descriptor", path.shown())),
            open => Ok(Self::Descriptor(format!("/proc/self/fd/{open}").into())),
        }
    }

    fn of_kind(kind: Option<FileType>, end: PathBuf, path: &Path) -> crate::Result<Self> {
        let name = path.shown();
        match kind {
            Some(kind) if kind.is_dir() => {
                Err(refused!("{name} is a directory: name a file in it"))
            }
            None if path.as_os_str().as_bytes().ends_with(b"/") => {
                Err(refused!("{name} names a directory: name a file"))
            }
            Some(kind) if kind.is_socket() => {
                Err(refused!("{name} is a socket, which takes no file: name another place"))
            }
            Some(kind) if !kind.is_file() => {
                Ok(Self::Through { path: end, is_block_device: kind.is_block_device() })
            }
            kind => Ok(Self::File { path: end, exists: kind.is_some() }),
        }
    }

    /// Returns a path that is equal for all names of one file; [`None`] for destinations that can
    /// take several results.
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

    /// Refuses a destination that cannot be written, and without `force` one that exists and would
    /// be overwritten. Messages name it `path`.
    pub(super) fn check(&self, path: &Path, force: bool) -> crate::Result<()> {
        match self {
            Self::StandardOutput | Self::StandardError | Self::Descriptor(_) => Ok(()),
            Self::Through { path: device, is_block_device } => {
                if *is_block_device {
                    refuse_pool(device)?;
                    gemelo_target::check_overwritable(device, force).or_bad_input()?;
                }
                rustix::fs::access(device, Access::WRITE_OK)
                    .map_err(std::io::Error::from)
                    .with_context(|| format!("cannot write {}", path.shown()))
                    .or_bad_input()
            }
            Self::File { path: file, .. } if gemelo_disk::pool_part(file).is_some() => {
                refuse_pool(file)
            }
            Self::File { exists: true, .. } if !force => Err(refused!(
                "{} exists: name another file, or use --force to overwrite it",
                path.shown()
            )),
            Self::File { path: file, .. } => {
                // A name below /dev that does not exist is a misspelt device.
                gemelo_target::check_overwritable(file, force).or_bad_input()?;
                let directory = directory_of(file);
                if !directory.is_dir() {
                    let directory = directory.shown();
                    return Err(refused!("{directory} is not a directory: create it first"));
                }
                temporary_beside(file, path, Readers::Owner).map(drop).or_bad_input()
            }
        }
    }
}

/// Refuses an output in the directory of a pool, or on a disk of one. No option permits it.
pub(super) fn refuse_pool(path: &Path) -> crate::Result<()> {
    // As text, because the advice on this error is about targets.
    gemelo_disk::check_no_pool(path)
        .map_err(|error| refused!("{error}: name a place outside of the pool"))
}

/// Returns the directory of a file.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the number of this process's descriptor that a path such as `/dev/fd/63` or
/// `/proc/self/fd/63` names.
fn descriptor_of(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let directory = directory_of(path).canonicalize().ok()?;
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    (directory == own).then_some(number)
}

/// The users that may read a new file. The umask removes further permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// All users.
    All,
    /// The owner alone, because the file has contents of a pool, which only its owner may read.
    Owner,
}

impl Readers {
    const fn mode(self) -> u32 {
        match self {
            Self::All => 0o666,
            Self::Owner => 0o600,
        }
    }
}

/// Creates a temporary file in the directory of `file`. Messages name it `path`.
pub(super) fn temporary_beside(
    file: &Path,
    path: &Path,
    readers: Readers,
) -> crate::Result<tempfile::NamedTempFile> {
    let directory = directory_of(file);
    tempfile::Builder::new()
        .prefix(TEMPORARY.0)
        .suffix(TEMPORARY.1)
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(readers.mode()))
        .tempfile_in(directory)
        .map_err(|error| match error.get_ref() {
            // The error of tempfile names a random path, which does not help the user.
            Some(_) => std::io::Error::from(error.kind()),
            None => error,
        })
        .with_context(|| {
            let (path, directory) = (path.shown(), directory.shown());
            format!("cannot write {path}: cannot create a file in {directory}")
        })
}
