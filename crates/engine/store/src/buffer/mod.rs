//! A store that acknowledges writes from memory and writes them out later, steadily and in long
//! runs.
//!
//! A write copies its contents into a bounded memory and returns. Reads and comparisons look there
//! first. Space is reserved before a write returns, so that a full file system is an error of the
//! write and not of a later sync; a thread reserves more ahead of need. Other threads write
//! out the oldest contents, together with those of neighbouring PBNs. A full memory makes writers
//! wait. [`Store::sync`] waits until all contents that were written before it are in the store
//! below, and syncs that. A crash loses what the memory holds, as it loses every write that no sync
//! has covered.
//!
//! Contents that were written out go to a cache (`crate::cache`), which also keeps what is read
//! often. The buffer gives the cache their memory, and gets as much back.
//!
//! A content that could not be written out stays in memory, where reads find it, and each
//! [`WriteBuffer::write_out`] tries it again. If there was no space for it, writes fail until there
//! is; after any other error they go to the store below at once, so that each gets its own error.
//! Its owner gives up a content when nothing refers to its block any more.
//!
//! A panic breaks the buffer: nobody waits any more for contents that are in flight, and every
//! write and every sync fails. Reads go on.

mod ahead;
mod observe;
mod options;
mod queue;
mod read;
mod shared;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod unseen;
mod unwritten;
mod writer;

pub use options::{BufferOptions, WriteObserver, WrittenContent};
pub use shared::ToldOfPanic;
pub use stats::BufferStats;
pub use unwritten::Unwritten;
pub use writer::{Untried, WriteOut};

use crate::cache::{ContentCacheStats, Purpose};
use crate::memory::{Slot, fill};
use crate::{
    ContentComparison, ContentRead, ContentWrite, LentContent, Store, StoreRoom, StoreSetUp,
};
use gemelo_base::Clock;
use gemelo_base::panics;
use gemelo_format::Pbn;
use shared::Shared;
use state::ContentKey;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use unwritten::broken;
use writer::Room;

/// A store that acknowledges writes from memory; see the module.
pub struct WriteBuffer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl WriteBuffer {
    /// Makes a buffer over a store. Nothing else may write to the store from now on. The observer
    /// sees contents that were written out; `told` is told of a panic of a thread of the buffer.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub fn new(
        store: Arc<dyn Store>,
        options: BufferOptions,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn WriteObserver>>,
        told: ToldOfPanic,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(store, options, clock, observer, told));
        let mut buffer = Self { shared, threads: Vec::new() };
        if options.background {
            for _ in 0..options.threads {
                buffer.start("gemelo-write", Shared::work)?;
            }
            if buffer.shared.has_observer() {
                buffer.start("gemelo-observe", Shared::work_observer)?;
            }
            buffer.start("gemelo-ahead", ahead::work_ahead)?;
            if !buffer.shared.cache.is_off() {
                buffer.start("gemelo-cache", |shared| shared.cache.make_memory())?;
            }
        }
        Ok(buffer)
    }

    fn start(&mut self, name: &str, work: fn(&Shared)) -> io::Result<()> {
        let (shared, told) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let told = move |panicked| told.break_off(panicked);
        self.threads.push(panics::start(name, told, move || work(&shared))?);
        Ok(())
    }

    /// Returns the figures of the buffer.
    #[must_use]
    pub fn figures(&self) -> BufferStats {
        self.shared.figures()
    }

    /// Returns the figures of the cache.
    #[must_use]
    pub fn cache_figures(&self) -> ContentCacheStats {
        self.shared.cache.figures()
    }

    /// Forgets contents of the cache that were found damaged. They may be good in the store below.
    pub fn forget_cached(&self, pbns: impl Iterator<Item = Pbn>) {
        pbns.for_each(|pbn| self.shared.forget_cached(pbn));
    }

    /// Returns whether the disk is slower than the writers: one of them found no room, and none has
    /// found half of it free since then.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.shared.is_overloaded()
    }

    /// Writes out all contents that were written before. It makes nothing durable.
    ///
    /// # Errors
    /// Fails if a content could not be written at the second try.
    pub fn write_out(&self) -> Result<(), Unwritten> {
        self.shared.write_out()
    }

    /// Begins to write out all contents that were written before. Without threads of the buffer,
    /// the work is left to [`Self::write_out_and_hold`].
    #[must_use]
    pub fn begin_write_out(&self) -> WriteOut {
        self.shared.begin_write_out()
    }

    /// Waits for a write-out, for a caller that goes on without the contents that could not be
    /// written. They stay as they are while it holds what this returns; `None` if there are none.
    ///
    /// # Errors
    /// Fails if a thread of the buffer has panicked.
    pub fn write_out_and_hold(&self, begun: WriteOut) -> Result<Option<Untried<'_>>, Unwritten> {
        self.shared.write_out_and_hold(begun)
    }

    /// Makes durable what was written out.
    ///
    /// # Errors
    /// Fails as [`Store::sync`] of the store below does.
    pub fn sync_written(&self) -> io::Result<()> {
        self.shared.sync_written()
    }

    /// Returns the PBNs whose contents could not be written out.
    #[must_use]
    pub fn unwritten(&self) -> Vec<Pbn> {
        self.shared.lock().state.failed()
    }

    /// Returns an error of a content that could not be written out, if there is one. One that is
    /// not for lack of space comes first.
    #[must_use]
    pub fn failure(&self) -> Option<Unwritten> {
        self.shared.lock().state.failure().map(Unwritten::from)
    }

    /// Gives up contents that could not be written out, because nothing refers to their blocks. A
    /// request may still read them, until [`Self::forget`].
    pub fn give_up(&self, pbns: &[Pbn]) {
        self.shared.give_up_contents(pbns);
    }

    /// Forgets those of these contents that were given up. No request reads them any more.
    pub fn forget(&self, pbns: &[Pbn]) {
        if self.shared.has_unneeded() {
            self.shared.forget_unneeded(pbns);
        }
    }

    /// Holds contents for which the store below has no space, as if they had been written.
    ///
    /// # Errors
    /// Fails if there is too little memory.
    pub fn hold_unwritten(&self, contents: &[(Pbn, &[u8])]) -> io::Result<()> {
        let slots = self.shared.take_all_slots(contents.len()).ok_or(io::ErrorKind::StorageFull)?;
        let held = contents.iter().zip(slots).map(|((pbn, content), mut slot)| {
            fill(&mut slot, content);
            (ContentKey { pbn: *pbn, ticket: None }, slot)
        });
        self.shared.insert(held, None);
        Ok(())
    }

    /// Replaces a content that [`Self::write_aside`] has written, and that waits to be written out,
    /// by a newer one of the same PBN. Returns `false`, and changes nothing, if it does not wait
    /// any more, if it could not be written out, or if another write has replaced it: a content
    /// that is healed in a block is in none of the versions that the owner of the block has.
    #[must_use]
    pub fn replace_aside(&self, pbn: Pbn, content: &[u8]) -> bool {
        let Room::Slots(slots) = self.shared.take_slots(1) else { return false };
        slots.into_iter().all(|mut slot| {
            fill(&mut slot, content);
            self.shared.replace_aside(pbn, slot)
        })
    }

    /// Writes a content that is to be replaced soon, and keeps it in memory if there is room. It is
    /// written out when another one is written in this way, or by the next
    /// [`Self::begin_write_out`].
    pub fn write_aside(&self, write: &mut ContentWrite<'_>) {
        let pbn = write.pbn;
        let writes = std::slice::from_mut(write);
        ahead::reserve(&self.shared, writes);
        if writes.iter().all(|write| write.outcome.is_ok()) {
            // In one step, so that no thread begins to write it out before.
            self.hold(writes, Some(pbn));
        }
    }

    /// Shows the newest contents of these PBNs if all of them are in memory. Returns `false`, and
    /// may have shown some, if one is not.
    pub fn show(&self, pbns: &[Pbn], mut each: impl FnMut(Pbn, &[u8])) -> bool {
        let found = self.find_held(pbns.iter().copied());
        let mut held = found.iter().map(|(at, slot)| (*at, slot)).peekable();
        let are_all = pbns.iter().enumerate().all(|(at, pbn)| {
            if let Some((_, slot)) = held.next_if(|(held, _)| *held == at) {
                each(*pbn, slot);
                return true;
            }
            self.shared.cache.find(*pbn).map(|slot| each(*pbn, &slot)).is_some()
        });
        self.put_back(found);
        are_all
    }

    /// Copies contents into memory, in parts if there is too little of it. One of them may be set
    /// aside.
    fn hold(&self, writes: &mut [ContentWrite<'_>], aside: Option<Pbn>) {
        let mut rest = writes;
        while !rest.is_empty() {
            let mut slots = match self.shared.take_slots(rest.len()) {
                Room::Slots(slots) => slots,
                Room::None => return self.shared.write_through(rest),
                Room::Broken => return fail(rest, broken),
                // A content that waits for space goes first: without space for it, there is none.
                Room::Full => match self.write_out() {
                    Ok(()) => continue,
                    Err(error) if error.is_full() => {
                        return fail(rest, || io::ErrorKind::StorageFull.into());
                    }
                    Err(_) => return self.shared.write_through(rest),
                },
            };
            let (now, later) = rest.split_at_mut(slots.len());
            now.iter().zip(&mut slots).for_each(|(write, slot)| fill(slot, write.content));
            let key =
                |write: &ContentWrite<'_>| ContentKey { pbn: write.pbn, ticket: write.ticket };
            let held = now.iter().zip(slots).map(|(write, slot)| (key(write), slot));
            self.shared.insert(held, aside);
            rest = later;
        }
    }

    fn put_back(&self, found: Vec<(usize, Slot)>) {
        self.shared.put_back(found.into_iter().map(|(_, slot)| slot));
    }
}

/// Sets the outcomes of writes that nothing was done for.
fn fail(writes: &mut [ContentWrite<'_>], error: impl Fn() -> io::Error) {
    writes.iter_mut().for_each(|write| write.outcome = Err(error()));
}

impl StoreSetUp for WriteBuffer {
    forward_to!(shared.store: blocks, enlarge, cut, copy_label, write_labels, check_labels, content_of_form);

    fn write_forms(&self, forms: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        let written = self.shared.store.write_forms(forms);
        forms.iter().for_each(|(pbn, _)| self.shared.forget_cached(*pbn));
        written
    }
}

impl StoreRoom for WriteBuffer {
    forward_to!(shared.store: allocated_bytes, min_discard_blocks, reserve, wants_reserve_ahead, reserve_ahead);

    /// Waits until none of these PBNs is being written, and forgets their contents.
    fn discard(&self, first: Pbn, count: u32) -> io::Result<()> {
        self.shared.forget(first, count)?;
        self.shared.store.discard(first, count)
    }
}

impl Store for WriteBuffer {
    forward_to!(shared.store: block_bytes);

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        self.read_cached(reads, Purpose::Wait);
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.read_cached(reads, Purpose::Ready);
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read_uncached(reads);
    }

    fn lend(&self, pbns: &[Pbn]) -> Vec<(usize, LentContent)> {
        self.lend_cached(pbns)
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        writes.iter_mut().for_each(|write| write.outcome = Ok(()));
        ahead::reserve(&self.shared, writes);
        for some in writes.chunk_by_mut(|one, next| one.outcome.is_ok() == next.outcome.is_ok()) {
            if some.first().is_some_and(|write| write.outcome.is_ok()) {
                self.hold(some, None);
            }
        }
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        self.compare_cached(comparisons);
    }

    /// Writes out and syncs. A caller that has to tell the two failures apart calls
    /// [`WriteBuffer::write_out`] and [`WriteBuffer::sync_written`].
    fn sync(&self) -> io::Result<()> {
        self.write_out().map_err(Unwritten::into_io)?;
        self.sync_written()
    }
}

impl Drop for WriteBuffer {
    /// Writes out the contents that are held, as far as that succeeds.
    fn drop(&mut self) {
        self.shared.end();
        for thread in self.threads.drain(..) {
            // A panic in it has been reported.
            let _ = thread.join();
        }
        self.shared.drain();
    }
}
