//! The state that the store, the veto and the worker of a member share.

use crate::blocks::Blocks;
use crate::error::{Result, SharingError};
use crate::foreign::ForeignContents;
use crate::in_flight::InFlight;
use crate::ledger::Ledger;
use crate::own_blocks::OwnBlocks;
use crate::record::{BlockState, Elsewhere, Record};
use gemelo_base::{Classified, FailureKind};
use gemelo_domain::MemberId;
use gemelo_format::{Fingerprinter, Pbn, StoreKind};
use gemelo_store::{ReadCache, Store, VetoedStore};
use gemelo_volume::LeftBlocks;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Waits for requests that read own places: one each 100 µs, for 30 s at most. A disk that needs
/// longer counts as one that hangs.
const READER_WAIT: Duration = Duration::from_micros(100);
const MAX_READER_WAITS: u32 = if cfg!(test) { 1000 } else { 300_000 };

/// Blocks whose own places are given up in one hold of the lock: 64 MiB, of which whole
/// objects are removed together. Only writes that heal a block wait for it.
const DISCARDED_AT_ONCE: usize = 16_384;

/// The shared state of a member. A thread takes the ledger before the blocks.
pub(crate) struct Shared {
    pub(crate) member: MemberId,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) blocks: RwLock<Blocks>,
    /// Intents that the ledger has and the index does not know of.
    pub(crate) orphans: Mutex<Vec<InFlight>>,
    pub(crate) foreign: Arc<dyn ForeignContents>,
    /// `true` to compare bytes before a block is borrowed.
    pub(crate) compares: AtomicBool,
    /// The fingerprints of the open pool.
    pub(crate) fingerprinter: OnceLock<Fingerprinter>,
    /// `true` while a thread works, so that writers may wait for it.
    pub(crate) has_worker: AtomicBool,
    /// `true` if a writer has asked for blocks that are due, and waits for them.
    pub(crate) is_awaited: AtomicBool,
    /// Locked while the own places of borrowed blocks are written or given up.
    own_places: Mutex<()>,
    /// The store of the open pool, without foreign contents and without a buffer.
    below: Mutex<Option<Arc<dyn Store>>>,
    /// The cache of borrowed contents of the open pool.
    cache: Mutex<Option<Arc<ReadCache>>>,
    /// `true` if contents share blocks in that store.
    is_packed: AtomicBool,
    readers: Mutex<Readers>,
    /// A block that the index names and the ledger does not know of, if one was met: records of the
    /// ledger are lost, and nothing is shared, freed or written any more.
    lost: OnceLock<Pbn>,
}

/// The requests that read own places.
#[derive(Default)]
struct Readers {
    /// Cloned by each request.
    current: Arc<()>,
    /// Those of requests that are waited for, or were in vain.
    earlier: Vec<Arc<()>>,
}

impl Readers {
    /// Returns whether the earlier requests have ended.
    fn have_ended(&mut self) -> bool {
        self.earlier.retain(|one| Arc::strong_count(one) > 1);
        self.earlier.is_empty()
    }
}

/// The state that a member begins with.
pub(crate) struct SharedParts {
    pub(crate) member: MemberId,
    pub(crate) ledger: Ledger,
    pub(crate) blocks: Blocks,
    pub(crate) orphans: Vec<InFlight>,
    pub(crate) foreign: Arc<dyn ForeignContents>,
    pub(crate) compares: bool,
}

impl Shared {
    pub(crate) fn new(parts: SharedParts) -> Self {
        let SharedParts { member, ledger, blocks, orphans, foreign, compares } = parts;
        Self {
            member,
            ledger: Mutex::new(ledger),
            blocks: RwLock::new(blocks),
            orphans: Mutex::new(orphans),
            foreign,
            compares: AtomicBool::new(compares),
            fingerprinter: OnceLock::new(),
            has_worker: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            own_places: Mutex::default(),
            below: Mutex::new(None),
            cache: Mutex::new(None),
            is_packed: AtomicBool::new(false),
            readers: Mutex::default(),
            lost: OnceLock::new(),
        }
    }

    /// Notes that records of the ledger are lost, and ends all changes.
    pub(crate) fn note_lost(&self, pbn: Pbn, own: &dyn OwnBlocks) -> SharingError {
        let error = SharingError::LedgerLost { pbn: *self.lost.get_or_init(|| pbn) };
        own.stop(error.to_string());
        error
    }

    /// Fails if records of the ledger are known to be lost.
    pub(crate) fn expect_whole_ledger(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |pbn| Err(SharingError::LedgerLost { pbn: *pbn }))
    }

    pub(crate) fn set_below(&self, own: &VetoedStore) {
        *self.below.lock() = Some(Arc::clone(&own.medium));
        self.cache.lock().clone_from(&own.cache);
        self.is_packed.store(own.kind != StoreKind::Plain, Ordering::Relaxed);
    }

    /// Forgets what the cache has from an earlier time at which these blocks were borrowed.
    pub(crate) fn forget_cached(&self, pbns: &[Pbn]) {
        let cache = self.cache.lock().clone();
        cache.iter().for_each(|cache| pbns.iter().for_each(|pbn| cache.forget(*pbn)));
    }

    /// Returns whether contents share blocks in the store of the open pool.
    pub(crate) fn is_packed(&self) -> bool {
        self.is_packed.load(Ordering::Relaxed)
    }

    /// Returns the store of the open pool.
    pub(crate) fn below(&self) -> Result<Arc<dyn Store>> {
        self.below.lock().clone().ok_or(SharingError::NoPool)
    }

    /// Notes a request that reads own places, until the value is dropped. It is noted before the
    /// places are looked up.
    pub(crate) fn enter(&self) -> Arc<()> {
        Arc::clone(&self.readers.lock().current)
    }

    /// Waits until the requests have ended that may read own places which were looked up before.
    fn await_readers(&self) -> Result<()> {
        {
            let Readers { current, earlier } = &mut *self.readers.lock();
            earlier.push(std::mem::take(current));
        }
        for _ in 0..MAX_READER_WAITS {
            if self.readers.lock().have_ended() {
                return Ok(());
            }
            gemelo_base::pause(READER_WAIT);
        }
        let source = io::Error::from(io::ErrorKind::TimedOut);
        Err(SharingError::Contents { action: "wait for readers of", source })
    }

    /// Gives up the own places of borrowed blocks. The ledger has them as borrowed. A block whose
    /// content was written to its own place meanwhile stays, and one that has other contents.
    pub(crate) fn discard(&self, mut pbns: Vec<Pbn>, own: &dyn OwnBlocks) -> Result<()> {
        if pbns.is_empty() {
            return Ok(());
        }
        self.await_readers()?;
        let below = self.below()?;
        pbns.sort_unstable();
        for pbns in pbns.chunks(DISCARDED_AT_ONCE) {
            let _alone = self.own_places.lock();
            let is_borrowed = |pbn: &Pbn| self.blocks.read().borrowed().get(*pbn).is_some();
            self.assert_elsewhere(pbns);
            let LeftBlocks { unused, open } = own.left_blocks(pbns, &is_borrowed);
            let mut blocks = self.blocks.write();
            open.into_iter().for_each(|pbn| blocks.loosen(pbn));
            drop(blocks);
            discard_runs(&*below, &unused)?;
        }
        Ok(())
    }

    /// Asserts that no block is given up whose content lies nowhere else: not one that borrows from
    /// itself, and not for another block of this member that does not keep the content.
    fn assert_elsewhere(&self, pbns: &[Pbn]) {
        let blocks = self.blocks.read();
        for pbn in pbns {
            let Some((home, content)) = blocks.borrowed().get(*pbn).map(Elsewhere::place) else {
                continue;
            };
            let is_kept = home != self.member || content != *pbn && blocks.may_be_in_index(content);
            assert!(is_kept, "block {} is given up, and its content is only there", pbn.number());
        }
    }

    /// Has the content of a borrowed block written to its own place, durably, and records that it
    /// is read there from now on.
    pub(crate) fn restore(
        &self,
        pbn: Pbn,
        write: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let _alone = self.own_places.lock();
        write()?;
        self.record_restored(pbn).map_err(|error| {
            let kind = match error.kind() {
                FailureKind::Exhausted => io::ErrorKind::StorageFull,
                _ => io::ErrorKind::Other,
            };
            io::Error::new(kind, error)
        })
    }

    fn record_restored(&self, pbn: Pbn) -> Result<()> {
        let ledger = &mut *self.ledger.lock();
        // The reference may have been released meanwhile.
        if let [Some(Record { fingerprint, kind: BlockState::Borrowed(place) })] =
            *ledger.read(&[pbn])?
        {
            let kind = BlockState::Restored(place);
            ledger.write(&BTreeMap::from([(pbn, Some(Record { fingerprint, kind }))]))?;
            self.blocks.write().set_kind(pbn, kind);
        }
        Ok(())
    }
}

fn discard_runs(below: &dyn Store, pbns: &[Pbn]) -> Result<()> {
    for run in pbns.chunk_by(|one, next| one.number() + 1 == next.number()) {
        let Some(first) = run.first() else { continue };
        let count = u32::try_from(run.len()).unwrap_or(u32::MAX);
        below
            .discard(*first, count)
            .map_err(|source| SharingError::Contents { action: "give up", source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
