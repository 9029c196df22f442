//! Contents that were written out and wait to be seen by the observer of a write buffer.

use super::options::WrittenContent;
use crate::memory::Slot;
use gemelo_format::Pbn;
use std::collections::VecDeque;
use std::num::NonZeroU64;

/// A content that was written out, with the ticket of its write.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) pbn: Pbn,
    pub(super) ticket: NonZeroU64,
    pub(super) slot: Slot,
}

impl Written {
    pub(super) fn content(&self) -> WrittenContent<'_> {
        WrittenContent { pbn: self.pbn, ticket: self.ticket, bytes: &self.slot }
    }
}

/// A bounded queue of lists of contents.
#[derive(Debug)]
pub(super) struct Unseen {
    lists: VecDeque<Vec<Written>>,
    contents: usize,
    most: usize,
}

impl Unseen {
    pub(super) const fn new(most: usize) -> Self {
        Self { lists: VecDeque::new(), contents: 0, most }
    }

    /// Adds a list, or returns it if there are too many contents.
    pub(super) fn push(&mut self, list: Vec<Written>) -> Result<(), Vec<Written>> {
        if self.contents + list.len() > self.most {
            return Err(list);
        }
        self.contents += list.len();
        self.lists.push_back(list);
        Ok(())
    }

    /// Takes out the oldest list.
    pub(super) fn pop(&mut self) -> Option<Vec<Written>> {
        let list = self.lists.pop_front()?;
        assert!(list.len() <= self.contents, "more contents leave than came");
        self.contents -= list.len();
        Some(list)
    }
}
