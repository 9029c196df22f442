//! An open pool, and everything that can be asked of it.

use crate::control::Looks;
use crate::failure::Failure;
use crate::report::{ServerStat, StatReport, Thresholds, used_share, warnings};
use crate::request::{CheckedReport, Reply, Request};
use crate::settings::Settings;
use gemelo_base::units::format_counted;
use gemelo_base::{Monitor, StopFlag, SystemClock};
use gemelo_device::BlockDevice;
use gemelo_nbd::server::{Export, Exports, Server};
use gemelo_volume::{DamagedBlock, Pool, Tuning, VolumeError, VolumeSummary};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

/// Differences that a check names.
const MOST_DIFFERENCES: usize = 1000;

/// A pool that this process has open.
pub(crate) struct OpenPool {
    pool: Pool,
    directory: PathBuf,
    thresholds: Thresholds,
    /// It was opened without the right to change it, as nothing was to be changed.
    is_only_looked_at: bool,
    /// Who serves it to others, once that is so.
    server: OnceLock<Server>,
}

impl OpenPool {
    pub(crate) fn open(
        directory: &Path,
        tuning: Tuning,
        thresholds: Thresholds,
    ) -> Result<Self, VolumeError> {
        let pool = Pool::open(directory, tuning, Arc::new(SystemClock::new()))?;
        let directory = directory.to_owned();
        Ok(Self { pool, directory, thresholds, is_only_looked_at: false, server: OnceLock::new() })
    }

    /// As [`Self::open`], as the pool's settings say; for changes, or only to look at it.
    pub(crate) fn open_as_set(
        directory: &Path,
        is_only_looked_at: bool,
    ) -> Result<Self, OpenError> {
        let settings = Settings::read(directory).map_err(OpenError::Settings)?;
        let tuning = Tuning { read_only: is_only_looked_at, ..settings.tuning() };
        let opened =
            Self::open(directory, tuning, Thresholds::default()).map_err(OpenError::Pool)?;
        Ok(Self { is_only_looked_at, ..opened })
    }

    /// From now on `server` has the clients.
    pub(crate) fn set_server(&self, server: Server) {
        // A pool is served once.
        let _ = self.server.set(server);
    }

    /// Ends the background and lets go of the pool.
    pub(crate) fn close(self) -> Result<(), VolumeError> {
        self.pool.close()
    }

    /// For whoever cannot have the pool for himself any more.
    pub(crate) fn checkpoint(&self) -> Result<(), VolumeError> {
        self.pool.checkpoint()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.pool.is_read_only()
    }

    /// What was found damaged when it was opened, as warnings.
    pub(crate) fn damage(&self) -> Vec<String> {
        damage_of(&self.pool)
    }

    pub(crate) fn device(&self, name: &str) -> Result<Arc<dyn BlockDevice>, VolumeError> {
        Ok(Arc::new(self.pool.volume(name)?))
    }

    /// Does what is asked.
    pub(crate) fn perform(
        &self,
        request: &Request,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Reply, Failure> {
        let pool = &self.pool;
        match request {
            Request::Stat => return Ok(Reply::Stat(Box::new(self.stat()?))),
            Request::CreateVolume { name, size_bytes, mode, is_imported: false } => {
                pool.create_volume(name, *size_bytes, *mode)?;
            }
            Request::CreateVolume { name, size_bytes, mode, is_imported: true } => {
                pool.create_imported_volume(name, *size_bytes, *mode)?;
            }
            Request::RemoveVolume { name, force } => self.remove(name, *force)?,
            Request::RenameVolume { name, new_name } => pool.rename_volume(name, new_name)?,
            Request::ResizeVolume { name, size_bytes, force } => {
                self.resize(name, *size_bytes, *force, monitor)?;
            }
            Request::CopyVolume { name, new_name, read_only: true } => {
                pool.snapshot_volume(name, new_name)?;
            }
            Request::CopyVolume { name, new_name, read_only: false } => {
                pool.clone_volume(name, new_name)?;
            }
            Request::SetMode { name, mode } => pool.set_mode(name, *mode)?,
            Request::Collect { most_bytes_per_s } => {
                return Ok(Reply::Collected(pool.gc(*most_bytes_per_s, monitor, stop)?));
            }
            Request::Find => return Ok(Reply::Found(pool.find(monitor, stop)?)),
            Request::Check { data } => {
                let differences = pool.prove_served(MOST_DIFFERENCES)?;
                let contents = data.then(|| pool.scrub(monitor, stop)).transpose()?;
                return Ok(Reply::Checked(CheckedReport { differences, contents }));
            }
            Request::Grow { capacity_bytes } => pool.grow(*capacity_bytes)?,
            Request::Attach => {
                return Err(Failure::refused("only a served pool can be attached to"));
            }
        }
        Ok(Reply::Done)
    }

    fn summary(&self, name: &str) -> Result<VolumeSummary, VolumeError> {
        let found = self.pool.volumes().into_iter().find(|volume| volume.record.name == name);
        found.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })
    }

    fn connections(&self, name: &str) -> usize {
        self.server.get().map_or(0, |server| server.connections(Some(name)))
    }

    fn remove(&self, name: &str, force: bool) -> Result<(), Failure> {
        let volume = self.summary(name)?;
        let clients = self.connections(name);
        if let (Some(clients), false) = (connected(clients as u64), force) {
            let text = format!("volume '{name}' has {clients}: say --force to remove it");
            return Err(Failure::refused(text));
        }
        if volume.mapped_blocks > 0 && !force {
            let text = format!("volume '{name}' holds data: say --force to remove it");
            return Err(Failure::refused(text));
        }
        self.pool.remove_volume(name)?;
        if let Some(server) = self.server.get() {
            server.disconnect(name);
        }
        Ok(())
    }

    fn resize(
        &self,
        name: &str,
        size_bytes: u64,
        force: bool,
        monitor: &dyn Monitor,
    ) -> Result<(), Failure> {
        let volume = self.summary(name)?;
        if size_bytes < volume.record.size_bytes && !force {
            let text = format!(
                "volume '{name}' has {} bytes, and would lose what is beyond {size_bytes}: say --force to cut it",
                volume.record.size_bytes
            );
            return Err(Failure::refused(text));
        }
        let clients = connected(self.connections(name) as u64);
        self.pool.resize_volume(name, size_bytes)?;
        if let (Some(clients), true) = (clients, size_bytes < volume.record.size_bytes) {
            monitor.warn(&format!(
                "volume '{name}' was cut under {clients}: what is beyond its new end is an error for them"
            ));
        }
        Ok(())
    }

    /// The pool and its server in numbers.
    pub(crate) fn stat(&self) -> Result<StatReport, VolumeError> {
        let report = report_on(&self.pool, &self.directory, self.server.get(), &self.thresholds)?;
        Ok(StatReport { read_only: report.read_only && !self.is_only_looked_at, ..report })
    }

    /// The same, for other processes while this one has the pool without serving it.
    pub(crate) fn stat_for_others(&self) -> Result<StatReport, VolumeError> {
        Ok(StatReport { holder_process_id: Some(std::process::id()), ..self.stat()? })
    }

    /// The damaged blocks that were found since the pool was opened and are still in use.
    pub(crate) fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        self.pool.damaged_blocks()
    }

    pub(crate) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }
}

/// How many clients are connected, in words; nothing if there are none.
#[must_use]
pub fn connected(clients: u64) -> Option<String> {
    (clients > 0).then(|| format_counted(clients, "connected client"))
}

/// What was found damaged when the pool was opened, as warnings.
fn damage_of(pool: &Pool) -> Vec<String> {
    pool.damage().iter().map(|what| format!("the metadata are damaged: {what}")).collect()
}

/// A pool, and its server if it has one, in numbers.
fn report_on(
    pool: &Pool,
    directory: &Path,
    server: Option<&Server>,
    thresholds: &Thresholds,
) -> Result<StatReport, VolumeError> {
    let stat = pool.stat()?;
    let volumes = pool.volumes();
    let file_system_free_bytes = free_below(directory);
    let connections_of =
        |server: &Server, volume: &VolumeSummary| server.connections(Some(&volume.record.name));
    let server = server.map(|server| {
        let counts = server.counts();
        ServerStat {
            process_id: std::process::id(),
            connections: server.connections(None) as u64,
            accepted_connections: counts.accepted,
            refused_connections: counts.turned_away,
            broken_connections: counts.broken,
            volume_connections: volumes
                .iter()
                .map(|volume| connections_of(server, volume) as u64)
                .collect(),
        }
    });
    let mut report = StatReport {
        dedup_ratio: stat.dedup_ratio(),
        used_share: used_share(&stat, file_system_free_bytes),
        pool: stat,
        volumes,
        file_system_free_bytes,
        server,
        holder_process_id: None,
        damage: damage_of(pool),
        damaged_blocks: pool.damaged_blocks(),
        read_only: pool.is_read_only(),
        warnings: Vec::new(),
    };
    report.warnings = warnings(&report, thresholds);
    Ok(report)
}

/// Lets other processes look at the figures of a pool that this one has open and does not serve,
/// until the result is dropped. Without a socket, as in a directory that cannot be written, there
/// is none: others wait.
#[must_use]
pub fn let_look(directory: &Path, pool: Weak<Pool>) -> Option<Looks> {
    let place = directory.to_owned();
    let figures = move || {
        let report = report_on(&*pool.upgrade()?, &place, None, &Thresholds::default());
        let holder_process_id = Some(std::process::id());
        Some(report.map(|report| StatReport { holder_process_id, ..report }))
    };
    Looks::open(directory, Box::new(figures)).ok()
}

/// Why a pool was not opened as its settings say.
pub(crate) enum OpenError {
    Settings(Failure),
    Pool(VolumeError),
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Settings(failure) => failure,
            OpenError::Pool(error) => Self::of_opening(&error),
        }
    }
}

/// What the file system of the data store has left for us, in bytes; nothing if the store is no file.
fn free_below(directory: &Path) -> Option<u64> {
    let data = directory.join("data");
    if !std::fs::metadata(&data).is_ok_and(|status| status.is_file()) {
        return None;
    }
    let status = rustix::fs::statvfs(&data).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}

/// The volumes as exports, looked up anew for every client: what is created, renamed or removed comes and goes by itself.
pub(crate) struct VolumeExports {
    /// The pool, which knows its server, which knows this.
    pub(crate) pool: Weak<OpenPool>,
    /// Only these; all if there are none.
    pub(crate) only: Vec<String>,
}

impl VolumeExports {
    fn is_exported(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }
}

impl Exports for VolumeExports {
    fn find(&self, name: &str) -> Option<Export> {
        let name = match name {
            // The default export is the only one.
            "" => match self.names().as_slice() {
                [only] => only.clone(),
                _ => return None,
            },
            name => name.to_owned(),
        };
        let device =
            self.is_exported(&name).then(|| self.pool.upgrade()?.device(&name).ok()).flatten()?;
        Some(Export::new(name, device))
    }

    fn names(&self) -> Vec<String> {
        let volumes = self.pool.upgrade().map(|open| open.pool.volumes()).unwrap_or_default();
        volumes
            .into_iter()
            .map(|volume| volume.record.name)
            .filter(|name| self.is_exported(name))
            .collect()
    }
}
