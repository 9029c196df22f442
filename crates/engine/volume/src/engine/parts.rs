//! The engine itself: the parts of an open pool, and the questions that they answer at once.

use super::VolumeShared;
use super::catalogue::{Catalogue, VolumesActivity};
use super::damage::Damages;
use super::data::{ContentSpace, ContentStore, DataPath, LeftBlocks, Pin, Remembered};
use super::finder::FinderControl;
use super::health::{Health, PanicWatch};
use super::layout::{Cleaner, Ticker};
use super::locks::{OrderedMutex, QuickRead, QuickWrite, Rank};
use super::log::{JournalStats, Log, LogParts, State};
use super::near::NearBudget;
use super::shared::VolumeSettings;
use super::tasks::Tasks;
use crate::counters::{PoolActivity, PoolCounters};
use crate::error::{Result, StopReason};
use crate::journal::Journal;
use crate::load::Traffic;
use crate::pool::Tuning;
use gemelo_base::Clock;
use gemelo_base::background::TaskStat;
use gemelo_base::panics::Panicked;
use gemelo_disk::Disk;
use gemelo_format::{
    DiskRole, Fingerprinter, Lbn, MapEntry, Pbn, PoolSeed, Superblock, VolumeId, VolumeRecord,
};
use gemelo_metadata::{MetadataBackend, Record};
use gemelo_store::{BufferStats, ContentCacheStats, FreeVeto};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pool that is open.
pub(crate) struct Engine {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) superblock: Superblock,
    pub(super) seed: PoolSeed,
    pub(super) tuning: Tuning,
    pub(super) fingerprinter: Fingerprinter,
    pub(super) counters: Arc<PoolCounters>,
    pub(super) health: Arc<Health>,
    pub(super) data: Arc<DataPath>,
    pub(super) log: Log,
    /// The time of writes for the arranger.
    pub(super) ticker: Ticker,
    pub(super) catalogue: Catalogue,
    pub(super) damages: Damages,
    pub(super) tasks: Tasks,
    pub(super) finder: FinderControl,
    pub(super) near_budget: NearBudget,
    pub(super) cleaner: OrderedMutex<Cleaner>,
}

/// The parts of an engine and the state that it begins with.
pub(crate) struct EngineParts {
    pub(crate) contents: ContentStore,
    /// The fingerprints that the store's buffer takes.
    pub(crate) remembered: Arc<Remembered>,
    pub(crate) health: Arc<Health>,
    pub(crate) metadata: Arc<dyn Disk>,
    /// `true` if both disks write durably.
    pub(crate) writes_beside: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) tuning: Tuning,
    pub(crate) backend: Box<dyn MetadataBackend>,
    pub(crate) space: ContentSpace,
    /// The veto of the blocks, and those that it holds and nothing refers to.
    pub(crate) free_veto: Option<Arc<dyn FreeVeto>>,
    pub(crate) held: Vec<Pbn>,
    pub(crate) journal: Journal,
    /// Bytes of the contents that the journal carries.
    pub(crate) journal_data_bytes: u64,
    /// The number of the next commit.
    pub(crate) next_commit: u64,
    /// The generation of the newest durable root.
    pub(crate) generation: u64,
}

impl Engine {
    /// Makes an engine whose background threads have not started. It takes no changes if `tuning`
    /// is read-only.
    pub(crate) fn new(parts: EngineParts) -> Self {
        let EngineParts { clock, superblock, tuning, backend, health, .. } = parts;
        let volumes = backend.volumes();
        let hidden = volumes.iter().filter(|info| info.is_hidden).map(|info| info.id).collect();
        let shown = volumes.into_iter().filter(|info| !info.is_hidden).map(|info| {
            let VolumeRecord { id, name, size_bytes, mode, compression, read_only, .. } = info;
            let settings = VolumeSettings { mode, compression, read_only };
            let policy = tuning.finder_policy();
            (name, VolumeShared::new((id, size_bytes), settings, policy, &health))
        });
        let catalogue = Catalogue::new(shown.collect(), hidden, &health);
        let counters = Arc::new(PoolCounters::default());
        let data = Arc::new(DataPath::new(
            (parts.contents, parts.remembered),
            (parts.space, parts.free_veto),
            (Arc::clone(&health), Arc::clone(&counters)),
        ));
        data.hold_unused(&parts.held);
        let tasks = Tasks::new(&clock);
        let log = Log::new(LogParts {
            disk: parts.metadata,
            writes_beside: parts.writes_beside,
            superblock: superblock.clone(),
            clock: Arc::clone(&clock),
            tuning,
            counters: Arc::clone(&counters),
            health: Arc::clone(&health),
            data: Arc::clone(&data),
            checkpoint_task: Arc::clone(&tasks.checkpoint),
            commit_task: Arc::clone(&tasks.commit),
            backend,
            journal: parts.journal,
            journal_data_bytes: parts.journal_data_bytes,
            next_commit: parts.next_commit,
            generation: parts.generation,
        });
        Self {
            fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            seed: PoolSeed::of(&superblock),
            ticker: Ticker::new(clock.now_ns()),
            clock,
            superblock,
            tuning,
            counters,
            data,
            log,
            catalogue,
            damages: Damages::new(&health),
            cleaner: OrderedMutex::new(Rank::Cleaning, &health, Cleaner::default()),
            health,
            tasks,
            finder: FinderControl::default(),
            near_budget: NearBudget::default(),
        }
    }

    pub(crate) const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    pub(crate) const fn block_bytes(&self) -> usize {
        self.superblock.block_bytes as usize
    }

    pub(crate) const fn seed(&self) -> PoolSeed {
        self.seed
    }

    pub(crate) const fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }

    /// Returns whether equal fingerprints prove equal contents.
    pub(crate) fn fingerprints_prove_equality(&self) -> bool {
        !self.tuning.verify_bytes && !self.fingerprinter.must_compare()
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(crate) fn sleep_until_ns(&self, deadline_ns: u64) {
        self.clock.sleep_until_ns(deadline_ns);
    }

    pub(crate) const fn has_background(&self) -> bool {
        self.tuning.background
    }

    /// Returns whether the pool was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.health.is_read_only()
    }

    /// The failure that has ended all changes of the pool.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.health.stop_reason()
    }

    /// The part of the metadata that was found damaged since the pool was opened.
    pub(crate) fn damaged_metadata(&self) -> Option<String> {
        self.health.damaged()
    }

    /// The figures of the tasks in the background.
    pub(crate) fn task_figures(&self) -> Vec<TaskStat> {
        self.tasks.stats()
    }

    /// Ends all changes, because a thread that works on the pool panicked.
    pub(crate) fn stop_by_panic(&self, panicked: Panicked) {
        self.health.stop_by_panic(panicked);
    }

    /// Ends all changes, because the owner of the veto has lost what it must know.
    pub(crate) fn stop_by_owner(&self, why: String) {
        self.health.stop_by_owner(why);
    }

    /// Watches the calling thread: the pool stops if it panics before the guard is dropped.
    pub(crate) fn watch(&self) -> PanicWatch<'_> {
        self.health.watch()
    }

    /// Fails if the pool takes no changes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.health.check_writable()
    }

    /// Ends all changes of a pool whose file was deleted.
    pub(crate) fn stop_deleted(&self, disk: DiskRole) {
        self.health.stop_deleted(disk);
    }

    /// The metadata, to be read.
    pub(crate) fn state(&self) -> QuickRead<'_, State> {
        self.log.read()
    }

    /// See [`Log::look`].
    pub(crate) fn look<T>(&self, look: impl Fn(&State) -> Result<T>) -> Result<T> {
        self.log.look(look)
    }

    /// The next mapped LBN of a volume from `from` on, but before `end`.
    pub(crate) fn next_mapped(&self, id: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        self.look(|state| Ok(state.backend().next_mapped(id, from, end)?))
    }

    /// The places of LBNs.
    pub(crate) fn places(&self, id: VolumeId, lbns: &[Lbn]) -> Result<Vec<MapEntry>> {
        self.look(|state| state.places(id, lbns))
    }

    /// The records of blocks.
    pub(crate) fn records(&self, pbns: &[Pbn]) -> Result<Vec<Record>> {
        self.look(|state| state.records(pbns))
    }

    /// Completes the index of a pool that was opened, unless `is_stopped` ends it before. A
    /// duplicate of a block that the index does not lead to yet is stored again.
    pub(crate) fn complete_index(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        while !is_stopped() && self.state().backend().catch_up()? {}
        Ok(())
    }

    /// The metadata, to be changed by [`Log::apply`].
    pub(super) fn state_to_change(&self) -> QuickWrite<'_, State> {
        self.log.write()
    }

    /// Keeps every block that is looked up from now on from being written again, until the pin is
    /// dropped.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.data.pin()
    }

    /// The volumes by name.
    pub(crate) fn volumes(&self) -> BTreeMap<String, Arc<VolumeShared>> {
        self.catalogue.all()
    }

    pub(crate) fn volume(&self, name: &str) -> Result<Arc<VolumeShared>> {
        self.catalogue.find(name)
    }

    /// The activity of all volumes together.
    pub(crate) fn volumes_activity(&self) -> VolumesActivity {
        self.catalogue.activity()
    }

    /// The requests of all volumes.
    pub(crate) fn traffic(&self) -> Traffic {
        self.catalogue.traffic()
    }

    /// The number of volumes.
    pub(crate) fn volume_count(&self) -> u64 {
        self.catalogue.len() as u64
    }

    /// Makes every acknowledged change durable.
    pub(crate) fn flush(&self) -> Result<()> {
        self.log.flush()
    }

    /// Writes a checkpoint.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.log.checkpoint()
    }

    /// Has the next checkpoint keep the index for the next opening, if there is room for it.
    pub(crate) fn keep_index(&self) -> Result<()> {
        self.log.keep_index()
    }

    /// Allocates the space of the next checkpoint on the metadata disk.
    pub(crate) fn reserve_slots(&self) -> Result<()> {
        self.log.reserve_slots()
    }

    pub(crate) fn free_blocks(&self) -> u64 {
        self.data.free_blocks()
    }

    /// Contents that take space, also those that are freed and not usable yet.
    pub(crate) fn contents_in_use(&self) -> u64 {
        self.data.contents_in_use(self.superblock.reserved_blocks())
    }

    /// Looks for blocks whose contents all lie elsewhere.
    pub(crate) fn left_blocks(
        &self,
        pbns: &[Pbn],
        is_elsewhere: &dyn Fn(&Pbn) -> bool,
    ) -> LeftBlocks {
        self.data.left_blocks(pbns, is_elsewhere)
    }

    /// The contents in use.
    pub(crate) fn used(&self) -> Vec<Pbn> {
        self.data.used()
    }

    /// Frees blocks that the veto held.
    pub(crate) fn free_kept(&self, pbns: &[Pbn]) {
        self.data.free_held(pbns);
    }

    /// Blocks that the veto holds and nothing refers to.
    pub(crate) fn held_blocks(&self) -> u64 {
        self.data.unmapped().held
    }

    /// Figures of the journal.
    pub(crate) fn journal_figures(&self) -> JournalStats {
        self.log.journal_figures()
    }

    /// Figures of the write buffer; zeros for a pool that takes no changes.
    pub(crate) fn buffer_figures(&self) -> BufferStats {
        self.data.buffer_figures()
    }

    /// Figures of the cache of contents.
    pub(crate) fn content_cache_figures(&self) -> ContentCacheStats {
        self.data.content_cache_figures()
    }

    /// Length of the metadata disk in bytes.
    pub(crate) fn metadata_disk_bytes(&self) -> Result<u64> {
        self.log.disk_bytes()
    }

    /// Counts of the pool's activity.
    pub(crate) fn activity(&self) -> PoolActivity {
        self.counters.read()
    }

    /// Counts references and free blocks again. A freed block is in the open commit, in one that
    /// waits, retired, held or free. It goes from one to the next under locks that are held
    /// together here, so that each block is counted once.
    pub(crate) fn prove(&self, most: usize) -> Result<Vec<String>> {
        let log = self.log.still();
        let backend = log.state().backend();
        let mut wrong = backend.prove(most)?;
        let totals = backend.totals();
        let unmapped = self.data.unmapped();
        let expected = totals.physical + log.freed_blocks() + unmapped.retired + unmapped.held;
        let in_use = self.contents_in_use();
        if in_use != expected {
            wrong.push(format!("{in_use} contents take space, which should be {expected}"));
        }
        Ok(wrong)
    }

    /// Does the same as [`Self::prove`], while requests wait.
    pub(crate) fn prove_served(&self, most: usize) -> Result<Vec<String>> {
        // The list of volumes must not change meanwhile.
        let _catalogue = self.catalogue.change();
        let mut volumes: Vec<_> = self.volumes().into_values().collect();
        // Gates are closed in the order of the ids, as their ranks demand.
        volumes.sort_by_key(|volume| volume.id());
        let _gates: Vec<_> = volumes.iter().map(|volume| volume.close_gate()).collect();
        let _paused = self.data.pause_discards();
        self.prove(most)
    }
}
