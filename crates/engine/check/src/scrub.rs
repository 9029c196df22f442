//! Compares contents with their checksums, and with their fingerprints.

use crate::map::distinct;
use crate::packed;
use crate::walk::Walk;
use crate::{CheckError, CheckReport, Problem, StoredSpace};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{Checksum, Fingerprinter, MapEntry, Pbn, PoolSeed};
use gemelo_store::{ContentRead, PoolDisks};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that are read in one list, between two looks at the stop flag.
const BYTES_AT_ONCE: usize = 1 << 20;
/// LBNs that are listed for each damaged block.
const MAX_NAMED: usize = 4;

/// Reads all contents that a map refers to. Returns the blocks that are damaged.
pub(crate) fn scrub(
    disks: &PoolDisks,
    walk: &Walk,
    report: &mut CheckReport,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Vec<Pbn>, CheckError> {
    let seed = PoolSeed::of(&walk.superblock);
    let fingerprinter = Fingerprinter::new(walk.superblock.fingerprint, walk.superblock.key);
    // If two maps expect different contents of one block, each expectation is compared.
    let regions = distinct(walk.maps());
    let stored = regions.iter().flat_map(|(region, _)| region.values());
    let contents: BTreeSet<(Pbn, Checksum)> = stored.filter_map(place_parts).collect();
    let contents: Vec<(Pbn, Checksum)> = contents.into_iter().collect();
    monitor.begin("Checking contents", Unit::Items, Some(contents.len() as u64));
    let store = packed::reader(disks, walk);
    let block_bytes = walk.superblock.block_bytes as usize;
    let at_once = (BYTES_AT_ONCE / block_bytes).max(1);
    let mut buffer = vec![0; at_once.min(contents.len()) * block_bytes];
    let mut damaged: BTreeMap<Pbn, Vec<Checksum>> = BTreeMap::new();
    let mut compressed_bytes = 0;
    for some in contents.chunks(at_once) {
        if stop.is_raised() {
            return Err(CheckError::Interrupted);
        }
        let buffers = buffer.chunks_exact_mut(block_bytes);
        let mut reads: Vec<ContentRead<'_>> = some
            .iter()
            .zip(buffers)
            .map(|((pbn, _), block)| ContentRead::new(*pbn, 0, block))
            .collect();
        assert_eq!(reads.len(), some.len(), "each content has a buffer");
        let sizes = store(&mut reads);
        assert_eq!(sizes.len(), reads.len(), "each content has a size");
        for (((pbn, checksum), read), bytes) in some.iter().zip(&reads).zip(sizes) {
            if read.outcome.is_err() || seed.of_content(read.buffer) != *checksum {
                damaged.entry(*pbn).or_default().push(*checksum);
                continue;
            }
            compressed_bytes += bytes;
            let fingerprint = walk.fingerprints.get(&pbn.number());
            if fingerprint.is_some_and(|right| *right != fingerprinter.of(read.buffer)) {
                let what = format!(
                    "block {} has a fingerprint that does not match its content",
                    pbn.number()
                );
                report.add(false, what);
            }
        }
        monitor.advance(some.len() as u64);
    }
    monitor.finish();
    assert!(damaged.len() <= contents.len(), "only contents that were read are damaged");
    report.checked_contents = contents.len() as u64;
    report.space = Some(StoredSpace::of(report, block_bytes as u64, compressed_bytes));
    for (pbn, checksums) in &damaged {
        let users = named_users(walk, *pbn, checksums);
        report.add_problem(Problem {
            what: format!("the content of block {} is damaged: {users}", pbn.number()),
            loses_data: true,
            damaged_block: Some(pbn.number()),
        });
    }
    Ok(damaged.into_keys().collect())
}

fn place_parts(place: &MapEntry) -> Option<(Pbn, Checksum)> {
    match place {
        MapEntry::Stored(pbn, checksum) => Some((*pbn, *checksum)),
        MapEntry::Unmapped | MapEntry::Damaged => None,
    }
}

/// Describes the LBNs that lose their content with a PBN.
fn named_users(walk: &Walk, pbn: Pbn, checksums: &[Checksum]) -> String {
    let has = |place: &MapEntry| {
        place_parts(place).is_some_and(|(at, checksum)| at == pbn && checksums.contains(&checksum))
    };
    let mut named: Vec<String> = Vec::new();
    for volume in walk.volumes.values() {
        if named.len() > MAX_NAMED {
            break;
        }
        let lbns = volume.map.iter().filter(|(_, place)| has(place));
        named.extend(
            lbns.map(|(lbn, _)| format!("block {lbn} of '{}'", volume.record.name))
                .take(MAX_NAMED + 1),
        );
    }
    let more = named.len() > MAX_NAMED;
    named.truncate(MAX_NAMED);
    format!("{}{}", named.join(", "), if more { " and more" } else { "" })
}
