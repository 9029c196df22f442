//! Blocks that were found damaged since the pool was opened.
//!
//! A damaged block that has a fingerprint becomes *suspect*, which its record says from then on:
//! nothing shares it any more. A write of its content goes to that block again, which mends it for
//! every reference to it.

mod mend;

use super::data::DataPath;
use super::health::Health;
use super::locks::{OrderedMutex, Rank};
use super::log::Log;
use super::parts::Common;
use crate::counters::PoolCounters;
use gemelo_format::{Pbn, VolumeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Damaged blocks that are remembered, so that each is counted once: 1 MiB of memory. Past it a
/// block counts at each read.
const MAX_NOTED: usize = 65_536;
/// Blocks remembered that could not be written; past it the oldest knowledge is dropped, and a
/// write tries such a block once more.
const MAX_UNWRITABLE: usize = 10_000;

/// A damaged block of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub struct DamagedBlock {
    /// The name of the volume.
    pub volume: String,
    /// The number of the block in the volume.
    pub lbn: u64,
    /// The number of the block in the data store.
    pub pbn: u64,
}

/// The place where a damaged block was found: volume, LBN and PBN.
type Noted = (VolumeId, u64, u64);

/// Knows the damaged blocks of an open pool, and mends them.
pub(crate) struct Healer {
    noted: OrderedMutex<BTreeSet<Noted>>,
    unwritable: OrderedMutex<HashSet<Pbn>>,
    data: Arc<DataPath>,
    log: Arc<Log>,
    health: Arc<Health>,
    counters: Arc<PoolCounters>,
}

impl Healer {
    pub(super) fn new(common: &Common) -> Self {
        let health = &common.health;
        Self {
            noted: OrderedMutex::new(Rank::Damages, health, BTreeSet::new()),
            unwritable: OrderedMutex::new(Rank::Damages, health, HashSet::new()),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            health: Arc::clone(health),
            counters: Arc::clone(&common.counters),
        }
    }

    /// Records a damaged block. Returns `true` if it was not recorded yet.
    fn note(&self, damage: Noted) -> bool {
        let mut noted = self.noted.lock();
        !noted.contains(&damage) && (noted.len() >= MAX_NOTED || noted.insert(damage))
    }

    fn noted(&self) -> Vec<Noted> {
        self.noted.lock().iter().copied().collect()
    }

    /// Forgets a block whose content was written again.
    pub(super) fn forget(&self, pbn: Pbn) {
        self.noted.lock().retain(|(_, _, number)| *number != pbn.number());
    }

    /// Records a suspect block that could not be written. Its content has to be stored elsewhere.
    pub(super) fn note_unwritable(&self, pbn: Pbn) {
        let mut unwritable = self.unwritable.lock();
        if unwritable.len() >= MAX_UNWRITABLE {
            unwritable.clear();
        }
        unwritable.insert(pbn);
    }

    pub(super) fn is_unwritable(&self, pbn: Pbn) -> bool {
        self.unwritable.lock().contains(&pbn)
    }
}
