//! Takes blocks that are to be examined, volume by volume.

use super::control::{FinderControl, FinderStats};
use super::report::{Examined, FinderReport, Scope};
use super::turns::Turn;
use crate::counters::{PoolCounters, add};
use crate::engine::catalogue::Catalogue;
use crate::engine::checked::Reader;
use crate::engine::data::DataPath;
use crate::engine::finder::Examiner;
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::tasks::Tasks;
use crate::engine::{VolumeShared, Wanted};
use crate::error::Result;
use gemelo_base::Clock;
use gemelo_format::{Fingerprinter, Lbn};
use std::sync::Arc;

/// LBNs that the course through a whole volume looks up at once: two pages of a map.
pub(super) const SWEPT_AT_ONCE: u64 = 1024;
/// Bytes that are read and fingerprinted between two holds of the state's lock.
const CHUNK_BYTES: usize = 1 << 20;
/// Rounds for the blocks of a step. Every round settles the first copy of each content, unless the
/// index changes meanwhile. What is left after that many is marked again.
const MAX_ROUNDS: u32 = 4;

/// The finder of an open pool; see [`super`].
pub(crate) struct Finder {
    pub(super) examiner: Examiner,
    pub(crate) control: FinderControl,
    pub(super) data: Arc<DataPath>,
    pub(super) log: Arc<Log>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) reader: Arc<Reader>,
    pub(super) health: Arc<Health>,
    pub(super) fingerprinter: Arc<Fingerprinter>,
    pub(super) counters: Arc<PoolCounters>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tasks: Arc<Tasks>,
}

impl Finder {
    pub(in crate::engine) fn new(
        common: &Common,
        examiner: Examiner,
        reader: &Arc<Reader>,
    ) -> Self {
        Self {
            examiner,
            control: FinderControl::default(),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            catalogue: Arc::clone(&common.catalogue),
            reader: Arc::clone(reader),
            health: Arc::clone(&common.health),
            fingerprinter: Arc::clone(&common.fingerprinter),
            counters: Arc::clone(&common.counters),
            clock: Arc::clone(&common.clock),
            tasks: Arc::clone(&common.tasks),
        }
    }

    /// Examines at most `max_blocks` blocks of the volume whose turn it is. Returns
    /// `None` if there is nothing to examine.
    pub(crate) fn find_next(&self, scope: Scope, max_blocks: usize) -> Result<Option<Examined>> {
        self.health.check_writable()?;
        let (began_ns, began_cpu_ns) = (self.clock.now_ns(), self.clock.thread_cpu_ns());
        let found = self.find_in_turn(scope, max_blocks);
        if let (Some(began_ns), Some(ended_ns)) = (began_cpu_ns, self.clock.thread_cpu_ns()) {
            self.control.add_cpu(ended_ns.saturating_sub(began_ns));
        }
        if matches!(found, Ok(Some(_))) {
            self.control.add_working(self.clock.now_ns().saturating_sub(began_ns));
        }
        found
    }

    fn find_in_turn(&self, scope: Scope, max_blocks: usize) -> Result<Option<Examined>> {
        let mut volumes = self.examined_volumes();
        let last = self.control.last_turn();
        volumes.sort_by_key(|volume| (volume.turn().begin(last), volume.id()));
        let mut failed = None;
        for volume in volumes {
            let removed = volume.enter();
            if *removed {
                continue;
            }
            match self.find_in(&volume, scope, max_blocks) {
                Ok(Some(found)) => {
                    Turn::note_served(last, volume.turn(), found);
                    return Ok(Some(found));
                }
                Ok(None) => {}
                // One that cannot be examined does not keep the others from being.
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// The volumes that may have blocks to examine.
    pub(super) fn examined_volumes(&self) -> Vec<Arc<VolumeShared>> {
        self.catalogue.all().into_values().filter(|volume| volume.is_examined()).collect()
    }

    /// Returns whether the finder of the background has blocks to examine.
    pub(super) fn has_due(&self, now_ns: u64) -> bool {
        self.examined_volumes().iter().any(|volume| volume.dirty().is_due(now_ns))
    }

    fn find_in(
        &self,
        volume: &VolumeShared,
        scope: Scope,
        max_blocks: usize,
    ) -> Result<Option<Examined>> {
        let marked = {
            let mut dirty = volume.dirty();
            match scope {
                Scope::Due { now_ns } => dirty.take_due(now_ns, max_blocks),
                Scope::Until { until_ns } | Scope::Marked { until_ns } => {
                    dirty.take_until(until_ns, max_blocks)
                }
            }
        };
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.data.pin();
        if marked.is_empty() {
            return match scope {
                Scope::Due { now_ns: until_ns } | Scope::Until { until_ns } => {
                    self.sweep(volume, until_ns, max_blocks)
                }
                Scope::Marked { .. } => Ok(None),
            };
        }
        let examined =
            self.unidentified(volume, &marked).and_then(|left| self.examine(volume, left));
        if examined.is_err() {
            volume.dirty().mark(marked.iter().copied(), self.clock.now_ns());
        }
        Ok(Some(Examined { report: examined?, passed_blocks: marked.len() as u64 }))
    }

    /// Goes on with the course through a whole volume.
    fn sweep(
        &self,
        volume: &VolumeShared,
        until_ns: u64,
        max_blocks: usize,
    ) -> Result<Option<Examined>> {
        let Some(from) = volume.dirty().sweep_from(until_ns) else { return Ok(None) };
        let end = Lbn(volume.size_bytes() / self.data.block_bytes() as u64);
        let first = self.log.next_mapped(volume.id(), Lbn(from), end)?;
        let Some(first) = first else {
            volume.dirty().note_swept(from, None, self.clock.now_ns());
            return Ok(Some(Examined::default()));
        };
        let mut next = first.0 + SWEPT_AT_ONCE;
        let lbns: Vec<Lbn> = (first.0..next.min(end.0)).map(Lbn).collect();
        let mut left = self.unidentified(volume, &lbns)?;
        {
            let dirty = volume.dirty();
            left.retain(|wanted| !dirty.is_marked(wanted.lbn));
        }
        if let Some(later) = left.get(max_blocks) {
            next = later.lbn.0;
            left.truncate(max_blocks);
        }
        let passed_blocks = next.min(end.0) - first.0;
        let report = self.examine(volume, left)?;
        volume.dirty().note_swept(from, Some(next), self.clock.now_ns());
        Ok(Some(Examined { report, passed_blocks }))
    }

    /// Examines blocks, and shares those whose contents are known.
    fn examine(&self, volume: &VolumeShared, mut left: Vec<Wanted>) -> Result<FinderReport> {
        let mut report = FinderReport::default();
        let chunk_blocks = (CHUNK_BYTES / self.data.block_bytes()).max(1);
        for _ in 0..MAX_ROUNDS {
            if left.is_empty() {
                break;
            }
            let mut again = Vec::new();
            for chunk in left.chunks(chunk_blocks) {
                self.log.bound_open_commit()?;
                again.extend(self.examiner.examine_chunk(volume, chunk, &mut report)?);
            }
            left = again;
        }
        if !left.is_empty() {
            let lbns = left.iter().map(|wanted| wanted.lbn);
            volume.dirty().mark(lbns, self.clock.now_ns());
        }
        report.examined_blocks += left.len() as u64;
        report.aborted_blocks += left.len() as u64;
        let (pool, own) = (&self.counters, volume.counters());
        for (of_pool, of_volume, blocks) in [
            (&pool.examined_blocks, &own.examined_blocks, report.examined_blocks),
            (&pool.found_blocks, &own.found_blocks, report.shared_blocks),
            (&pool.identified_blocks, &own.identified_blocks, report.identified_blocks),
            (&pool.aborted_blocks, &own.aborted_blocks, report.aborted_blocks),
        ] {
            add(of_pool, blocks);
            add(of_volume, blocks);
        }
        Ok(report)
    }

    /// Returns those of the blocks that are stored and have no fingerprint.
    pub(super) fn unidentified(&self, volume: &VolumeShared, lbns: &[Lbn]) -> Result<Vec<Wanted>> {
        let end = volume.size_bytes() / self.data.block_bytes() as u64;
        let lbns: Vec<Lbn> = lbns.iter().copied().filter(|lbn| lbn.0 < end).collect();
        let stored = self.log.look(|state| state.stored(volume.id(), &lbns))?;
        let unidentified = stored.into_iter().filter(|(_, record)| record.fingerprint.is_none());
        Ok(unidentified.map(|(wanted, _)| wanted).collect())
    }

    /// Pauses or resumes the finder of the background.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.control.set_paused(is_paused);
    }

    /// Figures of the finder.
    pub(crate) fn figures(&self) -> FinderStats {
        let mut figures =
            FinderStats { remembered: self.data.remembered().figures(), ..self.control.figures() };
        let now_ns = self.clock.now_ns();
        for volume in self.examined_volumes() {
            let backlog = volume.backlog();
            let oldest_ns = backlog.oldest_ns.map_or(0, |at_ns| now_ns.saturating_sub(at_ns));
            figures.backlog_blocks += backlog.blocks;
            figures.oldest_ns = figures.oldest_ns.max(oldest_ns);
            figures.swept_volumes += u64::from(backlog.is_swept);
            figures.rewritten_blocks += backlog.rewritten_blocks;
            figures.sampled_blocks += backlog.sampled_blocks;
            figures.wasted_blocks += backlog.wasted_blocks;
            figures.longest_delay_ns = figures.longest_delay_ns.max(backlog.delay_ns);
        }
        figures
    }
}
