//! The volumes of an open pool as exports.

use crate::open_pool::OpenPool;
use crate::volume_since::VolumeSince;
use gemelo_device::{Export, Exports};
use std::sync::{Arc, Weak};

/// The exports of a pool. Every client causes a new look-up, so that volumes which are created,
/// renamed or removed need no table kept in step.
pub(crate) struct VolumeExports {
    /// Weak, because the pool holds its front ends, and they hold their exports.
    pool: Weak<OpenPool>,
    /// Names of the exported volumes; all volumes if it is empty.
    only: Vec<String>,
}

impl VolumeExports {
    /// Exports all volumes.
    pub(crate) fn all(pool: &Arc<OpenPool>) -> Self {
        Self::only(pool, Vec::new())
    }

    /// Exports the named volumes, or all if there are no names.
    pub(crate) fn only(pool: &Arc<OpenPool>, only: Vec<String>) -> Self {
        Self { pool: Arc::downgrade(pool), only }
    }

    fn is_exported(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }
}

impl Exports for VolumeExports {
    fn find(&self, name: &str) -> Option<Export> {
        let name = match name {
            // A single export is also the default.
            "" => match self.names().as_slice() {
                [only] => only.clone(),
                _ => return None,
            },
            name => name.to_owned(),
        };
        let pool = self.is_exported(&name).then(|| self.pool.upgrade()).flatten()?;
        let (device, identity) = (pool.device(&name).ok()?, pool.identity(&name).ok()?);
        Some(Export { identity, ..Export::new(name, device) })
    }

    fn since(&self, name: &str, snapshot: &str) -> Option<Export> {
        if !self.is_exported(name) || !self.is_exported(snapshot) {
            return None;
        }
        let changes = self.pool.upgrade()?.pool().changes(name, snapshot).ok()?;
        let export = self.find(name)?;
        let device = Arc::new(VolumeSince::new(Arc::clone(&export.device), changes));
        Some(Export { device, ..export })
    }

    fn snapshots(&self) -> Vec<String> {
        let volumes = self.pool.upgrade().map(|pool| pool.pool().volumes()).unwrap_or_default();
        let snapshots = volumes.into_iter().filter(|volume| volume.record.read_only);
        let names = snapshots.map(|volume| volume.record.name);
        names.filter(|name| self.is_exported(name)).collect()
    }

    fn names(&self) -> Vec<String> {
        let names = self.pool.upgrade().map(|pool| pool.volume_names()).unwrap_or_default();
        names.into_iter().filter(|name| self.is_exported(name)).collect()
    }
}
