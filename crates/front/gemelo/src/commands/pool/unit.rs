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
/// The directory of names that belong to a device.
const BY_ID: &str = "/dev/disk/by-id";

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
        rights.add(&fs::read_link(&path).unwrap_or(path), &target)?;
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
    /// Adds a disk, which the pool has by the name that its user gave.
    fn add(&mut self, name: &Path, disk: &Path) -> crate::Result<()> {
        let status = fs::metadata(disk).with_context(|| disk.shown().to_string()).or_bad_input()?;
        if status.file_type().is_block_device() {
            self.devices.push(name_that_stays(name, disk, Path::new(BY_ID)));
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
        text += &format!(
            "# gemelo-tick@{name}.service, for a pool that is not served, needs the same.\n[Service]\n"
        );
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

/// Returns a name of a device that the next boot has as well: the user's own one, unless it is that
/// of the kernel, which counts devices as they come, or one that no unit takes.
fn name_that_stays(name: &Path, device: &Path, by_id: &Path) -> PathBuf {
    if name != device && name.starts_with("/dev") {
        return name.to_owned();
    }
    let links = fs::read_dir(by_id).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = links.filter(|link| fs::canonicalize(link).is_ok_and(|target| target == device));
    links.min().unwrap_or_else(|| device.to_owned())
}

/// Returns a path as a word of a unit.
fn word(path: &Path) -> String {
    let text = path.shown().to_string().replace('%', "%%");
    match text.contains(char::is_whitespace) {
        true => format!("\"{text}\""),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_name_of_the_kernel_is_replaced_by_one_that_stays() {
        let directory = tempfile::tempdir().unwrap();
        let by_id = directory.path().join("by-id");
        fs::create_dir(&by_id).unwrap();
        let place = directory.path().canonicalize().unwrap();
        let (sda, sdb) = (place.join("sda"), place.join("sdb"));
        for (disk, id) in [(&sda, "wwn-a"), (&sdb, "wwn-b"), (&sdb, "ata-b")] {
            fs::write(disk, "").unwrap();
            symlink(disk, by_id.join(id)).unwrap();
        }
        let given = Path::new("/dev/data/pool");
        assert_eq!(name_that_stays(given, &sdb, &by_id), given, "as the user gave it");
        assert_eq!(name_that_stays(&sdb, &sdb, &by_id), by_id.join("ata-b"));
        assert_eq!(name_that_stays(&place, &sda, &by_id), by_id.join("wwn-a"));
        let none = directory.path().join("none");
        assert_eq!(name_that_stays(&sdb, &sdb, &none), sdb);
    }
}
