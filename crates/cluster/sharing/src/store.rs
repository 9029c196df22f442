//! The store of a member: contents that lie in the stores of other members are read there.

use crate::blocks::Noticed;
use crate::foreign::ForeignRead;
use crate::record::{BlockState, Place};
use crate::shared::Shared;
use gemelo_format::{Fingerprint, Pbn};
use gemelo_store::{
    ContentComparison, ContentRead, EachPbn, FreeVeto, LentContent, ReadCache, Store, StoreRoom,
    StoreSetUp, VetoedStore, compare_by_reading,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A store over the member's own one. A borrowed PBN is read at the home of its content, until
/// [`FreeVeto::restore`] has its content at its own place. Nothing else writes to it.
pub(crate) struct SharedStore {
    below: Arc<dyn Store>,
    cache: Option<Arc<ReadCache>>,
    shared: Arc<Shared>,
}

impl SharedStore {
    /// Returns the borrowed blocks of a list, by their numbers in the list.
    fn borrowed(&self, pbns: impl Iterator<Item = Pbn>) -> Vec<(usize, Place)> {
        let blocks = self.shared.blocks.read();
        if blocks.borrowed().len() == 0 {
            return Vec::new();
        }
        let found = pbns
            .enumerate()
            .filter_map(|(at, pbn)| Some((at, blocks.borrowed().get(pbn)?.place())));
        found.collect()
    }

    /// Reads own contents by `below`, and borrowed ones at their homes, or from this cache.
    fn read_by(
        &self,
        reads: &mut [ContentRead<'_>],
        below: impl Fn(&mut [ContentRead<'_>]),
        cache: Option<&ReadCache>,
    ) {
        let _reading = self.shared.enter();
        let borrowed = self.borrowed(reads.iter().map(|read| read.pbn));
        if borrowed.is_empty() {
            return below(reads);
        }
        let mut places = borrowed.into_iter().peekable();
        let (mut own, mut foreign, mut homes) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (at, read) in reads.iter_mut().enumerate() {
            let ContentRead { pbn, within, buffer, is_compared, outcome } = read;
            match places.next_if(|(number, _)| *number == at) {
                Some((_, place)) if place.0 != self.shared.member => {
                    homes.insert(*pbn, place);
                    foreign.push((outcome, ContentRead::new(*pbn, *within, buffer)));
                }
                found => {
                    let pbn = found.map_or(*pbn, |(_, (_, content))| content);
                    let read = ContentRead::new(pbn, *within, buffer);
                    own.push((outcome, ContentRead { is_compared: *is_compared, ..read }));
                }
            }
        }
        let (outcomes, mut list): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        below(&mut list);
        outcomes.into_iter().zip(list).for_each(|(outcome, read)| *outcome = read.outcome);
        let (outcomes, mut list): (Vec<_>, Vec<_>) = foreign.into_iter().unzip();
        if !list.is_empty() {
            let read = |reads: &mut [ContentRead<'_>]| self.read_at_homes(reads, &homes);
            match cache {
                Some(cache) => cache.read(&mut list, read),
                None => read(&mut list),
            }
        }
        outcomes.into_iter().zip(list).for_each(|(outcome, read)| *outcome = read.outcome);
    }

    /// Reads borrowed contents at their homes.
    fn read_at_homes(&self, reads: &mut [ContentRead<'_>], homes: &BTreeMap<Pbn, Place>) {
        let foreign = reads.iter_mut().filter_map(|read| {
            let ContentRead { pbn, within, buffer, outcome, .. } = read;
            let (home, pbn) = *homes.get(pbn)?;
            let within = *within;
            Some((outcome, ForeignRead { home, pbn, within, buffer, outcome: Ok(()) }))
        });
        let (outcomes, mut list): (Vec<_>, Vec<_>) = foreign.unzip();
        self.shared.foreign.read(&mut list);
        outcomes.into_iter().zip(list).for_each(|(outcome, read)| *outcome = read.outcome);
    }
}

impl StoreSetUp for SharedStore {
    gemelo_store::forward_to!(below: blocks, enlarge, cut, copy_label, write_labels, check_labels, content_of_form, write_forms);
}

impl StoreRoom for SharedStore {
    gemelo_store::forward_to!(below: reserve, wants_reserve_ahead, reserve_ahead, discard, min_discard_blocks, allocated_bytes);
}

impl Store for SharedStore {
    gemelo_store::forward_to!(below: block_bytes, write, sync);

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.below.read(list), self.cache.as_deref());
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.below.read_medium(list), None);
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.below.read_ready(list), self.cache.as_deref());
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        let _reading = self.shared.enter();
        match self.borrowed(comparisons.iter().map(|one| one.pbn)).is_empty() {
            true => self.below.compare(comparisons),
            false => compare_by_reading(self, comparisons),
        }
    }
}

/// The veto of a member's blocks.
pub(crate) struct LedgerVeto {
    pub(crate) shared: Arc<Shared>,
}

impl FreeVeto for LedgerVeto {
    fn store_over(&self, own: VetoedStore) -> Arc<dyn Store> {
        self.shared.set_below(&own);
        let VetoedStore { store: below, cache, .. } = own;
        Arc::new(SharedStore { below, cache, shared: Arc::clone(&self.shared) })
    }

    fn is_elsewhere(&self, pbn: Pbn) -> bool {
        self.shared.blocks.read().borrowed().get(pbn).is_some()
    }

    /// In a store that compresses, the own place may be gone with its block.
    fn restore(&self, pbn: Pbn, write: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        if self.shared.is_packed() {
            let why = "the content lies in the store of another member";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        self.shared.restore(pbn, write)
    }

    fn opened(&self, each_used: &EachPbn<'_>, is_used: &dyn Fn(Pbn) -> bool) -> Vec<Pbn> {
        self.shared.blocks.write().note_used(each_used, is_used)
    }

    fn identified(&self, pbns: &[Pbn]) {
        let mut blocks = self.shared.blocks.write();
        pbns.iter().for_each(|pbn| blocks.identify(*pbn));
    }

    fn doubt(&self, pbn: Pbn, copy: Option<Pbn>) {
        self.shared.blocks.write().doubt(Noticed { pbn, copy });
    }

    fn lent(&self, after: Option<Pbn>, most: usize) -> io::Result<Vec<(Pbn, Fingerprint)>> {
        let mut after = after;
        loop {
            let ledger = self.shared.ledger.lock();
            let pbns = self.shared.blocks.read().lent_after(after, most);
            let records = ledger.read(&pbns).map_err(io::Error::other)?;
            drop(ledger);
            assert_eq!(records.len(), pbns.len(), "each block has a record or none");
            after = pbns.last().copied();
            let lent = pbns.into_iter().zip(records).filter_map(|(pbn, record)| {
                let lent = record.filter(|record| record.kind == BlockState::Lent);
                Some((pbn, lent?.fingerprint))
            });
            let lent: Vec<(Pbn, Fingerprint)> = lent.collect();
            if !lent.is_empty() || after.is_none() {
                return Ok(lent);
            }
        }
    }

    fn keep(&self, pbn: Pbn) -> bool {
        if self.shared.expect_whole_ledger().is_err() {
            // Others may use the block, and the ledger does not know of it.
            return true;
        }
        let mut blocks = self.shared.blocks.write();
        let is_kept = blocks.drop_reference(pbn);
        if !is_kept && self.shared.is_packed() {
            blocks.loosen(pbn);
        }
        is_kept
    }

    fn due_blocks(&self) -> u64 {
        // Without a worker nothing would end the wait of a writer.
        if !self.shared.has_worker.load(Ordering::Relaxed) {
            return 0;
        }
        let due = self.shared.blocks.read().soon_free();
        self.shared.is_awaited.fetch_or(due > 0, Ordering::Relaxed);
        due
    }

    fn is_kept(&self, pbn: Pbn) -> bool {
        self.shared.blocks.read().is_kept(pbn)
    }

    fn may_come_back(&self, pbn: Pbn) -> bool {
        self.shared.blocks.read().may_come_back(pbn)
    }

    fn want_back(&self, pbns: &[Pbn]) {
        self.shared.blocks.write().want(pbns);
    }

    fn is_coming_back(&self) -> bool {
        // Without a worker nothing would end the wait.
        self.shared.has_worker.load(Ordering::Relaxed) && self.shared.blocks.read().has_wanted()
    }
}
