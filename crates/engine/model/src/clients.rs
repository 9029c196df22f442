//! The clients: writes in passes, as `engine/write.rs` makes them, reads and trims.

use crate::bounds::spend;
use crate::change::Change;
use crate::commit;
use crate::finder;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode, Pbn};
use crate::protocol::Step;
use crate::state::{Client, Plan};

/// A client asks for a write, and the first pass looks the block up.
pub(crate) fn write(step: &mut Step<'_>, client: u8, cell: Cell, content: Content) -> Option<()> {
    let state = &mut step.state;
    if state.clients[usize::from(client)] != Client::Idle
        || !spend(&mut state.budget.writes)
        || state.mode(cell.volume()).is_none()
    {
        return None;
    }
    state.contents = state.contents.max(content.0);
    if !step.has(Guard::MarkAfterChange) {
        mark(step, cell);
    }
    plan(step, client, cell, content);
    Some(())
}

/// Another pass of a write looks the block up.
pub(crate) fn look_up(step: &mut Step<'_>, client: u8) -> Option<()> {
    let Client::Overtaken { cell, content } = step.state.clients[usize::from(client)] else {
        return None;
    };
    plan(step, client, cell, content);
    Some(())
}

/// Decides on a write without a lock. The look-up is one hold of the state's lock; the pin
/// keeps all blocks that it finds.
fn plan(step: &mut Step<'_>, client: u8, cell: Cell, content: Content) {
    let is_inline = step.state.mode(cell.volume()) == Some(Mode::Inline);
    let fingerprint = is_inline.then(|| step.model.fingerprint(content));
    let found = fingerprint.and_then(|fingerprint| step.state.index[fingerprint.at()]);
    let equal = found.filter(|pbn| is_equal(step, *pbn, content));
    let own = step.state.live.map[cell.at()].map(|entry| entry.pbn);
    let plan = match equal {
        Some(pbn) if own == Some(pbn) => {
            // The block has this content already, and the write ends here.
            end(step, client);
            return;
        }
        Some(pbn) => Plan::Share(pbn),
        None => Plan::Fresh { fingerprint, was_known: found.is_some(), pbn: None },
    };
    step.state.clients[usize::from(client)] = Client::Planned { cell, content, plan };
}

/// Returns whether a block that the index has for a content's fingerprint has that content, as
/// far as the engine looks: it compares bytes only if fingerprints can collide.
pub(crate) fn is_equal(step: &Step<'_>, pbn: Pbn, content: Content) -> bool {
    !step.model.bounds.compares || step.state.store[pbn.at()].content == content
}

/// A write takes a free block and writes its content there. Nothing sees the block in between,
/// so both are one step.
pub(crate) fn store(step: &mut Step<'_>, client: u8, to: Pbn) -> Option<()> {
    let Client::Planned { cell, content, plan: Plan::Fresh { pbn, .. } } =
        &mut step.state.clients[usize::from(client)]
    else {
        return None;
    };
    if pbn.is_some() || !step.state.space.free.has(to.0) {
        return None;
    }
    *pbn = Some(to);
    let (content, volume) = (*content, cell.volume());
    step.state.space.free.remove(to.0);
    finder::forget_remembered(step, to, content, volume);
    write_content(step, to, content);
    Some(())
}

/// Writes a content. A sync that is under way does not cover it.
fn write_content(step: &mut Step<'_>, pbn: Pbn, content: Content) {
    let stored = &mut step.state.store[pbn.at()];
    stored.content = content;
    stored.medium.add(content.0);
    commit::uncover(step, pbn);
}

/// A write finds no free block. It fails, or begins again later, which is a new write.
pub(crate) fn refuse(step: &mut Step<'_>, client: u8) -> Option<()> {
    let planned = step.state.clients[usize::from(client)];
    if !matches!(planned, Client::Planned { plan: Plan::Fresh { pbn: None, .. }, .. })
        || !step.state.space.free.is_empty()
    {
        return None;
    }
    end(step, client);
    Some(())
}

/// A write makes its change under the state's lock, if its assumptions still hold, and is
/// acknowledged. Otherwise it goes through another pass.
pub(crate) fn change(step: &mut Step<'_>, client: u8) -> Option<()> {
    let Client::Planned { cell, content, plan } = step.state.clients[usize::from(client)] else {
        return None;
    };
    let change = match plan {
        Plan::Share(pbn) => {
            may_share(step, pbn, content).then_some(Change::Share { cell, pbn, content })
        }
        Plan::Fresh { fingerprint, was_known, pbn } => {
            let pbn = pbn?;
            let is_known_now =
                fingerprint.is_some_and(|fingerprint| step.state.index[fingerprint.at()].is_some());
            if step.has(Guard::WriterLooksAgain) && !was_known && is_known_now {
                step.free(pbn);
                None
            } else {
                Some(Change::Store { cell, pbn, content, fingerprint })
            }
        }
    };
    let Some(change) = change else {
        step.state.clients[usize::from(client)] = Client::Overtaken { cell, content };
        step.unpin(client);
        return Some(());
    };
    step.apply(change);
    step.acknowledge(cell, content);
    if step.has(Guard::MarkAfterChange) {
        mark(step, cell);
    }
    end(step, client);
    Some(())
}

fn may_share(step: &Step<'_>, pbn: Pbn, content: Content) -> bool {
    let fingerprint = step.model.fingerprint(content);
    !step.has(Guard::WriterChecksRecord)
        || step.state.counts[pbn.at()] > 0
            && step.state.live.fingerprints[pbn.at()] == Some(fingerprint)
}

/// Marks a block for the finder.
fn mark(step: &mut Step<'_>, cell: Cell) {
    if step.state.mode(cell.volume()) == Some(Mode::Offline) {
        step.state.dirty.add(cell.0);
    }
}

/// The request of a client ends, and its pin.
fn end(step: &mut Step<'_>, client: u8) {
    step.state.clients[usize::from(client)] = Client::Idle;
    step.unpin(client);
}

/// A block is unmapped, by a trim or by a write of zeros.
pub(crate) fn trim(step: &mut Step<'_>, cell: Cell) -> Option<()> {
    if step.state.live.map[cell.at()].is_none()
        || step.state.mode(cell.volume()).is_none()
        || !spend(&mut step.state.budget.trims)
    {
        return None;
    }
    step.apply(Change::Unmap { cell });
    step.acknowledge(cell, Content::ZEROS);
    Some(())
}

/// A read looks a block up.
pub(crate) fn begin_read(step: &mut Step<'_>, client: u8, cell: Cell) -> Option<()> {
    let entry = step.state.live.map[cell.at()];
    if step.state.clients[usize::from(client)] != Client::Idle
        || entry.is_none()
        || step.state.mode(cell.volume()).is_none()
        || !spend(&mut step.state.budget.reads)
    {
        return None;
    }
    let volume = cell.volume() as u8;
    step.state.clients[usize::from(client)] = Client::Reading { entry, volume };
    Some(())
}

/// A read gets the content of the block that it has looked up.
pub(crate) fn end_read(step: &mut Step<'_>, client: u8) -> Option<()> {
    let Client::Reading { entry, .. } = step.state.clients[usize::from(client)] else {
        return None;
    };
    if let Some(entry) = entry {
        step.state.is_misread |= step.state.store[entry.pbn.at()].content != entry.checksum;
    }
    end(step, client);
    Some(())
}
