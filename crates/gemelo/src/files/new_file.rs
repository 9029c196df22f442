//! A file that is written piece by piece, and is in its place only once it is finished.

use super::place::{OutputPlace, directory_of, temporary_beside};
use anyhow::{Context as _, anyhow};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that is written piece by piece. Dropped before [`NewFile::finish`], it leaves nothing.
pub(crate) enum NewFile {
    /// Standard output.
    StandardOutput,
    /// Standard error.
    StandardError,
    /// Something that is written through: a device, a FIFO, a descriptor.
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
    /// Begins to write what [`super::check_new`] found to be writable.
    pub(crate) fn create(path: &Path, force: bool) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        Ok(match OutputPlace::of(path)? {
            OutputPlace::StandardOutput => Self::StandardOutput,
            OutputPlace::StandardError => Self::StandardError,
            OutputPlace::Descriptor(descriptor) => {
                // Of a regular file this is a second opening: appending keeps what was written
                // through the first.
                Self::Through(
                    OpenOptions::new().append(true).open(descriptor).with_context(cannot)?,
                )
            }
            OutputPlace::Through { path: device, .. } => {
                Self::Through(OpenOptions::new().write(true).open(device).with_context(cannot)?)
            }
            OutputPlace::File { path: place, .. } => Self::Temporary(TemporaryFile {
                temporary: temporary_beside(&place, path)?,
                place,
                force,
            }),
        })
    }

    /// The file itself, for what writes through a handle; none of a standard stream.
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            Self::StandardOutput | Self::StandardError => None,
            Self::Through(file) => Some(file),
            Self::Temporary(beside) => Some(beside.temporary.as_file()),
        }
    }

    /// Whether this is a file that any place of can be written, in any order.
    pub(crate) const fn is_regular(&self) -> bool {
        matches!(self, Self::Temporary(_))
    }

    /// Puts the file into its place.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
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

impl TemporaryFile {
    /// Gives the file its name. A complete result is kept under its temporary name if that fails.
    fn put_in_place(self) -> anyhow::Result<()> {
        let place = self.place.display().to_string();
        self.temporary.as_file().sync_all().with_context(|| format!("cannot write {place}"))?;
        let Self { temporary, place: path, force } = self;
        let renamed = match path.symlink_metadata() {
            Ok(there) if force && !there.is_file() => {
                Err((temporary, anyhow!("it is no file any more")))
            }
            Ok(there) if force => {
                take_over(temporary.as_file(), &there);
                persist(temporary, |temporary| temporary.persist(&path))
            }
            Ok(_) => Err((temporary, anyhow!("a file of this name was made meanwhile"))),
            Err(_) => persist(temporary, |temporary| temporary.persist_noclobber(&path)),
        };
        if let Err((temporary, error)) = renamed {
            let (_, kept) = temporary.keep().with_context(|| format!("cannot write {place}"))?;
            let kept = kept.display().to_string();
            return Err(
                error.context(format!("cannot write {place} (the complete result is in {kept})"))
            );
        }
        // The name is on the medium once the directory is; where that cannot be synchronised, it
        // soon will be.
        let _ = File::open(directory_of(&path)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

type Renamed = Result<(), (NamedTempFile, anyhow::Error)>;

fn persist(
    temporary: NamedTempFile,
    rename: impl FnOnce(NamedTempFile) -> Result<File, tempfile::PersistError>,
) -> Renamed {
    rename(temporary).map(drop).map_err(|failed| (failed.file, failed.error.into()))
}

/// Gives the new file the owner, as far as the user may do that, and the mode of the one it
/// replaces.
fn take_over(file: &File, there: &std::fs::Metadata) {
    if fchown(file, Some(there.uid()), Some(there.gid())).is_err() {
        let _ = fchown(file, None, Some(there.gid()));
    }
    // After the owner, a change of which may clear bits of the mode.
    let _ = file.set_permissions(there.permissions());
}
