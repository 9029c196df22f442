//! The volumes of a pool as exports, kept in step with the pool.

use gemelo_nbd::server::{Export, ExportTable, Exports};
use gemelo_volume::{Pool, VolumeSummary};
use std::sync::Arc;

/// Which volumes are exported, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Only these; all if there are none.
    pub(crate) volumes: Vec<String>,
    /// Refuse writes.
    pub(crate) read_only: bool,
}

/// The exports of a pool.
pub(crate) struct PoolExports {
    pool: Arc<Pool>,
    table: Arc<ExportTable>,
    selection: Selection,
}

impl PoolExports {
    /// All volumes that are there now.
    pub(crate) fn new(pool: Arc<Pool>, selection: Selection) -> Self {
        let exports = Self { pool, table: Arc::new(ExportTable::new()), selection };
        exports.refresh();
        exports
    }

    /// What a server asks.
    pub(crate) fn table(&self) -> Arc<ExportTable> {
        Arc::clone(&self.table)
    }

    /// Takes out what is no volume any more and puts in what is new; gives the names that were taken out.
    pub(crate) fn refresh(&self) -> Vec<String> {
        let volumes = self.pool.volumes();
        let is_wanted = |name: &str| {
            self.selection.volumes.is_empty() || self.selection.volumes.iter().any(|wanted| wanted == name)
        };
        let gone: Vec<String> = self
            .table
            .names()
            .into_iter()
            .filter(|name| !volumes.iter().any(|volume| volume.name == *name))
            .collect();
        for name in &gone {
            self.table.remove(name);
        }
        for volume in volumes.iter().filter(|volume| is_wanted(&volume.name)) {
            if let Some(export) = self.export(volume) {
                self.table.insert(export);
            }
        }
        gone
    }

    /// The export of a volume, unless it is gone meanwhile.
    fn export(&self, summary: &VolumeSummary) -> Option<Export> {
        let volume = self.pool.volume(&summary.name).ok()?;
        let mut export = Export::new(&summary.name, Arc::new(volume));
        export.read_only = self.selection.read_only;
        Some(export)
    }
}
