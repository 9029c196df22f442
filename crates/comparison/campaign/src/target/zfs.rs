//! ZFS on a file, with or without deduplication: in the kernel (OpenZFS) where its module is, in
//! user space (`zfs-fuse`) otherwise. Both have the same commands.

use super::{LoadPlace, MadeTarget, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::monitor::KernelMemory;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::resource::Resource;
use crate::site::RunSite;
use crate::system;
use gemelo_base::units::format_exact_size;
use gemelo_record::Space;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Size of the pool without the key.
const DEFAULT_BYTES: u64 = 4 << 30;

/// What the version of OpenZFS names when its module is loaded.
const MODULE: &str = "zfs-kmod-";

/// Socket by which `zpool` and `zfs` reach the one daemon of the machine.
const SOCKET: &str = "/var/run/zfs/zfs_socket";

/// Looks whether another daemon still runs, and the pause between them: 30 seconds together.
const OTHER_TRIES: u32 = 300;
const OTHER_PAUSE: Duration = Duration::from_millis(100);

/// The daemon belongs to the run, and its statistics at `/zfs-kstat` are not used.
const DAEMON_OPTIONS: [&str; 2] = ["--no-daemon", "--no-kstat-mount"];

#[derive(Debug)]
struct Zfs {
    bytes: u64,
    deduplicates: bool,
    /// Further properties of the file system, such as `recordsize=4k`.
    properties: Vec<String>,
    /// Further options of the daemon, which OpenZFS has not.
    options: Vec<String>,
}

/// The place where ZFS works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zone {
    Kernel,
    UserSpace,
}

impl Zone {
    /// Asks `zpool`, which tells the version of the module if it is loaded. That of `zfs-fuse` has
    /// no such command.
    fn of_machine() -> Self {
        let printed = system::printed("zpool", &["version"]);
        if printed.contains(MODULE) { Self::Kernel } else { Self::UserSpace }
    }
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> TargetResult {
    let table = keys.required_table(kind)?;
    let bytes = table.size("size")?;
    let zfs = Zfs {
        bytes: bytes.unwrap_or(DEFAULT_BYTES),
        deduplicates: table.flag("dedup")?,
        properties: table.texts("properties")?,
        options: table.texts("options")?,
    };
    table.finish()?;
    Ok(Box::new(zfs))
}

impl Target for Zfs {
    fn description(&self) -> String {
        let dedup = if self.deduplicates { "with" } else { "without" };
        let properties = self.properties.join(" ");
        let size = format_exact_size(self.bytes);
        let name = if Zone::of_machine() == Zone::Kernel { "OpenZFS" } else { "zfs-fuse" };
        let text = format!("{name} on a file of {size}, {dedup} deduplication {properties}");
        text.trim_end().to_owned()
    }

    fn missing(&self) -> Option<String> {
        if Zone::of_machine() == Zone::Kernel {
            return system::missing(&["zpool", "zfs"], true, &[]);
        }
        let missing = system::missing(&["zfs-fuse", "zpool", "zfs"], true, &["/dev/fuse"]);
        missing.or_else(|| {
            let is_used = std::os::unix::net::UnixStream::connect(SOCKET).is_ok();
            is_used.then(|| "a zfs-fuse that is not the campaign's runs already".to_owned())
        })
    }

    fn place_kind(&self) -> PlaceKind {
        PlaceKind::Directory
    }

    fn space_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(5000)
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        let file = site.sparse_file("disk", self.bytes)?;
        match Zone::of_machine() {
            Zone::Kernel => site.watched.add_kernel(KernelMemory::OpenZfs),
            Zone::UserSpace => self.start_daemon(site)?,
        }
        // The command that gives the pool back knows it by this name alone, which nobody else has.
        let pool = site.fresh_name();
        let mount = site.work.join("mount");
        // The pool is busy as long as its file system is mounted.
        site.journal.note(destruction(&pool))?;
        site.note_mount(mount.clone())?;
        let mut create = Command::new("zpool");
        // Sectors of 512 bytes: with those of 4 KiB, records of 4 KiB cannot be compressed.
        create.args(["create", "-o", "ashift=9", "-m"]).arg(&mount).arg(&pool).arg(&file);
        site.run(&mut create)?;
        if self.deduplicates {
            site.run(Command::new("zfs").args(["set", "dedup=on", &pool]))?;
        }
        for property in &self.properties {
            site.run(Command::new("zfs").args(["set", property, &pool]))?;
        }
        Ok(Box::new(MadeZfs { pool, mount }))
    }
}

impl Zfs {
    fn start_daemon(&self, site: &mut RunSite<'_>) -> Result<(), StepError> {
        const NAME: &str = "zfs-fuse";
        // The machine has one daemon at a time; that of an earlier run may be about to end.
        let is_ready = || std::os::unix::net::UnixStream::connect(SOCKET).is_ok();
        for _ in 0..OTHER_TRIES {
            if !is_ready() {
                break;
            }
            site.pause(OTHER_PAUSE)?;
        }
        let pid = site.start(Command::new(NAME).args(DAEMON_OPTIONS).args(&self.options), NAME)?;
        site.wait_until(pid, NAME, is_ready)
    }
}

/// Returns the command that removes a pool, and also succeeds without a pool or a daemon.
fn destruction(pool: &str) -> Resource {
    let script = format!("zpool list {pool} >/dev/null 2>&1 || exit 0; zpool destroy -f {pool}");
    Resource::of_script(script)
}

struct MadeZfs {
    pool: String,
    mount: PathBuf,
}

impl MadeZfs {
    fn number(site: &RunSite<'_>, program: &str, words: &[&str]) -> Result<u64, StepError> {
        let printed = site.run(Command::new(program).args(words))?;
        let text = printed.trim();
        gemelo_base::units::parse_size(text)
            .map_err(|_| StepError::Unexpected { program: program.to_owned(), expected: "size" })
    }
}

impl MadeTarget for MadeZfs {
    fn place(&self) -> LoadPlace {
        LoadPlace::Directory(self.mount.clone())
    }

    fn space(&self, site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        let mounted = super::file_system::space_of_mount(site, &self.mount)?;
        let pool = self.pool.as_str();
        // Flushed data are in the log until the open transaction group is written, up to 30 s
        // later, and not yet at their places. Both steps wait for that.
        let snapshot = format!("{pool}@space");
        site.run(Command::new("zfs").args(["snapshot", &snapshot]))?;
        site.run(Command::new("zfs").args(["destroy", &snapshot]))?;
        // The space that the pool has allocated, with metadata and the table of duplicates.
        let allocated = Self::number(site, "zpool", &["list", "-H", "-o", "alloc", pool])?;
        Ok(Some(Space { data_bytes: allocated, metadata_bytes: None, ..mounted }))
    }
}
