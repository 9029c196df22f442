//! A volume of a pool of gemelo: in the process of the load, over NBD, or mounted through NBD.
//!
//! Pools and volumes are made, served and asked by this program's own commands, as a user does it.

use super::file_system::{self, FileSystem};
use super::{LoadPlace, MadeTarget, PlaceKind, Target, TargetResult};
use crate::error::StepError;
use crate::plan::keys::Keys;
use crate::plan::{PlanError, Reading};
use crate::site::RunSite;
use crate::system;
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_exact_size;
use gemelo_record::Space;
use gemelo_serve::PoolFile;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Size of a volume without the key.
const DEFAULT_BYTES: u64 = 4 << 30;

/// Space of a pool beside the blocks of its volume, for blocks that were overwritten and not yet
/// freed: a quarter of the volume, and at least this many bytes.
const MIN_SPARE_BYTES: u64 = 64 << 20;

/// Name of the volume in the pool.
const VOLUME: &str = "v";

/// Options of `gemelo pool create` and of `gemelo serve` that a plan passes on by their own names.
/// The options of the server hold for a volume in the process of the load as far as the pool keeps
/// them.
const POOL_OPTIONS: [&str; 12] = [
    "policy",
    "compression",
    "fingerprint",
    "block-size",
    "cache",
    "metadata-cache",
    "commit-interval",
    "verify-reads",
    "io",
    "layout-rate",
    "data",
    "metadata",
];

const SERVE_OPTIONS: [&str; 14] = [
    "finder-delay",
    "finder-max-delay",
    "finder-rate",
    "finder-cpu",
    "finder-memory",
    "finder-interval",
    "finder-window",
    "inline-overload",
    "scrub-interval",
    "scrub-rate",
    "collect-rate",
    "busy-wait",
    "memory",
    "max-connections",
];

/// The way in which the load reaches the volume.
#[derive(Debug)]
enum Access {
    InProcess,
    Nbd,
    Mounted(FileSystem),
}

#[derive(Debug)]
struct Volume {
    access: Access,
    mode: String,
    bytes: u64,
    capacity_bytes: u64,
    pool_words: Vec<String>,
    serve_words: Vec<String>,
    verifies_bytes: bool,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, _reading: &Reading<'_>) -> TargetResult {
    let table = keys.required_table(kind)?;
    let mode = table.text("mode")?.unwrap_or_else(|| "inline".to_owned());
    if !["off", "inline", "offline"].contains(&mode.as_str()) {
        return Err(table.wrong("mode", format_args!("'{mode}' is none of off, inline, offline")));
    }
    let bytes = table.size("size")?.unwrap_or(DEFAULT_BYTES);
    let usual = bytes.saturating_add((bytes / 4).max(MIN_SPARE_BYTES));
    let volume = Volume {
        access: access(&table)?,
        mode,
        bytes,
        capacity_bytes: table.size("capacity")?.unwrap_or(usual),
        pool_words: words(&table, &POOL_OPTIONS)?,
        serve_words: words(&table, &SERVE_OPTIONS)?,
        verifies_bytes: table.flag("verify-bytes")?,
    };
    table.finish()?;
    Ok(Box::new(volume))
}

fn access(table: &Keys<'_>) -> Result<Access, PlanError> {
    let name = table.text("access")?.unwrap_or_else(|| "in-process".to_owned());
    match name.as_str() {
        "in-process" => Ok(Access::InProcess),
        "nbd" => Ok(Access::Nbd),
        name => FileSystem::named(name, table)?.map(Access::Mounted).ok_or_else(|| {
            let known = file_system::names();
            table.wrong("access", format_args!("'{name}' is none of in-process, nbd, {known}"))
        }),
    }
}

fn words(table: &Keys<'_>, names: &[&'static str]) -> Result<Vec<String>, PlanError> {
    let mut words = Vec::new();
    for name in names {
        if let Some(value) = table.text(name)? {
            words.push(format!("--{name}={value}"));
        }
    }
    Ok(words)
}

impl Target for Volume {
    fn description(&self) -> String {
        let reached = match &self.access {
            Access::InProcess => "in the process of the load".to_owned(),
            Access::Nbd => "over NBD".to_owned(),
            Access::Mounted(file_system) => format!("mounted as {} over NBD", file_system.name()),
        };
        let options = [self.pool_words.as_slice(), self.serve_words.as_slice()].concat().join(" ");
        let options = options.replace("--", "");
        let size = format_exact_size(self.bytes);
        let text = format!("gemelo volume of {size}, {}, {reached} {options}", self.mode);
        text.trim_end().to_owned()
    }

    fn missing(&self) -> Option<String> {
        match &self.access {
            Access::InProcess | Access::Nbd => None,
            Access::Mounted(file_system) => file_system
                .missing(&["nbdfuse"])
                .or_else(|| system::missing(&[], true, &["/dev/fuse"])),
        }
    }

    fn place_kind(&self) -> PlaceKind {
        match &self.access {
            Access::InProcess => PlaceKind::InProcess,
            Access::Nbd => PlaceKind::Export,
            Access::Mounted(_) => PlaceKind::Directory,
        }
    }

    fn space_bytes(&self) -> Option<u64> {
        Some(self.capacity_bytes)
    }

    fn making_time(&self) -> Duration {
        Duration::from_millis(match self.access {
            Access::InProcess => 60,
            Access::Nbd => 400,
            Access::Mounted(_) => 2000,
        })
    }

    fn make(&self, site: &mut RunSite<'_>) -> Result<Box<dyn MadeTarget>, StepError> {
        let pool = site.work.join("pool");
        self.make_pool(site, &pool)?;
        let is_offline = self.mode == "offline";
        let made = |place| Box::new(MadeVolume { pool: pool.clone(), place, is_offline });
        let file_system = match &self.access {
            Access::InProcess => {
                return Ok(made(LoadPlace::Uri(format!("pool:{}/{VOLUME}", pool.shown()))));
            }
            Access::Nbd => None,
            Access::Mounted(file_system) => Some(file_system),
        };
        let uri = self.serve(site, &pool)?;
        let Some(file_system) = file_system else { return Ok(made(LoadPlace::Uri(uri))) };
        let file = fuse_file(site, &uri)?;
        let device = site.attach(&file)?;
        Ok(made(LoadPlace::Directory(file_system.make(site, &device)?)))
    }
}

impl Volume {
    fn make_pool(&self, site: &RunSite<'_>, pool: &Path) -> Result<(), StepError> {
        let mut create = site.gemelo(&["pool", "create"]);
        create.arg(pool).arg(format!("--capacity={}", self.capacity_bytes)).args(&self.pool_words);
        if self.verifies_bytes {
            create.arg("--verify-bytes=on");
        }
        site.run(&mut create)?;
        let mut volume = site.gemelo(&["volume", "create"]);
        volume.arg(pool.join(VOLUME)).arg(format!("--size={}", self.bytes));
        site.run(volume.arg(format!("--dedup={}", self.mode)))?;
        Ok(())
    }

    /// Starts a server of the pool and returns the URI of the volume.
    fn serve(&self, site: &mut RunSite<'_>, pool: &Path) -> Result<String, StepError> {
        const NAME: &str = "serve";
        let socket = site.socket_directory()?.join("s");
        let mut serve = site.gemelo(&["serve"]);
        serve.arg(pool).arg(format!("--listen=unix:{}", socket.shown())).args(&self.serve_words);
        let pid = site.start(&mut serve, NAME)?;
        site.wait_until(pid, NAME, || socket.exists())?;
        Ok(format!("nbd+unix:///{VOLUME}?socket={}", socket.shown()))
    }
}

/// Makes an export a file by `nbdfuse`, and returns the file.
fn fuse_file(site: &mut RunSite<'_>, uri: &str) -> Result<PathBuf, StepError> {
    const NAME: &str = "nbdfuse";
    let directory = site.work.join("fuse");
    std::fs::create_dir(&directory).map_err(StepError::io("create", &directory))?;
    site.note_mount(directory.clone())?;
    let mut command = Command::new(NAME);
    let pid = site.start(command.arg("--connections=2").arg(&directory).arg(uri), NAME)?;
    let file = directory.join("nbd");
    site.wait_until(pid, NAME, || file.exists())?;
    Ok(file)
}

struct MadeVolume {
    pool: PathBuf,
    place: LoadPlace,
    is_offline: bool,
}

impl MadeTarget for MadeVolume {
    fn place(&self) -> LoadPlace {
        self.place.clone()
    }

    fn is_in_load(&self) -> bool {
        matches!(&self.place, LoadPlace::Uri(uri) if uri.starts_with("pool:"))
    }

    fn settle(&self, site: &mut RunSite<'_>) -> Result<bool, StepError> {
        if !self.is_offline {
            return Ok(false);
        }
        // Freed blocks need no collection here: the pool does not count them as used.
        site.run(site.gemelo(&["pool", "dedup"]).arg(&self.pool))?;
        Ok(true)
    }

    fn space(&self, site: &mut RunSite<'_>) -> Result<Option<Space>, StepError> {
        if let LoadPlace::Directory(mount) = &self.place {
            // Dirty pages of the file system are part of the load.
            file_system::write_back(site, mount)?;
        }
        let mut command = site.gemelo(&["pool", "stat"]);
        let text = site.run(command.arg(&self.pool).args(["--json", "-"]))?;
        let file = serde_json::from_str::<PoolFile>(&text);
        let file = file.map_err(|error| StepError::Result {
            path: self.pool.clone(),
            reason: error.to_string(),
        })?;
        let stat = file.result.report.pool;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.block_bytes.into());
        Ok(Some(Space {
            data_bytes: bytes(stat.data_blocks()),
            metadata_bytes: Some(stat.metadata_used_bytes.saturating_add(stat.journal_used_bytes)),
            logical_bytes: Some(bytes(stat.logical_blocks)),
        }))
    }
}
