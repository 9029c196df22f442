//! Changes of the state.

use super::State;
use crate::engine::log::Log;
use crate::error::Result;
use gemelo_format::{Change, DiskRole, Lbn, VolumeId};
use std::sync::atomic::Ordering;

impl Log {
    /// Makes a change of a volume as a whole. The caller makes it durable after it has told of it:
    /// a change that was made and cannot be made durable stays, until a crash.
    pub(crate) fn change(&self, change: &Change) -> Result<()> {
        self.apply(&mut self.write(), change)
    }

    /// Makes a change in memory and in the open commit.
    ///
    /// A change that contradicts the state fails, and changes nothing. One that fails halfway stops
    /// the pool.
    pub(crate) fn apply(&self, state: &mut State, change: &Change) -> Result<()> {
        state.backend().check_change(change)?;
        // A pool that has stopped may be half changed, and acknowledges nothing more.
        self.health.check_writable()?;
        debug_assert!(self.can_follow(state, change), "{change:?} cannot be made");
        if let Change::Store { pbn, .. } = change {
            self.data.note_mapped(*pbn);
        }
        let State { backend, open, .. } = state;
        if let Err(error) = open.make(&mut **backend, change) {
            self.health.stop(DiskRole::Metadata, "change");
            return Err(error);
        }
        self.open_bytes.store(open.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether a change agrees with the present references, as far as they can be read: a
    /// fresh block has none, and a block that is shared or identified has one.
    fn can_follow(&self, state: &State, change: &Change) -> bool {
        let (pbn, is_fresh) = match change {
            Change::Store { pbn, .. } => (*pbn, true),
            Change::Share { pbn, .. } | Change::Identify { pbn, .. } => (*pbn, false),
            _ => return true,
        };
        let mut records = Vec::with_capacity(1);
        let is_read = state.backend().records(&[pbn], &mut records).is_ok();
        let fits = records.iter().all(|record| (record.references == 0) == is_fresh);
        self.data.is_used(pbn) && (!is_read || fits)
    }

    /// Reads what changes of these blocks will need, before any thread has to wait for it.
    pub(crate) fn warm(&self, volume: VolumeId, first: u64, end: u64) -> Result<()> {
        let (mut next, end) = (Lbn(first), Lbn(end));
        while next < end {
            next = self.look(|state| Ok(state.backend().warm(volume, next, end)?))?;
        }
        Ok(())
    }
}
