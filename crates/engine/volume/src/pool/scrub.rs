//! Scrubs a pool while it is served: reads all contents from the medium, compares them with the
//! checksums in the maps, and heals damaged ones from other copies.
//!
//! [`super::copies`] says which copies heal a block, and `lent` checks those of no volume. A volume
//! that is removed meanwhile is left out from there on.

mod lent;

use super::copies::{Expected, Wound, Wounds};
use super::set_apart::{Displaced, contents_of};
use crate::engine::{Engine, Pace, Pin, VolumeShared, Wanted};
use crate::error::Result;
use gemelo_base::{Monitor, SparseBits, StopFlag, Unit};
use gemelo_format::{Fingerprint, Lbn, MAX_VOLUME_BLOCKS, Pbn, VolumeId};
use gemelo_metadata::Record;
use gemelo_store::Copies;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Damaged contents that are listed; the others are counted.
const MAX_LISTED: usize = 1000;
/// Damaged contents that are remembered, so that they can be healed: 32 MiB. Further ones are
/// counted, and healed by another scrub.
const MAX_DAMAGED: usize = 1 << 18;
/// Copies that are stored elsewhere at once: 4 MiB of contents of 4 KiB. Further ones are left to
/// another scrub.
const MAX_DISPLACED: usize = 1024;
/// LBNs looked up at once. Their blocks are not reused until they are read.
const LBNS_AT_ONCE: u64 = 1024;
/// Bytes that are read in one list.
const BYTES_AT_ONCE: usize = 1 << 20;
/// LBNs that are listed for each damaged block.
const MAX_NAMED: usize = 4;

/// The way of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubOptions {
    /// Most bytes a second that are read; [`None`] for no limit.
    pub max_bytes_per_s: Option<u64>,
    /// `true` to write damaged contents again that have another copy.
    pub heals: bool,
}

/// A content that stays damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedContent {
    /// The block, and the first LBNs that refer to it.
    pub what: String,
    /// `true` if another copy of the content is whole, so that a scrub that heals restores it.
    pub can_be_healed: bool,
}

/// The outcome of a scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Contents compared with their checksums.
    pub checked_contents: u64,
    /// Damaged contents that were written again from another copy.
    #[serde(default)]
    pub healed_contents: u64,
    /// The first thousand contents that stay damaged.
    pub problems: Vec<DamagedContent>,
    /// The number of further damaged contents.
    pub more_problems: u64,
}

impl ScrubReport {
    /// Returns whether no damage is left.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.problems.is_empty() && self.more_problems == 0
    }

    /// Returns whether a scrub that heals restores all damage that is left.
    #[must_use]
    pub fn can_be_healed(&self) -> bool {
        self.more_problems == 0 && self.problems.iter().all(|problem| problem.can_be_healed)
    }
}

/// Reads all contents, and looks for copies of those that are damaged, also in other pools.
pub(super) fn scrub(
    engine: &Engine,
    others: Option<&dyn Copies>,
    options: ScrubOptions,
    watch: (&dyn Monitor, &StopFlag),
) -> Result<ScrubReport> {
    let (monitor, _) = watch;
    let totals = engine.log.read().backend().totals();
    monitor.begin("Checking contents", Unit::Items, Some(totals.physical));
    let mut scrub = Scrub::new(engine, options, watch);
    for (name, volume) in &engine.catalogue.all() {
        scrub.walk(volume, |scrub, chunk| scrub.check(name, chunk))?;
    }
    monitor.finish();
    scrub.look_for_copies(others)?;
    scrub.check_lent()?;
    Ok(scrub.finish())
}

/// Writes damaged contents again from other copies. Returns the number of contents that are
/// needed and stay damaged: an opening may have removed the only volume that referred to one.
pub(super) fn heal(
    engine: &Engine,
    others: Option<&dyn Copies>,
    wounds: &[Wound],
    watch: (&dyn Monitor, &StopFlag),
) -> Result<u64> {
    let options = ScrubOptions { max_bytes_per_s: None, heals: true };
    let mut scrub = Scrub::new(engine, options, watch);
    let blocks: Vec<Pbn> = wounds.iter().map(|wound| wound.expected.pbn).collect();
    let records = engine.log.records(&blocks)?;
    for (Wound { expected, fingerprint }, record) in wounds.iter().zip(records) {
        if record.references == 0 {
            continue;
        }
        // Only a block that is known to be damaged is written.
        engine.healer.suspect(expected.pbn);
        scrub.damaged.insert(*expected, Damage { fingerprint: *fingerprint, ..Damage::default() });
    }
    scrub.look_for_copies(others)?;
    assert!(scrub.damaged.len() <= wounds.len(), "no more is damaged than before");
    Ok(scrub.damaged.len() as u64)
}

/// Blocks of a volume that were looked up at once.
struct LookedUp<'e> {
    /// Keeps the blocks from being given to other contents.
    _pin: Pin<'e>,
    volume: VolumeId,
    next: Lbn,
    stored: Vec<Stored>,
}

/// A stored block of a volume, with its record.
#[derive(Clone, Copy)]
struct Stored {
    wanted: Wanted,
    record: Record,
}

/// A block that stays damaged so far.
struct Damage {
    fingerprint: Fingerprint,
    /// Descriptions of the LBNs that refer to it.
    users: Vec<String>,
    /// `true` once a copy was found.
    has_copy: bool,
}

impl Default for Damage {
    fn default() -> Self {
        Self { fingerprint: Fingerprint::NONE, users: Vec::new(), has_copy: false }
    }
}

/// A scrub under way.
struct Scrub<'e> {
    engine: &'e Engine,
    options: ScrubOptions,
    monitor: &'e dyn Monitor,
    stop: &'e StopFlag,
    pace: Pace<'e>,
    contents: Vec<u8>,
    /// The PBNs that were compared with a checksum.
    seen: SparseBits,
    damaged: BTreeMap<Expected, Damage>,
    /// Copies of damaged contents that could not be written to their places.
    displaced: Vec<Displaced>,
    report: ScrubReport,
}

impl<'e> Scrub<'e> {
    fn new(
        engine: &'e Engine,
        options: ScrubOptions,
        (monitor, stop): (&'e dyn Monitor, &'e StopFlag),
    ) -> Self {
        let blocks = (BYTES_AT_ONCE / engine.data.block_bytes()).max(1);
        Self {
            engine,
            options,
            monitor,
            stop,
            pace: Pace::new(engine, options.max_bytes_per_s, stop),
            contents: vec![0; blocks * engine.data.block_bytes()],
            seen: SparseBits::default(),
            damaged: BTreeMap::new(),
            displaced: Vec::new(),
            report: ScrubReport::default(),
        }
    }

    /// Walks the map of a volume. `work` returns the number of contents that it has read.
    fn walk(
        &mut self,
        volume: &VolumeShared,
        mut work: impl FnMut(&mut Self, &LookedUp<'_>) -> Result<usize>,
    ) -> Result<()> {
        let mut from = Lbn(0);
        while let Some(chunk) = look_up_stored(self.engine, volume, from)? {
            let read = work(self, &chunk)?;
            from = chunk.next;
            // Nothing may wait for a pin longer than for its reads.
            drop(chunk);
            self.pace.go_on(read as u64)?;
        }
        Ok(())
    }

    /// Checks the contents of a chunk that were not checked yet.
    fn check(&mut self, name: &str, chunk: &LookedUp<'_>) -> Result<usize> {
        let (mut new, known): (Vec<Stored>, Vec<Stored>) =
            chunk.stored.iter().partition(|stored| self.seen.insert(stored.wanted.pbn.number()));
        // Blocks that lie side by side are read together.
        new.sort_unstable_by_key(|stored| stored.wanted.pbn);
        let block_bytes = self.engine.data.block_bytes();
        let at_once = self.contents.len() / block_bytes;
        assert!(at_once > 0, "a block at least is read at once");
        let mut contents = std::mem::take(&mut self.contents);
        for some in new.chunks(at_once) {
            let wanted: Vec<Wanted> = some.iter().map(|stored| stored.wanted).collect();
            let buffers = contents.chunks_exact_mut(block_bytes);
            let read = self.engine.reader.read_blocks_of_medium(chunk.volume, &wanted, buffers);
            assert!(read.len() == some.len(), "an outcome for each block");
            self.monitor.advance(some.len() as u64);
            self.report.checked_contents += some.len() as u64;
            let blocks = contents.chunks_exact_mut(block_bytes);
            for ((Stored { wanted, record }, read), content) in some.iter().zip(read).zip(blocks) {
                if read.is_err() {
                    self.note(
                        name,
                        chunk.volume,
                        &Stored { wanted: *wanted, record: *record },
                        content,
                    )?;
                } else if record.is_suspect
                    && self.engine.fingerprinter.of(content) == record.fingerprint
                {
                    self.engine.healer.acquit(wanted.pbn)?;
                }
            }
        }
        self.contents = contents;
        for Stored { wanted, .. } in known {
            if let Some(damage) = self.damaged.get_mut(&expected(&wanted)) {
                damage.add_user(name, &wanted);
            }
        }
        Ok(new.len())
    }

    /// Heals a damaged block from the page cache, or takes note of it.
    fn note(
        &mut self,
        name: &str,
        volume: VolumeId,
        stored: &Stored,
        content: &mut [u8],
    ) -> Result<()> {
        let Stored { wanted, record } = stored;
        let is_cached = self
            .engine
            .reader
            .read_blocks(volume, &[*wanted], std::iter::once(&mut *content))
            .iter()
            .all(Result::is_ok);
        if is_cached && self.options.heals && self.engine.healer.write_again(wanted.pbn, content)? {
            self.report.healed_contents += 1;
            return Ok(());
        }
        if self.damaged.len() >= MAX_DAMAGED {
            self.report.more_problems += 1;
            return Ok(());
        }
        let is_listed = self.damaged.len() < MAX_LISTED;
        let damage = self.damaged.entry(expected(wanted)).or_default();
        damage.fingerprint = record.fingerprint;
        damage.has_copy |= is_cached;
        if is_listed {
            damage.add_user(name, wanted);
        }
        Ok(())
    }

    /// Looks for copies of damaged contents in the pool and then in others, and heals what has one
    /// if that is asked for.
    fn look_for_copies(&mut self, others: Option<&dyn Copies>) -> Result<()> {
        let mut wounds = self.wounds();
        if !wounds.is_empty() {
            self.monitor.begin("Looking for copies of damaged contents", Unit::Items, None);
            let volumes: Vec<Arc<VolumeShared>> =
                self.engine.catalogue.all().into_values().collect();
            for volume in &volumes {
                self.walk(volume, |scrub, chunk| scrub.heal_from(&mut wounds, chunk))?;
            }
            if let (Some(others), false) = (others, wounds.is_empty()) {
                let stop = self.stop;
                wounds.ask(others, stop, |content, healed| self.heal_all(content, &healed))?;
            }
            self.monitor.finish();
        }
        self.store_displaced()?;
        if self.report.healed_contents > 0 {
            self.engine.healer.sync_healed()?;
        }
        Ok(())
    }

    /// Stores copies elsewhere that could not be written to their places.
    fn store_displaced(&mut self) -> Result<()> {
        let displaced = std::mem::take(&mut self.displaced);
        let moved = self.engine.relocator.store_elsewhere(&contents_of(&displaced))?;
        for (one, _) in displaced.iter().zip(moved).filter(|(_, is_moved)| *is_moved) {
            self.report.healed_contents += 1;
            self.damaged.remove(&one.expected);
        }
        Ok(())
    }

    /// The damaged contents that a copy may heal.
    fn wounds(&self) -> Wounds {
        let engine = self.engine;
        let mut wounds = Wounds::new(engine.reader.seed, (*engine.fingerprinter).clone());
        if engine.reader.proves_equality() {
            for (expected, damage) in self.damaged.iter().filter(|(_, damage)| !damage.has_copy) {
                wounds.add(Wound { expected: *expected, fingerprint: damage.fingerprint });
            }
        }
        wounds
    }

    /// Reads the copies of damaged contents in a chunk, and heals from them.
    fn heal_from(&mut self, wounds: &mut Wounds, chunk: &LookedUp<'_>) -> Result<usize> {
        let mut content = vec![0; self.engine.data.block_bytes()];
        let mut read = 0;
        for Stored { wanted, .. } in &chunk.stored {
            if !wounds.may_be_healed_by(expected(wanted)) {
                continue;
            }
            read += 1;
            let buffers = std::iter::once(content.as_mut_slice());
            let outcomes = self.engine.reader.read_blocks(chunk.volume, &[*wanted], buffers);
            if outcomes.iter().all(Result::is_ok) {
                let healed = wounds.take_healed_by(&content);
                self.heal_all(&content, &healed)?;
            }
        }
        self.monitor.advance(chunk.stored.len() as u64);
        Ok(read)
    }

    /// Heals damaged blocks whose content this is, or notes that they have a copy.
    fn heal_all(&mut self, content: &[u8], wounds: &[Wound]) -> Result<()> {
        assert!(content.len() == self.engine.data.block_bytes(), "a copy is a whole content");
        for Wound { expected, fingerprint } in wounds {
            let is_healed = self.options.heals
                && self.engine.healer.heal_suspect(expected.pbn, *fingerprint, content)?;
            if is_healed {
                self.report.healed_contents += 1;
                self.damaged.remove(expected);
            } else if let Some(damage) = self.damaged.get_mut(expected) {
                damage.has_copy = true;
                if self.options.heals && self.displaced.len() < MAX_DISPLACED {
                    let content = content.to_vec();
                    self.displaced.push(Displaced { expected: *expected, content });
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> ScrubReport {
        let mut report = self.report;
        let room = MAX_LISTED.saturating_sub(report.problems.len());
        report.more_problems += self.damaged.len().saturating_sub(room) as u64;
        let listed = self.damaged.into_iter().take(room);
        report.problems.extend(listed.map(|(expected, damage)| damage.describe(expected)));
        report
    }
}

impl Damage {
    fn add_user(&mut self, name: &str, wanted: &Wanted) {
        if self.users.len() <= MAX_NAMED {
            self.users.push(format!("block {} of '{name}'", wanted.lbn.0));
        }
    }

    fn describe(mut self, expected: Expected) -> DamagedContent {
        let more = if self.users.len() > MAX_NAMED { " and more" } else { "" };
        self.users.truncate(MAX_NAMED);
        let what = format!(
            "the content of block {} is damaged: {}{more}",
            expected.pbn.number(),
            self.users.join(", ")
        );
        DamagedContent { what, can_be_healed: self.has_copy }
    }
}

const fn expected(wanted: &Wanted) -> Expected {
    Expected { pbn: wanted.pbn, checksum: wanted.checksum }
}

/// Looks up the next stored blocks of a volume, with their records. Returns [`None`] at its
/// end, or if it was removed.
fn look_up_stored<'e>(
    engine: &'e Engine,
    volume: &VolumeShared,
    from: Lbn,
) -> Result<Option<LookedUp<'e>>> {
    // The pin comes before the look-up, so no block is given to another content between them.
    let pin = engine.data.pin();
    // The gate keeps the volume from being removed while it is looked up. Nobody waits for it
    // longer: the pin keeps the blocks for the reads that follow.
    let is_removed = volume.enter();
    if *is_removed {
        return Ok(None);
    }
    let (id, end) = (volume.id(), Lbn(MAX_VOLUME_BLOCKS));
    let Some(first) = engine.log.next_mapped(id, from, end)? else { return Ok(None) };
    let next = first.0.saturating_add(LBNS_AT_ONCE).min(end.0);
    let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
    let stored = engine.log.look(|state| state.stored(id, &lbns))?.into_iter();
    let stored = stored.map(|(wanted, record)| Stored { wanted, record }).collect();
    Ok(Some(LookedUp { _pin: pin, volume: id, next: Lbn(next), stored }))
}
