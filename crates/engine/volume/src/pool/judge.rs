//! Judging every block of a damaged pool by the checksum in the map entry that refers to it, and
//! looking for other copies of what is damaged.

use super::copies::{Expected, Wound, Wounds};
use super::open::{Recovered, each_place};
use crate::engine::Wanted;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{
    DiskRole, Fingerprint, Fingerprinter, Lbn, MapEntry, Pbn, PoolSeed, StoreKind, VolumeId,
};
use gemelo_metadata::MetadataBackend;
use gemelo_store::{ContentRead, Copies, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

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

/// The damaged contents, and the LBNs of each volume that refer to them.
type Damaged = BTreeMap<Expected, BTreeMap<VolumeId, u64>>;

/// Judges the contents: those that may have been used again since the state that is left, those
/// beyond the end of the data disk, and with `data` all of them. Computes fingerprints that were
/// lost, or that a lost commit may have replaced. Looks for copies of what is damaged.
pub(super) fn assess(
    judge: &mut Judge,
    recovered: &Recovered,
    data: bool,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Assessment> {
    let backend = &*recovered.backend;
    let mut assessment = Assessment::default();
    let (mut damaged, mut good) = (Damaged::new(), HashSet::new());
    monitor.begin("Looking at what a repair keeps", Unit::Items, Some(backend.totals().references));
    each_stored(recovered, (monitor, stop), |volume, wanted| {
        let expected = Expected { pbn: wanted.pbn, checksum: wanted.checksum };
        match judge.look_at(recovered, &wanted, data)? {
            Look::Lost => *damaged.entry(expected).or_default().entry(volume).or_default() += 1,
            Look::Good => {
                good.extend(recovered.has_lost_history.then_some(wanted.pbn));
            }
            Look::Computed(fingerprint) => {
                good.insert(wanted.pbn);
                assessment.computed.insert(wanted.pbn, fingerprint);
            }
        }
        Ok(())
    })?;
    monitor.finish();
    // After a lost commit two maps may expect different contents of one block. What one of them
    // finds there is not overwritten for the other.
    let wounds = damaged.keys().filter(|expected| !good.contains(&expected.pbn));
    let wounds = judge.wounds(backend, wounds)?;
    assessment.healed = judge.find_copies(recovered, wounds, &damaged, (monitor, stop))?;
    for Wound { expected, .. } in &assessment.healed {
        let was_damaged = damaged.remove(expected).is_some();
        assert!(was_damaged, "a content is healed once, and was damaged");
    }
    for (Expected { pbn, checksum }, volumes) in damaged {
        assessment.lost.insert(MapEntry::Stored(pbn, checksum));
        for (volume, blocks) in volumes {
            *assessment.lost_blocks.entry(volume).or_default() += blocks;
        }
    }
    Ok(assessment)
}

/// Calls with each stored block of each volume.
fn each_stored(
    recovered: &Recovered,
    (monitor, stop): (&dyn Monitor, &StopFlag),
    mut each: impl FnMut(VolumeId, Wanted) -> Result<()>,
) -> Result<()> {
    for volume in recovered.backend.volumes() {
        each_place(&*recovered.backend, volume.id, |lbn: Lbn, place| {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            monitor.advance(1);
            match place {
                MapEntry::Stored(pbn, checksum) => each(volume.id, Wanted { lbn, pbn, checksum }),
                MapEntry::Unmapped | MapEntry::Damaged => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// The finding about a block of a volume.
enum Look {
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
#[derive(Clone, Copy)]
struct Verdict {
    is_good: bool,
    /// The fingerprint of a good content, once it was asked for.
    fingerprint: Option<Fingerprint>,
}

/// Reads contents and compares them with the checksums in the maps, each once.
pub(super) struct Judge {
    store: Arc<dyn Store>,
    copies: Option<Arc<dyn Copies>>,
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    content: Vec<u8>,
    /// Blocks that the data store is long enough for.
    present: u64,
    judged: HashMap<(Pbn, u32), Verdict>,
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
            judged: HashMap::new(),
        })
    }

    /// Looks at a block as far as a repair has to.
    fn look_at(&mut self, recovered: &Recovered, wanted: &Wanted, data: bool) -> Result<Look> {
        let (backend, pbn) = (&*recovered.backend, wanted.pbn);
        let is_record_lost = backend.is_record_lost(pbn);
        let replayed_data = recovered.replayed_data.get(pbn);
        let last_block = recovered.superblock.store.last_block(pbn);
        if last_block >= self.present && replayed_data.is_none() {
            return Ok(Look::Lost);
        }
        if !data && !recovered.has_lost_history && !is_record_lost {
            return Ok(Look::Good);
        }
        let doubtful = match recovered.has_lost_history {
            true => recorded(backend, pbn)?,
            false => None,
        };
        let needs_fingerprint = is_record_lost || doubtful.is_some();
        let verdict = match replayed_data {
            Some(content) => {
                let verdict = self.judge_content(&content, wanted, needs_fingerprint);
                // Where contents share blocks, what is there is not overwritten.
                let is_kept = recovered.superblock.store != StoreKind::Plain;
                match verdict.is_good || !is_kept {
                    true => verdict,
                    false => self.judge(*wanted, needs_fingerprint),
                }
            }
            None => self.judge(*wanted, needs_fingerprint),
        };
        Ok(match verdict.fingerprint.filter(|_| needs_fingerprint) {
            _ if !verdict.is_good => Look::Lost,
            Some(right) if doubtful != Some(right) => Look::Computed(right),
            _ => Look::Good,
        })
    }

    /// Returns those of the damaged contents that a copy may heal.
    fn wounds<'d>(
        &self,
        backend: &dyn MetadataBackend,
        damaged: impl Iterator<Item = &'d Expected>,
    ) -> Result<Wounds> {
        let mut wounds = Wounds::new(self.seed, self.fingerprinter.clone());
        for expected in damaged.filter(|_| !self.fingerprinter.must_compare()) {
            // A lost record has no fingerprint.
            if let Some(fingerprint) = recorded(backend, expected.pbn)? {
                wounds.add(Wound { expected: *expected, fingerprint });
            }
        }
        Ok(wounds)
    }

    /// Looks for copies in the pool, and then in others. Returns the contents that have one.
    fn find_copies(
        &mut self,
        recovered: &Recovered,
        mut wounds: Wounds,
        damaged: &Damaged,
        (monitor, stop): (&dyn Monitor, &StopFlag),
    ) -> Result<Vec<Wound>> {
        let mut healed = Vec::new();
        if wounds.is_empty() {
            return Ok(healed);
        }
        let references = recovered.backend.totals().references;
        monitor.begin("Looking for copies of damaged contents", Unit::Items, Some(references));
        each_stored(recovered, (monitor, stop), |_, wanted| {
            let expected = Expected { pbn: wanted.pbn, checksum: wanted.checksum };
            if wounds.may_be_healed_by(expected) && !damaged.contains_key(&expected) {
                match recovered.replayed_data.get(wanted.pbn) {
                    Some(content) => healed.extend(wounds.take_healed_by(&content)),
                    None if self.read(wanted.pbn) => {
                        healed.extend(wounds.take_healed_by(&self.content));
                    }
                    None => {}
                }
            }
            Ok(())
        })?;
        if let (Some(copies), false) = (&self.copies, wounds.is_empty()) {
            wounds.ask(&**copies, stop, |_, found| {
                healed.extend(found);
                Ok(())
            })?;
        }
        monitor.finish();
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

    fn judge(&mut self, wanted: Wanted, needs_fingerprint: bool) -> Verdict {
        let Wanted { pbn, checksum, .. } = wanted;
        let known = self.judged.get(&(pbn, checksum.0)).copied();
        let suffices = |verdict: &Verdict| {
            !verdict.is_good || !needs_fingerprint || verdict.fingerprint.is_some()
        };
        if let Some(verdict) = known.filter(suffices) {
            return verdict;
        }
        let verdict = match self.read(pbn) {
            true => self.judge_content(&self.content, &wanted, needs_fingerprint),
            false => Verdict { is_good: false, fingerprint: None },
        };
        self.judged.insert((pbn, checksum.0), verdict);
        verdict
    }

    fn judge_content(&self, content: &[u8], wanted: &Wanted, needs_fingerprint: bool) -> Verdict {
        assert!(content.len() == self.content.len(), "a content is judged as a whole");
        let is_good = self.seed.of_content(content) == wanted.checksum;
        let fingerprint = (is_good && needs_fingerprint).then(|| self.fingerprinter.of(content));
        Verdict { is_good, fingerprint }
    }
}
