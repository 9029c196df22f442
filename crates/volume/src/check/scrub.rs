//! Contents compared with their fingerprints.

use super::CheckReport;
use super::walk::Walk;
use crate::error::{Result, VolumeError};
use crate::fingerprint::Fingerprinter;
use crate::pool::PoolDisks;
use crate::types::Place;
use gemelo_base::{Monitor, StopFlag, Unit};
use std::collections::HashSet;

/// Blocks between two looks at the stop flag.
const BLOCKS_AT_ONCE: usize = 256;
/// LBNs that are named for each damaged block.
const MOST_NAMED: usize = 4;

pub(super) fn scrub(
    disks: &PoolDisks,
    walk: &Walk,
    report: &mut CheckReport,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<()> {
    let fingerprinter = Fingerprinter::new(walk.superblock.fingerprint, walk.superblock.key);
    let block_bytes = u64::from(walk.superblock.block_bytes);
    let mut pbns: Vec<u32> =
        walk.reference_counts().into_keys().filter(|pbn| walk.fingerprints.contains_key(pbn)).collect();
    pbns.sort_unstable();
    monitor.begin("Checking contents", Unit::Items, Some(pbns.len() as u64));
    let mut content = vec![0; walk.superblock.block_bytes as usize];
    let mut damaged = HashSet::new();
    for some in pbns.chunks(BLOCKS_AT_ONCE) {
        if stop.is_raised() {
            return Err(VolumeError::Interrupted);
        }
        for pbn in some {
            let is_read = disks.data.read_at(u64::from(*pbn) * block_bytes, &mut content).is_ok();
            if !is_read || walk.fingerprints.get(pbn) != Some(&fingerprinter.of(&content)) {
                damaged.insert(*pbn);
            }
        }
        monitor.advance(some.len() as u64);
    }
    monitor.finish();
    report.checked_contents = pbns.len() as u64;
    let mut damaged_pbns: Vec<u32> = damaged.into_iter().collect();
    damaged_pbns.sort_unstable();
    for pbn in damaged_pbns {
        report.add(true, format!("the content of block {pbn} is damaged: {}", who_has(walk, pbn)));
    }
    Ok(())
}

/// The LBNs that a PBN is the content of, in words.
fn who_has(walk: &Walk, pbn: u32) -> String {
    let has = |place: &Place| matches!(place, Place::Stored(stored) if stored.number() == pbn);
    let mut named: Vec<String> = Vec::new();
    for volume in walk.volumes.values() {
        let lbns = volume.map.iter().filter(|(_, place)| has(place));
        named.extend(lbns.map(|(lbn, _)| format!("block {lbn} of '{}'", volume.name)).take(MOST_NAMED + 1));
    }
    let more = named.len() > MOST_NAMED;
    named.truncate(MOST_NAMED);
    format!("{}{}", named.join(", "), if more { " and more" } else { "" })
}
