//! Requests that change a volume as a whole, with regard to its clients.

use crate::failure::RequestFailure;
use crate::figures::connections;
use crate::open_pool::OpenPool;
use crate::request::PoolRequest;
use gemelo_base::units::format_counted;
use gemelo_base::{Monitor, Remedy};
use gemelo_volume::{NewCopy, VolumeError, VolumeSummary};

impl OpenPool {
    /// Performs a request that changes volumes. Others are left to [`OpenPool::perform`].
    pub(crate) fn change_volume(
        &self,
        request: &PoolRequest,
        monitor: &dyn Monitor,
    ) -> Result<(), RequestFailure> {
        let pool = self.pool();
        match request {
            PoolRequest::CreateVolume { name, size_bytes, mode, is_imported } => {
                self.forget_earlier(name)?;
                match is_imported {
                    false => pool.create_volume(name, *size_bytes, *mode)?,
                    true => pool.create_imported_volume(name, *size_bytes, *mode)?,
                }
                self.settings().apply_to(pool, name);
            }
            PoolRequest::RemoveVolume { name, force } => self.remove(name, *force)?,
            PoolRequest::RenameVolume { name, new_name } => self.rename(name, new_name)?,
            PoolRequest::ResizeVolume { name, size_bytes, padding_bytes, force } => {
                self.resize(name, (*size_bytes, *padding_bytes), *force, monitor)?;
            }
            PoolRequest::SnapshotVolumes { copies } => self.copy_volumes(copies, true)?,
            PoolRequest::CloneVolume { name, new_name } => {
                let copy = NewCopy { source: name.clone(), name: new_name.clone() };
                self.copy_volumes(&[copy], false)?;
            }
            PoolRequest::RollBack { name, snapshot, force } => {
                self.roll_back(name, snapshot, *force)?;
            }
            PoolRequest::Hold { name, tag, is_held } => pool.hold_snapshot(name, tag, *is_held)?,
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn summary(&self, name: &str) -> Result<VolumeSummary, VolumeError> {
        let found = self.pool().volumes().into_iter().find(|volume| volume.record.name == name);
        found.ok_or_else(|| VolumeError::NoSuchVolume { name: name.to_owned() })
    }

    pub(crate) fn connections(&self, name: &str) -> usize {
        self.front_ends.get().map_or(0, |front_ends| connections(front_ends, Some(name)) as usize)
    }

    /// Fails if a volume has clients.
    fn check_no_clients(&self, name: &str, remedy: Remedy) -> Result<(), RequestFailure> {
        let Some(clients) = connected(self.connections(name) as u64) else { return Ok(()) };
        let failure = RequestFailure::refused(format!("volume '{name}' has {clients}"));
        Err(failure.with_remedy(remedy))
    }

    /// Disconnects the clients of a volume.
    fn disconnect(&self, name: &str) {
        for front_end in self.front_ends.get().into_iter().flatten() {
            front_end.disconnect(name);
        }
    }

    fn roll_back(&self, name: &str, snapshot: &str, force: bool) -> Result<(), RequestFailure> {
        self.summary(name)?;
        if !force {
            self.check_no_clients(name, Remedy::ForceRollback)?;
        }
        self.pool().roll_back_volume(name, snapshot)?;
        self.disconnect(name);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str, force: bool) -> Result<(), RequestFailure> {
        let Ok(volume) = self.summary(name) else {
            // A copy that was broken off has this name, or nothing has.
            return Ok(self.pool().remove_volume(name)?);
        };
        if !force {
            self.check_no_clients(name, Remedy::ForceRemoval)?;
        }
        if volume.mapped_blocks > 0 && !force {
            let failure = RequestFailure::refused(format!("volume '{name}' holds data"));
            return Err(failure.with_remedy(Remedy::ForceRemoval));
        }
        self.pool().remove_volume(name)?;
        self.disconnect(name);
        self.settings().forget(name)
    }

    fn resize(
        &self,
        name: &str,
        (size_bytes, padding_bytes): (u64, u32),
        force: bool,
        monitor: &dyn Monitor,
    ) -> Result<(), RequestFailure> {
        let volume = self.summary(name)?;
        if size_bytes < volume.record.size_bytes && !force {
            let text = format!(
                "volume '{name}' has {} bytes and would lose its data beyond byte {size_bytes}",
                volume.record.size_bytes
            );
            return Err(RequestFailure::refused(text).with_remedy(Remedy::ForceCut));
        }
        let clients = connected(self.connections(name) as u64);
        self.pool().resize_imported_volume(name, size_bytes, padding_bytes)?;
        for note in self.makers_of_devices().filter_map(|devices| devices.follow_size(name)) {
            monitor.warn(&note);
        }
        if let (Some(clients), true) = (clients, size_bytes < volume.record.size_bytes) {
            monitor.warn(&format!(
                "volume '{name}' was cut under {clients}: requests beyond its new end fail"
            ));
        }
        Ok(())
    }
}

/// Returns the number of connected clients in words, and [`None`] if there are none.
#[must_use]
pub fn connected(clients: u64) -> Option<String> {
    (clients > 0).then(|| format_counted(clients, "connected client"))
}
