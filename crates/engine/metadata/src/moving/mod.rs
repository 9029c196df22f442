//! The backend of an open pool, which can be moved to another backend while the pool is served.
//!
//! The new backend begins empty, beside the old one, in free slots of the same disk. Every change
//! is made in the old backend, and what it changed of volumes that the new one has is then set
//! there as well ([`follow`]). The maps are copied piece by piece ([`copy`]), a volume after the
//! one that it was cloned from, so that the new maps share what the old ones do, and then the
//! records of blocks, in their order. Each checkpoint of the old backend also writes the pages of
//! the new one, without a root. When the new backend has everything, one checkpoint is that of the
//! new backend, and its root ends the move ([`checkpoint`]). A crash before finds the old backend,
//! and free slots.

mod answers;
mod checkpoint;
mod copy;
mod differ;
mod follow;
mod order;

use crate::error::{MetadataError, Result};
use crate::registry::{BackendContext, NewMetadata, empty};
use crate::stats::Totals;
use crate::traits::{LocalPages, MetadataBackend};
use copy::Copying;
use copy::END_OF_PBNS;
pub use copy::MoveStep;
use gemelo_base::locks::Mutex;
use gemelo_format::{BackendKind, StoreKind};
use order::Copied;
use std::sync::Arc;

/// The backend of an open pool.
pub struct MovableBackend {
    from: Box<dyn MetadataBackend>,
    to: Option<Mirror>,
}

/// The backend that a pool moves to.
struct Mirror {
    backend: Box<dyn MetadataBackend>,
    block_bytes: u64,
    store: StoreKind,
    /// The volumes that it has.
    copied: Copied,
    /// The volume that is being copied.
    copying: Option<Copying>,
    /// `true` once it has the maps of all volumes.
    has_maps: bool,
    /// All blocks before this one have the records that the old backend has.
    identified: u64,
    /// Goes up when a copy begins, and when a part of its base is unmapped: a step that was
    /// prepared before is stale.
    version: u64,
    /// The checkpoint under way has the state of this backend, beside that of the old one.
    is_frozen: bool,
    /// The next checkpoint, or the one under way, is that of this backend.
    is_switching: bool,
    failure: Failure,
}

/// The first error of the new backend, which ends the move and nothing else. A merge without the
/// state's lock may report it.
#[derive(Clone, Default)]
struct Failure(Arc<Mutex<Option<MetadataError>>>);

impl Failure {
    fn is_set(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Notes the error of a result.
    fn catch<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.0.lock().get_or_insert(error).to_string()).ok()
    }
}

/// A move that was given up.
pub struct GivenUp(Mirror);

impl GivenUp {
    /// Returns the reason, if the new backend has failed.
    #[must_use]
    pub fn reason(self) -> Option<MetadataError> {
        self.0.failure.0.lock().take()
    }
}

impl MovableBackend {
    /// Returns the backend of a pool that does not move.
    #[must_use]
    pub fn new(backend: Box<dyn MetadataBackend>) -> Self {
        Self { from: backend, to: None }
    }

    /// Begins a move. No checkpoint may be under way.
    pub fn begin_move(&mut self, kind: BackendKind, home: BackendContext<'_>, cache_bytes: u64) {
        assert!(self.to.is_none(), "one move at a time");
        let totals = self.from.totals();
        let slots = self.from.local_pages().map(LocalPages::space).unwrap_or_default();
        let home = BackendContext { slots, ..home };
        let block_bytes = u64::from(home.superblock.block_bytes);
        let (data_blocks, next_volume) = (totals.data_blocks, totals.next_volume);
        let backend = empty(kind, &home, NewMetadata { data_blocks, next_volume, cache_bytes });
        self.to = Some(Mirror {
            backend,
            block_bytes,
            store: home.superblock.store,
            copied: Copied::default(),
            copying: None,
            has_maps: false,
            identified: 0,
            version: 0,
            is_frozen: false,
            is_switching: false,
            failure: Failure::default(),
        });
    }

    /// Ends a move that has not come to its end, and gives up its pages. No checkpoint may be under
    /// way. Returns what was given up, which may be large.
    pub fn give_up_move(&mut self) -> Option<GivenUp> {
        self.to.take().map(GivenUp)
    }

    /// Returns whether a move is under way.
    #[must_use]
    pub const fn is_moving(&self) -> bool {
        self.to.is_some()
    }

    /// Ends what [`Self::begin_switch`] has begun, if the checkpoint was not written.
    pub fn end_switch(&mut self) {
        self.to.iter_mut().for_each(|to| to.is_switching = false);
    }

    /// Has the next checkpoint be that of the new backend, if this has every volume and no volume
    /// is half made or half removed. Returns whether that is so.
    ///
    /// # Errors
    /// Fails if the new backend has not the same numbers of references and blocks as the old one.
    pub fn begin_switch(&mut self) -> Result<bool> {
        let Some(to) = &mut self.to else { return Ok(false) };
        let volumes = self.from.volumes();
        let has_records = to.identified == END_OF_PBNS;
        let is_complete = |id| has_records && to.copied.has(id) && to.copying.is_none();
        if volumes.iter().any(|volume| volume.is_hidden || !is_complete(volume.id)) {
            return Ok(false);
        }
        to.backend.skip_ids(self.from.totals().next_volume);
        let (old, new) = (self.from.totals(), to.backend.totals());
        let sums = |totals: &Totals| (totals.references, totals.physical);
        if sums(&old) != sums(&new) || to.backend.volumes() != volumes {
            return Err(MetadataError::damaged(format!(
                "the moved metadata have {:?} references and blocks, and those of the pool {:?}",
                sums(&new),
                sums(&old)
            )));
        }
        to.is_switching = true;
        Ok(true)
    }
}
