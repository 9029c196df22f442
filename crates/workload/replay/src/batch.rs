//! Batches of operations on their way from the thread that reads the trace to a process.

use crossbeam_channel::{Receiver, Sender};

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    Trim,
    Sync,
}

/// An operation planned for a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) verb: Verb,
    pub(crate) first: u64,
    pub(crate) blocks: u64,
    /// Index of its first content id in the batch.
    pub(crate) ids: usize,
    /// Due time on the clock; 0 stands for at once.
    pub(crate) due_ns: u64,
}

/// Operations, and the ids of the contents that they write or should find, if those are known.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Start of the replay on the clock.
    pub(crate) origin_ns: u64,
    pub(crate) operations: Vec<Planned>,
    pub(crate) ids: Vec<Option<u64>>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.operations.clear();
        self.ids.clear();
    }
}

/// The channels of a process: full batches to the process, and empty ones back.
pub(crate) struct Lane {
    pub(crate) send: Sender<Batch>,
    pub(crate) empty: Receiver<Batch>,
}
