//! An output file that is written piece by piece and gets its name only when it is complete.

use super::place::{OutputPlace, Readers, directory_of, temporary_beside};
use crate::exit::{Failure, OrFailed as _, OrFailure as _, failed};
use gemelo_base::ShowPath as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// An output file that is written piece by piece. If it is dropped before [`NewFile::finish`], it
/// is removed.
pub(crate) enum NewFile {
    /// Writes to standard output.
    StandardOutput,
    /// Writes to standard error.
    StandardError,
    /// A device, a FIFO or a descriptor, which is written directly.
    Through(File),
    /// A file under a temporary name.
    Temporary(TemporaryFile),
}

/// A file under a temporary name beside its place.
pub(crate) struct TemporaryFile {
    temporary: NamedTempFile,
    place: PathBuf,
    force: bool,
}

impl NewFile {
    /// Begins to write an output that [`super::check_new`] accepted.
    pub(crate) fn create(path: &Path, force: bool) -> crate::Result<Self> {
        Self::create_for(Readers::All, path, force)
    }

    /// Does the same as [`Self::create`], for a file that these users may read. A file that is
    /// replaced keeps its permissions.
    pub(crate) fn create_for(readers: Readers, path: &Path, force: bool) -> crate::Result<Self> {
        let cannot = || format!("cannot write {}", path.shown());
        Ok(match OutputPlace::of(path)? {
            OutputPlace::StandardOutput => Self::StandardOutput,
            OutputPlace::StandardError => Self::StandardError,
            OutputPlace::Descriptor(descriptor) => {
                // This opens a regular file a second time. Appending keeps the bytes that were
                // written through the first descriptor.
                Self::Through(
                    OpenOptions::new().append(true).open(descriptor).with_context(cannot)?,
                )
            }
            OutputPlace::Through { path: device, .. } => {
                Self::Through(OpenOptions::new().write(true).open(device).with_context(cannot)?)
            }
            OutputPlace::File { path: place, .. } => Self::Temporary(TemporaryFile {
                temporary: temporary_beside(&place, path, readers)?,
                place,
                force,
            }),
        })
    }

    /// Returns the file, for writers that need a handle; [`None`] for a standard stream.
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            Self::StandardOutput | Self::StandardError => None,
            Self::Through(file) => Some(file),
            Self::Temporary(beside) => Some(beside.temporary.as_file()),
        }
    }

    /// Returns the path of a file under its temporary name, for programs that write it.
    pub(crate) fn temporary_path(&self) -> Option<&Path> {
        match self {
            Self::Temporary(beside) => Some(beside.temporary.path()),
            Self::StandardOutput | Self::StandardError | Self::Through(_) => None,
        }
    }

    /// Returns whether any offset of the file can be written, in any order.
    pub(crate) const fn is_regular(&self) -> bool {
        matches!(self, Self::Temporary(_))
    }

    /// Flushes the file and gives it its name.
    pub(crate) fn finish(mut self) -> crate::Result<()> {
        self.flush().context("cannot write to standard output")?;
        match self {
            Self::StandardOutput | Self::StandardError | Self::Through(_) => Ok(()),
            Self::Temporary(beside) => beside.put_in_place(),
        }
    }

    fn writer(&mut self) -> Box<dyn Write + '_> {
        match self {
            Self::StandardOutput => Box::new(std::io::stdout()),
            Self::StandardError => Box::new(std::io::stderr()),
            Self::Through(file) => Box::new(file),
            Self::Temporary(beside) => Box::new(beside.temporary.as_file_mut()),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Temporary(beside) => beside.temporary.as_file_mut().write(bytes),
            _ => self.writer().write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer().flush()
    }
}

impl AsFd for NewFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::StandardOutput => rustix::stdio::stdout(),
            Self::StandardError => rustix::stdio::stderr(),
            Self::Through(file) => file.as_fd(),
            Self::Temporary(beside) => beside.temporary.as_file().as_fd(),
        }
    }
}

impl TemporaryFile {
    /// Gives the file its name. If that fails, the complete file keeps its temporary name.
    fn put_in_place(self) -> crate::Result<()> {
        let place = self.place.shown().to_string();
        self.temporary.as_file().sync_all().with_context(|| format!("cannot write {place}"))?;
        let Self { temporary, place: path, force } = self;
        let renamed = match path.symlink_metadata() {
            Ok(there) if force && !there.is_file() => Err((
                temporary,
                failed!("it was replaced meanwhile by something that is not a file"),
            )),
            Ok(there) if force => {
                take_over(temporary.as_file(), &there);
                persist(temporary, |temporary| temporary.persist(&path))
            }
            Ok(_) => Err((temporary, failed!("a file of this name was created meanwhile"))),
            Err(_) => persist(temporary, |temporary| temporary.persist_noclobber(&path)),
        };
        if let Err((temporary, error)) = renamed {
            let (_, kept) =
                temporary.keep().or_failed().with_context(|| format!("cannot write {place}"))?;
            let kept = kept.shown().to_string();
            return Err(
                error.context(format!("cannot write {place} (the complete result is in {kept})"))
            );
        }
        // The name is durable once the directory is synchronised. On file systems that cannot
        // synchronise directories, it becomes durable a little later.
        let _ = File::open(directory_of(&path)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

type Renamed = Result<(), (NamedTempFile, Failure)>;

fn persist(
    temporary: NamedTempFile,
    rename: impl FnOnce(NamedTempFile) -> Result<File, tempfile::PersistError>,
) -> Renamed {
    rename(temporary).map(drop).map_err(|failed| (failed.file, failed.error.into()))
}

/// Gives the new file the mode of the file that it replaces, and its owner and group as far as the
/// user has the right to.
fn take_over(file: &File, there: &std::fs::Metadata) {
    if fchown(file, Some(there.uid()), Some(there.gid())).is_err() {
        let _ = fchown(file, None, Some(there.gid()));
    }
    // The mode comes last, because a change of the owner may clear bits of the mode.
    let _ = file.set_permissions(there.permissions());
}
