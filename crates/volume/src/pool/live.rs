//! Checks a pool while it is served: contents while requests go on, and counts while requests wait.

use super::Pool;
use crate::engine::{Engine, Wanted};
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{Checksum, Lbn, MAX_VOLUME_BLOCKS, Pbn, Place, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Damaged contents that are listed; the others are counted.
const MOST_DAMAGED: usize = 1000;
/// LBNs looked up at once. Their blocks are not reused until they are read.
const LBNS_AT_ONCE: u64 = 1024;
/// Bytes that are read in one list.
const BYTES_AT_ONCE: usize = 1 << 20;
/// LBNs that are listed for each damaged block.
const MOST_NAMED: usize = 4;

/// The outcome of a check of contents.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveCheck {
    /// Contents compared with their checksums.
    pub checked_contents: u64,
    /// Descriptions of the first thousand damaged contents.
    pub problems: Vec<String>,
    /// The number of further damaged contents.
    pub more_problems: u64,
}

impl Pool {
    /// Counts all references again while requests wait, which takes about a second for ten million
    /// blocks in memory. Returns descriptions of the differences, at most `most`.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove_served(&self, most: usize) -> Result<Vec<String>> {
        self.engine.prove_served(most)
    }

    /// Reads all contents and compares them with the checksums in the maps, while the pool is
    /// served. A damaged block becomes suspect, and a suspect block that proves intact is no longer
    /// suspect.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, or if the work was stopped.
    pub fn scrub(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<LiveCheck> {
        let engine = &self.engine;
        let totals = engine.state().backend().totals();
        monitor.begin("Checking contents", Unit::Items, Some(totals.physical));
        let volumes: Vec<_> =
            engine.volumes().into_iter().map(|(name, volume)| (name, volume.id())).collect();
        let mut scrub =
            Scrub { seen: Seen::default(), damaged: BTreeMap::new(), report: LiveCheck::default() };
        for (name, id) in volumes {
            let mut from = Lbn(0);
            while let Some(next) = engine.scrub_some((&name, id), from, &mut scrub, monitor)? {
                if stop.is_raised() {
                    return Err(VolumeError::Interrupted);
                }
                from = next;
            }
        }
        monitor.finish();
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

/// A check of contents under way.
struct Scrub {
    seen: Seen,
    /// Damaged blocks, with descriptions of the LBNs that refer to them.
    damaged: BTreeMap<(Pbn, Checksum), Vec<String>>,
    report: LiveCheck,
}

impl Scrub {
    fn note(&mut self, name: &str, wanted: Wanted) {
        let key = (wanted.pbn, wanted.checksum);
        if self.damaged.len() >= MOST_DAMAGED && !self.damaged.contains_key(&key) {
            self.report.more_problems += 1;
            return;
        }
        let users = self.damaged.entry(key).or_default();
        if users.len() <= MOST_NAMED {
            users.push(format!("block {} of '{name}'", wanted.lbn.0));
        }
    }

    fn finish(self) -> LiveCheck {
        let text = |((pbn, _), mut users): ((Pbn, Checksum), Vec<String>)| {
            let more = if users.len() > MOST_NAMED { " and more" } else { "" };
            users.truncate(MOST_NAMED);
            format!("the content of block {} is damaged: {}{more}", pbn.number(), users.join(", "))
        };
        LiveCheck { problems: self.damaged.into_iter().map(text).collect(), ..self.report }
    }
}

impl Engine {
    /// Checks the contents of some LBNs of a volume. Returns the next LBN to check.
    fn scrub_some(
        &self,
        (name, id): (&str, VolumeId),
        from: Lbn,
        scrub: &mut Scrub,
        monitor: &dyn Monitor,
    ) -> Result<Option<Lbn>> {
        // The pin keeps all blocks that are looked up here from being given to other contents
        // before the end.
        let _pin = self.pin();
        let (mut places, mut records) = (Vec::new(), Vec::new());
        let (first, next) = {
            let state = self.state();
            let end = Lbn(MAX_VOLUME_BLOCKS);
            let Some(first) = state.backend().next_mapped(id, from, end)? else { return Ok(None) };
            let next = first.0.saturating_add(LBNS_AT_ONCE).min(end.0);
            let lbns: Vec<Lbn> = (first.0..next).map(Lbn).collect();
            state.backend().look_up(id, &lbns, &mut places)?;
            let pbns: Vec<Pbn> =
                places.iter().map(|place| place.pbn().unwrap_or(Pbn::FIRST)).collect();
            state.backend().records(&pbns, &mut records)?;
            (first, next)
        };
        let (mut found, mut seen_before) = (Vec::new(), Vec::new());
        for ((lbn, place), record) in (first.0..).zip(&places).zip(&records) {
            let Place::Stored(pbn, checksum) = *place else { continue };
            let wanted = Wanted { lbn: Lbn(lbn), pbn, checksum };
            if scrub.seen.insert(pbn) {
                found.push((wanted, *record));
            } else {
                seen_before.push(wanted);
            }
        }
        let block_bytes = self.block_bytes();
        let at_once = (BYTES_AT_ONCE / block_bytes).max(1);
        let mut contents = vec![0; at_once.min(found.len()) * block_bytes];
        for some in found.chunks(at_once) {
            let wanted: Vec<Wanted> = some.iter().map(|(wanted, _)| *wanted).collect();
            let read = self.read_blocks(id, &wanted, contents.chunks_exact_mut(block_bytes));
            monitor.advance(some.len() as u64);
            scrub.report.checked_contents += some.len() as u64;
            let blocks = contents.chunks_exact(block_bytes);
            for (((wanted, record), read), content) in some.iter().zip(read).zip(blocks) {
                if read.is_err() {
                    scrub.note(name, *wanted);
                } else if record.is_suspect
                    && self.fingerprinter().of(content) == record.fingerprint
                {
                    self.acquit(wanted.pbn)?;
                }
            }
        }
        for wanted in seen_before {
            if scrub.damaged.contains_key(&(wanted.pbn, wanted.checksum)) {
                scrub.note(name, wanted);
            }
        }
        Ok(Some(Lbn(next)))
    }
}
