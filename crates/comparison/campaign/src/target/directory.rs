//! A directory of a file system that exists.

use super::{LoadPlace, MadeTarget, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::site::RunSite;
use gemelo_base::ShowPath as _;
use gemelo_record::Space;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unit of `st_blocks`, in bytes (stat(2)).
const STAT_BLOCK_BYTES: u64 = 512;

#[derive(Debug)]
struct Directory {
    /// Directory in which each run makes its own; the campaign's work directory if absent.
    path: Option<PathBuf>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> TargetResult {
    let path = if keys.is_table(kind) {
        let table = keys.required_table(kind)?;
        let path = table.text("path")?;
        table.finish()?;
        path
    } else {
        Some(keys.required_text(kind)?)
    };
    Ok(Box::new(Directory { path: path.map(|path| reading.path(&path)) }))
}

impl Target for Directory {
    fn description(&self) -> String {
        match &self.path {
            Some(path) => format!("directory in {}", path.shown()),
            None => "directory in the campaign's own".to_owned(),
        }
    }

    fn missing(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let name = path.shown();
        if let Some(part) = gemelo_disk::pool_part(path) {
            return Some(format!("{name} is {part}"));
        }
        (!path.is_dir()).then(|| format!("{name} is not a directory"))
    }

    fn place_kind(&self) -> PlaceKind {
        PlaceKind::Directory
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        let path = match &self.path {
            Some(parent) => {
                parent.join(format!("gemelo-{:016x}", gemelo_base::random::fresh_word()))
            }
            None => site.work.join("directory"),
        };
        Ok(Box::new(MadeDirectory { path: site.directory(&path)? }))
    }
}

struct MadeDirectory {
    path: PathBuf,
}

impl MadeTarget for MadeDirectory {
    fn place(&self) -> LoadPlace {
        LoadPlace::Directory(self.path.clone())
    }

    fn space(&self, _site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        Ok(Some(space_of_tree(&self.path)?))
    }
}

/// Returns the space that the files of a tree take, and the sum of their lengths.
pub(super) fn space_of_tree(path: &Path) -> Result<Space, StepError> {
    let mut space = Space { data_bytes: 0, metadata_bytes: None, logical_bytes: Some(0) };
    let mut pending = vec![path.to_owned()];
    while let Some(directory) = pending.pop() {
        let cannot = |source| StepError::Io { action: "read", path: directory.clone(), source };
        for entry in std::fs::read_dir(&directory).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let status = entry.metadata().map_err(cannot)?;
            if status.is_dir() {
                pending.push(entry.path());
            } else {
                space.data_bytes += status.blocks() * STAT_BLOCK_BYTES;
                space.logical_bytes = space.logical_bytes.map(|bytes| bytes + status.len());
            }
        }
    }
    Ok(space)
}
