//! Judging every block of a damaged pool by the checksum in the map entry that refers to it.

use super::open::{Recovered, each_place};
use crate::backend::MetadataBackend;
use crate::engine::Wanted;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use gemelo_format::{DiskRole, Fingerprint, Fingerprinter, Pbn, Place, PoolSeed, VolumeId};
use gemelo_store::{ContentRead, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The outcome of a look at all contents that a repair has to judge.
#[derive(Default)]
pub(super) struct Assessment {
    /// Fingerprints that were lost with their records, or that are not those of the contents.
    pub(super) computed: BTreeMap<Pbn, Fingerprint>,
    /// Map entries whose contents are lost.
    pub(super) lost: HashSet<Place>,
    /// LBNs of each volume that are lost.
    pub(super) lost_blocks: BTreeMap<VolumeId, u64>,
}

/// Judges the contents: those that may have been used again since the state that is left, those
/// beyond the end of the data disk, and with `data` all of them. Computes fingerprints that were
/// lost, or that a lost commit may have replaced.
pub(super) fn assess(
    judge: &mut Judge,
    recovered: &Recovered,
    data: bool,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Assessment> {
    let backend = &*recovered.backend;
    let must_scrub = data || recovered.has_lost_history;
    let mut assessment = Assessment::default();
    monitor.begin("Looking at what a repair keeps", Unit::Items, Some(backend.totals().references));
    for volume in backend.volumes() {
        each_place(backend, volume.id, |lbn, place| {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            monitor.advance(1);
            let Place::Stored(pbn, checksum) = place else { return Ok(()) };
            let is_record_lost = backend.is_record_lost(pbn);
            let carried = recovered.carried.get(pbn);
            let is_present = u64::from(pbn.number()) < judge.present || carried.is_some();
            let mut is_good = is_present;
            if is_present && (must_scrub || is_record_lost) {
                let doubtful = match recovered.has_lost_history {
                    true => recorded(backend, pbn)?,
                    false => None,
                };
                let needs_fingerprint = is_record_lost || doubtful.is_some();
                let wanted = Wanted { lbn, pbn, checksum };
                let verdict = match carried {
                    Some(content) => judge.judge_content(content, &wanted, needs_fingerprint),
                    None => judge.judge(wanted, needs_fingerprint),
                };
                is_good = verdict.is_good;
                let right = verdict.fingerprint.filter(|_| needs_fingerprint);
                let wrong = right.filter(|right| doubtful != Some(*right));
                assessment.computed.extend(wrong.map(|right| (pbn, right)));
            }
            if !is_good {
                assessment.lost.insert(place);
                *assessment.lost_blocks.entry(volume.id).or_default() += 1;
            }
            Ok(())
        })?;
    }
    monitor.finish();
    Ok(assessment)
}

/// The fingerprint that the records have for a block, if any.
fn recorded(backend: &dyn MetadataBackend, pbn: Pbn) -> Result<Option<Fingerprint>> {
    let mut records = Vec::with_capacity(1);
    backend.records(&[pbn], &mut records)?;
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
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    content: Vec<u8>,
    /// Blocks that the data store is long enough for.
    present: u64,
    judged: HashMap<(Pbn, u32), Verdict>,
}

impl Judge {
    pub(super) fn new(recovered: &Recovered) -> Result<Self> {
        let superblock = &recovered.superblock;
        let store = Arc::clone(&recovered.store);
        Ok(Self {
            present: store.blocks().map_err(VolumeError::io(DiskRole::Data, "measure"))?,
            store,
            seed: PoolSeed::of(superblock),
            fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            content: vec![0; superblock.block_bytes as usize],
            judged: HashMap::new(),
        })
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
        let mut reads = [ContentRead::new(pbn, 0, &mut self.content)];
        self.store.read(&mut reads);
        let [read] = reads;
        let verdict = match read.outcome {
            Ok(()) => self.judge_content(&self.content, &wanted, needs_fingerprint),
            Err(_) => Verdict { is_good: false, fingerprint: None },
        };
        self.judged.insert((pbn, checksum.0), verdict);
        verdict
    }

    fn judge_content(&self, content: &[u8], wanted: &Wanted, needs_fingerprint: bool) -> Verdict {
        let is_good = self.seed.of_content(content) == wanted.checksum;
        let fingerprint = (is_good && needs_fingerprint).then(|| self.fingerprinter.of(content));
        Verdict { is_good, fingerprint }
    }
}
