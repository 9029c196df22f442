//! Targets: systems under test. Each kind is a file of this module and one line in [`KINDS`].

mod commands;
mod device;
mod directory;
mod file_system;
mod nbd;
mod vdo;
mod volume;
mod zfs;

use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::site::RunSite;
use gemelo_record::Space;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A kind of target, with its parameters. It makes the same system any number of times.
pub(crate) trait Target: std::fmt::Debug + Send + Sync {
    /// Returns one line about the target for a reader of the report.
    fn description(&self) -> String;

    /// Returns the reason why this machine cannot have the target.
    fn missing(&self) -> Option<String>;

    /// Returns the kind of place that the load gets.
    fn place_kind(&self) -> PlaceKind;

    /// Returns the most space that the target may take, if it has a limit of its own.
    fn space_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the time that making the target and giving it back take, about.
    fn making_time(&self) -> Duration;

    /// Makes the target fresh. Everything that has to be given back is in the journal of the site.
    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError>;
}

/// A target that exists.
pub(crate) trait MadeTarget {
    /// Returns the place where the load goes.
    fn place(&self) -> LoadPlace;

    /// Returns `true` if the process of the load does the work of the target.
    fn is_in_load(&self) -> bool {
        false
    }

    /// Runs the off-line pass to its end. Returns `false` if the target has none.
    fn settle(&self, _site: &mut RunSite<'_>) -> Result<bool, StepError> {
        Ok(false)
    }

    /// Returns the space in use, if the target knows it.
    fn space(&self, _site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        Ok(None)
    }
}

/// The place where the load goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadPlace {
    /// A directory of a file system.
    Directory(PathBuf),
    /// A block device.
    Device(PathBuf),
    /// A volume or an export, as `gemelo bench --target` takes it. A path in it has the form of
    /// [`gemelo_base::text_of_name`].
    Uri(String),
}

/// The kind of a [`LoadPlace`], which is known before it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    /// A directory of a file system.
    Directory,
    /// A block device.
    Device,
    /// A volume in the process of the load.
    InProcess,
    /// An NBD export.
    Export,
}

/// A target of the user, of which no more than the place is known.
struct OfUser(LoadPlace);

impl MadeTarget for OfUser {
    fn place(&self) -> LoadPlace {
        self.0.clone()
    }
}

impl LoadPlace {
    /// Returns the place as `--target` takes it.
    pub(crate) fn uri(&self) -> OsString {
        match self {
            Self::Directory(path) | Self::Device(path) => path.into(),
            Self::Uri(uri) => gemelo_base::name_of_text(uri),
        }
    }
}

impl PlaceKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Device => "a block device",
            Self::InProcess => "a volume in the process of the load",
            Self::Export => "an NBD export",
        }
    }
}

/// A target of a plan, as it was read.
type TargetResult = Result<Box<dyn Target>, PlanError>;

type ReadTarget = fn(&Keys<'_>, &'static str, &Reading<'_>) -> TargetResult;

/// The kinds of targets: the key that selects each in a plan, and its reader.
const KINDS: [(&str, ReadTarget); 8] = [
    ("directory", directory::read),
    ("device", device::read),
    ("volume", volume::read),
    ("loop", file_system::read),
    ("zfs", zfs::read),
    ("vdo", vdo::read),
    ("nbd", nbd::read),
    ("commands", commands::read),
];

/// A target of a plan.
#[derive(Debug)]
pub(crate) struct TargetPlan {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) description: String,
    pub(crate) target: Box<dyn Target>,
}

impl TargetPlan {
    pub(crate) fn read(keys: &Keys<'_>, reading: &Reading<'_>) -> Result<Self, PlanError> {
        let name = keys.required_text("name")?;
        let description = keys.text("description")?;
        let (kind, read) = keys.one_of(&KINDS)?;
        let target = read(keys, kind, reading)?;
        let description = description.unwrap_or_else(|| target.description());
        Ok(Self { name, kind, description, target })
    }
}
