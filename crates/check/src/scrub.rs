//! Contents compared with their checksums, and with their fingerprints.

use crate::walk::Walk;
use crate::{CheckError, CheckReport};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{Checksum, Fingerprinter, Pbn, Place, PoolDisks, PoolSeed};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks between two looks at the stop flag.
const BLOCKS_AT_ONCE: usize = 256;
/// LBNs that are named for each damaged block.
const MOST_NAMED: usize = 4;

/// Reads all contents that a map refers to. Gives the blocks that are damaged.
pub(crate) fn scrub(
    disks: &PoolDisks,
    walk: &Walk,
    report: &mut CheckReport,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Vec<Pbn>, CheckError> {
    let seed = PoolSeed::of(&walk.superblock);
    let fingerprinter = Fingerprinter::new(walk.superblock.fingerprint, walk.superblock.key);
    let block_bytes = u64::from(walk.superblock.block_bytes);
    // A block of which two maps expect different contents cannot have both: each is compared.
    let stored = walk.volumes.values().flat_map(|volume| volume.map.values());
    let contents: BTreeSet<(Pbn, Checksum)> = stored.filter_map(place_parts).collect();
    let contents: Vec<(Pbn, Checksum)> = contents.into_iter().collect();
    monitor.begin("Checking contents", Unit::Items, Some(contents.len() as u64));
    let mut content = vec![0; walk.superblock.block_bytes as usize];
    let mut damaged: BTreeMap<Pbn, Vec<Checksum>> = BTreeMap::new();
    for some in contents.chunks(BLOCKS_AT_ONCE) {
        if stop.is_raised() {
            return Err(CheckError::Interrupted);
        }
        for (pbn, checksum) in some {
            let offset = u64::from(pbn.number()) * block_bytes;
            let is_read = disks.data.read_at(offset, &mut content).is_ok();
            if !is_read || seed.of_content(&content) != *checksum {
                damaged.entry(*pbn).or_default().push(*checksum);
                continue;
            }
            let fingerprint = walk.fingerprints.get(&pbn.number());
            if fingerprint.is_some_and(|right| *right != fingerprinter.of(&content)) {
                let what =
                    format!("the fingerprint of block {} is not its content's", pbn.number());
                report.add(false, what);
            }
        }
        monitor.advance(some.len() as u64);
    }
    monitor.finish();
    report.checked_contents = contents.len() as u64;
    for (pbn, checksums) in &damaged {
        let users = named_users(walk, *pbn, checksums);
        report.add(true, format!("the content of block {} is damaged: {users}", pbn.number()));
    }
    Ok(damaged.into_keys().collect())
}

fn place_parts(place: &Place) -> Option<(Pbn, Checksum)> {
    match place {
        Place::Stored(pbn, checksum) => Some((*pbn, *checksum)),
        Place::Unmapped | Place::Damaged => None,
    }
}

/// The LBNs that lose their content with a PBN, in words.
fn named_users(walk: &Walk, pbn: Pbn, checksums: &[Checksum]) -> String {
    let has = |place: &Place| {
        place_parts(place).is_some_and(|(at, checksum)| at == pbn && checksums.contains(&checksum))
    };
    let mut named: Vec<String> = Vec::new();
    for volume in walk.volumes.values() {
        let lbns = volume.map.iter().filter(|(_, place)| has(place));
        named.extend(
            lbns.map(|(lbn, _)| format!("block {lbn} of '{}'", volume.record.name))
                .take(MOST_NAMED + 1),
        );
    }
    let more = named.len() > MOST_NAMED;
    named.truncate(MOST_NAMED);
    format!("{}{}", named.join(", "), if more { " and more" } else { "" })
}
