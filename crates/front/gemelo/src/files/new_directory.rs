//! An output directory that is filled under a temporary name and renamed when it is complete.

use super::place::{TEMPORARY, directory_of, refuse_pool};
use crate::exit::{OrFailure as _, refused};
use gemelo_base::ShowPath as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An output directory under its temporary name. If it is dropped before [`NewDirectory::finish`],
/// it is removed with its contents.
pub(crate) struct NewDirectory {
    temporary: TempDir,
    place: PathBuf,
}

impl NewDirectory {
    /// Creates a temporary directory beside `path`, which must not exist.
    pub(crate) fn create(path: &Path) -> crate::Result<Self> {
        let name = path.shown();
        refuse_pool(path)?;
        if path.symlink_metadata().is_ok() {
            return Err(refused!("{name} exists: name a directory that does not exist"));
        }
        let beside = directory_of(path);
        if !beside.is_dir() {
            return Err(refused!("{} is not a directory: create it first", beside.shown()));
        }
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY.0)
            .suffix(TEMPORARY.1)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .tempdir_in(beside)
            .with_context(|| {
                format!("cannot create {name}: cannot create a directory in {}", beside.shown())
            })
            .or_bad_input()?;
        Ok(Self { temporary, place: path.to_owned() })
    }

    /// Returns the path of the directory to fill.
    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Synchronises the contents of the directory, then gives the directory its name.
    pub(crate) fn finish(self) -> crate::Result<()> {
        let name = self.place.shown().to_string();
        let synchronised = File::open(self.temporary.path())
            .and_then(|directory| Ok(rustix::fs::syncfs(&directory)?));
        synchronised.with_context(|| format!("cannot write {name}"))?;
        let temporary = self.temporary.keep();
        std::fs::rename(&temporary, &self.place).with_context(|| {
            format!("cannot create {name} (the complete directory is {})", temporary.shown())
        })?;
        let _ = File::open(directory_of(&self.place)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}
