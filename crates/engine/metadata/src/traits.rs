//! The traits of the metadata, split by what is asked.
//!
//! A caller takes the narrowest trait that it needs: a walk over all blocks takes [`Map`], a search
//! for duplicates takes [`Index`]. The engine holds a [`MetadataBackend`], which is all of them.
//!
//! A method that returns a [`Result`] may read. It fails if what it reads is damaged or cannot be
//! read. A method without a [`Result`] answers from memory. Look-ups run at the same time as each
//! other; changes run alone.

use super::stats::{Garbage, KnownBlock, Pressure, Record, SlotNeed, Totals};
use crate::cached::MissingPages;
use crate::error::Result;
use gemelo_format::{
    Change, Fingerprint, Lbn, MapEntry, NodeRef, Pbn, Policy, SlotWrite, VolumeId, VolumeRecord,
};
use std::collections::HashSet;
use std::ops::Range;

/// LBNs that differ in two maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences {
    /// The LBNs in order.
    pub entries: Vec<DifferingEntry>,
    /// The end of the LBNs that were compared.
    pub end: Lbn,
}

/// An LBN that differs in two maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferingEntry {
    /// The LBN.
    pub lbn: Lbn,
    /// Its place in the other map.
    pub other: MapEntry,
    /// Its place in the volume's map.
    pub own: MapEntry,
}

/// The map of each volume: LBN to place.
pub trait Map {
    /// Adds the place of every LBN to `places`.
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<MapEntry>) -> Result<()>;

    /// The first LBN from `from` on, but before `end`, that is not unmapped.
    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>>;

    /// Returns whether other volumes have the same entry of this LBN, and all these entries are
    /// counted as one reference. A backend that counts every entry returns `false`.
    fn is_in_shared_part(&self, volume: VolumeId, lbn: Lbn) -> bool;

    /// The end of the LBNs from `from` on that one change may unmap in a few milliseconds, where
    /// unmapping `most` LBNs one by one takes that long. It is above `most` LBNs where parts of the
    /// map are shared, which one change drops as a whole. The last end is above every LBN.
    fn piece_end(&self, volume: VolumeId, from: Lbn, most: u64) -> Lbn;

    /// The next such piece from `from` on, or `None` if nothing more has to be unmapped. A backend
    /// may leave the last piece of a hidden volume to its removal. What unmapping a piece of a
    /// hidden volume needs is in memory then, so that [`Self::warm`] has nothing to read.
    fn next_piece(&self, volume: VolumeId, from: Lbn, most: u64) -> Result<Option<Range<Lbn>>>;

    /// The end of a part of the maps of two volumes that has this LBN and that both share, so that
    /// none of its LBNs differs.
    fn shared_end(&self, volume: VolumeId, other: VolumeId, lbn: Lbn) -> Result<Option<Lbn>>;

    /// Compares the maps of a volume and another one, or an empty one, in these LBNs: as many as
    /// `most` leaves that differ. Parts that both maps share are not looked at.
    fn differences(
        &self,
        volume: VolumeId,
        other: Option<VolumeId>,
        lbns: Range<Lbn>,
        most: usize,
    ) -> Result<Differences>;

    /// Reads what changes of the LBNs from `from` to `end` need, so that the changes themselves do
    /// not wait for a disk. Reads for a few milliseconds at most, and gives the first LBN that is
    /// left; `end` if nothing is. A backend that keeps its metadata in memory has nothing to read.
    fn warm(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Lbn>;
}

/// The index of contents and the records of blocks, which hold their reference counts.
pub trait Index {
    /// The pages that the last [`crate::HeldPages::look`] of this thread has missed. `None` if it
    /// has missed none of this backend.
    fn missing_pages(&self) -> Option<MissingPages>;

    /// Adds to `found`, for every fingerprint, a block that has the content, if the index knows
    /// one.
    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<KnownBlock>>)
    -> Result<()>;

    /// Adds the record of every PBN to `records`.
    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()>;

    /// Adds the reference count of every PBN to `counts`, as the PBN's record has it.
    fn counts(&self, pbns: &[Pbn], counts: &mut Vec<u32>) -> Result<()>;

    /// Calls `visit` with every PBN from `first` on that has a reference.
    fn visit_used(&self, first: Pbn, visit: &mut dyn FnMut(Pbn)) -> Result<()>;

    /// Brings into memory, or into the processor's caches, the counts that changes of these LBNs
    /// will need, which have these places. Fails also if any page was found damaged since the pool
    /// was opened: a pool with a damaged page takes no writes.
    fn prefetch(&self, volume: VolumeId, lbns: &[Lbn], places: &[MapEntry]) -> Result<()>;

    /// Reads a part of what the index of an opened pool needs to lead to every block, for a few
    /// milliseconds. Returns `true` if more is left; until then a duplicate may be stored again. A
    /// backend whose index is complete when the pool is open has nothing to read.
    fn catch_up(&self) -> Result<bool>;
}

/// The list of volumes, which every backend keeps in memory.
pub trait Volumes {
    /// The records of all volumes, by id; hidden ones included.
    fn volumes(&self) -> Vec<VolumeRecord>;

    /// The record of a volume.
    fn description(&self, volume: VolumeId) -> Option<VolumeRecord>;

    /// Replaces the record of a volume, whose map stays as it is.
    fn describe(&mut self, record: VolumeRecord) -> Result<()>;

    /// Gives the next volume at least this id, because volumes with the ids below it existed.
    fn skip_ids(&mut self, next_volume: u32);

    /// The number of LBNs of a volume that are not unmapped; 0 for an unknown volume.
    fn mapped_blocks(&self, volume: VolumeId) -> u64;

    /// The most LBNs that the removal of a volume looks at.
    fn blocks_to_remove(&self, volume: VolumeId) -> u64;

    /// The most LBNs that one change may unmap. The engine cuts larger volumes piece by piece.
    fn piece_blocks(&self) -> u64;
}

/// Checkpoints: a checkpoint writes the state of one instant, so the journal before that instant is
/// no longer needed.
///
/// The order is `freeze`, `merge`, `seal`, then `finish` once the root is durable, or `abandon`
/// after a failure. After a failure while the root was written it is unknown which root is on the
/// disk, so the checkpoint neither finishes nor is abandoned, and none follows it. Changes go on
/// meanwhile.
pub trait Checkpoint {
    /// Returns how urgently the backend needs a checkpoint.
    fn pressure(&self) -> Pressure;

    /// Returns whether another clone may be made before the next checkpoint, however urgent that
    /// is for other changes.
    fn has_room_for_clone(&self) -> bool;

    /// The pages that a replay of the changes since the last durable checkpoint would read, at
    /// most. A backend whose metadata are in memory reads none. A B-tree may have two pages where
    /// an array has one, which count once.
    fn replay_reads(&self) -> u64;

    /// Has the next checkpoint keep an index in memory for the next opening, or not. One that is
    /// still being computed is not kept, and one that is being read is read to its end.
    fn keep_index(&mut self, keeps: bool) -> Result<()>;

    /// Returns whether maps name blocks whose contents were moved away. None of these may be given
    /// out before the next checkpoint is durable.
    fn has_moved_blocks(&self) -> bool;

    /// Returns whether maps may name a block because its content was there before a checkpoint that
    /// is to come.
    fn is_moved_away(&self, pbn: Pbn) -> bool;

    /// Begins a checkpoint of the present state; changes may follow at once.
    fn freeze(&mut self);

    /// The part of the checkpoint that runs without the state's lock, if there is one.
    fn merge(&self) -> Option<Merge>;

    /// Ends a checkpoint whose root is durable. Slots that only the checkpoint before needed may be
    /// used again.
    fn finish(&mut self) -> Garbage;

    /// Ends a checkpoint that failed before the write of its root began, and gives back the slots
    /// that it took. The next checkpoint writes the frozen changes too.
    fn abandon(&mut self);

    /// Slots of the metadata disk in use, and those that the next checkpoint may take.
    fn slots(&self) -> SlotNeed;

    /// Notes that the first slots have their space on the disk.
    fn note_allocated(&self, slots: u64);

    /// Adds the pages of the table that names the pages of the merge.
    fn seal(&mut self, writes: &mut PageWrites) -> Result<Sealed>;
}

/// Checking the state against itself, and repairing it.
pub trait Repair {
    /// Returns whether the fingerprint of this PBN was lost with its page.
    fn is_record_lost(&self, pbn: Pbn) -> bool;

    /// Sets fingerprints that were computed anew, and marks the LBNs of lost contents as damaged.
    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<MapEntry>) -> Result<()>;

    /// Counts the references to every PBN again and compares counts, totals and index with them.
    /// Returns descriptions of the differences, at most `most`.
    fn prove(&self, most: usize) -> Result<Vec<String>>;
}

/// A store of the engine's metadata.
pub trait MetadataBackend: Map + Index + Volumes + Checkpoint + Repair + Send + Sync {
    /// The policy that the root of a checkpoint names.
    fn policy(&self) -> Policy;

    /// Checks that a change can be made on the present state. A change that passes fails only if
    /// metadata cannot be read meanwhile.
    ///
    /// # Errors
    /// Fails if the change contradicts the state, or if metadata cannot be read. Nothing is changed
    /// then.
    fn check_change(&self, change: &Change) -> Result<()>;

    /// Makes changes that were checked, in order, and adds PBNs that lost their last reference to
    /// `freed`.
    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()>;

    /// Makes the changes of a commit that is replayed. A backend that reads metadata reads ahead.
    fn replay(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()>;

    /// Ends the replay of the journal: computes what is not stored, and marks what was damaged as
    /// changed, so that the next checkpoint writes it anew.
    fn settle(&mut self) -> Result<()>;

    /// Sums over the whole pool.
    fn totals(&self) -> Totals;
}

/// The part of a checkpoint that needs no lock; gives the number of pages that it wrote.
pub type Merge = Box<dyn FnOnce() -> Result<u64> + Send>;

/// Pages to be written, each to both places of its slot.
pub type PageWrites = Vec<SlotWrite>;

/// The table that a checkpoint has written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sealed {
    /// The table's first page.
    pub table: Option<NodeRef>,
    /// The bytes of the table.
    pub table_bytes: u64,
}
