//! A member that shares contents: publishes and borrows them, releases references, and reads its
//! mailbox.

use crate::blocks::Blocks;
use crate::copies::DomainCopies;
use crate::error::{Result, SharingError};
use crate::examine::{Examiner, Told};
use crate::foreign::ForeignContents;
use crate::journal::LedgerJournal;
use crate::ledger::{Ledger, Loaded};
use crate::rebuild::{LedgerRebuild, LedgerSources};
use crate::record::{BlockState, Record};
use crate::shared::{Shared, SharedParts};
use crate::stats::{BlockStats, Stats};
use crate::store::LedgerVeto;
use gemelo_base::{Clock, StopFlag};
use gemelo_domain::{
    Action, Change, Damage, DomainConfig, DomainError, Doubt, Effect, Index, MemberId,
};
use gemelo_format::{Fingerprint, Pbn};
use gemelo_objects::Objects;
use gemelo_store::{Copies, FreeVeto};
use gemelo_volume::Pool;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Rounds of [`Sharing::drain`] beyond those that the known work takes.
const SPARE_ROUNDS: u64 = 4;
/// Most rounds of [`Sharing::drain`] that are full of letters: a million letters.
const MAX_LETTER_ROUNDS: u64 = 1000;

/// Time after which a member tries again what it has postponed. The home of a damaged content is
/// told of a good copy, and what a repair of the index has brought back is used.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);

/// A member, as this process serves it. The caller has its tenure.
pub struct SharingParts {
    /// The store of the domain.
    pub objects: Arc<dyn Objects>,
    /// The clock of pauses between attempts.
    pub clock: Arc<dyn Clock>,
    /// The settings of the domain.
    pub config: DomainConfig,
    /// The number of the member that shares.
    pub member: MemberId,
    /// The stores of the other members.
    pub foreign: Arc<dyn ForeignContents>,
    /// The limits of what is done at once.
    pub options: SharingOptions,
}

/// The options of sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharingOptions {
    /// `true` to compare bytes before a block is borrowed, also where fingerprints prove equality.
    pub compares: bool,
    /// Most contents that are submitted to the index together, and not more than it takes in one
    /// round. More are faster, and keep the member's shards busy for longer.
    pub batch: usize,
    /// Most letters that are read at once.
    pub letters: usize,
    /// Pause of the background after a round that finds nothing to do. Letters
    /// and new contents wait for this long at most.
    pub idle_pause: Duration,
    /// Entries above which a shard is split; [`None`] for the usual number.
    pub split_above: Option<u64>,
}

impl Default for SharingOptions {
    fn default() -> Self {
        Self {
            compares: false,
            batch: 49_152,
            letters: 1000,
            idle_pause: Duration::from_millis(500),
            split_above: None,
        }
    }
}

/// The work of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Round {
    /// Contents that were published or shared.
    pub published: usize,
    /// References that were released.
    pub released: usize,
    /// Contents that the pool wants to move, and that were withdrawn unless others use them.
    pub withdrawn: usize,
    /// Letters that were dealt with.
    pub letters: usize,
    /// Blocks that were looked at because they were doubted.
    pub examined: usize,
}

impl Round {
    /// Returns whether there was nothing to do.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        let Self { published, released, withdrawn, letters, examined } = *self;
        published + released + withdrawn + letters + examined == 0
    }
}

/// References that are to be released.
struct PlannedReleases {
    changes: Vec<Change>,
    /// Doubts about the homes of restored blocks.
    told: Told,
}

/// A member that shares contents; see the module.
pub struct Sharing {
    pub(crate) shared: Arc<Shared>,
    pub(crate) objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    pub(crate) config: DomainConfig,
    pub(crate) options: SharingOptions,
    worker: Mutex<Worker>,
    /// The counts as of the last round, so that readers do not wait for a round.
    figures: Mutex<Stats>,
    /// Damaged values of the index, as of the last round.
    damage: Mutex<Vec<Damage>>,
}

/// The part that one thread uses at a time.
pub(crate) struct Worker {
    pub(crate) index: Index,
    pub(crate) figures: Stats,
    /// Time of the last attempt at what was postponed, by the clock of the member.
    retried_ns: u64,
}

mod tenure;

impl Sharing {
    /// Reads the ledger of a member whose last holder is fenced. The pool is opened afterwards,
    /// with [`Self::free_veto`].
    ///
    /// # Errors
    /// Fails if the store fails, or if the ledger is damaged or has lost records.
    pub fn load(parts: SharingParts) -> Result<Self> {
        let (sharing, damage) = Self::look(parts)?;
        match damage.split_first() {
            None => Ok(sharing),
            Some((first, more)) => {
                Err(SharingError::LedgerDamaged { first: first.clone(), more: more.len() })
            }
        }
    }

    /// Writes the ledger again. The pool is open for reading only, with the veto of this value,
    /// which read the ledger by [`Self::look`]. Returns the number of records.
    ///
    /// # Errors
    /// Fails if the store or the pool does. Another call goes on.
    pub fn rebuild(&self, pool: &Pool, sources: &LedgerSources<'_>) -> Result<usize> {
        let (shared, objects, config) = (&*self.shared, &*self.objects, &self.config);
        LedgerRebuild { shared, objects, config }.rebuild(pool, sources)
    }

    /// Reads a ledger as far as it can be read, and says what is damaged or lost. With damage the
    /// pool must be opened for reading only.
    ///
    /// # Errors
    /// Fails if the store fails.
    pub fn look(parts: SharingParts) -> Result<(Self, Vec<Damage>)> {
        let SharingParts { objects, clock, config, member, foreign, options } = parts;
        let mut blocks = Blocks::default();
        let (stored, timer) = (Arc::clone(&objects), Arc::clone(&clock));
        let Loaded { ledger, in_flight: orphans, damage: lost } =
            Ledger::load(stored, timer, member, |pbn, kind| blocks.load(pbn, kind))?;
        blocks.load_in_flight(&orphans);
        let retried_ns = clock.now_ns();
        let index = Index::new(Arc::clone(&objects), Arc::clone(&clock), &config, member);
        let index = index.with_versions(ledger.shards().clone());
        let index = match options.split_above {
            Some(entries) => index.with_split_above(entries),
            None => index,
        };
        let compares = options.compares;
        let shared =
            Shared::new(SharedParts { member, ledger, blocks, orphans, foreign, compares });
        let worker = Mutex::new(Worker { index, figures: Stats::default(), retried_ns });
        let shared = Arc::new(shared);
        let (figures, damage) = (Mutex::default(), Mutex::default());
        let sharing = Self { shared, objects, clock, config, options, worker, figures, damage };
        Ok((sharing, lost))
    }

    /// Returns the veto with which the member's pool has to be opened.
    #[must_use]
    pub fn free_veto(&self) -> Arc<dyn FreeVeto> {
        Arc::new(LedgerVeto { shared: Arc::clone(&self.shared) })
    }

    /// Returns the contents of the domain, from which the member's damaged blocks are healed.
    #[must_use]
    pub fn copies(&self) -> Arc<dyn Copies> {
        let (shared, objects) = (Arc::clone(&self.shared), Arc::clone(&self.objects));
        Arc::new(DomainCopies { shared, objects, config: self.config })
    }

    /// Does one round of work for the open pool: settles what an earlier round or process left,
    /// releases references, publishes contents and reads letters.
    ///
    /// # Errors
    /// Fails if the store or the pool does. The next round goes on.
    pub fn work(&self, pool: &Pool) -> Result<Round> {
        self.shared.expect_whole_ledger()?;
        let mut worker = self.worker.lock();
        let compares = self.options.compares || !pool.fingerprints_prove_equality();
        self.shared.compares.store(compares, Ordering::Relaxed);
        self.shared.fingerprinter.get_or_init(|| pool.fingerprinter().clone());
        let round = self.round(&mut worker, pool);
        *self.figures.lock() = worker.figures;
        *self.damage.lock() = worker.index.damage();
        self.free(pool);
        let round = round?;
        self.shared.discard_loosened(pool)?;
        Ok(round)
    }

    /// Works until nothing is left to do, but not for longer than the work takes that is there now:
    /// an open pool under load always has more.
    ///
    /// # Errors
    /// Fails as [`Self::work`] does.
    pub fn drain(&self, pool: &Pool, stop: &StopFlag) -> Result<()> {
        let BlockStats { waiting, due, .. } = self.block_figures();
        let at_once = self.at_once(&self.worker.lock().index).max(1);
        let batches = (waiting + due).div_ceil(at_once as u64);
        // Blocks with the same content go one after another.
        let mut rounds = SPARE_ROUNDS + 2 * batches;
        let mut letter_rounds = MAX_LETTER_ROUNDS;
        while rounds > 0 && !stop.is_raised() {
            let round = self.work(pool)?;
            if round.is_idle() {
                break;
            }
            // The number of letters is not known before.
            if round.letters >= self.options.letters && letter_rounds > 0 {
                letter_rounds -= 1;
            } else {
                rounds -= 1;
            }
        }
        Ok(())
    }

    /// Finds out the fate of what a failed round has sent, so that a member which ends in order
    /// leaves nothing open.
    ///
    /// # Errors
    /// Fails if the store does. The member settles it when it is served again.
    pub(crate) fn settle(&self, pool: &Pool) -> Result<()> {
        let mut worker = self.worker.lock();
        let resumed = self.resume(&mut worker, pool);
        *self.figures.lock() = worker.figures;
        self.free(pool);
        resumed
    }

    fn round(&self, worker: &mut Worker, pool: &Pool) -> Result<Round> {
        self.resume(worker, pool)?;
        self.retry_postponed(worker);
        let released = self.release(worker, pool)?;
        // Blocks become free before more are published, because a full pool waits for them.
        self.free(pool);
        let withdrawn = self.withdraw(worker, pool)?;
        let published = self.publish(worker, pool)?;
        let letters = self.collect(worker, pool)?;
        let examined = Examiner { shared: &self.shared }.examine(worker, pool)?;
        worker.index.split_large()?;
        Ok(Round { published, released, withdrawn, letters, examined })
    }

    fn retry_postponed(&self, worker: &mut Worker) {
        let now_ns = self.clock.now_ns();
        if now_ns.saturating_sub(worker.retried_ns) >= RETRY_INTERVAL.as_nanos() as u64 {
            worker.retried_ns = now_ns;
            self.shared.blocks.write().retry();
        }
    }

    /// Settles intents that the ledger has and the index does not know of.
    fn resume(&self, worker: &mut Worker, pool: &Pool) -> Result<()> {
        let Worker { index, figures, .. } = worker;
        self.shared.ledger.lock().resolve()?;
        let orphans: Vec<_> = self.shared.orphans.lock().drain(..).map(|one| one.intent).collect();
        let mut journal = LedgerJournal { shared: &self.shared, figures, own: pool };
        let resumed = index.resume(orphans, &mut journal);
        self.give_up_planned();
        self.shared.blocks.write().give_up_releases();
        Ok(resumed?)
    }

    /// Releases references that are due, and frees blocks that only the ledger keeps.
    fn release(&self, worker: &mut Worker, pool: &Pool) -> Result<usize> {
        let Worker { index, figures, .. } = worker;
        let due = self.shared.blocks.write().take_due(self.at_once(index));
        if due.is_empty() {
            return Ok(0);
        }
        let planned = self.plan_releases(&due).and_then(|planned| {
            // Their homes have no good copy, and this member has one until the release.
            index.doubt(&planned.told)?;
            Ok(planned)
        });
        let PlannedReleases { changes, .. } = planned.inspect_err(|_| {
            let mut blocks = self.shared.blocks.write();
            blocks.give_up_releases();
            due.iter().for_each(|pbn| blocks.put_back_due(*pbn));
        })?;
        let mut journal = LedgerJournal { shared: &self.shared, figures, own: pool };
        let submitted = index.submit(&changes, &mut journal);
        let mut blocks = self.shared.blocks.write();
        if let Ok(effects) = &submitted {
            assert_eq!(effects.len(), changes.len(), "each release has an effect");
            let undecided = changes.iter().zip(effects);
            let undecided = undecided.filter(|(_, effect)| **effect == Effect::Undecided);
            undecided.for_each(|(change, _)| blocks.postpone_release(change.fingerprint));
        }
        blocks.give_up_releases();
        drop(blocks);
        submitted?;
        Ok(changes.len())
    }

    /// Returns how many contents are submitted together. Blocks are taken side by side, and a batch
    /// that is settled at once gives up their places as whole objects and not piece by piece.
    pub(crate) fn at_once(&self, index: &Index) -> usize {
        self.options.batch.min(index.changes_at_once())
    }

    fn plan_releases(&self, due: &[Pbn]) -> Result<PlannedReleases> {
        let mut ledger = self.shared.ledger.lock();
        let records = ledger.read(due)?;
        assert_eq!(records.len(), due.len(), "each due block has a record or none");
        let forgotten: BTreeMap<Pbn, Option<Record>> = due
            .iter()
            .zip(&records)
            .filter(|(_, record)| record.is_none_or(|record| record.kind == BlockState::Alone))
            .map(|(pbn, _)| (*pbn, None))
            .collect();
        if !forgotten.is_empty() {
            ledger.write(&forgotten)?;
        }
        let mut blocks = self.shared.blocks.write();
        forgotten.keys().for_each(|pbn| blocks.free(*pbn));
        let mut changes = Vec::with_capacity(due.len());
        let known = due.iter().zip(&records).filter_map(|(pbn, record)| Some((*pbn, (*record)?)));
        let told = Examiner { shared: &self.shared }.doubts_of(known);
        for (pbn, record) in due.iter().zip(records) {
            let Some(Record { fingerprint, .. }) = record.filter(|_| !forgotten.contains_key(pbn))
            else {
                continue;
            };
            if blocks.begin_release(fingerprint, *pbn) {
                changes.push(Change { fingerprint, action: Action::Release });
            } else {
                blocks.put_back_due(*pbn);
            }
        }
        Ok(PlannedReleases { changes, told })
    }

    /// Publishes contents that are identified durably.
    fn publish(&self, worker: &mut Worker, pool: &Pool) -> Result<usize> {
        let Worker { index, figures, .. } = worker;
        // They are kept from here on, so that their records in the pool stay as they are.
        let pbns = self.shared.blocks.write().take_candidates(self.at_once(index));
        if pbns.is_empty() {
            return Ok(0);
        }
        let submitted = pool.fingerprints_of(&pbns).map_err(Into::into).and_then(|found| {
            let changes = self.plan_publishing(&pbns, found);
            let mut journal = LedgerJournal { shared: &self.shared, figures, own: pool };
            let effects = index.submit(&changes, &mut journal)?;
            figures.set_aside += self.set_aside(index, &changes, &effects)?;
            Ok(changes.len())
        });
        self.give_up_planned();
        submitted
    }

    /// Sets contents aside that are not shared at present, and tells their homes of the good
    /// copies. Returns how many there are that were not set aside before.
    fn set_aside(&self, index: &Index, changes: &[Change], effects: &[Effect]) -> Result<u64> {
        assert_eq!(effects.len(), changes.len(), "each content has an effect");
        let (mut told, mut count) = (Told::new(), 0);
        for (change, effect) in changes.iter().zip(effects) {
            let Action::Publish(pbn) = change.action else { continue };
            if let Effect::Refused { home } = effect {
                let (fingerprint, from) = (change.fingerprint, self.shared.member);
                let doubt = Doubt { fingerprint, from, copy: Some(pbn) };
                told.entry(*home).or_default().push(doubt);
            }
            if matches!(effect, Effect::Refused { .. } | Effect::Undecided) {
                count += u64::from(self.shared.blocks.write().set_aside(pbn));
            }
        }
        index.doubt(&told)?;
        Ok(count)
    }

    fn plan_publishing(&self, pbns: &[Pbn], found: Vec<Option<Fingerprint>>) -> Vec<Change> {
        assert_eq!(found.len(), pbns.len(), "each candidate has a fingerprint or none");
        let mut blocks = self.shared.blocks.write();
        let mut contents = HashSet::with_capacity(pbns.len());
        let mut changes = Vec::with_capacity(pbns.len());
        for (pbn, fingerprint) in pbns.iter().zip(found) {
            match fingerprint {
                // Damaged, or not referred to any more.
                None => blocks.give_up(*pbn, false),
                // A second block with the content waits for the next round.
                Some(fingerprint) if !contents.insert(fingerprint.to_bytes()) => {
                    blocks.give_up(*pbn, true);
                }
                Some(fingerprint) => {
                    changes.push(Change { fingerprint, action: Action::Publish(*pbn) });
                }
            }
        }
        changes
    }

    fn collect(&self, worker: &mut Worker, pool: &Pool) -> Result<usize> {
        let Worker { index, figures, .. } = worker;
        let mut journal = LedgerJournal { shared: &self.shared, figures, own: pool };
        Ok(index.collect(self.options.letters, &mut journal)?)
    }

    /// Makes blocks candidates again that no intent has.
    fn give_up_planned(&self) {
        let mut blocks = self.shared.blocks.write();
        blocks.planned().into_iter().for_each(|pbn| blocks.give_up(pbn, true));
    }

    /// Gives blocks back to the pool.
    fn free(&self, pool: &Pool) {
        let freed = self.shared.blocks.write().take_freed();
        pool.free_kept(&freed);
        if self.shared.is_packed() {
            let mut blocks = self.shared.blocks.write();
            freed.into_iter().for_each(|pbn| blocks.loosen(pbn));
        }
    }

    /// Returns counts since the member was opened, as of the end of the last round.
    #[must_use]
    pub fn figures(&self) -> Stats {
        *self.figures.lock()
    }

    /// Returns what a user has to know about damaged and missing values of the index that this
    /// member has met, as of the end of the last round.
    #[must_use]
    pub fn damage_text(&self) -> Option<String> {
        let damage = self.damage.lock();
        let first = damage.first()?;
        let error = DomainError::from(first.clone());
        let more = match damage.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more values are"),
        };
        Some(format!(
            "{error}{more}: contents that need it are not shared and not given up; \
             'gemelo domain check --repair' rebuilds it"
        ))
    }

    /// Returns whether somebody waits for the next round: the pool for contents that it wants to
    /// move, or, since the last call, a writer for blocks that are due.
    pub(crate) fn has_urgent_work(&self) -> bool {
        let is_awaited = self.shared.is_awaited.swap(false, Ordering::Relaxed);
        is_awaited || self.shared.blocks.read().has_wanted()
    }

    /// Returns the number of blocks for which the next rounds have something to do.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.blocks.read().waiting()
    }

    /// Returns counts of the member's blocks.
    #[must_use]
    pub fn block_figures(&self) -> BlockStats {
        self.shared.blocks.read().figures()
    }
}
