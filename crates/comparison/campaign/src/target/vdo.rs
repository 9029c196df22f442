//! dm-vdo, the deduplicating device of the Linux kernel (since 6.9), on a loop device: a block
//! device, or a file system on it.

use super::file_system::{self, FileSystem};
use super::{LoadPlace, MadeTarget, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::monitor::KernelMemory;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::resource::Resource;
use crate::site::RunSite;
use crate::system;
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_exact_size;
use gemelo_record::Space;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Size of the device without the key.
const DEFAULT_BYTES: u64 = 4 << 30;

/// What the physical file has beside the size: the index of some 2.5 GiB and whole slabs of 2 GiB
/// (`vdoformat`, options `--uds-memory-size` and `--slab-bits`). The file is sparse.
const MORE_BYTES: u64 = 8 << 30;

/// Bytes of a block of VDO, and of a sector of the device mapper.
const BLOCK_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;

/// Blocks of the cache of the map (128 MiB), and the period of its pages: the defaults of LVM.
const CACHE_BLOCKS: u64 = 32_768;
const PERIOD: u64 = 16_380;

#[derive(Debug)]
struct Vdo {
    bytes: u64,
    physical_bytes: u64,
    deduplicates: bool,
    compresses: bool,
    file_system: Option<FileSystem>,
    /// Further options of `vdoformat`.
    options: Vec<String>,
    /// Further words of the device's table, such as `["bio", "4"]` for its threads.
    table: Vec<String>,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> TargetResult {
    let table = keys.required_table(kind)?;
    let bytes = table.size("size")?.unwrap_or(DEFAULT_BYTES);
    if bytes % BLOCK_BYTES != 0 {
        return Err(table.wrong("size", "is no multiple of 4 KiB, the block of VDO"));
    }
    let file_system = match table.text("file-system")? {
        None => None,
        Some(name) => Some(FileSystem::named(&name, &table)?.ok_or_else(|| {
            let known = file_system::names();
            table.wrong("file-system", format_args!("'{name}' is none of {known}"))
        })?),
    };
    let vdo = Vdo {
        bytes,
        physical_bytes: table.size("physical")?.unwrap_or(bytes.saturating_add(MORE_BYTES)),
        deduplicates: !table.has("dedup") || table.flag("dedup")?,
        compresses: table.flag("compression")?,
        file_system,
        options: table.texts("options")?,
        table: table.texts("table")?,
    };
    table.finish()?;
    Ok(Box::new(vdo))
}

impl Target for Vdo {
    fn description(&self) -> String {
        let with = |has| if has { "with" } else { "without" };
        let (dedup, compression) = (with(self.deduplicates), with(self.compresses));
        let on = self.file_system.as_ref().map(|fs| format!("{} on ", fs.name()));
        let size = format_exact_size(self.bytes);
        format!(
            "{}dm-vdo of {size}, {dedup} deduplication, {compression} compression",
            on.unwrap_or_default()
        )
    }

    fn missing(&self) -> Option<String> {
        let programs = ["vdoformat", "dmsetup", "losetup"];
        let missing = system::missing(&programs, true, &["/dev/loop-control"]);
        missing.or_else(|| self.file_system.as_ref()?.missing(&[])).or_else(no_module)
    }

    fn place_kind(&self) -> PlaceKind {
        if self.file_system.is_some() { PlaceKind::Directory } else { PlaceKind::Device }
    }

    fn space_bytes(&self) -> Option<u64> {
        Some(self.physical_bytes)
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(3000)
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        let file = site.sparse_file("disk", self.physical_bytes)?;
        let backing = site.attach(&file)?;
        let mut format = Command::new("vdoformat");
        format.arg(format!("--logical-size={}K", self.bytes / 1024)).args(&self.options);
        site.run(format.arg(&backing))?;
        // The command that gives the device back knows it by this name alone, which nobody else has.
        let name = site.fresh_name();
        site.journal.note(removal(&name))?;
        let mut create = Command::new("dmsetup");
        create.args(["create", &name, "--noudevsync", "--table", &self.mapping(&backing)]);
        site.run(&mut create)?;
        site.run(Command::new("dmsetup").args(["mknodes", &name]))?;
        site.watched.add_kernel(KernelMemory::Vdo { device: name.clone() });
        let device = Path::new("/dev/mapper").join(&name);
        let place = match &self.file_system {
            None => LoadPlace::Device(device),
            Some(file_system) => LoadPlace::Directory(file_system.make(site, &device)?),
        };
        Ok(Box::new(MadeVdo { name, place }))
    }
}

impl Vdo {
    /// Returns the line of the device mapper for the device (admin-guide/device-mapper/vdo.rst).
    fn mapping(&self, backing: &Path) -> String {
        let on = |is_on| if is_on { "on" } else { "off" };
        let words = [
            format!("0 {} vdo V4 {}", self.bytes / SECTOR_BYTES, backing.shown()),
            format!("{} {BLOCK_BYTES} {CACHE_BLOCKS} {PERIOD}", self.physical_bytes / BLOCK_BYTES),
            format!("deduplication {} compression {}", on(self.deduplicates), on(self.compresses)),
            self.table.join(" "),
        ];
        words.join(" ").trim_end().to_owned()
    }
}

/// Returns the reason why the kernel has no dm-vdo, after trying to load it.
fn no_module() -> Option<String> {
    // A kernel without modules may have it built in.
    system::printed("modprobe", &["dm-vdo"]);
    let targets = system::printed("dmsetup", &["targets"]);
    let has_it = targets.lines().any(|line| line.starts_with("vdo "));
    (!has_it).then(|| "the kernel has no dm-vdo (it comes with Linux 6.9)".to_owned())
}

/// Returns the command that removes a device, and also succeeds without one.
fn removal(name: &str) -> Resource {
    let script =
        format!("dmsetup info {name} >/dev/null 2>&1 || exit 0; dmsetup remove --retry {name}");
    Resource::of_script(script)
}

struct MadeVdo {
    name: String,
    place: LoadPlace,
}

impl MadeTarget for MadeVdo {
    fn place(&self) -> LoadPlace {
        self.place.clone()
    }

    /// The blocks in use that the device tells, of which its own metadata are a part.
    fn space(&self, site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        let logical_bytes = match &self.place {
            LoadPlace::Directory(mount) => file_system::space_of_mount(site, mount)?.logical_bytes,
            LoadPlace::Device(_) | LoadPlace::Uri(_) => None,
        };
        let status = site.run(Command::new("dmsetup").args(["status", &self.name]))?;
        let blocks = used_blocks(&status).ok_or_else(|| StepError::Unexpected {
            program: "dmsetup status".to_owned(),
            expected: "line of a device of VDO",
        })?;
        let data_bytes = blocks.saturating_mul(BLOCK_BYTES);
        Ok(Some(Space { data_bytes, metadata_bytes: None, logical_bytes }))
    }
}

/// Reads "START LENGTH vdo DEVICE MODE RECOVERY INDEX COMPRESSION USED TOTAL".
fn used_blocks(status: &str) -> Option<u64> {
    let words: Vec<&str> = status.split_whitespace().collect();
    let kind = words.iter().position(|word| *word == "vdo")?;
    words.get(kind + 6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_blocks_are_read_from_the_status_of_the_device() {
        let line = "0 8388608 vdo /dev/loop0 normal - online offline 786554 3145728\n";
        assert_eq!(used_blocks(line), Some(786_554));
        assert_eq!(used_blocks("0 8388608 linear 7:0 0"), None);
        assert_eq!(used_blocks("0 8388608 vdo /dev/loop0 read-only"), None);
    }
}
