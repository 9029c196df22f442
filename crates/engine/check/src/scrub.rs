//! Compares contents with their checksums, and with their fingerprints.

use crate::bits::UsedPbns;
use crate::map::{Region, Seen};
use crate::packed;
use crate::walk::Walk;
use crate::work::Work;
use crate::{CheckError, CheckReport, Problem, StoredSpace};
use gemelo_format::{Checksum, Fingerprint, Fingerprinter, MapEntry, Pbn, PoolSeed};
use gemelo_store::{ContentRead, PoolDisks};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that are read in one list, between two looks at the stop flag.
const BYTES_AT_ONCE: usize = 1 << 20;
/// LBNs that are listed for each damaged block.
const MAX_NAMED: usize = 4;
/// Bytes of memory of a content that is going to be read.
const CONTENT_BYTES: u64 = size_of::<(Pbn, Checksum)>() as u64;

/// Damaged contents, with the LBNs that lose them.
type Damaged = BTreeMap<(Pbn, Checksum), Vec<String>>;

/// Reads contents and compares them.
struct Scrub<'w> {
    walk: &'w Walk,
    work: Work<'w>,
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    buffer: Vec<u8>,
    damaged: Damaged,
    compressed_bytes: u64,
}

/// Reads all contents that a map refers to. Returns the blocks that are damaged.
pub(crate) fn scrub(
    disks: &PoolDisks,
    walk: &Walk,
    used: &UsedPbns,
    (work, report): (Work<'_>, &mut CheckReport),
) -> Result<Vec<Pbn>, CheckError> {
    let block_bytes = walk.superblock.block_bytes as usize;
    let at_once = (BYTES_AT_ONCE / block_bytes).max(1);
    let mut scrub = Scrub {
        walk,
        work,
        seed: PoolSeed::of(&walk.superblock),
        fingerprinter: Fingerprinter::new(walk.superblock.fingerprint, walk.superblock.key),
        buffer: vec![0; at_once * block_bytes],
        damaged: Damaged::new(),
        compressed_bytes: 0,
    };
    let store = packed::reader(disks, walk);
    // Half of the memory is for contents that two maps expect at one place.
    let windows = used.windows(work.memory_bytes / CONTENT_BYTES / 2);
    for (number, window) in (1..).zip(&windows) {
        let contents = scrub.contents_of(window, (number, windows.len()))?;
        report.checked_contents += contents.len() as u64;
        work.begin("Checking contents", (number, windows.len()), contents.len() as u64);
        for some in contents.chunks(at_once) {
            work.go_on(some.len() as u64)?;
            scrub.compare(some, &store, report)?;
        }
    }
    report.space = Some(StoredSpace::of(report, block_bytes as u64, scrub.compressed_bytes));
    scrub.name_users()?;
    let mut blocks: BTreeMap<Pbn, Vec<String>> = BTreeMap::new();
    for ((pbn, _), users) in scrub.damaged {
        blocks.entry(pbn).or_default().extend(users);
    }
    for (pbn, users) in &mut blocks {
        let more = if users.len() > MAX_NAMED { " and more" } else { "" };
        users.truncate(MAX_NAMED);
        let users = users.join(", ");
        report.add_problem(Problem {
            what: format!("the content of block {} is damaged: {users}{more}", pbn.number()),
            loses_data: true,
            damaged_block: Some(pbn.number()),
        });
    }
    Ok(blocks.into_keys().collect())
}

impl Scrub<'_> {
    /// The contents of a window, each once, in the order of their blocks. If two maps expect
    /// different contents of one block, it has both.
    fn contents_of(
        &self,
        window: &Range<u64>,
        pass: (usize, usize),
    ) -> Result<Vec<(Pbn, Checksum)>, CheckError> {
        let mut contents: Vec<(Pbn, Checksum)> = Vec::new();
        let most = (self.work.memory_bytes / CONTENT_BYTES) as usize;
        let mut seen = Seen::default();
        self.work.begin("Collecting contents", pass, 0);
        for chunk in self.walk.volumes.values().flat_map(|volume| volume.map.chunks()) {
            let regions = seen.new_of(chunk);
            self.work.go_on(regions.len() as u64)?;
            let entries = self.walk.source.entries(&regions)?;
            let places = entries.iter().flatten().filter_map(|(_, place)| place_parts(place));
            contents.extend(places.filter(|(pbn, _)| window.contains(&pbn.number())));
            if contents.len() > most {
                contents.sort_unstable();
                contents.dedup();
            }
        }
        contents.sort_unstable();
        contents.dedup();
        Ok(contents)
    }

    /// Reads contents, and compares them with their checksums and fingerprints.
    fn compare(
        &mut self,
        contents: &[(Pbn, Checksum)],
        store: &impl Fn(&mut [ContentRead<'_>]) -> Vec<u64>,
        report: &mut CheckReport,
    ) -> Result<(), CheckError> {
        let fingerprints = self.fingerprints_of(contents)?;
        let buffers = self.buffer.chunks_exact_mut(self.walk.superblock.block_bytes as usize);
        let mut reads: Vec<ContentRead<'_>> = contents
            .iter()
            .zip(buffers)
            .map(|((pbn, _), block)| ContentRead::new(*pbn, 0, block))
            .collect();
        assert_eq!(reads.len(), contents.len(), "each content has a buffer");
        let sizes = store(&mut reads);
        assert_eq!(sizes.len(), reads.len(), "each content has a size");
        for (((pbn, checksum), read), bytes) in contents.iter().zip(&reads).zip(sizes) {
            if read.outcome.is_err() || self.seed.of_content(read.buffer) != *checksum {
                self.damaged.entry((*pbn, *checksum)).or_default();
                continue;
            }
            self.compressed_bytes += bytes;
            let fingerprint = fingerprints.get(pbn);
            if fingerprint.is_some_and(|right| *right != self.fingerprinter.of(read.buffer)) {
                let what = format!(
                    "block {} has a fingerprint that does not match its content",
                    pbn.number()
                );
                report.add(false, what);
            }
        }
        Ok(())
    }

    /// The fingerprints of contents, which are in the order of their blocks.
    fn fingerprints_of(
        &self,
        contents: &[(Pbn, Checksum)],
    ) -> Result<BTreeMap<Pbn, Fingerprint>, CheckError> {
        let mut found = BTreeMap::new();
        let mut wanted = contents.iter().map(|(pbn, _)| *pbn).peekable();
        let Some(first) = wanted.peek().copied() else { return Ok(found) };
        let read = (&self.walk.source, self.work.silent());
        self.walk.identities.each(read, first.number(), &mut |pbn, identity| {
            while wanted.next_if(|next| next.number() < pbn).is_some() {}
            let Some(next) = wanted.peek().copied() else { return false };
            let fingerprint = identity.fingerprint();
            if next.number() == pbn && !fingerprint.is_none() {
                found.insert(next, fingerprint);
            }
            true
        })?;
        Ok(found)
    }

    /// Describes the LBNs that lose their content with a damaged block.
    fn name_users(&mut self) -> Result<(), CheckError> {
        if self.damaged.is_empty() {
            return Ok(());
        }
        // Regions without damage that several volumes have.
        let mut sound = Seen::default();
        self.work.begin("Looking for the users of damaged blocks", (1, 1), 0);
        for volume in self.walk.volumes.values() {
            for chunk in volume.map.chunks() {
                self.work.go_on(chunk.len() as u64)?;
                let left = |(_, region): &(u64, Region)| !sound.has(region);
                let left: Vec<(u64, &Region)> = chunk
                    .iter()
                    .filter(|region| left(region))
                    .map(|(number, region)| (*number, region))
                    .collect();
                let entries = self.walk.source.entries(&left)?;
                for ((_, region), entries) in left.into_iter().zip(entries) {
                    let mut is_sound = true;
                    for (lbn, place) in &entries {
                        let users = place_parts(place).and_then(|at| self.damaged.get_mut(&at));
                        let Some(users) = users else { continue };
                        is_sound = false;
                        if users.len() <= MAX_NAMED {
                            users.push(format!("block {lbn} of '{}'", volume.record.name));
                        }
                    }
                    if is_sound {
                        sound.add(region);
                    }
                }
            }
        }
        Ok(())
    }
}

fn place_parts(place: &MapEntry) -> Option<(Pbn, Checksum)> {
    match place {
        MapEntry::Stored(pbn, checksum) => Some((*pbn, *checksum)),
        MapEntry::Unmapped | MapEntry::Damaged => None,
    }
}
