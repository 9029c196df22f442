//! Tables of figures: one source of names and descriptions for text, JSON and metrics.

/// The way in which a figure changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatKind {
    /// It only grows until the process ends. Metrics give its name the suffix `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A figure of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Name, with the unit as its last word.
    pub name: &'static str,
    /// Description: the documentation of the field.
    pub help: &'static str,
    /// The way in which it changes.
    pub kind: StatKind,
    /// Value in the unit of its name.
    pub value: u64,
}

/// A struct whose fields are figures. The derive of this name takes it from the fields:
///
/// ```
/// # use gemelo_base::{StatKind, StatTable};
/// #[derive(StatTable)]
/// #[stat(counter)]
/// struct SyncStats {
///     /// Syncs that succeeded.
///     syncs: u64,
///     /// Nanoseconds of the longest one.
///     #[stat(gauge)]
///     longest_ns: u64,
/// }
/// let table = SyncStats { syncs: 7, longest_ns: 9 }.table();
/// assert_eq!((table[0].help, table[0].value), ("Syncs that succeeded.", 7));
/// assert_eq!((table[1].name, table[1].kind), ("longest_ns", StatKind::Gauge));
/// ```
pub trait StatTable {
    /// Returns the figures in the order of the fields.
    fn table(&self) -> Vec<Stat>;
}
