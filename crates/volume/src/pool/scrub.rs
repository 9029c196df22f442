//! Scrubs a pool while it is served: reads all contents from the medium, compares them with the
//! checksums in the maps, and heals damaged ones from other copies.
//!
//! A damaged block has a copy where the page cache still holds its content, or where another block
//! has the same content: in a volume without deduplication, or in one whose duplicates the finder
//! has not shared yet. Such a block has the same checksum in the map, so a walk of the maps finds
//! the few that are worth reading. Only equal fingerprints prove that it has the content, so a
//! block without one is healed from the cache alone.

use super::Pool;
use crate::backend::Record;
use crate::engine::{Engine, Pin, Wanted};
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{Checksum, Fingerprint, Lbn, MAX_VOLUME_BLOCKS, Pbn, Place, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// Damaged contents that are listed; the others are counted.
const MOST_DAMAGED: usize = 1000;
/// LBNs looked up at once. Their blocks are not reused until they are read.
const LBNS_AT_ONCE: u64 = 1024;
/// Bytes that are read in one list.
const BYTES_AT_ONCE: usize = 1 << 20;
/// LBNs that are listed for each damaged block.
const MOST_NAMED: usize = 4;
/// Longest sleep between looks at the stop flag.
const STOP_PAUSE_NS: u64 = 50_000_000;

/// The way of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubOptions {
    /// Most bytes a second that are read; [`None`] for no limit.
    pub most_bytes_per_s: Option<u64>,
    /// `true` to write damaged contents again that have another copy.
    pub heals: bool,
}

/// The outcome of a scrub.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Contents compared with their checksums.
    pub checked_contents: u64,
    /// Damaged contents that were written again from another copy.
    #[serde(default)]
    pub healed_contents: u64,
    /// Descriptions of the first thousand contents that stay damaged.
    pub problems: Vec<String>,
    /// The number of further damaged contents.
    pub more_problems: u64,
}

impl ScrubReport {
    /// Returns whether no damage is left.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.problems.is_empty() && self.more_problems == 0
    }
}

impl Pool {
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
        let _watch = self.engine.watch();
        let engine = &*self.engine;
        let totals = engine.state().backend().totals();
        monitor.begin("Checking contents", Unit::Items, Some(totals.physical));
        let volumes: Vec<_> =
            engine.volumes().into_iter().map(|(name, volume)| (name, volume.id())).collect();
        let mut scrub = Scrub::new(engine, options, (monitor, stop));
        for (name, id) in &volumes {
            scrub.walk(*id, |scrub, chunk| scrub.check(name, chunk))?;
        }
        monitor.finish();
        if scrub.wants_copies() {
            monitor.begin("Looking for copies of damaged contents", Unit::Items, None);
            for (_, id) in &volumes {
                scrub.walk(*id, Scrub::heal_from)?;
            }
            monitor.finish();
        }
        if scrub.report.healed_contents > 0 {
            engine.sync_healed()?;
        }
        Ok(scrub.finish())
    }
}

/// The blocks that were compared with a checksum: one bit for each PBN.
#[derive(Default)]
struct Seen {
    words: Vec<u64>,
}

impl Seen {
    /// Adds a PBN. Returns whether it is new.
    fn insert(&mut self, pbn: Pbn) -> bool {
        let (word, bit) = (pbn.number() as usize / 64, 1u64 << (pbn.number() % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words.get_mut(word).is_some_and(|bits| {
            let is_new = *bits & bit == 0;
            *bits |= bit;
            is_new
        })
    }
}

/// Blocks of a volume that were looked up at once.
struct Chunk<'e> {
    /// Keeps the blocks from being given to other contents.
    _pin: Pin<'e>,
    volume: VolumeId,
    next: Lbn,
    stored: Vec<(Wanted, Record)>,
}

/// A block that is damaged and has no copy so far.
struct Damage {
    fingerprint: Fingerprint,
    /// Descriptions of the LBNs that refer to it.
    users: Vec<String>,
}

/// A scrub under way.
struct Scrub<'e> {
    engine: &'e Engine,
    options: ScrubOptions,
    monitor: &'e dyn Monitor,
    stop: &'e StopFlag,
    /// Time at which the rate allows to go on.
    free_at_ns: u64,
    contents: Vec<u8>,
    seen: Seen,
    damaged: BTreeMap<(Pbn, Checksum), Damage>,
    report: ScrubReport,
}

impl<'e> Scrub<'e> {
    fn new(
        engine: &'e Engine,
        options: ScrubOptions,
        (monitor, stop): (&'e dyn Monitor, &'e StopFlag),
    ) -> Self {
        let blocks = (BYTES_AT_ONCE / engine.block_bytes()).max(1);
        Self {
            engine,
            options,
            monitor,
            stop,
            free_at_ns: 0,
            contents: vec![0; blocks * engine.block_bytes()],
            seen: Seen::default(),
            damaged: BTreeMap::new(),
            report: ScrubReport::default(),
        }
    }

    /// Walks the map of a volume. `work` returns the number of contents that it has read.
    fn walk(
        &mut self,
        volume: VolumeId,
        mut work: impl FnMut(&mut Self, &Chunk<'_>) -> Result<usize>,
    ) -> Result<()> {
        let mut from = Lbn(0);
        while let Some(chunk) = self.engine.look_up_stored(volume, from)? {
            let read = work(self, &chunk)?;
            from = chunk.next;
            // Nothing may wait for a pin longer than for its reads.
            drop(chunk);
            self.pace(read)?;
        }
        Ok(())
    }

    /// Waits until the rate allows to go on after reading this many contents.
    fn pace(&mut self, contents: usize) -> Result<()> {
        let now_ns = self.engine.now_ns();
        if let Some(rate) = self.options.most_bytes_per_s {
            let bytes = (contents * self.engine.block_bytes()) as u64;
            let took_ns = bytes.saturating_mul(1_000_000_000) / rate.max(1);
            self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(took_ns);
        }
        loop {
            if self.stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let now_ns = self.engine.now_ns();
            if now_ns >= self.free_at_ns {
                return Ok(());
            }
            self.engine.sleep_until_ns(self.free_at_ns.min(now_ns + STOP_PAUSE_NS));
        }
    }

    /// Checks the contents of a chunk that were not checked yet.
    fn check(&mut self, name: &str, chunk: &Chunk<'_>) -> Result<usize> {
        let (mut new, known): (Vec<_>, Vec<_>) =
            chunk.stored.iter().partition(|(wanted, _)| self.seen.insert(wanted.pbn));
        // Blocks that lie side by side are read together.
        new.sort_unstable_by_key(|(wanted, _)| wanted.pbn);
        let block_bytes = self.engine.block_bytes();
        let at_once = self.contents.len() / block_bytes;
        let mut contents = std::mem::take(&mut self.contents);
        for some in new.chunks(at_once) {
            let wanted: Vec<Wanted> = some.iter().map(|(wanted, _)| *wanted).collect();
            let buffers = contents.chunks_exact_mut(block_bytes);
            let read = self.engine.read_blocks_of_medium(chunk.volume, &wanted, buffers);
            self.monitor.advance(some.len() as u64);
            self.report.checked_contents += some.len() as u64;
            let blocks = contents.chunks_exact_mut(block_bytes);
            for (((wanted, record), read), content) in some.iter().zip(read).zip(blocks) {
                if read.is_err() {
                    self.note(name, chunk.volume, (*wanted, record.fingerprint), content)?;
                } else if record.is_suspect
                    && self.engine.fingerprinter().of(content) == record.fingerprint
                {
                    self.engine.acquit(wanted.pbn)?;
                }
            }
        }
        self.contents = contents;
        for (wanted, _) in known {
            if let Some(damage) = self.damaged.get_mut(&(wanted.pbn, wanted.checksum)) {
                damage.add_user(name, wanted);
            }
        }
        Ok(new.len())
    }

    /// Heals a damaged block from the page cache, or takes note of it.
    fn note(
        &mut self,
        name: &str,
        volume: VolumeId,
        (wanted, fingerprint): (Wanted, Fingerprint),
        content: &mut [u8],
    ) -> Result<()> {
        let is_cached = self.options.heals
            && self
                .engine
                .read_blocks(volume, &[wanted], std::iter::once(&mut *content))
                .iter()
                .all(Result::is_ok);
        if is_cached && self.engine.write_again(wanted.pbn, content)? {
            self.report.healed_contents += 1;
            return Ok(());
        }
        if self.damaged.len() >= MOST_DAMAGED {
            self.report.more_problems += 1;
            return Ok(());
        }
        let damage = Damage { fingerprint, users: Vec::new() };
        let key = (wanted.pbn, wanted.checksum);
        self.damaged.entry(key).or_insert(damage).add_user(name, wanted);
        Ok(())
    }

    fn wants_copies(&self) -> bool {
        self.options.heals
            && self.engine.fingerprints_prove_equality()
            && self.damaged.values().any(|damage| !damage.fingerprint.is_none())
    }

    /// Looks for copies of damaged contents in a chunk, and heals them.
    fn heal_from(&mut self, chunk: &Chunk<'_>) -> Result<usize> {
        let checksums: HashSet<Checksum> =
            self.damaged.keys().map(|(_, checksum)| *checksum).collect();
        let block_bytes = self.engine.block_bytes();
        let mut content = vec![0; block_bytes];
        let mut read = 0;
        for (wanted, _) in &chunk.stored {
            let is_damaged = self.damaged.contains_key(&(wanted.pbn, wanted.checksum));
            if is_damaged || !checksums.contains(&wanted.checksum) {
                continue;
            }
            read += 1;
            let buffers = std::iter::once(content.as_mut_slice());
            let outcomes = self.engine.read_blocks(chunk.volume, &[*wanted], buffers);
            if outcomes.iter().all(Result::is_ok) {
                self.heal_all_of(&content)?;
            }
        }
        self.monitor.advance(chunk.stored.len() as u64);
        Ok(read)
    }

    /// Heals all damaged blocks whose content this is.
    fn heal_all_of(&mut self, content: &[u8]) -> Result<()> {
        let fingerprint = self.engine.fingerprinter().of(content);
        let mut healed = Vec::new();
        for (key, damage) in &self.damaged {
            if damage.fingerprint == fingerprint
                && self.engine.heal_suspect(key.0, fingerprint, content)?
            {
                healed.push(*key);
            }
        }
        self.report.healed_contents += healed.len() as u64;
        healed.iter().for_each(|key| drop(self.damaged.remove(key)));
        Ok(())
    }

    fn finish(self) -> ScrubReport {
        let text = |((pbn, _), damage): ((Pbn, Checksum), Damage)| {
            let mut users = damage.users;
            let more = if users.len() > MOST_NAMED { " and more" } else { "" };
            users.truncate(MOST_NAMED);
            format!("the content of block {} is damaged: {}{more}", pbn.number(), users.join(", "))
        };
        ScrubReport { problems: self.damaged.into_iter().map(text).collect(), ..self.report }
    }
}

impl Damage {
    fn add_user(&mut self, name: &str, wanted: Wanted) {
        if self.users.len() <= MOST_NAMED {
            self.users.push(format!("block {} of '{name}'", wanted.lbn.0));
        }
    }
}

impl Engine {
    /// Looks up the next stored blocks of a volume, with their records.
    fn look_up_stored(&self, volume: VolumeId, from: Lbn) -> Result<Option<Chunk<'_>>> {
        // The pin comes before the look-up, so no block is given to another content between them.
        let pin = self.pin();
        let (mut places, mut records) = (Vec::new(), Vec::new());
        let state = self.state();
        let end = Lbn(MAX_VOLUME_BLOCKS);
        let Some(first) = state.backend().next_mapped(volume, from, end)? else { return Ok(None) };
        let next = first.0.saturating_add(LBNS_AT_ONCE).min(end.0);
        let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
        state.backend().look_up(volume, &lbns, &mut places)?;
        let stored = |(lbn, place): (Lbn, Place)| match place {
            Place::Stored(pbn, checksum) => Some(Wanted { lbn, pbn, checksum }),
            Place::Unmapped | Place::Damaged => None,
        };
        let wanted: Vec<Wanted> = lbns.into_iter().zip(places).filter_map(stored).collect();
        let pbns: Vec<Pbn> = wanted.iter().map(|wanted| wanted.pbn).collect();
        state.backend().records(&pbns, &mut records)?;
        let stored = wanted.into_iter().zip(records).collect();
        Ok(Some(Chunk { _pin: pin, volume, next: Lbn(next), stored }))
    }
}
