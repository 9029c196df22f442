//! The parts of a benchmark of growing pools: the pool, a soak, and the table with a column for
//! each size, beside VDO's published requirements.

pub(crate) mod pool;
pub(crate) mod soak;

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Red Hat's requirements of VDO (Red Hat Enterprise Linux 9, "Deduplicating and compressing
/// logical volumes", 2.1 and 2.2), in MB. The module, its cache of 150 MB, and its index:
const VDO_MODULE_MB: f64 = 38.0 + 1.15 * 150.0;
const VDO_MB_A_LOGICAL_TB: f64 = 1.6;
const VDO_MB_A_PHYSICAL_TB: f64 = 268.0;
/// An index that forgets nothing is a dense one of 1 GB for each TB, at least 250 MB, and takes 17
/// times as much on disk.
const VDO_INDEX_MB_A_TB: f64 = 1000.0;
const VDO_MIN_INDEX_MB: f64 = 250.0;
const VDO_INDEX_DISK: f64 = 17.0;
/// 1 MB for each 4 GB of physical space and each slab of 2 GB, and 1.25 MB for each logical GB.
const VDO_DISK_MB_A_GB: f64 = 1.0 / 4.0 + 1.0 / 2.0 + 1.25;

/// Returns the bytes of memory and of metadata that VDO needs for this many bytes.
fn vdo(bytes: u64) -> (u64, u64) {
    let gb = bytes as f64 / 1e9;
    let tb = gb / 1e3;
    let index = (tb * VDO_INDEX_MB_A_TB).max(VDO_MIN_INDEX_MB);
    let memory = VDO_MODULE_MB + tb * (VDO_MB_A_LOGICAL_TB + VDO_MB_A_PHYSICAL_TB) + index;
    let disk = gb * VDO_DISK_MB_A_GB + index * VDO_INDEX_DISK;
    ((memory * 1e6) as u64, (disk * 1e6) as u64)
}

/// The settings of a benchmark.
pub(crate) struct Options {
    pub(crate) cache_mib: u64,
    pub(crate) load: Duration,
    /// The pool has room for so many volumes, of which one is the load's.
    pub(crate) volumes: u64,
}

/// The figures of one size.
pub(crate) struct Column {
    size: String,
    rows: Vec<(String, String)>,
}

impl Column {
    pub(crate) fn new(size: &str, bytes: u64) -> Self {
        let mut column = Self { size: size.to_owned(), rows: Vec::new() };
        let (memory, disk) = vdo(bytes);
        column.bytes("memory of VDO, published", memory);
        column.bytes("metadata of VDO, published", disk);
        column
    }

    fn add(&mut self, name: &str, unit: &str, value: f64) {
        let (name, value) = (format!("{name}, {unit}"), format!("{value:.1}"));
        // A large size takes an hour, and may be ended before.
        eprintln!("{}: {name}: {value}", self.size);
        self.rows.push((name, value));
    }

    pub(crate) fn rate(&mut self, name: &str, per_s: f64) {
        self.add(name, "k/s", per_s / 1e3);
    }

    pub(crate) fn time(&mut self, name: &str, time: Duration) {
        self.add(name, "ms", time.as_secs_f64() * 1e3);
    }

    pub(crate) fn bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, "MB", bytes as f64 / 1e6);
    }
}

/// Columns of the same figures.
#[derive(Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
}

impl Table {
    pub(crate) fn add(&mut self, column: Column) {
        self.columns.push(column);
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let names = self.columns.first().map_or(&[][..], |column| &column.rows);
        let width = names.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut line = |name: &str, values: &mut dyn Iterator<Item = &str>| {
            write!(formatter, "{name:<width$}")?;
            for value in values {
                write!(formatter, " {value:>12}")?;
            }
            writeln!(formatter)
        };
        line("", &mut self.columns.iter().map(|column| column.size.as_str()))?;
        for (at, (name, _)) in names.iter().enumerate() {
            line(name, &mut self.columns.iter().map(|column| column.rows[at].1.as_str()))?;
        }
        Ok(())
    }
}
