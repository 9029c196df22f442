//! Checkpoints of a pool that may be moving.
//!
//! While the new backend is being filled, it writes its pages together with those of the old one,
//! so that what it has in memory stays bounded. Only the old one writes a table, and has a root.
//! The last checkpoint is that of the new backend alone. When its root is durable, the old one is
//! garbage.

use super::{Mirror, MovableBackend};
use crate::error::Result;
use crate::traits::{Checkpoint, LocalPages, Merge, PageWrites, Sealed};
use crate::{Garbage, Pressure, SlotNeed, SlotSpace};

impl Mirror {
    /// Returns whether the checkpoint under way has pages of this backend, which has not failed.
    fn is_written(&self) -> bool {
        self.is_frozen && !self.failure.is_set()
    }

    /// Returns the part of the merge of both backends. Its error is one of the old backend.
    fn merge_with(&self, old: Option<Merge>) -> Option<Merge> {
        let new = if self.is_written() { self.backend.merge() } else { None };
        let Some(new) = new else { return old };
        let failure = self.failure.clone();
        Some(Box::new(move || {
            let pages = old.map_or(Ok(0), |merge| merge())?;
            Ok(pages + failure.catch(new()).unwrap_or(0))
        }))
    }

    fn finish(&mut self) -> Garbage {
        let garbage = if self.is_written() { self.backend.finish() } else { None };
        self.is_frozen = false;
        garbage
    }
}

impl MovableBackend {
    /// The new backend, if the checkpoint is its own.
    fn switching(&self) -> Option<&Mirror> {
        self.to.as_ref().filter(|to| to.is_switching)
    }

    fn switching_mut(&mut self) -> Option<&mut Mirror> {
        self.to.as_mut().filter(|to| to.is_switching)
    }
}

impl Checkpoint for MovableBackend {
    fn allows_volume_changes(&self) -> bool {
        let new = self.to.as_ref().is_none_or(|to| to.backend.allows_volume_changes());
        new && self.from.allows_volume_changes()
    }

    fn pressure(&self) -> Pressure {
        let new = self.to.as_ref().filter(|to| !to.failure.is_set());
        let new = new.map_or(Pressure::Low, |to| to.backend.pressure());
        self.from.pressure().max(new)
    }

    fn has_room_for_clone(&self) -> bool {
        let new = self.to.as_ref().filter(|to| !to.failure.is_set());
        self.from.has_room_for_clone() && new.is_none_or(|to| to.backend.has_room_for_clone())
    }

    fn replay_reads(&self) -> u64 {
        self.from.replay_reads()
    }

    fn freeze(&mut self) {
        if let Some(to) = self.switching_mut() {
            if !to.failure.is_set() {
                to.is_frozen = true;
                return to.backend.freeze();
            }
            to.is_switching = false;
        }
        self.from.freeze();
        if let Some(to) = self.to.as_mut().filter(|to| !to.failure.is_set()) {
            to.backend.freeze();
            to.is_frozen = true;
        }
    }

    fn merge(&self) -> Option<Merge> {
        if let Some(to) = self.switching() {
            return to.backend.merge();
        }
        let old = self.from.merge();
        match &self.to {
            Some(to) => to.merge_with(old),
            None => old,
        }
    }

    fn finish(&mut self) -> Garbage {
        if let Some(mut to) = self.to.take_if(|to| to.is_switching) {
            let garbage = to.backend.finish();
            let old = std::mem::replace(&mut self.from, to.backend);
            return Some(Box::new((garbage, old)));
        }
        let new = self.to.as_mut().and_then(Mirror::finish);
        let old = self.from.finish();
        Some(Box::new((old, new)))
    }

    fn abandon(&mut self) {
        if let Some(to) = self.switching_mut() {
            (to.is_switching, to.is_frozen) = (false, false);
            return to.backend.abandon();
        }
        self.from.abandon();
        if let Some(to) = &mut self.to {
            if to.is_written() {
                to.backend.abandon();
            }
            to.is_frozen = false;
        }
    }

    fn local_pages(&self) -> Option<&dyn LocalPages> {
        self.from.local_pages().map(|_| self as &dyn LocalPages)
    }

    fn local_pages_mut(&mut self) -> Option<&mut dyn LocalPages> {
        match self.from.local_pages() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl LocalPages for MovableBackend {
    fn space(&self) -> SlotSpace {
        self.from.local_pages().map(LocalPages::space).unwrap_or_default()
    }

    fn slots(&self) -> SlotNeed {
        let backends = [Some(&self.from), self.to.as_ref().map(|to| &to.backend)];
        let needs = backends.into_iter().flatten().filter_map(|backend| backend.local_pages());
        needs.map(LocalPages::slots).fold(SlotNeed::default(), |all, one| SlotNeed {
            in_use: all.in_use + one.in_use,
            next: all.next + one.next,
        })
    }

    fn gather(&mut self, most: usize, writes: &mut PageWrites) -> Result<bool> {
        if self.switching().is_none()
            && let Some(pages) = self.from.local_pages_mut()
            && pages.gather(most, writes)?
        {
            return Ok(true);
        }
        let Some(to) = self.to.as_mut().filter(|to| to.is_switching || to.is_written()) else {
            return Ok(false);
        };
        let Some(pages) = to.backend.local_pages_mut() else { return Ok(false) };
        match to.is_switching {
            true => pages.gather(most, writes),
            false => {
                let gathered = pages.gather(most, writes);
                Ok(to.failure.catch(gathered).unwrap_or(false))
            }
        }
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<Sealed> {
        let to = self.to.as_mut().filter(|to| to.is_switching).map(|to| &mut to.backend);
        match to.unwrap_or(&mut self.from).local_pages_mut() {
            Some(pages) => pages.seal(writes),
            None => Ok(Sealed::default()),
        }
    }
}
