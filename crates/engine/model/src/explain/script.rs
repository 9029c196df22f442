//! The changes of a life of the pool, from an opening to a power cut, as its commits have them.

use super::Event;
use crate::change::Change;
use crate::numbers::{Cell, Content, Pbn};
use crate::set::Set;

/// The changes in order, and where the commits end.
#[derive(Debug, Default)]
pub(super) struct Script {
    changes: Vec<Change>,
    ends: Vec<usize>,
    /// Commits that were seen.
    seen: usize,
    /// Blocks whose space is given back and was not seen to be.
    discards: Vec<Pbn>,
    /// Syncs of contents that were not seen to begin.
    syncs: usize,
}

impl Script {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut script = Self::default();
        for event in events {
            match event {
                Event::Commit(changes) => {
                    script.changes.extend(changes);
                    script.ends.push(script.changes.len());
                }
                Event::Discard(pbn) => script.discards.insert(0, *pbn),
                Event::BeginSync => script.syncs += 1,
                _ => {}
            }
        }
        script
    }

    /// An event is seen.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Commit(_) => self.seen += 1,
            Event::Discard(_) => drop(self.discards.pop()),
            Event::BeginSync => self.syncs -= 1,
            _ => {}
        }
    }

    /// Free blocks that a write whose change no commit has may have taken: the first one, and the
    /// first one that is not given back later. Which of the others it was makes no difference.
    pub(super) fn unseen_blocks(&self, free: Set) -> Set {
        let mut blocks = Set::EMPTY;
        let is_kept = |number: &u8| !self.discards.contains(&Pbn(*number));
        free.numbers().take(1).chain(free.numbers().find(is_kept)).for_each(|number| {
            blocks.add(number);
        });
        blocks
    }

    /// The end of the commit that was seen last.
    pub(super) fn end_of_last(&self) -> Option<usize> {
        self.ends.get(self.seen.checked_sub(1)?).copied()
    }

    /// Returns whether these changes may follow the first `made` ones. Other changes are unknown.
    pub(super) fn agrees(&self, made: usize, changes: &[Change]) -> bool {
        let expected = self.changes.iter().skip(made);
        expected.zip(changes).all(|(expected, change)| expected == change)
    }

    /// Returns whether a commit may be closed after so many changes, of which the last one closed
    /// had this number.
    pub(super) fn may_close(&self, made: usize, closed: usize) -> bool {
        match self.ends.iter().find(|end| **end > closed) {
            Some(end) => *end == made,
            // No further commit is seen. One that is closed and never written shows by its sync.
            None => self.syncs > 0,
        }
    }

    /// Returns whether a change must wait until a commit is closed before it.
    pub(super) fn must_close(&self, made: usize, closed: usize) -> bool {
        made > closed && self.ends.contains(&made)
    }

    /// The blocks that a write of a content to an LBN gets by changes that follow.
    pub(super) fn blocks_of(&self, made: usize, cell: Cell, content: Content) -> Set {
        let mut blocks = Set::EMPTY;
        for change in self.changes.iter().skip(made) {
            match *change {
                Change::Store { cell: to, pbn: Pbn(number), content: stored, .. }
                    if to == cell && stored == content =>
                {
                    blocks.add(number);
                }
                _ => {}
            }
        }
        blocks
    }
}
