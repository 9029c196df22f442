//! Checkpoints: writing the state of one instant, so that the journal before it is not needed any
//! more.

use super::Log;
use super::commit::{Committer, Written};
use super::reserve::{MAX_RESERVE_SLOTS, MIN_RESERVE_SLOTS};
use crate::counters::add;
use crate::engine::locks::OrderedGuard;
use crate::error::{Result, VolumeError};
use gemelo_base::background::Step;
use gemelo_base::with_causes;
use gemelo_disk::DiskWrite;
use gemelo_format::{DiskRole, Policy, Root};
use gemelo_metadata::{PageWrites, Pressure, Sealed, Totals};

/// A checkpoint that would make the need of slots smaller by fewer is not worth it.
const MIN_FREED_SLOTS: u64 = 256;

/// The places of contents after a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// In the data store.
    All,
    /// Some have no space there.
    WithoutSpace,
    /// Some were given up meanwhile, by changes that are not durable.
    GivenUp,
}

/// The fields of a root that are known when the state is frozen.
struct Mark {
    generation: u64,
    next_commit: u64,
    journal_offset: u64,
    policy: Policy,
    totals: Totals,
}

impl Log {
    /// Writes a checkpoint.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _alone = self.checkpointer.lock();
        self.checkpoint_alone()
    }

    /// Writes a checkpoint if the backend needs one, or waits for the one that is under way.
    pub(super) fn relieve(&self) -> Result<()> {
        if self.pressure() < Pressure::Full {
            return Ok(());
        }
        let _alone = self.checkpointer.lock();
        if self.pressure() < Pressure::Full {
            return Ok(());
        }
        self.check_may_try()?;
        self.checkpoint_alone()
    }

    /// Waits for a checkpoint if the backend takes no clone before, and bounds the commits that
    /// wait. A clone needs no other memory, and the flush after it makes the open commit durable.
    pub(crate) fn make_room_for_clone(&self) -> Result<()> {
        if !self.read().backend().has_room_for_clone() {
            let _alone = self.checkpointer.lock();
            if !self.read().backend().has_room_for_clone() {
                self.check_may_try()?;
                self.checkpoint_alone()?;
            }
        }
        self.bound_waiting()
    }

    /// Writes a checkpoint for a request that needs one.
    pub(super) fn checkpoint_for_request(&self) -> Result<()> {
        let _alone = self.checkpointer.lock();
        self.check_may_try()?;
        self.checkpoint_alone()
    }

    /// Fails as the last checkpoint did if that has just been tried. Requests then take no
    /// processor time for tries of their own, however many there are.
    fn check_may_try(&self) -> Result<()> {
        let failure = self.checkpoint_task.fresh_failure().filter(|_| self.tuning.background);
        let Some(error) = failure else { return Ok(()) };
        Err(match *self.full_disk.lock() {
            Some(disk) => VolumeError::NoSpace { disk },
            None => VolumeError::NoCheckpoint { error },
        })
    }

    /// The need of a checkpoint: for the backend's memory, and for the time of an opening after a
    /// crash.
    pub(super) fn pressure(&self) -> Pressure {
        let (state, most) = (self.read(), self.tuning.max_replay_reads);
        let of_replay = match state.backend().replay_reads() {
            reads if reads >= most => Pressure::Full,
            reads if reads >= most / 2 => Pressure::High,
            _ => Pressure::Low,
        };
        of_replay.max(state.backend().pressure())
    }

    /// Writes a checkpoint if maps name blocks whose contents were moved away, which may be given
    /// out again then.
    pub(crate) fn settle_moves(&self) -> Result<()> {
        if self.read().backend().has_moved_blocks() { self.checkpoint_surely() } else { Ok(()) }
    }

    /// Does the same as [`Self::checkpoint`], and fails where that gives a checkpoint up because
    /// contents have no space in the data store. Nothing durable is older afterwards.
    pub(crate) fn checkpoint_surely(&self) -> Result<()> {
        let _alone = self.checkpointer.lock();
        match self.checkpoint_or_give_up()? {
            true => Ok(()),
            false => Err(VolumeError::NoSpace { disk: DiskRole::Data }),
        }
    }

    /// Does the same as [`Self::checkpoint`], for a caller that holds the checkpointer's lock.
    pub(super) fn checkpoint_alone(&self) -> Result<()> {
        self.checkpoint_or_give_up().map(drop)
    }

    /// Returns `false` if the checkpoint was given up.
    fn checkpoint_or_give_up(&self) -> Result<bool> {
        self.health.check_running()?;
        let began_ns = self.clock.now_ns();
        let written = self.try_checkpoint();
        match &written {
            Ok(true) => self.checkpoint_task.note_step(Step::more(1)),
            Ok(false) => {}
            Err(error) => {
                *self.full_disk.lock() = match error {
                    VolumeError::NoSpace { disk } => Some(*disk),
                    _ => None,
                };
                self.checkpoint_task.note_failure(began_ns, with_causes(error));
            }
        }
        written
    }

    /// Writes a checkpoint. Returns `false` if it was given up for contents that have no space.
    fn try_checkpoint(&self) -> Result<bool> {
        let mut committer = self.committer.lock();
        let (next_commit, policy, totals) = self.freeze(&mut committer)?;
        let written = self.write_waiting(&mut committer);
        if let Err(stopped) = self.health.check_running() {
            return written.and(Err(stopped));
        }
        if committer.waits_for_data() {
            // A root must not refer to contents that may not be there after a crash.
            self.write().backend_mut().abandon();
            add(&self.counters.failed_checkpoints, 1);
            return written.map(|_| false);
        }
        let mark = Mark {
            generation: committer.generation() + 1,
            next_commit,
            journal_offset: committer.head(),
            policy,
            totals,
        };
        let has_journal_data = committer.journal_data.begin_sync();
        // If the commit had no room, no other may be written before the root is durable.
        let mut held = match written {
            Ok(Written::All) => {
                drop(committer);
                None
            }
            Ok(Written::NoRoom) | Err(_) => Some(committer),
        };
        // The root gives the journal up, which may be the only durable place of contents.
        let synced = match has_journal_data {
            true => self.keep_contents(held.as_deref_mut()),
            false => Ok(()),
        };
        self.write_frozen(&mark, synced, held)
            .inspect_err(|_| add(&self.counters.failed_checkpoints, 1))
            .map(|()| true)
    }

    fn freeze(&self, committer: &mut Committer) -> Result<(u64, Policy, Totals)> {
        let mut state = self.write();
        // A thread that panicked may have left the state half changed.
        self.health.check_running()?;
        self.close_now(&mut state, committer);
        state.backend_mut().freeze();
        Ok((state.open.number(), state.backend().policy(), state.backend().totals()))
    }

    /// Makes the contents durable that the checkpoint refers to, without the journal before it: in
    /// the data store, or by a commit after it that carries those without space there.
    fn keep_contents(&self, held: Option<&mut Committer>) -> Result<()> {
        let is_held = held.is_some();
        match self.finish_sync(held)? {
            Settled::All => Ok(()),
            Settled::WithoutSpace if !is_held => self.commit_unwritten(),
            // A later checkpoint does not refer to what was given up.
            Settled::WithoutSpace | Settled::GivenUp => {
                Err(VolumeError::NoSpace { disk: DiskRole::Data })
            }
        }
    }

    /// Writes the checkpoint, if the contents that it refers to are durable, and gives it up
    /// otherwise.
    fn write_frozen(
        &self,
        mark: &Mark,
        synced: Result<()>,
        held: Option<OrderedGuard<'_, Committer>>,
    ) -> Result<()> {
        if let Err(error) = synced.and_then(|()| self.write_pages_and_root(mark)) {
            // A failed write of a root has stopped the pool. Either root may be on the disk then,
            // so the slots of both states stay taken, and no other checkpoint follows.
            if !self.health.is_stopped() {
                self.write().backend_mut().abandon();
            }
            return Err(error);
        }
        let garbage = self.write().backend_mut().finish();
        drop(garbage);
        let mut committer = held.unwrap_or_else(|| self.committer.lock());
        let disk = &*self.disk;
        let effects =
            committer.note_root(disk, mark.generation, mark.journal_offset, mark.next_commit);
        // The committer is held, so a count of the blocks finds these here or there.
        self.settle_named();
        self.take_effect(effects);
        self.publish(&committer);
        drop(committer);
        add(&self.counters.checkpoints, 1);
        Ok(())
    }

    /// Lets blocks be free that the maps named before this checkpoint.
    fn settle_named(&self) {
        let state = self.read();
        let has_any = state.backend().has_moved_blocks();
        self.data.settle_named(|pbn| has_any && state.backend().is_moved_away(*pbn));
    }

    fn write_pages_and_root(&self, mark: &Mark) -> Result<()> {
        let merge = self.read().backend().merge();
        if let Some(merge) = merge {
            add(&self.counters.checkpoint_pages, merge()?);
        }
        let Sealed { table, table_bytes } = self.write_table()?;
        self.sync()?;
        let root = Root {
            generation: mark.generation,
            next_commit: mark.next_commit,
            journal_offset: mark.journal_offset,
            policy: mark.policy,
            table,
            table_bytes,
            data_blocks: mark.totals.data_blocks,
            next_volume: mark.totals.next_volume,
            references: mark.totals.references,
            physical: mark.totals.physical,
        };
        assert!(root.physical <= root.references, "each stored block has a reference");
        let pbn_end = self.superblock.pbn_end(root.data_blocks);
        assert!(root.physical <= pbn_end, "more blocks are stored than there are");
        let page = root.encode(&self.superblock, self.seed);
        for offset in Root::offsets(mark.generation) {
            // A root that was written in spite of an error would begin a history of its own.
            self.disk
                .write_at(offset, page.as_slice())
                .map_err(VolumeError::io(DiskRole::Metadata, "write"))
                .inspect_err(|_| self.health.stop(DiskRole::Metadata, "write the root of"))?;
            self.sync()?;
        }
        Ok(())
    }

    /// Writes the table that names the frozen pages.
    fn write_table(&self) -> Result<Sealed> {
        let mut writes = PageWrites::new();
        let table = self.write().backend_mut().seal(&mut writes)?;
        self.write_pages(&writes)?;
        Ok(table)
    }

    /// Writes both copies of pages in one list, in the order of their places.
    fn write_pages(&self, writes: &PageWrites) -> Result<()> {
        let regions = self.superblock.regions();
        let mut list: Vec<DiskWrite<'_>> = writes
            .iter()
            .flat_map(|(slot, page)| {
                regions.slot(*slot).map(|offset| DiskWrite::new(offset, page.as_slice()))
            })
            .collect();
        list.sort_unstable_by_key(|write| write.offset);
        self.disk.write_all(&mut list).map_err(VolumeError::io(DiskRole::Metadata, "write"))?;
        self.disk.start_write_back();
        add(&self.counters.checkpoint_pages, writes.len() as u64);
        Ok(())
    }

    /// Syncs the data store after [`JournalData::begin_sync`]. The committer is locked only if the
    /// caller holds it, so that other commits may carry more meanwhile. One thread at a time calls
    /// it: the holder of the checkpointer's lock.
    fn finish_sync(&self, held: Option<&mut Committer>) -> Result<Settled> {
        // The root contains the commits that wait while the caller holds the committer, so nothing
        // needs what they free.
        let freed = held.as_ref().map(|committer| committer.freed()).unwrap_or_default();
        let synced = self.data.sync_needed(&freed).map(|synced| synced.unwritten.is_empty());
        let mut locked;
        let committer = match held {
            Some(committer) => committer,
            None => {
                locked = self.committer.lock();
                &mut *locked
            }
        };
        let settled = match synced {
            Ok(_) if committer.has_given_up() => Ok(Settled::GivenUp),
            Ok(true) => Ok(Settled::All),
            Ok(false) => Ok(Settled::WithoutSpace),
            Err(error) => Err(error),
        };
        match &settled {
            Ok(Settled::All) => self.data.note_identified(&committer.journal_data.end_sync()),
            _ => committer.journal_data.fail_sync(),
        }
        settled
    }

    /// Syncs the data store if the veto waits for that.
    pub(crate) fn tell_free_veto(&self) -> Result<()> {
        if !self.data.has_free_veto() {
            return Ok(());
        }
        let _alone = self.checkpointer.lock();
        let mut committer = self.committer.lock();
        if committer.journal_data.held_back.is_empty() {
            return Ok(());
        }
        committer.journal_data.begin_sync();
        drop(committer);
        self.finish_sync(None).map(drop)
    }

    /// Slots that the next checkpoint may take, and those that have to be there.
    fn slots(&self) -> (u64, u64) {
        let state = self.read();
        let need = state.backend().slots();
        drop(state);
        let reserve = need.in_use.clamp(MIN_RESERVE_SLOTS, MAX_RESERVE_SLOTS);
        (need.next, need.in_use + need.next + reserve)
    }

    /// Allocates the slots of the next checkpoint and the reserve. Called by threads that hold no
    /// lock after a gate.
    ///
    /// Without room for more it writes a checkpoint now, while there are slots for it, and fails if
    /// that is not enough.
    pub(crate) fn reserve_slots(&self) -> Result<()> {
        self.reserve_slots_for(0)
    }

    /// Does the same for changes that are going to need so many more slots, but not more than are
    /// in use.
    pub(crate) fn reserve_slots_for(&self, more: u64) -> Result<()> {
        let in_use = self.read().backend().slots().in_use;
        let wanted = self.slots().1 + more.min(in_use);
        if self.reserve.has(wanted) {
            return Ok(());
        }
        let full = match self.allocate_slots(wanted) {
            Err(error @ VolumeError::NoSpace { .. }) => error,
            other => return other,
        };
        let _alone = self.checkpointer.lock();
        // Another thread may have written a checkpoint meanwhile.
        let (next, wanted) = self.slots();
        if self.reserve.has(wanted) {
            return Ok(());
        }
        if next < MIN_FREED_SLOTS {
            return Err(full);
        }
        self.checkpoint_alone()?;
        let (_, wanted) = self.slots();
        self.allocate_slots(wanted)
    }

    /// Has the next checkpoint keep the index for the next opening, if there is room for it.
    pub(crate) fn keep_index(&self) -> Result<()> {
        self.write().backend_mut().keep_index(true)?;
        let (_, wanted) = self.slots();
        match self.allocate_slots(wanted) {
            Err(VolumeError::NoSpace { .. }) => Ok(self.write().backend_mut().keep_index(false)?),
            allocated => allocated,
        }
    }

    /// Allocates slots up to this number, also for checkpoints.
    fn allocate_slots(&self, wanted: u64) -> Result<()> {
        self.reserve.allocate(wanted, &|slots| self.read().backend().note_allocated(slots))
    }
}
