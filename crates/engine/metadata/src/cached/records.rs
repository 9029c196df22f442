//! The records of blocks: their counts and identities, in a delta, in the frozen delta of the
//! checkpoint under way, and in the pages of the last checkpoint, of which the first decides.

use super::delta::{Delta, SpareDelta};
use super::family::{Gains, NewCount};
use super::pages::Pages;
use super::stored::Array;
use crate::error::{MetadataError, Result};
use gemelo_format::{Identity, Part, Pbn, StoreKind, StoreTable, WordForm};
use std::ops::Range;
use std::sync::Arc;

/// The records on disk as of a checkpoint.
#[derive(Clone, Default)]
pub(super) struct StoredRecords {
    pub(super) counts: Array,
    /// The counts for which `counts` has too few bits.
    pub(super) many: Array,
    pub(super) fingerprints: Array,
}

impl StoredRecords {
    pub(super) fn of(table: &StoreTable) -> Self {
        Self {
            counts: table.counts.into(),
            many: table.many.into(),
            fingerprints: table.fingerprints.into(),
        }
    }

    /// The arrays, each with its part and its name for people.
    pub(super) const fn arrays(&self) -> [(&Array, Part, &'static str); 3] {
        [
            (&self.counts, Part::Counts, "reference counts"),
            (&self.many, Part::Many, "large reference counts"),
            (&self.fingerprints, Part::Fingerprints, "fingerprints"),
        ]
    }
}

/// The records that a checkpoint writes.
pub(super) struct FrozenRecords {
    pub(super) delta: Delta,
    pub(super) pbn_end: u64,
    /// Blocks with references.
    pub(super) physical: u64,
    /// A key of each lost page.
    pub(super) lost: Vec<(Part, u64)>,
}

/// The records of all blocks.
pub(super) struct Records {
    pub(super) pages: Arc<Pages>,
    pub(super) store: StoreKind,
    pub(super) data_blocks: u64,
    /// Blocks with references.
    pub(super) physical: u64,
    pub(super) active: Delta,
    pub(super) frozen: Option<Arc<FrozenRecords>>,
    pub(super) stored: StoredRecords,
    pub(super) spare: SpareDelta,
    /// Off while the journal of a damaged pool is replayed: counts are computed at its end, because
    /// a replay past a lost commit may share blocks that nothing refers to, and use blocks twice.
    pub(super) is_counting: bool,
    /// Keys whose pages were lost, those of an index on disk included. The next checkpoint replaces
    /// the pages. Only a salvaged pool has any.
    pub(super) lost: Vec<(Part, Range<u64>)>,
}

impl Records {
    /// The records of a pool without references.
    pub(super) fn new(pages: &Arc<Pages>, store: StoreKind, data_blocks: u64) -> Self {
        Self {
            pages: Arc::clone(pages),
            store,
            data_blocks,
            physical: 0,
            active: Delta::default(),
            frozen: None,
            stored: StoredRecords::default(),
            spare: SpareDelta::default(),
            is_counting: true,
            lost: Vec::new(),
        }
    }

    /// A number above all PBNs of the data store.
    pub(super) const fn pbn_end(&self) -> u64 {
        self.store.pbn_end(self.data_blocks)
    }

    /// Notes that the data store has at least this many blocks.
    pub(super) fn grow(&mut self, data_blocks: u64, form: WordForm) -> Result<()> {
        if data_blocks > self.store.max_blocks(form) {
            return Err(MetadataError::damaged("a change enlarges the store too much"));
        }
        self.data_blocks = self.data_blocks.max(data_blocks);
        Ok(())
    }

    pub(super) fn check_pbn(&self, pbn: Pbn) -> Result<()> {
        if self.store.has(pbn, self.data_blocks) {
            return Ok(());
        }
        Err(MetadataError::damaged(format!(
            "the metadata refer to block {}, which is outside of the data store",
            pbn.number()
        )))
    }

    /// The deltas, the newest first.
    pub(super) fn deltas(&self) -> impl Iterator<Item = &Delta> + Clone {
        [&self.active].into_iter().chain(self.frozen_delta())
    }

    pub(super) fn frozen_delta(&self) -> Option<&Delta> {
        self.frozen.as_ref().map(|frozen| &frozen.delta)
    }

    /// Gives a block that was free its content and its first reference.
    pub(super) fn store(&mut self, pbn: Pbn, identity: Identity) {
        self.fill(pbn, identity, 1);
    }

    /// Gives a block that was free its content and so many references.
    fn fill(&mut self, pbn: Pbn, identity: Identity, references: u32) {
        self.active.set_identity(pbn.number(), identity);
        if self.is_counting {
            self.active.counts.insert(pbn.number(), references);
            self.physical = self.physical.saturating_add(1);
        }
    }

    /// Gives a block that was free the content of another one, which becomes free, with all
    /// references to it. Returns their number.
    pub(super) fn move_content(&mut self, from: Pbn, to: Pbn, freed: &mut Vec<Pbn>) -> Result<u32> {
        let identity = self.identity(from.number())?;
        let before = if self.is_counting { self.count(from.number())? } else { 0 };
        if self.is_counting {
            if before == 0 {
                let number = from.number();
                let what = format!("a change moves block {number}, to which nothing refers");
                return Err(MetadataError::damaged(what));
            }
            self.set_count(NewCount { pbn: from.number(), before, after: 0 }, freed);
        }
        self.fill(to, identity, before);
        Ok(before)
    }

    /// Notes that the data store has fewer blocks from now on.
    pub(super) fn cut(&mut self, data_blocks: u64) -> Result<()> {
        let wrong = |what: &str| Err(MetadataError::damaged(format!("a change cuts {what}")));
        if data_blocks == 0 || data_blocks > self.data_blocks {
            return wrong("the store to a size that it cannot have");
        }
        // Without counts it shows when they are computed.
        if let Some(first) = self.store.first_pbn_from(data_blocks).filter(|_| self.is_counting) {
            let mut is_used = false;
            self.visit_used(first, &mut |pbn| is_used |= !self.store.has(pbn, data_blocks))?;
            if is_used {
                return wrong("blocks off that are in use");
            }
        }
        self.data_blocks = data_blocks;
        Ok(())
    }

    pub(super) fn suspect(&mut self, pbn: Pbn, is_suspect: bool) -> Result<()> {
        self.check_pbn(pbn)?;
        if !self.is_counting || self.count(pbn.number())? > 0 {
            let identity = self.identity(pbn.number())?.with_suspect(is_suspect);
            self.active.set_identity(pbn.number(), identity);
        }
        Ok(())
    }

    /// The counts of blocks after they got these references. None change while they are not
    /// counted.
    pub(super) fn counts_after(&self, gains: &Gains) -> Result<Vec<NewCount>> {
        if !self.is_counting {
            return Ok(Vec::new());
        }
        gains.counts(&self.counts_of(&gains.pbns())?)
    }

    /// Gives a block a new count. A block without references is free.
    pub(super) fn set_count(&mut self, count: NewCount, freed: &mut Vec<Pbn>) {
        let NewCount { pbn, before, after } = count;
        self.active.counts.insert(pbn, after);
        self.active.read_counts.add(pbn, before);
        if after == 0 {
            self.physical = self.physical.saturating_sub(1);
            self.active.forget_identity(pbn);
            freed.extend(Pbn::new(pbn));
        }
    }

    /// Begins a checkpoint of the present records.
    pub(super) fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        self.frozen = Some(Arc::new(FrozenRecords {
            delta: std::mem::replace(&mut self.active, self.spare.take()),
            pbn_end: self.pbn_end(),
            physical: self.physical,
            lost: self.lost.iter().map(|(part, keys)| (*part, keys.start)).collect(),
        }));
    }

    /// Ends a checkpoint that is durable. When what it has written is dropped, which takes a while,
    /// the memory of its delta is kept.
    pub(super) fn finish(&mut self, stored: StoredRecords) -> Spent {
        self.stored = stored;
        self.lost = Vec::new();
        Spent { frozen: self.frozen.take(), spare: self.spare.clone() }
    }

    /// Gives up a checkpoint. The next one writes its changes too.
    pub(super) fn abandon(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            self.active.put_under(&frozen.delta);
        }
    }
}

/// The records that a checkpoint has written.
pub(super) struct Spent {
    frozen: Option<Arc<FrozenRecords>>,
    spare: SpareDelta,
}

impl Drop for Spent {
    fn drop(&mut self) {
        if let Some(frozen) = self.frozen.take().and_then(Arc::into_inner) {
            self.spare.keep(frozen.delta);
        }
    }
}
