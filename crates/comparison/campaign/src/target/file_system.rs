//! File systems on loop devices and on other block devices, made and mounted for one run.

use super::{LoadPlace, MadeTarget, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::site::RunSite;
use crate::system;
use gemelo_base::units::format_exact_size;
use gemelo_record::Space;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Size of a file system without the key: enough for short runs, and small enough for most disks.
const DEFAULT_BYTES: u64 = 4 << 30;

/// Options of `duperemove` without the key: the block of most file systems instead of 128 KiB, and
/// also duplicates within a file and within an extent.
const DUPEREMOVE_OPTIONS: [&str; 3] = ["-b", "4096", "--dedupe-options=same,partial"];

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
    pub(super) fn make(&self, site: &mut RunSite<'_>, device: &Path) -> Result<PathBuf, StepError> {
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
    duperemove_options: Vec<String>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> TargetResult {
    let table = keys.required_table(kind)?;
    let name = table.required_text("file-system")?;
    let file_system = FileSystem::named(&name, &table)?.ok_or_else(|| {
        table.wrong("file-system", format_args!("'{name}' is none of {}", names()))
    })?;
    let bytes = table.size("size")?;
    let uses_duperemove = match table.text("settle")?.as_deref() {
        None => false,
        Some("duperemove") if file_system.name() == "ext4" => {
            return Err(table.wrong("settle", "ext4 has no shared blocks: use xfs or btrfs"));
        }
        Some("duperemove") => true,
        Some(_) => return Err(table.wrong("settle", "only 'duperemove' is known")),
    };
    let mut duperemove_options = table.texts("duperemove-options")?;
    table.finish()?;
    if duperemove_options.is_empty() {
        duperemove_options = DUPEREMOVE_OPTIONS.map(str::to_owned).into();
    }
    let bytes = bytes.unwrap_or(DEFAULT_BYTES);
    Ok(Box::new(LoopTarget { file_system, bytes, uses_duperemove, duperemove_options }))
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

    fn making_time(&self) -> Duration {
        Duration::from_millis(1000)
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        let file = site.sparse_file("disk", self.bytes)?;
        let device = site.attach(&file)?;
        let mount = self.file_system.make(site, &device)?;
        let duperemove_options = self.duperemove_options.clone();
        Ok(Box::new(Mounted { mount, uses_duperemove: self.uses_duperemove, duperemove_options }))
    }
}

struct Mounted {
    mount: PathBuf,
    uses_duperemove: bool,
    duperemove_options: Vec<String>,
}

impl MadeTarget for Mounted {
    fn place(&self) -> LoadPlace {
        LoadPlace::Directory(self.mount.clone())
    }

    fn settle(&self, site: &mut RunSite<'_>) -> Result<bool, StepError> {
        if !self.uses_duperemove {
            return Ok(false);
        }
        let hashes = site.work.join("duperemove.hashes");
        let mut command = Command::new("duperemove");
        command.args(["-d", "-r", "-q"]).args(&self.duperemove_options);
        command.arg("--hashfile").arg(hashes).arg(&self.mount);
        let limit = SETTLE_LIMIT;
        let status = site.run_logged(&mut command, "duperemove", limit)?;
        if !status.success() {
            site.warnings.push(format!("duperemove ended with {status}"));
        }
        Ok(true)
    }

    fn space(&self, site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        space_of_mount(site, &self.mount).map(Some)
    }
}

/// Longest off-line pass. `duperemove` reads all files, some of them several times.
const SETTLE_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Has everything that a file system holds in memory written back.
///
/// Programs ask a file system, here and in [`space_of_mount`], because one in user space may hang,
/// and a program can be ended at its time limit.
pub(super) fn write_back(site: &RunSite<'_>, path: &Path) -> Result<(), StepError> {
    site.run(Command::new("sync").arg("--file-system").arg(path)).map(drop)
}

/// Returns the space that a mounted file system says it uses, with everything written back.
pub(super) fn space_of_mount(site: &RunSite<'_>, path: &Path) -> Result<Space, StepError> {
    write_back(site, path)?;
    let used = site.run(Command::new("df").args(["--block-size=1", "--output=used"]).arg(path))?;
    let options = ["--summarize", "--apparent-size", "--block-size=1", "--one-file-system"];
    let logical = site.run(Command::new("du").args(options).arg(path))?;
    let number = |text: Option<&str>, program: &str| {
        let number = text.and_then(|text| text.trim().parse::<u64>().ok());
        let program = program.to_owned();
        number.ok_or(StepError::Unexpected { program, expected: "number of bytes" })
    };
    Ok(Space {
        data_bytes: number(used.lines().last(), "df")?,
        metadata_bytes: None,
        logical_bytes: Some(number(logical.split_whitespace().next(), "du")?),
    })
}
