//! The commands on a whole pool, which its users start.

use super::estimate::FindEstimate;
use super::find::find;
use super::scrub::scrub;
use super::shrink::shrink;
use super::{Pool, ScrubOptions, ScrubReport, ShrinkOptions, ShrinkReport};
use crate::engine::{ArrangeReport, FinderReport, GcReport, Pace, RecompressReport};
use crate::error::Result;
use gemelo_base::{Monitor, StopFlag, Unit};

impl Pool {
    /// Examines all blocks of off-line volumes that were written since the finder's last visit,
    /// without the finder's pace and delay. Blocks that are written meanwhile may be left.
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed, or if the work was stopped. Blocks that were
    /// shared until then stay shared.
    pub fn find(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<FinderReport> {
        find(&self.engine, monitor, stop)
    }

    /// Pauses or resumes the finder of the background. It is not paused after the pool was opened.
    pub fn pause_finder(&self, is_paused: bool) {
        self.engine.finder.pause(is_paused);
    }

    /// Estimates what [`Self::find`] would save. Goes through the maps of all off-line volumes, and
    /// reads at most `sample_bytes` of contents, chosen at random by `seed`.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, or if the work was stopped.
    pub fn estimate_find(
        &self,
        (sample_bytes, seed): (u64, u64),
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<FindEstimate> {
        let block_bytes = self.engine.superblock.block_bytes;
        let most = usize::try_from(sample_bytes / u64::from(block_bytes)).unwrap_or(usize::MAX);
        let sample = self.engine.finder.sample((most.max(1), seed), monitor, stop)?;
        Ok(FindEstimate::of(&sample, block_bytes))
    }

    /// Brings together what lies scattered in all volumes, without waiting until the pool is idle,
    /// at most `max_bytes_per_s`. Blocks that are written meanwhile may be left.
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed, or if the work was stopped. Blocks that were
    /// moved until then stay moved.
    pub fn arrange(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<ArrangeReport> {
        let _watch = self.engine.health.watch();
        let engine = &self.engine;
        let mut pace = Pace::new(engine, max_bytes_per_s, stop);
        monitor.begin("Bringing blocks together", Unit::Items, None);
        let report = engine.arranger.arrange_all(|report| {
            monitor.advance(report.examined_blocks);
            pace.go_on(report.moved_blocks)
        })?;
        monitor.finish();
        Ok(report)
    }

    /// Stores the contents of all volumes again whose form is not that of their volume's present
    /// compression, at most `max_bytes_per_s`. Requests go on meanwhile; contents that they change
    /// may be left.
    ///
    /// # Errors
    /// Fails if the pool stores its contents as they are, if metadata cannot be read or changed, or
    /// if the work was stopped. Contents that were moved until then stay moved.
    pub fn recompress(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<RecompressReport> {
        let _watch = self.engine.health.watch();
        let engine = &self.engine;
        let mut pace = Pace::new(engine, max_bytes_per_s, stop);
        let mapped = engine.log.read().backend().totals().references;
        monitor.begin("Compressing again", Unit::Items, Some(mapped));
        let report = engine.recompressor.recompress_all(|report| {
            monitor.advance(report.examined_blocks);
            pace.go_on(report.moved_blocks)
        })?;
        monitor.finish();
        Ok(report)
    }

    /// Reads all contents from the medium and compares them with the checksums in the maps, while
    /// the pool is served. A damaged block becomes suspect, and a suspect block that proves intact
    /// is no longer suspect.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, or if the work was stopped.
    pub fn scrub(
        &self,
        options: ScrubOptions,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<ScrubReport> {
        let _watch = self.engine.health.watch();
        scrub(&self.engine, self.disks.copies().as_deref(), options, (monitor, stop))
    }

    /// Writes a checkpoint, makes freed blocks usable, and gives free space of the data store back
    /// to the system, at most `max_bytes_per_s`.
    ///
    /// # Errors
    /// Fails if the checkpoint or a discard fails, or if the work was stopped.
    pub fn gc(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<GcReport> {
        let _watch = self.engine.health.watch();
        self.engine.collect(max_bytes_per_s, monitor, stop)
    }

    /// Counts all references again and compares. Returns descriptions of the differences, at most
    /// `most`. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove(&self, most: usize) -> Result<Vec<String>> {
        let _watch = self.engine.health.watch();
        self.engine.prove(most)
    }

    /// Counts all references again while requests wait, which takes about a second for ten million
    /// blocks in memory. Returns descriptions of the differences, at most `most`.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove_served(&self, most: usize) -> Result<Vec<String>> {
        let _watch = self.engine.health.watch();
        self.engine.prove_served(most)
    }

    /// Enlarges the data store to this size in bytes, rounded down to whole blocks.
    ///
    /// # Errors
    /// Fails if the store is larger already, or if there is no space.
    pub fn grow(&self, capacity_bytes: u64) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.grow(capacity_bytes / u64::from(self.engine.superblock.block_bytes))
    }

    /// Makes the data store smaller, to this size in bytes, rounded down to whole blocks. Contents
    /// beyond the new end are moved, at most `max_bytes_per_s`. Requests go on meanwhile.
    ///
    /// # Errors
    /// Fails if the store is smaller already, if its contents have no room in a store of this size,
    /// if contents beyond the new end are damaged, if the pool shares contents with others, or if
    /// the work was stopped. The pool keeps its size then.
    pub fn shrink(
        &self,
        capacity_bytes: u64,
        options: ShrinkOptions,
        watch: (&dyn Monitor, &StopFlag),
    ) -> Result<ShrinkReport> {
        let _watch = self.engine.health.watch();
        shrink((&self.engine, &*self.disks.metadata), capacity_bytes, options, watch)
    }
}
