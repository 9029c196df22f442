//! File systems on loop devices and on other block devices, made and mounted for one run.

use super::{Made, Place, PlaceKind, Target};
use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::site::Site;
use crate::system;
use gemelo_base::units::format_exact_size;
use gemelo_base::values::Size;
use gemelo_record::Space;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Size of a file system without the key: enough for short runs, and small enough for most disks.
const DEFAULT_BYTES: u64 = 4 << 30;

/// The file systems that can be made, and the options by which the program that makes them
/// overwrites what was there.
const FILE_SYSTEMS: [(&str, &str, &[&str]); 3] = [
    ("ext4", "mkfs.ext4", &["-q", "-F"]),
    ("xfs", "mkfs.xfs", &["-q", "-f"]),
    ("btrfs", "mkfs.btrfs", &["-q", "-f"]),
];

/// A file system and the way in which it is made.
#[derive(Debug, Clone)]
pub(super) struct FileSystem {
    name: &'static str,
    maker: &'static str,
    force: &'static [&'static str],
    make_options: Vec<String>,
    mount_options: String,
}

impl FileSystem {
    /// Returns the file system of this name.
    pub(super) fn named(name: &str, keys: &Keys<'_>) -> Result<Option<Self>, PlanError> {
        let known = FILE_SYSTEMS.into_iter().find(|(known, ..)| *known == name);
        let Some((name, maker, force)) = known else { return Ok(None) };
        Ok(Some(Self {
            name,
            maker,
            force,
            make_options: keys.texts("mkfs-options")?,
            mount_options: keys.text("mount-options")?.unwrap_or_default(),
        }))
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the reason why this machine cannot make and mount it on a loop device.
    pub(super) fn missing(&self, more: &[&str]) -> Option<String> {
        let programs = [&[self.maker, "losetup", "mount", "umount"], more].concat();
        system::missing(&programs, true, &["/dev/loop-control"])
    }

    /// Makes the file system on a device and mounts it.
    pub(super) fn make(&self, site: &mut Site<'_>, device: &Path) -> Result<PathBuf, StepError> {
        site.run(Command::new(self.maker).args(self.force).args(&self.make_options).arg(device))?;
        site.mount(device, &self.mount_options)
    }
}

/// Returns the names of the file systems, for messages.
pub(super) fn names() -> String {
    FILE_SYSTEMS.map(|(name, ..)| name).join(", ")
}

#[derive(Debug)]
struct LoopTarget {
    file_system: FileSystem,
    bytes: u64,
    /// `true` if `duperemove` is the off-line pass.
    uses_duperemove: bool,
}

pub(super) fn read(
    keys: &Keys<'_>,
    kind: &'static str,
    _reading: &Reading<'_>,
) -> Result<Box<dyn Target>, PlanError> {
    let Some(table) = keys.table(kind)? else { return Err(keys.wrong(kind, "must be a table")) };
    let name = table.required_text("file-system")?;
    let file_system = FileSystem::named(&name, &table)?.ok_or_else(|| {
        table.wrong("file-system", format_args!("'{name}' is none of {}", names()))
    })?;
    let bytes = table.parsed::<Size>("size", "a size, such as 4g")?;
    let uses_duperemove = match table.text("settle")?.as_deref() {
        None => false,
        Some("duperemove") if file_system.name() == "ext4" => {
            return Err(table.wrong("settle", "ext4 has no shared blocks: use xfs or btrfs"));
        }
        Some("duperemove") => true,
        Some(_) => return Err(table.wrong("settle", "only 'duperemove' is known")),
    };
    table.finish()?;
    let bytes = bytes.map_or(DEFAULT_BYTES, |size| size.0);
    Ok(Box::new(LoopTarget { file_system, bytes, uses_duperemove }))
}

impl Target for LoopTarget {
    fn description(&self) -> String {
        let with = if self.uses_duperemove { ", duperemove after the load" } else { "" };
        let size = format_exact_size(self.bytes);
        format!("{} on a loop device of {size}{with}", self.file_system.name())
    }

    fn missing(&self) -> Option<String> {
        let more: &[&str] = if self.uses_duperemove { &["duperemove"] } else { &[] };
        self.file_system.missing(more)
    }

    fn place_kind(&self) -> PlaceKind {
        PlaceKind::Directory
    }

    fn space_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn make(&self, site: &mut Site<'_>) -> Result<Box<dyn Made>, StepError> {
        let file = site.sparse_file("disk", self.bytes)?;
        let device = site.attach(&file)?;
        let mount = self.file_system.make(site, &device)?;
        Ok(Box::new(Mounted { mount, uses_duperemove: self.uses_duperemove }))
    }
}

struct Mounted {
    mount: PathBuf,
    uses_duperemove: bool,
}

impl Made for Mounted {
    fn place(&self) -> Place {
        Place::Directory(self.mount.clone())
    }

    fn settle(&self, site: &mut Site<'_>) -> Result<bool, StepError> {
        if !self.uses_duperemove {
            return Ok(false);
        }
        let hashes = site.work.join("duperemove.hashes");
        let mut command = Command::new("duperemove");
        command.args(["-d", "-r", "-q", "--hashfile"]).arg(hashes).arg(&self.mount);
        let limit = SETTLE_LIMIT;
        let status = site.run_logged(&mut command, "duperemove", limit)?;
        if !status.success() {
            site.warnings.push(format!("duperemove ended with {status}"));
        }
        Ok(true)
    }

    fn space(&self, _site: &mut Site<'_>) -> Result<Option<Space>, StepError> {
        space_of_mount(&self.mount).map(Some)
    }
}

/// Longest off-line pass. `duperemove` reads all files, some of them several times.
const SETTLE_LIMIT: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Returns the space that a mounted file system says it uses, everything written back.
pub(super) fn space_of_mount(path: &Path) -> Result<Space, StepError> {
    let cannot = |action| {
        move |error: rustix::io::Errno| StepError::io(action, path.to_owned())(error.into())
    };
    let root = std::fs::File::open(path).map_err(StepError::io("open", path))?;
    rustix::fs::syncfs(&root).map_err(cannot("write back"))?;
    let status = rustix::fs::statvfs(path).map_err(cannot("ask for the space of"))?;
    let used = status.f_blocks.saturating_sub(status.f_bfree);
    let tree = super::directory::space_of_tree(path)?;
    Ok(Space {
        data_bytes: used.saturating_mul(status.f_frsize),
        metadata_bytes: None,
        logical_bytes: tree.logical_bytes,
    })
}
