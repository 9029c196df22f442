//! A data disk that takes space as it is written, and a process with a defect.

use super::{Call, DATA, Simulation, World};
use std::collections::HashSet;
use std::io;
use std::ops::Range;

const SECTOR: u64 = 512;

/// The space of a thin data disk.
#[derive(Default)]
pub struct Thin {
    is_full: bool,
    /// Sectors that have space: those that were written and not discarded.
    backed: HashSet<u64>,
    discarded_bytes: u64,
}

impl Thin {
    pub(super) fn write(&mut self, range: &Range<u64>) -> io::Result<()> {
        let mut sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        if self.is_full && sectors.any(|sector| !self.backed.contains(&sector)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.backed.extend(range.start / SECTOR..range.end.div_ceil(SECTOR));
        Ok(())
    }

    /// A discard of space makes room for others.
    pub(super) fn discard(&mut self, range: &Range<u64>) {
        self.discarded_bytes += range.end - range.start;
        for sector in range.start / SECTOR..range.end / SECTOR {
            self.is_full &= !self.backed.remove(&sector);
        }
    }
}

/// A panic in a thread, which a defect of the program would be.
pub struct PanicAt {
    thread: &'static str,
    call: Option<Call>,
    left: u64,
}

impl World {
    /// Makes the data disk full, or not full any more, now and then.
    pub(super) fn change_room(&mut self) {
        let one_in = self.nature.full_one_in;
        if one_in > 0 && self.random.below(one_in) == 0 {
            self.thin.is_full = !self.thin.is_full;
        }
    }

    /// Returns whether this call of this thread panics.
    pub(super) fn panics(&mut self, call: Option<Call>) -> bool {
        let Some(at) = &mut self.panic_at else { return false };
        let thread = std::thread::current();
        let is_thread = at.thread.is_empty() || thread.name() == Some(at.thread);
        if !is_thread || at.call.is_some() && at.call != call {
            return false;
        }
        at.left -= 1;
        let panics = at.left == 0;
        if panics {
            self.panic_at = None;
        }
        panics
    }
}

impl Simulation {
    /// From now on the data disk has no space for sectors without any, until some are discarded or
    /// this is set to `false`.
    pub fn set_full(&self, is_full: bool) {
        self.world.lock().unwrap().thin.is_full = is_full;
    }

    pub fn is_full(&self) -> bool {
        self.world.lock().unwrap().thin.is_full
    }

    /// Takes the space of all sectors that are zeros: a thin disk has none for them.
    pub fn thin_out(&self) {
        let mut world = self.world.lock().unwrap();
        let sectors = world.images[DATA].live.to_vec();
        let sectors = sectors.chunks(SECTOR as usize);
        let used = sectors.enumerate().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
        let backed = used.map(|(sector, _)| sector as u64).collect();
        world.thin.backed = backed;
    }

    /// Bytes of the data disk that were discarded so far.
    pub fn discarded_bytes(&self) -> u64 {
        self.world.lock().unwrap().thin.discarded_bytes
    }

    /// Makes a thread of this name, or any if it is empty, panic at its `number`-th call to a disk
    /// from now on, counted from 1; of this kind, if one is given.
    pub fn panic_at(&self, thread: &'static str, call: Option<Call>, number: u64) {
        self.world.lock().unwrap().panic_at = Some(PanicAt { thread, call, left: number });
    }

    /// Returns whether a panic is still to come, and lets it not come any more.
    pub fn forget_panic(&self) -> bool {
        self.world.lock().unwrap().panic_at.take().is_some()
    }
}
