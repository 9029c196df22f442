//! Showing contents that were written out to the observer of a write buffer.

use super::WrittenContent;
use super::shared::{Guarded, Locked, Shared};
use super::state::Flight;
use super::unseen::Written;
use gemelo_base::scheduling::use_spare_time;

impl Shared {
    /// Returns whether an observer sees contents that were written out.
    pub(super) const fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    /// Returns the contents of a flight that the observer wants to see. It sees none while writers
    /// wait for room.
    pub(super) fn to_be_seen(&self, guarded: &Guarded, flight: &Flight) -> Vec<Written> {
        match &self.observer {
            Some(observer) if guarded.starving == 0 => {
                let seen = flight.ticketed();
                if seen.is_empty() || observer.wants(seen.len()) {
                    return seen;
                }
                // The flight still has the slots.
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Gives up contents that the observer wanted to see.
    pub(super) fn give_up(&self, guarded: &mut Guarded, seen: Vec<Written>) {
        if let Some(observer) = &self.observer {
            observer.missed(seen.len());
        }
        seen.into_iter().for_each(|seen| guarded.state.memory.put_back(seen.slot));
        // A writer may have waited for the room that is there now.
        self.settled.notify_all();
    }

    /// Shows contents to the observer, until the buffer ends.
    pub(super) fn work_observer(&self) {
        use_spare_time();
        let mut guarded = self.lock();
        while !guarded.is_ending && !guarded.is_broken {
            match guarded.unseen.pop() {
                Some(seen) => self.show(&mut guarded, seen),
                None => guarded.wait(&self.unseen),
            }
        }
    }

    /// Shows contents to the observer.
    pub(super) fn show(&self, guarded: &mut Locked<'_>, seen: Vec<Written>) {
        guarded.unlocked(|| {
            let written: Vec<WrittenContent<'_>> = seen.iter().map(Written::content).collect();
            if let Some(observer) = &self.observer {
                observer.written(&written);
            }
        });
        seen.into_iter().for_each(|seen| guarded.state.memory.put_back(seen.slot));
        // A writer may have waited for the room that is there now.
        self.settled.notify_all();
    }
}
