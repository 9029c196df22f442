//! `gemelo pool unit`.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::ShowPath as _;
use gemelo_place::PoolPlace;
use nix::unistd::{Gid, Group};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The disks of a pool, by their names in its directory.
const DISKS: [&str; 2] = ["data", "metadata"];
/// The directory of which the unit may write everything.
const WRITABLE: &str = "/var/lib/gemelo";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::DirPath)]
    pool: PoolPlace,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let PoolPlace::Directory(directory) = &arguments.pool else {
        return Err(refused!(
            "{}: a member has no files of this host: use gemelo-member@NAME.service as it is",
            arguments.pool
        ));
    };
    let mut rights = Rights::default();
    for name in DISKS {
        let path = directory.join(name);
        let target = fs::canonicalize(&path);
        let target = target
            .with_context(|| format!("{} is no disk of a pool", path.shown()))
            .or_bad_input()?;
        rights.add(&target)?;
    }
    context.print(&rights.text(directory))?;
    Ok(Outcome::Done)
}

/// The rights that a server needs beside those of the unit.
#[derive(Default)]
struct Rights {
    directories: Vec<PathBuf>,
    devices: Vec<PathBuf>,
    groups: Vec<String>,
}

impl Rights {
    fn add(&mut self, disk: &Path) -> crate::Result<()> {
        let status = fs::metadata(disk).with_context(|| disk.shown().to_string()).or_bad_input()?;
        if status.file_type().is_block_device() {
            self.devices.push(disk.to_owned());
            let group = Group::from_gid(Gid::from_raw(status.gid())).ok().flatten();
            self.groups.extend(group.map(|group| group.name).filter(|name| name != "root"));
        } else if !disk.starts_with(WRITABLE) {
            self.directories.extend(disk.parent().map(Path::to_owned));
        }
        Ok(())
    }

    fn text(mut self, directory: &Path) -> String {
        self.directories.dedup();
        self.groups.dedup();
        let name = directory
            .file_name()
            .map_or_else(|| "NAME".to_owned(), |name| Path::new(name).shown().to_string());
        let mut text = format!(
            "# /etc/systemd/system/gemelo@{name}.service.d/disks-of-pool.conf, made by 'gemelo pool \
             unit'.\n"
        );
        if self.directories.is_empty() && self.devices.is_empty() {
            return text
                + "# The disks of this pool lie where the unit may write: it needs nothing.\n";
        }
        text += "[Service]\n";
        for directory in &self.directories {
            text += &format!("ReadWritePaths={}\n", word(directory));
        }
        if !self.devices.is_empty() {
            text += "PrivateDevices=no\n";
        }
        for device in &self.devices {
            text += &format!("DeviceAllow={} rw\n", word(device));
        }
        for group in &self.groups {
            text += &format!("SupplementaryGroups={group}\n");
        }
        text
    }
}

/// Returns a path as a word of a unit.
fn word(path: &Path) -> String {
    let text = path.shown().to_string().replace('%', "%%");
    match text.contains(char::is_whitespace) {
        true => format!("\"{text}\""),
        false => text,
    }
}
