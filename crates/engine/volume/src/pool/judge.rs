//! Judging every block of a damaged pool by the checksum in the map entry that refers to it, and
//! looking for other copies of what is damaged.

use super::copies::{Expected, Wound, Wounds};
use super::recovery::{Recovered, each_place};
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{
    DiskRole, Fingerprint, Fingerprinter, MapEntry, Pbn, PoolSeed, StoreKind, VolumeId,
};
use gemelo_metadata::MetadataBackend;
use gemelo_store::{ContentRead, Copies, Store};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Bytes of memory of a content that is going to be judged.
const CONTENT_BYTES: u64 = size_of::<Expected>() as u64;

/// The extent of a look at the contents.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Judged at all contents.
    pub(super) data: bool,
    /// Memory for contents that are judged at once. With less, the maps are read more often.
    pub(super) memory_bytes: u64,
}

/// The outcome of a look at all contents that a repair has to judge.
#[derive(Default)]
pub(super) struct Assessment {
    /// Fingerprints that were lost with their records, or that are not those of the contents.
    pub(super) computed: BTreeMap<Pbn, Fingerprint>,
    /// Map entries whose contents are lost: they are damaged, and no other copy was found.
    pub(super) lost: HashSet<MapEntry>,
    /// LBNs of each volume that are lost.
    pub(super) lost_blocks: BTreeMap<VolumeId, u64>,
    /// Damaged contents that have another copy.
    pub(super) healed: Vec<Wound>,
}

/// The damaged contents.
type Damaged = BTreeSet<Expected>;

/// Judges the contents: those that may have been used again since the state that is left, those
/// beyond the end of the data disk, and with `data` all of them. Computes fingerprints that were
/// lost, or that a lost commit may have replaced, and with `data` those that differ from their
/// records. Looks for copies of what is damaged.
pub(super) fn assess(
    judge: &mut Judge,
    recovered: &Recovered,
    extent: Extent,
    progress: (&dyn Monitor, &StopFlag),
) -> Result<Assessment> {
    let mut assessment = Assessment::default();
    judge.checks_records = extent.data;
    let (mut damaged, mut wounds) = (Damaged::new(), judge.no_wounds());
    let mut next = Some(0);
    while let Some(first) = next {
        let (contents, end) = judge.contents_from(recovered, first, extent, progress)?;
        let found = (&mut assessment, &mut damaged, &mut wounds);
        judge.look_at_all(recovered, &contents, found, progress)?;
        next = end;
    }
    assessment.healed = judge.find_copies(recovered, wounds, &damaged, progress)?;
    for Wound { expected, .. } in &assessment.healed {
        let was_damaged = damaged.remove(expected);
        assert!(was_damaged, "a content is healed once, and was damaged");
    }
    if !damaged.is_empty() {
        each_stored(recovered, progress, |volume, expected| {
            let is_lost = damaged.contains(&expected);
            *assessment.lost_blocks.entry(volume).or_default() += u64::from(is_lost);
            Ok(())
        })?;
    }
    let entries = damaged.into_iter().map(|lost| MapEntry::Stored(lost.pbn, lost.checksum));
    assessment.lost = entries.collect();
    Ok(assessment)
}

/// Calls with each stored block of each volume.
fn each_stored(
    recovered: &Recovered,
    (monitor, stop): (&dyn Monitor, &StopFlag),
    mut each: impl FnMut(VolumeId, Expected) -> Result<()>,
) -> Result<()> {
    let references = recovered.backend.totals().references;
    monitor.begin("Looking at what a repair keeps", Unit::Items, Some(references));
    for volume in recovered.backend.volumes() {
        each_place(&*recovered.backend, volume.id, |_, place| {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            monitor.advance(1);
            match place {
                MapEntry::Stored(pbn, checksum) => each(volume.id, Expected { pbn, checksum }),
                MapEntry::Unmapped | MapEntry::Damaged => Ok(()),
            }
        })?;
    }
    monitor.finish();
    Ok(())
}

/// Puts contents in order, each once, and keeps those of the first blocks, about half as many as
/// `most`. Returns the PBN from which on they are left out, if any are.
fn keep_first(contents: &mut Vec<Expected>, most: usize) -> Option<u64> {
    contents.sort_unstable();
    contents.dedup();
    let cut = contents.get(most / 2)?.pbn;
    let kept = contents.partition_point(|content| content.pbn < cut);
    // All contents of a block are judged together.
    if kept == 0 {
        return None;
    }
    contents.truncate(kept);
    Some(cut.number())
}

/// The finding about a block of a volume.
enum Judged {
    Lost,
    Good,
    /// The content is good, and this is its fingerprint, which the records lack or have wrong.
    Computed(Fingerprint),
}

/// The fingerprint that the records have for a block, if any.
fn recorded(backend: &dyn MetadataBackend, pbn: Pbn) -> Result<Option<Fingerprint>> {
    let mut records = Vec::with_capacity(1);
    backend.records(&[pbn], &mut records)?;
    assert!(records.len() == 1, "a record for the block");
    let fingerprint = records.first().map(|record| record.fingerprint);
    Ok(fingerprint.filter(|fingerprint| !fingerprint.is_none()))
}

/// The outcome of reading a content.
struct Verdict {
    is_good: bool,
    /// The fingerprint of a good content, once it was asked for.
    fingerprint: Option<Fingerprint>,
}

/// Reads contents and compares them with the checksums in the maps.
pub(super) struct Judge {
    store: Arc<dyn Store>,
    copies: Option<Arc<dyn Copies>>,
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    content: Vec<u8>,
    /// Blocks that the data store is long enough for.
    present: u64,
    /// Compares the fingerprints of all contents with their records.
    checks_records: bool,
}

impl Judge {
    /// Makes a judge of the recovered state, which finds copies in this pool and in others.
    pub(super) fn new(recovered: &Recovered, copies: Option<Arc<dyn Copies>>) -> Result<Self> {
        let superblock = &recovered.superblock;
        let store = Arc::clone(&recovered.store);
        Ok(Self {
            present: store.blocks().map_err(VolumeError::io(DiskRole::Data, "measure"))?,
            store,
            copies,
            seed: PoolSeed::of(superblock),
            fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            content: vec![0; superblock.block_bytes as usize],
            checks_records: false,
        })
    }

    /// Collects contents that have to be looked at, in the order of their blocks: those from a PBN
    /// on for which there is memory. Returns the PBN with which the next ones begin as well.
    fn contents_from(
        &self,
        recovered: &Recovered,
        first: u64,
        extent: Extent,
        progress: (&dyn Monitor, &StopFlag),
    ) -> Result<(Vec<Expected>, Option<u64>)> {
        let most = usize::try_from(extent.memory_bytes / CONTENT_BYTES).unwrap_or(usize::MAX);
        let (mut contents, mut end) = (Vec::new(), None);
        each_stored(recovered, progress, |_, expected| {
            let pbn = expected.pbn.number();
            let is_next = pbn >= first && end.is_none_or(|end| pbn < end);
            if is_next && (extent.data || self.has_to_look_at(recovered, expected.pbn)) {
                contents.push(expected);
                if contents.len() >= most {
                    end = keep_first(&mut contents, most).or(end);
                }
            }
            Ok(())
        })?;
        contents.sort_unstable();
        contents.dedup();
        Ok((contents, end))
    }

    fn has_to_look_at(&self, recovered: &Recovered, pbn: Pbn) -> bool {
        recovered.has_lost_history
            || self.is_absent(recovered, pbn)
            || recovered.backend.is_record_lost(pbn)
    }

    /// Returns whether a content lies beyond the end of the data disk.
    fn is_absent(&self, recovered: &Recovered, pbn: Pbn) -> bool {
        let last_block = recovered.superblock.store.last_block(pbn);
        last_block >= self.present && !recovered.replayed_data.has(pbn)
    }

    /// Looks at contents, which are all that the maps expect of their blocks.
    fn look_at_all(
        &mut self,
        recovered: &Recovered,
        contents: &[Expected],
        (assessment, damaged, wounds): (&mut Assessment, &mut Damaged, &mut Wounds),
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<()> {
        monitor.begin("Judging contents", Unit::Items, Some(contents.len() as u64));
        for of_block in contents.chunk_by(|one, other| one.pbn == other.pbn) {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            monitor.advance(of_block.len() as u64);
            let (mut lost, mut is_good) = (Vec::new(), false);
            for expected in of_block {
                match self.look_at(recovered, *expected)? {
                    Judged::Lost => lost.push(*expected),
                    Judged::Good => is_good = true,
                    Judged::Computed(fingerprint) => {
                        is_good = true;
                        assessment.computed.insert(expected.pbn, fingerprint);
                    }
                }
            }
            damaged.extend(&lost);
            // After a lost commit two maps may expect different contents of one block. What one of
            // them finds there is not overwritten for the other.
            if !is_good && !self.fingerprinter.must_compare() {
                for expected in lost {
                    // A lost record has no fingerprint.
                    if let Some(fingerprint) = recorded(&*recovered.backend, expected.pbn)? {
                        wounds.add(Wound { expected, fingerprint });
                    }
                }
            }
        }
        monitor.finish();
        Ok(())
    }

    /// Looks at a content.
    fn look_at(&mut self, recovered: &Recovered, expected: Expected) -> Result<Judged> {
        let (backend, pbn) = (&*recovered.backend, expected.pbn);
        if self.is_absent(recovered, pbn) {
            return Ok(Judged::Lost);
        }
        let is_record_lost = backend.is_record_lost(pbn);
        let doubtful = match recovered.has_lost_history || self.checks_records {
            true => recorded(backend, pbn)?,
            false => None,
        };
        let needs_fingerprint = is_record_lost || doubtful.is_some();
        let verdict = match recovered.replayed_data.get(pbn) {
            Some(content) => {
                let verdict = self.judge_content(&content, expected, needs_fingerprint);
                // Where contents share blocks, what is there is not overwritten.
                let is_kept = recovered.superblock.store != StoreKind::Plain;
                match verdict.is_good || !is_kept {
                    true => verdict,
                    false => self.judge(expected, needs_fingerprint),
                }
            }
            None => self.judge(expected, needs_fingerprint),
        };
        Ok(match verdict.fingerprint.filter(|_| needs_fingerprint) {
            _ if !verdict.is_good => Judged::Lost,
            Some(right) if doubtful != Some(right) => Judged::Computed(right),
            _ => Judged::Good,
        })
    }

    fn no_wounds(&self) -> Wounds {
        Wounds::new(self.seed, self.fingerprinter.clone())
    }

    /// Looks for copies in the pool, and then in others. Returns the contents that have one.
    fn find_copies(
        &mut self,
        recovered: &Recovered,
        mut wounds: Wounds,
        damaged: &Damaged,
        progress: (&dyn Monitor, &StopFlag),
    ) -> Result<Vec<Wound>> {
        let mut healed = Vec::new();
        if wounds.is_empty() {
            return Ok(healed);
        }
        each_stored(recovered, progress, |_, expected| {
            if wounds.may_be_healed_by(expected) && !damaged.contains(&expected) {
                match recovered.replayed_data.get(expected.pbn) {
                    Some(content) => healed.extend(wounds.take_healed_by(&content)),
                    None if self.read(expected.pbn) => {
                        healed.extend(wounds.take_healed_by(&self.content));
                    }
                    None => {}
                }
            }
            Ok(())
        })?;
        if let (Some(copies), false) = (&self.copies, wounds.is_empty()) {
            wounds.ask(&**copies, progress.1, |_, found| {
                healed.extend(found);
                Ok(())
            })?;
        }
        Ok(healed)
    }

    /// Reads a block into the buffer. Returns whether it could be read. The caller compares what it
    /// gets with a checksum.
    fn read(&mut self, pbn: Pbn) -> bool {
        let mut reads = [ContentRead::new(pbn, 0, &mut self.content).compared()];
        self.store.read(&mut reads);
        let [read] = reads;
        read.outcome.is_ok()
    }

    fn judge(&mut self, expected: Expected, needs_fingerprint: bool) -> Verdict {
        match self.read(expected.pbn) {
            true => self.judge_content(&self.content, expected, needs_fingerprint),
            false => Verdict { is_good: false, fingerprint: None },
        }
    }

    fn judge_content(
        &self,
        content: &[u8],
        expected: Expected,
        needs_fingerprint: bool,
    ) -> Verdict {
        assert!(content.len() == self.content.len(), "a content is judged as a whole");
        let is_good = self.seed.of_content(content) == expected.checksum;
        let fingerprint = (is_good && needs_fingerprint).then(|| self.fingerprinter.of(content));
        Verdict { is_good, fingerprint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Checksum;

    #[test]
    fn the_contents_of_a_block_are_kept_together() {
        let content =
            |pbn, checksum| Expected { pbn: Pbn::new(pbn).unwrap(), checksum: Checksum(checksum) };
        let mut contents: Vec<Expected> =
            [9, 3, 5, 3, 4, 7, 5, 1].map(|pbn| content(pbn, pbn as u32)).to_vec();
        contents.extend([content(5, 1), content(5, 2)]);
        assert_eq!(keep_first(&mut contents, 8), Some(5), "the fifth is one of block 5");
        assert_eq!(contents, [1, 3, 4].map(|pbn| content(pbn, pbn as u32)));
        assert_eq!(keep_first(&mut contents, 8), None, "there is memory for all");
        let mut same = vec![content(2, 3), content(2, 1), content(2, 2)];
        assert_eq!(keep_first(&mut same, 2), None, "one block has more");
        assert_eq!(same.len(), 3);
    }
}
