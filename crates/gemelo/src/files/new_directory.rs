//! A directory that is filled under a temporary name, and is in its place only once it is complete.

use super::place::{TEMPORARY, directory_of};
use crate::exit::{OrBadInput, bad_input};
use anyhow::{Context as _, anyhow};
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory that is filled. Dropped before [`NewDirectory::finish`], it is removed with all that
/// is in it.
pub(crate) struct NewDirectory {
    temporary: TempDir,
    place: PathBuf,
}

impl NewDirectory {
    /// Makes a directory beside `path`, which must not exist.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        if path.symlink_metadata().is_ok() {
            return Err(bad_input(anyhow!("{name} exists: name a new directory")));
        }
        let beside = directory_of(path);
        if !beside.is_dir() {
            return Err(bad_input(anyhow!(
                "{} is not a directory: make it first",
                beside.display()
            )));
        }
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY.0)
            .suffix(TEMPORARY.1)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .tempdir_in(beside)
            .with_context(|| {
                format!("cannot make {name}: no directory can be made in {}", beside.display())
            })
            .or_bad_input()?;
        Ok(Self { temporary, place: path.to_owned() })
    }

    /// The directory that is to be filled.
    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the directory its name, after all that is in it is on the medium.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let name = self.place.display().to_string();
        let synchronised = File::open(self.temporary.path())
            .and_then(|directory| Ok(rustix::fs::syncfs(&directory)?));
        synchronised.with_context(|| format!("cannot write {name}"))?;
        let temporary = self.temporary.keep();
        std::fs::rename(&temporary, &self.place).with_context(|| {
            format!("cannot make {name} (the complete directory is {})", temporary.display())
        })?;
        let _ = File::open(directory_of(&self.place)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}
