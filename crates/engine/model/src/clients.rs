//! The clients: writes in passes, as `engine/write.rs` makes them, reads and trims.

use crate::bounds::spend;
use crate::change::Change;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode, Pbn};
use crate::protocol::Step;
use crate::state::{Client, Plan};

impl Step<'_> {
    /// A client asks for a write, and the first pass looks the block up.
    pub(crate) fn write(&mut self, client: u8, cell: Cell, content: Content) -> Option<()> {
        let state = &mut self.state;
        if state.clients[usize::from(client)] != Client::Idle
            || !spend(&mut state.budget.writes)
            || state.mode(cell.volume()).is_none()
        {
            return None;
        }
        state.contents = state.contents.max(content.0);
        if !self.has(Guard::MarkAfterChange) {
            self.mark(cell);
        }
        self.plan(client, cell, content);
        Some(())
    }

    /// Another pass of a write looks the block up.
    pub(crate) fn look_up(&mut self, client: u8) -> Option<()> {
        let Client::Overtaken { cell, content } = self.state.clients[usize::from(client)] else {
            return None;
        };
        self.plan(client, cell, content);
        Some(())
    }

    /// Decides on a write without a lock. The look-up is one hold of the state's lock; the pin
    /// keeps all blocks that it finds.
    fn plan(&mut self, client: u8, cell: Cell, content: Content) {
        let is_inline = self.state.mode(cell.volume()) == Some(Mode::Inline);
        let fingerprint = is_inline.then(|| self.model.fingerprint(content));
        let found = fingerprint.and_then(|fingerprint| self.state.index[fingerprint.at()]);
        let equal = found.filter(|pbn| self.is_equal(*pbn, content));
        let own = self.state.live.map[cell.at()].map(|entry| entry.pbn);
        let plan = match equal {
            Some(pbn) if own == Some(pbn) => {
                // The block has this content already, and the write ends here.
                self.end(client);
                return;
            }
            Some(pbn) => Plan::Share(pbn),
            None => Plan::Fresh { fingerprint, was_known: found.is_some(), pbn: None },
        };
        self.state.clients[usize::from(client)] = Client::Planned { cell, content, plan };
    }

    /// Returns whether a block that the index has for a content's fingerprint has that content, as
    /// far as the engine looks: it compares bytes only if fingerprints can collide.
    pub(crate) fn is_equal(&self, pbn: Pbn, content: Content) -> bool {
        !self.model.bounds.compares || self.state.store[pbn.at()].content == content
    }

    /// A write takes a free block and writes its content there. Nothing sees the block in between,
    /// so both are one step.
    pub(crate) fn store(&mut self, client: u8, to: Pbn) -> Option<()> {
        let Client::Planned { cell, content, plan: Plan::Fresh { pbn, .. } } =
            &mut self.state.clients[usize::from(client)]
        else {
            return None;
        };
        if pbn.is_some() || !self.state.space.free.has(to.0) {
            return None;
        }
        *pbn = Some(to);
        let (content, volume) = (*content, cell.volume());
        self.state.space.free.remove(to.0);
        self.forget_remembered(to, content, volume);
        self.write_content(to, content);
        Some(())
    }

    /// Writes a content. A sync that is under way does not cover it.
    fn write_content(&mut self, pbn: Pbn, content: Content) {
        let stored = &mut self.state.store[pbn.at()];
        stored.content = content;
        stored.medium.add(content.0);
        self.uncover(pbn);
    }

    /// A write finds no free block. It fails, or begins again later, which is a new write.
    pub(crate) fn refuse(&mut self, client: u8) -> Option<()> {
        let planned = self.state.clients[usize::from(client)];
        if !matches!(planned, Client::Planned { plan: Plan::Fresh { pbn: None, .. }, .. })
            || !self.state.space.free.is_empty()
        {
            return None;
        }
        self.end(client);
        Some(())
    }

    /// A write makes its change under the state's lock, if its assumptions still hold, and is
    /// acknowledged. Otherwise it goes through another pass.
    pub(crate) fn change(&mut self, client: u8) -> Option<()> {
        let Client::Planned { cell, content, plan } = self.state.clients[usize::from(client)]
        else {
            return None;
        };
        let change = match plan {
            Plan::Share(pbn) => {
                self.may_share(pbn, content).then_some(Change::Share { cell, pbn, content })
            }
            Plan::Fresh { fingerprint, was_known, pbn } => {
                let pbn = pbn?;
                let is_known_now = fingerprint
                    .is_some_and(|fingerprint| self.state.index[fingerprint.at()].is_some());
                if self.has(Guard::WriterLooksAgain) && !was_known && is_known_now {
                    self.free(pbn);
                    None
                } else {
                    Some(Change::Store { cell, pbn, content, fingerprint })
                }
            }
        };
        let Some(change) = change else {
            self.state.clients[usize::from(client)] = Client::Overtaken { cell, content };
            self.unpin(client);
            return Some(());
        };
        self.apply(change);
        self.acknowledge(cell, content);
        if self.has(Guard::MarkAfterChange) {
            self.mark(cell);
        }
        self.end(client);
        Some(())
    }

    fn may_share(&self, pbn: Pbn, content: Content) -> bool {
        let fingerprint = self.model.fingerprint(content);
        !self.has(Guard::WriterChecksRecord)
            || self.state.counts[pbn.at()] > 0
                && self.state.live.fingerprints[pbn.at()] == Some(fingerprint)
    }

    /// Marks a block for the finder.
    fn mark(&mut self, cell: Cell) {
        if self.state.mode(cell.volume()) == Some(Mode::Offline) {
            self.state.dirty.add(cell.0);
        }
    }

    /// The request of a client ends, and its pin.
    fn end(&mut self, client: u8) {
        self.state.clients[usize::from(client)] = Client::Idle;
        self.unpin(client);
    }

    /// A block is unmapped, by a trim or by a write of zeros.
    pub(crate) fn trim(&mut self, cell: Cell) -> Option<()> {
        if self.state.live.map[cell.at()].is_none()
            || self.state.mode(cell.volume()).is_none()
            || !spend(&mut self.state.budget.trims)
        {
            return None;
        }
        self.apply(Change::Unmap { cell });
        self.acknowledge(cell, Content::ZEROS);
        Some(())
    }

    /// A read looks a block up.
    pub(crate) fn begin_read(&mut self, client: u8, cell: Cell) -> Option<()> {
        let entry = self.state.live.map[cell.at()];
        if self.state.clients[usize::from(client)] != Client::Idle
            || entry.is_none()
            || self.state.mode(cell.volume()).is_none()
            || !spend(&mut self.state.budget.reads)
        {
            return None;
        }
        let volume = cell.volume() as u8;
        self.state.clients[usize::from(client)] = Client::Reading { entry, volume };
        Some(())
    }

    /// A read gets the content of the block that it has looked up.
    pub(crate) fn end_read(&mut self, client: u8) -> Option<()> {
        let Client::Reading { entry, .. } = self.state.clients[usize::from(client)] else {
            return None;
        };
        if let Some(entry) = entry {
            self.state.is_misread |= self.state.store[entry.pbn.at()].content != entry.checksum;
        }
        self.end(client);
        Some(())
    }
}
