//! Checking a pool while it is served: contents without stopping anybody, counts while requests wait.

use super::Pool;
use crate::engine::{Engine, VolumeShared};
use crate::error::{Result, VolumeError};
use crate::types::{Lbn, MAX_VOLUME_BLOCKS, Pbn, Place};
use gemelo_base::{Monitor, StopFlag, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Blocks read between two looks at the stop flag: what they hold is not written again meanwhile.
const BLOCKS_AT_ONCE: u32 = 256;
/// Damaged blocks that are remembered; the rest is only counted.
const MOST_DAMAGED: usize = 1000;
/// LBNs looked up under the lock at once.
const LBNS_AT_ONCE: u64 = 4096;
/// LBNs that are named for each damaged block.
const MOST_NAMED: usize = 4;

/// What a check of contents found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveCheck {
    /// Contents compared with their fingerprints.
    pub checked_contents: u64,
    /// Stored blocks that have no fingerprint to compare with.
    pub unverifiable_blocks: u64,
    /// Contents that are damaged, in words: the first thousand.
    pub problems: Vec<String>,
    /// Damaged contents beyond those.
    pub more_problems: u64,
}

impl Pool {
    /// Counts all references again while requests wait, which takes about a second for ten million blocks in memory: the
    /// differences in words, at most `most`.
    ///
    /// # Errors
    /// If metadata cannot be read.
    pub fn prove_served(&self, most: usize) -> Result<Vec<String>> {
        // No volume comes that is not in the list.
        let _catalogue = self.engine.catalogue.lock();
        let volumes: Vec<Arc<VolumeShared>> = self.engine.volumes.read().values().cloned().collect();
        // In the order of their ids, as everybody who takes several would.
        let mut ordered = volumes;
        ordered.sort_by_key(|volume| volume.id);
        let _gates: Vec<_> = ordered.iter().map(|volume| volume.close_gate()).collect();
        let _collector = self.engine.collector.lock();
        self.engine.prove(most)
    }

    /// Reads all contents and compares them with their fingerprints, while the pool is served.
    ///
    /// # Errors
    /// If metadata cannot be read, or the work was stopped.
    pub fn scrub(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<LiveCheck> {
        let engine = &self.engine;
        let totals = engine.state.read().backend.totals();
        monitor.begin("Checking contents", Unit::Items, Some(totals.physical));
        let mut report = LiveCheck::default();
        let mut damaged = BTreeSet::new();
        let mut next = 1;
        loop {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let Some(first) = engine.space.lock().next_used(next) else { break };
            let used = engine.scrub_run(first, &mut report, &mut damaged)?;
            monitor.advance(used);
            next = first.saturating_add(BLOCKS_AT_ONCE);
        }
        report.problems = engine.name_damaged(&damaged)?;
        monitor.finish();
        Ok(report)
    }
}

impl Engine {
    /// Checks those of the blocks from `first` on that hold something; gives how many.
    fn scrub_run(&self, first: u32, report: &mut LiveCheck, damaged: &mut BTreeSet<u32>) -> Result<u64> {
        let _pin = self.readers.pin();
        let end = first.saturating_add(BLOCKS_AT_ONCE);
        let pbns: Vec<Pbn> = (first..end).filter_map(Pbn::new).collect();
        let mut records = Vec::with_capacity(pbns.len());
        self.state.read().backend.records(&pbns, &mut records)?;
        let mut content = vec![0; self.block_bytes()];
        let mut used = 0;
        for (pbn, record) in pbns.into_iter().zip(records) {
            if record.references == 0 {
                continue;
            }
            used += 1;
            if record.fingerprint.is_none() {
                report.unverifiable_blocks += 1;
                continue;
            }
            report.checked_contents += 1;
            let offset = u64::from(pbn.number()) * self.block_bytes() as u64;
            let is_read = self.data.read_at(offset, &mut content).is_ok();
            if is_read && self.fingerprinter.of(&content) == record.fingerprint {
                continue;
            }
            if damaged.len() < MOST_DAMAGED {
                damaged.insert(pbn.number());
            } else {
                report.more_problems += 1;
            }
        }
        Ok(used)
    }

    /// What the damaged blocks are the content of, in words.
    fn name_damaged(&self, damaged: &BTreeSet<u32>) -> Result<Vec<String>> {
        let mut named: Vec<(u32, Vec<String>)> = damaged.iter().map(|pbn| (*pbn, Vec::new())).collect();
        if damaged.is_empty() {
            return Ok(Vec::new());
        }
        let volumes: Vec<_> =
            self.volumes.read().iter().map(|(name, volume)| (name.clone(), volume.id)).collect();
        for (name, id) in volumes {
            let mut from = Lbn(0);
            let end = Lbn(MAX_VOLUME_BLOCKS);
            loop {
                let mut places = Vec::new();
                let first = {
                    let state = self.state.read();
                    let Some(first) = state.backend.next_mapped(id, from, end)? else { break };
                    let last = first.0.saturating_add(LBNS_AT_ONCE).min(end.0);
                    let lbns: Vec<Lbn> = (first.0..last).map(Lbn).collect();
                    state.backend.look_up(id, &lbns, &mut places)?;
                    first
                };
                for (at, place) in places.iter().enumerate() {
                    let Place::Stored(pbn) = place else { continue };
                    if let Ok(found) = named.binary_search_by_key(&pbn.number(), |(number, _)| *number)
                        && let Some((_, users)) = named.get_mut(found)
                        && users.len() <= MOST_NAMED
                    {
                        users.push(format!("block {} of '{name}'", first.0 + at as u64));
                    }
                }
                from = Lbn(first.0 + places.len().max(1) as u64);
            }
        }
        let text = |(pbn, mut users): (u32, Vec<String>)| {
            let more = if users.len() > MOST_NAMED { " and more" } else { "" };
            users.truncate(MOST_NAMED);
            format!("the content of block {pbn} is damaged: {}{more}", users.join(", "))
        };
        Ok(named.into_iter().map(text).collect())
    }
}
