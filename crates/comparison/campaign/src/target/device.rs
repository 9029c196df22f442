//! A block device. Its content is overwritten.

use super::{LoadPlace, MadeTarget, OfUser, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::site::RunSite;
use crate::system;
use gemelo_base::ShowPath as _;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

#[derive(Debug)]
struct Device {
    path: PathBuf,
    /// `true` if all blocks are discarded before each run.
    discards: bool,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> TargetResult {
    let table = keys.required_table(kind)?;
    let path = reading.path(&table.required_text("path")?);
    let discards = table.flag("discard")?;
    if !table.flag("overwrite")? {
        return Err(table
            .wrong("overwrite", "must be true, because each run destroys the data on the device"));
    }
    table.finish()?;
    Ok(Box::new(Device { path, discards }))
}

impl Target for Device {
    fn description(&self) -> String {
        format!("block device {}", self.path.shown())
    }

    fn missing(&self) -> Option<String> {
        let path = self.path.shown();
        match std::fs::metadata(&self.path) {
            Err(error) => Some(format!("{path}: {error}")),
            Ok(status) if !status.file_type().is_block_device() => {
                Some(format!("{path} is not a block device"))
            }
            Ok(_) if rustix::fs::access(&self.path, rustix::fs::Access::WRITE_OK).is_err() => {
                Some(format!("{path} cannot be written by this user"))
            }
            Ok(_) if gemelo_disk::pool_part(&self.path).is_some() => {
                Some(format!("{path} is a disk of a pool: remove that with `gemelo pool rm` first"))
            }
            Ok(_) if self.discards => system::missing(&["blkdiscard"], false, &[]),
            Ok(_) => None,
        }
    }

    fn place_kind(&self) -> PlaceKind {
        PlaceKind::Device
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        if self.discards {
            site.run(Command::new("blkdiscard").arg(&self.path))?;
        }
        Ok(Box::new(OfUser(LoadPlace::Device(self.path.clone()))))
    }
}
