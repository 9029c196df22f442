//! The engine itself: the parts of an open pool, how they are put together, and the questions that
//! several of them answer at once.

use super::VolumeShared;
use super::catalogue::Catalogue;
use super::data::{ContentSpace, ContentStore, DataPath, Remembered};
use super::health::Health;
use super::limits::Limits;
use super::live::LiveTuning;
use super::log::{Log, LogParts};
use super::mover::Ticker;
use super::shared::VolumeSettings;
use super::tasks::Tasks;
use crate::counters::PoolCounters;
use crate::engine::checked::Reader;
use crate::engine::damage::Healer;
use crate::engine::differences::Comparer;
use crate::engine::finder::{Examiner, Finder};
use crate::engine::mover::{Arranger, Mover, Recompressor, Relocator, Shrinker, SpaceCleaner};
use crate::engine::reclaimer::Reclaimer;
use crate::engine::requests::Requests;
use crate::engine::volume_space::Accountant;
use crate::engine::volumes::Volumes;
use crate::engine::write::Writer;
use crate::error::Result;
use crate::journal::Journal;
use crate::pool::Tuning;
use gemelo_base::{Clock, StopFlag};
use gemelo_disk::Disk;
use gemelo_format::{Fingerprinter, Pbn, PoolSeed, Superblock, VolumeRecord};
use gemelo_metadata::MetadataBackend;
use gemelo_store::FreeVeto;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// What the parts of an engine have in common. Each takes from it what it needs.
pub(crate) struct Common {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) superblock: Superblock,
    pub(crate) seed: PoolSeed,
    pub(crate) fingerprinter: Arc<Fingerprinter>,
    pub(crate) tuning: Tuning,
    /// Those of the settings that may have changed since.
    pub(crate) live: Arc<LiveTuning>,
    pub(crate) counters: Arc<PoolCounters>,
    pub(crate) health: Arc<Health>,
    pub(crate) tasks: Arc<Tasks>,
    /// Contents, and which blocks are free.
    pub(crate) data: Arc<DataPath>,
    /// The metadata, their changes, and how these become durable.
    pub(crate) log: Arc<Log>,
    /// The volumes by name.
    pub(crate) catalogue: Arc<Catalogue>,
}

/// A pool that is open. A request goes to `requests`, which has the writer; a command to the part
/// that it names. What one part does with another is in their constructors.
pub(crate) struct Engine {
    common: Common,
    /// The limits of all volumes together.
    pub(crate) total: Limits,
    /// Raised when no rate is kept any more, because the server ends.
    pub(crate) unpaced: OnceLock<StopFlag>,
    pub(crate) healer: Arc<Healer>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) requests: Requests,
    pub(crate) volumes: Volumes,
    pub(crate) accountant: Accountant,
    pub(crate) comparer: Comparer,
    pub(crate) finder: Finder,
    pub(crate) arranger: Arranger,
    pub(crate) recompressor: Recompressor,
    pub(crate) cleaner: Arc<SpaceCleaner>,
    pub(crate) relocator: Relocator,
    pub(crate) shrinker: Shrinker,
}

impl Deref for Engine {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
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

impl Common {
    fn new(parts: EngineParts) -> Self {
        let EngineParts { clock, superblock, tuning, backend, health, .. } = parts;
        let catalogue =
            Arc::new(catalogue_of(&*backend, &superblock, (tuning, clock.utc_s()), &health));
        let counters = Arc::new(PoolCounters::default());
        let tasks = Arc::new(Tasks::new(&clock));
        let data = Arc::new(DataPath::new(
            (parts.contents, parts.remembered),
            (parts.space, parts.free_veto),
            (Arc::clone(&health), Arc::clone(&counters)),
        ));
        data.allocator.hold_unused(&parts.held);
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
            seed: PoolSeed::of(&superblock),
            fingerprinter: Arc::new(Fingerprinter::new(superblock.fingerprint, superblock.key)),
            clock,
            superblock,
            tuning,
            live: Arc::new(LiveTuning::new(tuning, &health)),
            counters,
            health,
            tasks,
            data,
            log: Arc::new(log),
            catalogue,
        }
    }
}

impl Engine {
    /// Makes an engine whose background threads have not started. It takes no changes if the
    /// tuning is read-only.
    pub(crate) fn new(parts: EngineParts) -> Self {
        let common = Common::new(parts);
        let healer = Arc::new(Healer::new(&common));
        let reader = Arc::new(Reader::new(&common, &healer));
        let mover = Arc::new(Mover::new(&common));
        let cleaner = Arc::new(SpaceCleaner::new(&common, &mover));
        let reclaimer = Arc::new(Reclaimer::new(&common, &cleaner));
        let writer = Writer::new(&common, &reader, &healer, &reclaimer);
        let ticker = Arc::new(Ticker::new(common.clock.now_ns()));
        let examiner = Examiner::new(&common, &reader, &healer);
        Self {
            total: Limits::default(),
            unpaced: OnceLock::new(),
            requests: Requests::new(&common, &reader, writer, &ticker),
            volumes: Volumes::new(&common),
            accountant: Accountant::new(&common),
            comparer: Comparer::new(&common, &reader),
            finder: Finder::new(&common, examiner, &reader),
            arranger: Arranger::new(&common, &mover, &reader, &ticker),
            recompressor: Recompressor::new(Arc::clone(&mover)),
            relocator: Relocator::new(&common, &mover, &healer),
            shrinker: Shrinker::new(Arc::clone(&mover), Arc::clone(&healer)),
            healer,
            reader,
            cleaner,
            common,
        }
    }

    /// Contents that take space, also those that are freed and not usable yet.
    pub(crate) fn contents_in_use(&self) -> u64 {
        self.data.allocator.contents_in_use(self.superblock.reserved_blocks())
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
        let retired = unmapped.retired + unmapped.named;
        let expected = totals.physical + log.freed_blocks() + retired + unmapped.held;
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
        let mut volumes = self.catalogue.written();
        // Gates are closed in the order of the ids, as their ranks demand.
        volumes.sort_by_key(|volume| volume.id());
        let _gates: Vec<_> = volumes.iter().map(|volume| volume.close_gate()).collect();
        let _paused = self.data.pause_discards();
        self.prove(most)
    }
}

/// The volumes that the metadata list.
fn catalogue_of(
    backend: &dyn MetadataBackend,
    superblock: &Superblock,
    (tuning, now_utc_s): (Tuning, Option<u64>),
    health: &Arc<Health>,
) -> Catalogue {
    let volumes = backend.volumes();
    // A copy that cannot be continued goes as one that is half removed does.
    let is_hidden = |info: &VolumeRecord| {
        info.is_hidden || info.receiving.is_some_and(|receiving| !receiving.is_kept(now_utc_s))
    };
    let hidden = volumes.iter().filter(|info| is_hidden(info)).map(|info| info.id).collect();
    let is_shown = |info: &VolumeRecord| !info.is_hidden && !info.is_unfinished();
    let shown = volumes.into_iter().filter(is_shown).map(|info| {
        let (place, settings) =
            ((info.id, info.size_bytes, superblock.block_bytes), VolumeSettings::of(&info));
        (info.name, VolumeShared::new(place, settings, tuning.volume_tuning(), health))
    });
    Catalogue::new(shown.collect(), hidden, health)
}
