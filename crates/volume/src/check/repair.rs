//! Writing what is left of a damaged pool, so that it is whole again and says what it lost.

use crate::error::{Result, VolumeError};
use crate::fingerprint::Fingerprinter;
use crate::format::{PAGE_BYTES, read_superblock};
use crate::pool::{Pool, PoolDisks, Recovered, Tuning, recover};
use crate::types::{Fingerprint, Pbn};
use gemelo_base::{Monitor, StopFlag, SystemClock, Unit};
use std::collections::HashSet;
use std::io::IoSlice;
use std::sync::Arc;

/// Repairs.
///
/// Where history is lost (a commit, a root) blocks may have been used again for contents that the state that is left knows
/// nothing of; then, as with `data`, each content has to have its fingerprint or is marked as lost.
pub(super) fn repair(disks: &PoolDisks, data: bool, monitor: &dyn Monitor, stop: &StopFlag) -> Result<()> {
    let mut recovered = recover(disks, true, Tuning::default().cache_bytes)?;
    let must_scrub = data || recovered.has_lost_history;
    restore_contents(disks, &mut recovered, must_scrub, monitor, stop)?;
    rewrite_superblocks(disks)?;
    let tuning = Tuning { background: false, ..Tuning::default() };
    Pool::of_recovered(disks.clone(), recovered, tuning, Arc::new(SystemClock::new()))?.close()
}

/// Computes fingerprints that were lost, and marks contents that do not have theirs.
fn restore_contents(
    disks: &PoolDisks,
    recovered: &mut Recovered,
    must_scrub: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<()> {
    let fingerprinter = Fingerprinter::new(recovered.superblock.fingerprint, recovered.superblock.key);
    let block_bytes = u64::from(recovered.superblock.block_bytes);
    let mut used = Vec::new();
    recovered.backend.visit_used(&mut |pbn| used.push(pbn))?;
    let mut records = Vec::new();
    recovered.backend.records(&used, &mut records)?;
    monitor.begin("Repairing", Unit::Items, Some(used.len() as u64));
    let mut content = vec![0; recovered.superblock.block_bytes as usize];
    let mut lost: HashSet<Pbn> = HashSet::new();
    let mut computed: Vec<(Pbn, Fingerprint)> = Vec::new();
    for (pbn, record) in used.into_iter().zip(records) {
        if stop.is_raised() {
            return Err(VolumeError::Interrupted);
        }
        monitor.advance(1);
        let is_unknown = record.fingerprint.is_none() && recovered.backend.is_record_lost(pbn);
        if !is_unknown && !must_scrub {
            continue;
        }
        let is_read = disks.data.read_at(u64::from(pbn.number()) * block_bytes, &mut content).is_ok();
        let is_proven = match record.fingerprint.is_none() {
            false => fingerprinter.of(&content) == record.fingerprint,
            // Without a fingerprint there is no proof; where the history is whole none is needed.
            true => !recovered.has_lost_history,
        };
        if !is_read || !is_proven {
            lost.insert(pbn);
        } else if is_unknown {
            computed.push((pbn, fingerprinter.of(&content)));
        }
    }
    monitor.finish();
    recovered.backend.restore(&computed, &lost)
}

/// Both superblocks are what the good one is.
fn rewrite_superblocks(disks: &PoolDisks) -> Result<()> {
    let io = |action| VolumeError::io(crate::error::DiskRole::Metadata, action);
    let page = read_superblock(&*disks.metadata, &mut Vec::new())?.encode();
    for copy in 0..2 {
        disks
            .metadata
            .write_at(copy * PAGE_BYTES as u64, &mut [IoSlice::new(&*page)])
            .map_err(io("write"))?;
        disks.metadata.sync().map_err(io("sync"))?;
    }
    Ok(())
}
